"""The backends for production: a store and a checkpointer in one, from several processes, and when the server fails."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import traceback
from asyncio import run
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from cofio import Conflict, Invalid, Unavailable
from cofio.library import AgentState, LLMMemoryManager, Message, backends
from cofio.library.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from cofio.library.providers.postgresql import PostgreSQLBackend
from cofio.library.providers.redis import RedisCheckpointer
from cofio.library.providers.redis_backend import RedisBackend
from cofio.library.storage_backend import BackendCapabilities, StorageBackend
from cofio.library.store import BaseStore, StoreCapabilities, StoreCapabilityError

from ... import servers
from .conftest import BACKENDS

pytestmark = pytest.mark.anyio

NS = ("users", "u1")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> StorageBackend:
    """Each backend in turn."""
    found: StorageBackend = request.getfixturevalue(request.param)
    return found


def said(text: str) -> AgentState:
    """A state in which this was said."""
    return AgentState(messages=(Message.user(text),))


@pytest.mark.requirement("backends.both")
def test_a_backend_goes_wherever_a_store_or_a_checkpointer_is_asked_for(backend: StorageBackend) -> None:
    assert isinstance(backend, BaseStore)
    assert isinstance(backend, BaseCheckpointer)
    assert isinstance(backend.capabilities, StoreCapabilities)
    assert isinstance(backend.capabilities, CheckpointerCapabilities)
    state = said("I'm a sailor, and I work on the ferry to Dublin.")

    async def session(thread: str) -> AgentState:
        manager = LLMMemoryManager(backend, namespace_prefix=("users", "ada"), raise_errors=True)
        started = await manager.on_session_start(await backend.load(thread) or state)
        await manager.on_session_end(started)
        await backend.save(started, thread)
        return started

    assert len(run(session("backends-both")).messages) == 1
    assert "ferry" in str(run(session("backends-both")).messages[0].content)
    assert run(backend.delete("backends-both"))


@pytest.mark.requirement("backends.both")
async def test_a_namespace_is_a_tuple_and_a_thread_is_a_string(backend: StorageBackend) -> None:
    await backend.put(("a",), "c", "said in the item")
    await backend.save(said("said in the state"), "a", "c")
    assert [item.key for item in await backend.search(("a",), "said")] == ["c"]
    assert [item.key for item in await backend.search(namespace=("a",), query="said")] == ["c"]
    for found in (await backend.search("state"), await backend.search(query="state", limit=1)):
        assert [(each["thread_id"], each["checkpoint_id"]) for each in found] == [("a", "c")]
    assert await backend.delete(("a",), "c")
    assert not await backend.exists(namespace=("a",), key="c")
    assert await backend.exists("a", "c")
    assert await backend.exists(thread_id="a")
    assert await backend.delete(thread_id="a", checkpoint_id="c")
    assert not await backend.exists("a")
    wrong: Any
    for wrong in (None, 3, ["a"], b"a"):
        with pytest.raises(TypeError, match="namespace"):
            await backend.delete(wrong, "c")


@pytest.mark.requirement("backends.names")
def test_the_backends_are_where_programs_for_the_reference_look_for_them() -> None:
    from cofio import library

    assert backends.RedisBackend is library.RedisBackend is RedisBackend
    assert backends.PostgreSQLBackend is library.PostgreSQLBackend is library.PostgreSQLCheckpointer
    assert backends.PostgreSQLBackend is PostgreSQLBackend
    assert set(dir(backends)) == set(backends.__all__) <= set(library.__all__)
    with pytest.raises(ImportError, match="OracleBackend"):
        from cofio.library.backends import OracleBackend  # noqa: F401


@pytest.mark.requirement("backends.capabilities")
async def test_each_backend_says_what_it_can_do_and_postgresql_has_vectors_and_transactions(
    redis_backend: RedisBackend, postgresql_backend: PostgreSQLBackend
) -> None:
    both: dict[str, bool] = {
        "search": True, "ttl": True, "list_namespaces": True, "batch_operations": True, "metadata_query": True,
        "vacuum": True, "branching": True, "list_threads": True, "list_with_metadata": True,
        "persistent_checkpoint_ids": True,
    }  # fmt: skip
    assert redis_backend.capabilities == BackendCapabilities(**both)
    assert postgresql_backend.capabilities == BackendCapabilities(**both, semantic_search=True, transactions=True)
    with pytest.raises(StoreCapabilityError, match="RedisBackend does not support 'semantic_search'"):
        await redis_backend.put_with_embedding(NS, "k", 1, [1.0])
    await postgresql_backend.put_with_embedding(NS, "near", 1, [1.0, 0.1], {"kind": "x"})
    await postgresql_backend.put_with_embedding(NS, "far", 2, [0.0, 1.0], {"kind": "x"})
    found = await postgresql_backend.search_by_embedding(NS, [1.0, 0.0], 1, 0.5, {"kind": "x"})
    assert [each.item.key for each in found] == ["near"]
    assert await postgresql_backend.get_embedding(NS, "far") == [0.0, 1.0]
    async with postgresql_backend.transaction() as changes:
        await changes.put(NS, "new", 3, if_version=0)
        await changes.delete(NS, "far")
    assert await postgresql_backend.list_keys(NS) == ["near", "new"]
    with pytest.raises(Unavailable, match="no embedder"):
        await postgresql_backend.search_by_meaning(NS, "anything")


@pytest.mark.requirement("backends.versions")
def test_a_put_can_rely_on_a_version(backend: StorageBackend) -> None:
    async def test() -> list[object]:
        await put(NS, "k", 0, if_version=0)
        with pytest.raises(Conflict, match="expected version 0, found 1"):
            await put(NS, "k", 1, if_version=0)
        with pytest.raises(Conflict, match="expected version 2, found 0"):
            await put(NS, "other", 1, if_version=2)
        assert await backend.get_batch([(NS, "k"), (NS, "other")]) == {(NS, "k"): 0}
        puts = (put(NS, "k", number, if_version=1) for number in range(8))
        return await asyncio.gather(*puts, return_exceptions=True)

    assert isinstance(backend, RedisBackend | PostgreSQLBackend)
    put = backend.put
    answers = run(test())
    assert len([each for each in answers if each is None]) == 1
    assert len([each for each in answers if isinstance(each, Conflict)]) == 7


@pytest.mark.requirement("backends.bad-input")
def test_what_no_store_takes_is_refused_by_each_alike(backend: StorageBackend) -> None:
    assert isinstance(backend, RedisBackend | PostgreSQLBackend)
    bad: Any
    for bad in (object(), {1: 2}, float("nan"), {"a": {1}}, "x" * 1_100_000, "\0", "\ud800"):
        with pytest.raises(Invalid):
            run(backend.put(NS, "k", bad))
        with pytest.raises(Invalid):
            run(backend.put_batch([(NS, "fine", 1, None), (NS, "k", 1, {"m": bad})]))
    for bad in ("x" * 1025, "a\0", "\ud800"):
        for call in (backend.put(NS, bad, 1), backend.get(NS, bad)):
            with pytest.raises(Invalid):
                run(call)
    for bad in (("a",) * 16, ("x" * 257,), ("a\0",)):
        for other in (backend.put(bad, "k", 1), backend.list_keys(bad), backend.get(bad, "k")):
            with pytest.raises(Invalid, match="namespace"):
                run(other)
    for bad in (0, -1, float("nan"), True, "1"):
        with pytest.raises(Invalid, match="ttl"):
            run(backend.put(NS, "k", 1, ttl=bad))
    assert run(backend.list_namespaces()) == []


@pytest.mark.requirement("backends.redis-ttl")
async def test_an_item_whose_time_is_over_is_gone_from_every_list(redis_url: str, redis_backend: RedisBackend) -> None:
    server = redis.Redis.from_url(redis_url)

    def item(key: str) -> str:
        return f"{redis_backend.prefix}store:a/b:{key}:item"

    await redis_backend.put(("a", "b"), "k", "word", ttl=1000)
    await redis_backend.put(("a", "b"), "stays", "word")
    assert 0 < server.ttl(item("k")) <= 1000
    server.pexpire(item("k"), 0)
    assert await redis_backend.list_keys(("a", "b")) == ["stays"]
    assert [each.key for each in await redis_backend.search(("a", "b"), "word")] == ["stays"]
    assert not await redis_backend.delete(("a", "b"), "k")
    await redis_backend.put(("a", "b"), "k", 1, ttl=1000)
    await redis_backend.put(("a", "b"), "k", 2)
    assert server.ttl(item("k")) == -1
    again = await redis_backend.get_item(("a", "b"), "k")
    assert again is not None
    assert again.version == 2
    assert await redis_backend.list_keys(("a", "b")) == ["stays", "k"]
    for key in ("k", "stays"):
        server.pexpire(item(key), 0)
    assert await redis_backend.list_namespaces() == []
    assert await redis_backend.clear_namespace(("a", "b")) == 0
    assert {*server.keys(f"{redis_backend.prefix}store:*")} == {f"{redis_backend.prefix}store:turn".encode()}
    async with RedisBackend(redis_url, prefix=redis_backend.prefix, ttl_seconds=1000) as mortal:
        await mortal.put((), "k", 1)
        await mortal.put((), "good", 1, ttl=float("inf"))
        await mortal.save(said("x"), "t", "c")
    ends = [server.ttl(mortal.prefix + name) for name in ("store::k:item", "checkpoints:t:c:checkpoint")]
    assert all(0 < each <= 1000 for each in ends)
    assert server.ttl(f"{mortal.prefix}store::good:item") == -1
    server.close()


@pytest.mark.requirement("backends.redis-search")
async def test_a_search_in_redis_ranks_by_words_in_any_of_their_forms(redis_backend: RedisBackend) -> None:
    for number in range(1200):  # more than a page of them
        await redis_backend.put(NS, f"filler-{number}", "the harbour in winter")
    await redis_backend.put(NS, "best", {"note": "programs for the harbour", "by": ["Ada"]})
    await redis_backend.put(NS, "tagged", "nothing here", {"tags": ["programming"]})
    found = await redis_backend.search(NS, "which programs did Ada write for the harbour?", limit=3)
    assert [item.key for item in found][:2] == ["best", "tagged"]
    assert [item.key for item in await redis_backend.search(NS, "ADA")] == ["best"]
    assert len(await redis_backend.search(NS, "harbour", limit=5000)) == 1201
    for nothing in ("zebra", "?", " "):
        assert await redis_backend.search(NS, nothing) == []
    assert len(await redis_backend.search(NS, "x " * 20_000 + "ada\0 \ud800")) == 1


@pytest.mark.requirement("backends.redis-prefix")
async def test_prefixes_keep_backends_apart_and_a_checkpointer_finds_the_checkpoints(redis_url: str) -> None:
    async with RedisBackend(redis_url, "p") as one, RedisBackend(redis_url, "p:store") as two:
        for namespace in ((), ("store",), ("store", "keys"), ("namespaces",), ("turn",)):
            for key in ("", "keys", "item", "turn"):
                await one.put(namespace, key, "one")
        assert await two.list_namespaces() == []
        await two.put(("x",), "k", "two")
        await two.save(said("x"), "t", "c")
        assert len(await one.list_namespaces()) == 5
        assert await one.list_threads() == []
        async with RedisCheckpointer(redis_url, prefix="p:store:checkpoints") as checkpointer:
            assert await checkpointer.list_checkpoints("t") == ["c"]


@pytest.mark.requirement("backends.processes")
def test_processes_that_put_at_once_lose_nothing(backend: StorageBackend, redis_url: str) -> None:
    if isinstance(backend, RedisBackend):
        made = f"RedisBackend({redis_url!r}, {backend.prefix!r})"
    else:
        assert isinstance(backend, PostgreSQLBackend)
        made = f"PostgreSQLBackend(dsn={backend._url!r}, settings=Settings(background=False, embedder='none'))"
    program = (
        "import asyncio, sys\n"
        "from cofio import Settings\n"
        "from cofio.library.backends import PostgreSQLBackend, RedisBackend\n"
        "async def main():\n"
        f"    async with {made} as backend:\n"
        "        await asyncio.gather(*(backend.put(('p',), 'counter', n) for n in range(25)))\n"
        "        await asyncio.gather(*(backend.put(('p',), sys.argv[1] + str(n), n) for n in range(25)))\n"
        "asyncio.run(main())\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, name]) for name in ("a", "b")]
    assert [each.wait(120) for each in writers] == [0, 0]
    item = run(backend.get_item(("p",), "counter"))
    assert item is not None
    assert item.version == 50
    assert len(run(backend.list_keys(("p",), limit=1000))) == 51


@pytest.mark.requirement("backends.crash")
@pytest.mark.usefixtures("process")
def test_what_redis_acknowledged_survives_its_death_when_it_was_set_up_so(tmp_path: Path) -> None:
    """Batches are put until the server is killed; then each is there whole or, if it was the last, not at all."""
    safe = ("--appendonly", "yes", "--appendfsync", "always", "--requirepass", "sesame")
    done: list[int] = []

    async def put_until_killed(url: str) -> None:
        async with RedisBackend(url) as backend:
            for number in range(10_000):
                await backend.put_batch([(NS, f"{number}-{part}", number, None) for part in range(5)])
                await backend.save(said("x"), "t", f"{number}")
                done.append(number)
                if number == 30:
                    client = redis.Redis.from_url(url)
                    pid = int(client.info()["process_id"])
                    client.close()
                    asyncio.get_running_loop().call_soon(os.kill, pid, signal.SIGKILL)

    with servers.redis(*safe, folder=tmp_path) as address:
        url = address.replace("//", "//:sesame@")
        with pytest.raises(Unavailable, match="check the URL"):
            run(put_until_killed(url))
    with servers.redis(*safe, folder=tmp_path) as address:
        backend = RedisBackend(address.replace("//", "//:sesame@"))
        keys = set(run(backend.list_keys(NS, limit=100_000)))
        assert {f"{number}-{part}" for number in done for part in range(5)} <= keys
        assert len(keys) % 5 == 0
        assert {str(number) for number in done} <= set(run(backend.list_checkpoints("t", limit=100_000)))
        run(backend.close())
        for wrong in (address, address.replace("//", "//:wrong@"), address.replace("//", "//nobody:wrong@")):
            denied = RedisBackend(wrong)
            for call in (denied.get(NS, "k"), denied.load("t")):
                with pytest.raises(Unavailable, match="the user and the password") as told:
                    run(call)
                assert "wrong" not in "".join(traceback.format_exception(told.value)).replace("username", "")
            run(denied.close())


@pytest.mark.requirement("backends.down")
def test_a_connection_that_lay_idle_and_was_closed_is_made_again(redis_url: str, redis_backend: RedisBackend) -> None:
    server = redis.Redis.from_url(redis_url)
    run(redis_backend.put(NS, "k", 1))
    server.client_kill_filter(_type="normal", skipme=True)
    run(redis_backend.put(NS, "k", 2))
    item = run(redis_backend.get_item(NS, "k"))
    assert item is not None
    assert item.version == 2
    server.close()


@pytest.mark.requirement("backends.down")
@pytest.mark.parametrize("make", [
    lambda port: RedisBackend(f"redis://127.0.0.1:{port}"),
    lambda port: PostgreSQLBackend("127.0.0.1", port, sslmode="disable"),
], ids=["redis", "postgresql"])  # fmt: skip
async def test_a_server_that_does_not_answer_holds_up_one_call_and_not_the_loop(
    make: Callable[[int], StorageBackend],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        backend = make(silent.getsockname()[1])
        call = asyncio.create_task(backend.get(NS, "k"))
        connection, _ = await asyncio.wait_for(asyncio.to_thread(silent.accept), 60)
        assert not call.done()  # and this line was reached
        connection.close()
        with pytest.raises(Unavailable):
            await call
    with pytest.raises(Unavailable, match="refused"):
        await backend.get(NS, "k")
    await backend.close()


@pytest.mark.requirement("backends.bad-input")
@pytest.mark.parametrize(
    ("keywords", "error"),
    [({"url": "ftp://h"}, ValueError), ({"url": None}, ValueError), ({"prefix": 3}, TypeError),
     ({"ttl_seconds": 0}, Invalid), ({"ttl_seconds": 1.5}, Invalid)],
)  # fmt: skip
def test_settings_of_redis_that_are_none_are_refused(keywords: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(keywords))):
        RedisBackend(**keywords)
