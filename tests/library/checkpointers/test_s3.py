"""Checkpoints in a bucket: names that sort, pages, clocks that differ, and errors that are told."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import boto3
import pytest

from cofio.library.providers.s3 import S3Checkpointer
from cofio.values.errors import Invalid, Unavailable

from ... import servers
from ...conftest import Clock
from .conftest import BUCKET, KEYS
from .test_contract import said

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]

Bucket = Callable[..., S3Checkpointer]


@pytest.fixture
def bucket(address: Callable[[str], str]) -> Bucket:
    """Makes checkpointers under a prefix that nobody uses."""
    own = uuid4().hex

    def make(prefix: str = own, **more: Any) -> S3Checkpointer:
        return S3Checkpointer(BUCKET, prefix, address("s3"), **KEYS, **more)

    return make


@pytest.fixture
def objects(address: Callable[[str], str]) -> Callable[[str], list[str]]:
    """The names of all objects under a prefix."""

    def names(prefix: str) -> list[str]:
        client = boto3.client("s3", endpoint_url=address("s3"), **KEYS)
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        client.close()
        return [each["Key"] for each in found]

    return names


@pytest.mark.requirement("s3.names")
async def test_a_checkpoint_is_one_object_and_the_newest_is_listed_first(
    bucket: Bucket, objects: Callable[[str], list[str]]
) -> None:
    async with bucket() as checkpointer:
        for name in ("a", "b", "a"):
            await checkpointer.save(said(name), "Thread/1", name)
        found = objects(checkpointer.prefix + "/")
        assert [key.rsplit(".", 2)[1] for key in found] == ["a", "b"]
        assert {key.split("/")[1] for key in found} == {"%54hread%2f1"}


@pytest.mark.requirement("s3.prefix")
async def test_prefixes_do_not_see_each_other_and_none_is_one_too(bucket: Bucket) -> None:
    own = uuid4().hex
    async with bucket(own) as one, bucket(f"/{own}/t/") as two, bucket("") as bare:
        thread = uuid4().hex
        for checkpointer, name in ((one, "1"), (two, "2"), (bare, "3")):
            await checkpointer.save(said("x"), thread, name)
        for checkpointer, name in ((one, "1"), (two, "2"), (bare, "3")):
            assert await checkpointer.list_checkpoints(thread) == [name]
        assert await one.list_threads() == [thread]
        await bare.delete(thread)
        assert await one.exists(thread) is True


@pytest.mark.requirement("s3.pages")
async def test_lists_go_on_over_pages(bucket: Bucket) -> None:
    async with bucket(page_size=3) as checkpointer:
        ids = [f"{number}" for number in range(8)]
        for each in ids:
            await checkpointer.save(said("x"), "t", each)
            await checkpointer.save(said("x"), f"u{each}", each)
        assert await checkpointer.list_checkpoints("t", limit=100) == ids[::-1]
        assert await checkpointer.load("t", "0") is not None
        assert len(await checkpointer.list_threads()) == 9
        assert await checkpointer.delete("t") is True
        assert await checkpointer.list_checkpoints("t") == []
    with pytest.raises(Invalid, match="page_size"):
        bucket(page_size=0)


@pytest.mark.requirement("names.foreign")
@pytest.mark.parametrize("page_size", [1, 1000])
async def test_foreign_objects_hide_no_checkpoint(
    bucket: Bucket, address: Callable[[str], str], page_size: int
) -> None:
    async with bucket(page_size=page_size) as checkpointer:
        await checkpointer.save(said("mine"), "t", "c")
        client = boto3.client("s3", endpoint_url=address("s3"), **KEYS)
        for name in ("0-notes.json", "00.json", "000.txt", "0/0000000000000000.c.json", "0000.c.json"):
            client.put_object(Bucket=BUCKET, Key=f"{checkpointer.prefix}/t/{name}", Body=b"{}")
        client.close()
        loaded = await checkpointer.load("t")
        assert loaded is not None
        assert loaded.messages[0].content == "mine"
        assert await checkpointer.exists("t") is True
        await checkpointer.save(said("other"), "u", "c")
        with pytest.raises(Invalid, match="dest_thread_id"):
            await checkpointer.copy_thread("u", "t")


@pytest.mark.requirement("s3.clocks")
async def test_a_machine_whose_clock_is_behind_still_saves_after_what_it_could_see(bucket: Bucket) -> None:
    ahead, behind = Clock(), Clock()
    behind.now -= timedelta(hours=1)
    async with bucket(clock=ahead) as one, bucket(clock=behind) as two:
        await one.save(said("x"), "t", "first")
        await two.save(said("x"), "t", "second")
        await two.save(said("x"), "t")
        third = (await one.list_checkpoints("t"))[0]
        await one.save(said("x"), "t", "fourth")
        assert await two.list_checkpoints("t") == ["fourth", third, "second", "first"]


@pytest.mark.requirement("s3.crash")
async def test_what_was_replaced_does_not_come_back_when_its_removal_failed(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bucket() as checkpointer:
        await checkpointer.save(said("old"), "t", "c")
        with monkeypatch.context() as patched:
            patched.setattr(S3Checkpointer, "_erase", _crash)
            with pytest.raises(InterruptedError):
                await checkpointer.save(said("new"), "t", "c")
        loaded = await checkpointer.load("t", "c")
        assert loaded is not None
        assert loaded.messages[0].content == "new"
        assert await checkpointer.list_checkpoints("t") == ["c"]
        assert await checkpointer.vacuum(0) == 1
        assert await checkpointer.exists("t") is False


def _crash(*_: object) -> bool:
    raise InterruptedError


@pytest.mark.requirement("s3.down")
async def test_a_bucket_or_a_server_that_is_not_there_is_an_error_and_not_an_empty_one(
    address: Callable[[str], str],
) -> None:
    from botocore.config import Config

    once = Config(retries={"total_max_attempts": 1})
    async with S3Checkpointer("no-such-bucket", endpoint_url=address("s3"), **KEYS) as checkpointer:
        for call in (checkpointer.load("t"), checkpointer.save(said("x"), "t"), checkpointer.list_checkpoints("t")):
            with pytest.raises(Unavailable, match=r"'no-such-bucket' cannot .* NoSuchBucket; check endpoint_url"):
                await call
    nowhere = f"http://nobody:sesame@127.0.0.1:{servers.free_port()}"
    async with S3Checkpointer(BUCKET, endpoint_url=nowhere, config=once, **KEYS) as checkpointer:
        with pytest.raises(Unavailable, match="EndpointConnectionError; check") as told:
            await checkpointer.load("t")
        assert "sesame" not in "".join(traceback.format_exception(told.value))
    async with S3Checkpointer("no bucket", endpoint_url=address("s3"), **KEYS) as checkpointer:
        with pytest.raises(Invalid, match=r"^bucket: 'no bucket'"):
            await checkpointer.load("t")
    with pytest.raises(ValueError, match="bucket"):
        S3Checkpointer("")
