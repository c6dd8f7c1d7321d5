"""Checkpoints in Redis: what only a server that forgets by itself can show."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, cast

import pytest
import redis

from cofio.library.providers.redis import RedisCheckpointer
from cofio.values.errors import Invalid, Unavailable

from ... import servers
from .conftest import Make
from .test_contract import said

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]


@pytest.fixture
def server(address: Callable[[str], str]) -> redis.Redis:
    """The server, as anyone sees it."""
    return redis.Redis.from_url(address("redis"), decode_responses=True)


@pytest.mark.requirement("redis.ttl")
async def test_a_checkpoint_whose_time_is_over_is_gone_from_every_list(
    server: redis.Redis, make_of: Callable[[str], Make]
) -> None:
    make = make_of("redis")
    mortal, lasting = make(ttl_seconds=1000), make()
    assert isinstance(mortal, RedisCheckpointer)
    prefix = mortal.prefix
    for thread, name in (("t", "a"), ("t", "b"), ("u", "c")):
        await mortal.save(said(name), thread, name, {"at": name})
    await lasting.save(said("d"), "t", "d", {"at": "d"})

    def key(thread: str, name: str) -> str:
        return f"{prefix}{thread}:{name}:checkpoint"

    assert 0 < server.ttl(key("t", "a")) <= 1000
    assert server.ttl(key("t", "d")) == -1
    for thread, name in (("t", "b"), ("u", "c")):
        server.pexpire(key(thread, name), 0)
    for checkpointer in (lasting, mortal):
        assert await checkpointer.list_checkpoints("t") == ["d", "a"]
        assert await checkpointer.load("t", "b") is None
        assert await checkpointer.exists("t", "b") is False
        assert await checkpointer.load("u") is None
        assert await checkpointer.exists("u") is False
        assert await checkpointer.delete("u") is False
        assert await checkpointer.list_threads() == ["t"]
        assert await checkpointer.query_by_metadata("at", "c") == []
        assert [each["checkpoint_id"] for each in await checkpointer.list_with_metadata()] == ["d", "a"]
    await lasting.delete("t", "d")
    server.pexpire(key("t", "a"), 0)
    assert await mortal.load("t") is None
    await mortal.delete("t")
    left = {cast(str, each).removeprefix(prefix) for each in server.keys(prefix + "*")}
    assert left == {"turn"}
    # What was saved for good again no longer ends.
    await mortal.save(said("x"), "t", "a")
    await lasting.save(said("x"), "t", "a")
    assert server.ttl(key("t", "a")) == -1


@pytest.mark.requirement("redis.prefix")
async def test_prefixes_keep_programs_apart_and_no_id_crosses_them(address: Callable[[str], str]) -> None:
    async with (
        RedisCheckpointer(address("redis"), prefix="p:") as one,
        RedisCheckpointer(address("redis"), prefix="p:thread") as two,
    ):
        for thread, name in (("thread:t", "a:b"), ("thread", "t:a:b"), ("thread", "order"), ("threads", "turn")):
            await one.save(said("x"), thread, name)
        assert await two.list_threads() == []
        assert await two.load("t") is None
        await two.save(said("x"), "t", "order")
        assert await one.list_threads() == ["threads", "thread", "thread:t"]
        assert await one.delete("thread") is True
        assert await one.list_checkpoints("thread:t") == ["a:b"]
        assert await two.list_checkpoints("t") == ["order"]


@pytest.mark.requirement("redis.pages", "checkpointers.list-with-metadata")
async def test_long_threads_are_listed_page_by_page_and_the_newest_of_many_found(
    make_of: Callable[[str], Make],
) -> None:
    async with make_of("redis")() as checkpointer:
        ids = [f"{number}" for number in range(1203)]
        state = said("x")
        for each in ids:
            await checkpointer.save(state, "t", each)
        assert await checkpointer.list_checkpoints("t", limit=10_000) == ids[::-1]
        assert await checkpointer.list_checkpoints("t", limit=501) == ids[::-1][:501]
        assert await checkpointer.vacuum(0) == 1203
        expected: list[tuple[str, str]] = []
        for number in range(40):
            thread = f"t{number * 7 % 10}"
            await checkpointer.save(said("x"), thread, f"{number}", {"n": number})
            expected.insert(0, (thread, f"{number}"))
        await checkpointer.delete("t3", "29")
        expected.remove(("t3", "29"))
        for limit in (1, 3, 11, 39, 100):
            found = await checkpointer.list_with_metadata(limit=limit)
            assert [(each["thread_id"], each["checkpoint_id"]) for each in found] == expected[:limit]


@pytest.mark.requirement("redis.down")
async def test_a_server_that_is_away_or_refuses_is_an_error_that_shows_no_password(
    address: Callable[[str], str],
) -> None:
    async with (
        RedisCheckpointer(f"redis://u:sesame@127.0.0.1:{servers.free_port()}", retry=None) as away,
        RedisCheckpointer(address("redis").replace("//", "//someone:sesame@")) as refused,
    ):
        for checkpointer, match in (
            (away, r"Redis cannot be reached: .*; check the URL"), (refused, "check the URL, the user and the password")
        ):  # fmt: skip
            for call in (
                checkpointer.load("t"), checkpointer.save(said("x"), "t"), checkpointer.exists("t", "c"),
                checkpointer.list_checkpoints("t"), checkpointer.list_threads(),
            ):  # fmt: skip
                with pytest.raises(Unavailable, match=match) as told:
                    await call
                assert "sesame" not in "".join(traceback.format_exception(told.value)) + repr(checkpointer)


@pytest.mark.requirement("redis.bad-settings")
def test_settings_that_are_none_are_refused_and_no_password_is_shown() -> None:
    wrong: Any
    for wrong in ("redis://u:sesame/1@h:1", "redis://u:sesame#1@h", "ftp://u:sesame@h", "sesame", None):
        with pytest.raises(ValueError, match=r"^url: expected redis://") as told:
            RedisCheckpointer(wrong)
        assert "sesame" not in "".join(traceback.format_exception(told.value, limit=0))
    for wrong in (0, -1, 1.5, "10", True):
        with pytest.raises(Invalid, match="ttl_seconds"):
            RedisCheckpointer(ttl_seconds=wrong)
