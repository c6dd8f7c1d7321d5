"""The searches of other processes on the memory: told in a file while a page is open that shows them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from cofio import Engine, Scope
from cofio.config.address import StoreAddress
from cofio.doors import search_file
from cofio.doors.page.activity_feed import ActivityFeed
from cofio.doors.search_file import LARGEST, NAME, SearchFile, note_searches
from cofio.doors.search_notes import decode_search
from cofio.doors.web.search_log import LocalSearches, SearchLog

from .test_activity import take

pytestmark = pytest.mark.requirement("page:searches")
NOTES = Scope("notes")


@contextmanager
def start_mcp(store: StoreAddress) -> Iterator[subprocess.Popen[str]]:
    """`cofio mcp`, as a client starts it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "cofio", "mcp", "--store", store.spell()], stdin=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE, env=own | {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.communicate(timeout=30)


def search(process: subprocess.Popen[str], query: str) -> None:
    """Have the process search, and wait until it has."""
    assert process.stdin is not None
    assert process.stdout is not None
    params = {"name": "search_context", "arguments": {"query": query}}
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n")
    process.stdin.flush()
    assert not json.loads(process.stdout.readline())["result"]["isError"]


@pytest.mark.requirement("page:searches")
def test_what_a_process_of_its_own_searches_for_is_on_the_open_page_and_nowhere_after_it(
    memory: Engine, store: StoreAddress
) -> None:
    file = store.home / NAME

    async def run(process: subprocess.Popen[str]) -> dict[str, Any]:
        feed = ActivityFeed(lambda: memory, SearchLog(LocalSearches(), SearchFile(store.home)), every=0.01)
        async with aclosing(feed.stream(Scope())) as stream:
            await anext(stream)
            await asyncio.to_thread(wait_until, file.exists)
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            await asyncio.to_thread(search, process, "harbour")
            ((name, shown),) = await take(stream, 1)
            assert name == "search"
        found: dict[str, Any] = shown
        return found

    record = memory.write(Scope("mcp"), title="Harbour", text="the harbour release")
    with start_mcp(store) as process:
        search(process, "harbour")
        assert not file.exists()
        shown = asyncio.run(run(process))
        assert (shown["query"], shown["door"], shown["hits"][0]["id"]) == ("harbour", "MCP", record.id)
        assert not file.exists()
        search(process, "harbour")
        assert not file.exists()


def make_search(query: str = "harbour") -> bytes:
    search = {
        "at": datetime.now(UTC).isoformat(), "door": "mcp", "query": query, "scope": "notes", "count": 0, "hits": [],
    }  # fmt: skip
    return json.dumps(search).encode()


def open_file(home: Path) -> SearchFile:
    """The file, as a server has it whose page is open."""
    file = SearchFile(home)
    file.want()
    file.hold()
    return file


@pytest.mark.requirement("page:searches")
def test_a_file_that_a_killed_server_left_is_removed_by_the_next_search_or_server(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\n" + make_search("what was asked") + b"\n")
    with Engine.open(tmp_path / "store") as memory:
        note_searches(tmp_path, "mcp", memory)
        memory.search("harbour")
    assert not (tmp_path / NAME).exists()
    (tmp_path / NAME).write_bytes(make_search())
    SearchFile(tmp_path).remove_stale()  # as a server does that starts
    assert not (tmp_path / NAME).exists()
    held = open_file(tmp_path)
    SearchFile(tmp_path).remove_stale()
    assert (tmp_path / NAME).exists()
    held.release()


@pytest.mark.requirement("page:searches")
def test_what_another_left_or_wrote_wrongly_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\n" + make_search("left by another") + b"\n")
    os.chmod(tmp_path / NAME, 0o644)
    held = open_file(tmp_path)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    wrong = [b"{", b"[]", b'{"at": 1}', make_search().replace(b"notes", b"\\u0000"), b"[" * 5000]
    for each in (*wrong, make_search().replace(b'"hits": []', b'"hits": [1]'), make_search("good")):
        SearchFile(tmp_path).add(each)
    with (tmp_path / NAME).open("ab") as file:
        file.write(make_search("only begun")[:-1])
    log = SearchLog(LocalSearches(), held)
    marks, searches = log.read(())
    assert [each["query"] for each in searches] == ["good"]
    assert log.read(marks) == (marks, [])
    held.release()
    assert log.read(marks)[1] == []


@pytest.mark.requirement("page:searches")
def test_the_file_is_bounded_and_emptied_by_the_one_who_reads_it(tmp_path: Path) -> None:
    held, other = open_file(tmp_path), SearchFile(tmp_path)
    for number in range(2 * LARGEST // len(make_search())):
        other.add(make_search(str(number)))
    assert (tmp_path / NAME).stat().st_size <= LARGEST
    position, searches = held.read(0)
    assert decode_search(searches[0]) is not None
    assert (tmp_path / NAME).stat().st_size == 1
    other.add(make_search("after that"))
    assert [json.loads(each)["query"] for each in held.read(position)[1]] == ["after that"]
    held.release()


@pytest.mark.requirement("page:searches")
def test_a_second_server_goes_on_when_the_first_one_has_no_page_any_more(tmp_path: Path) -> None:
    first, second = open_file(tmp_path), open_file(tmp_path)
    second.release()  # which is not its own
    assert (tmp_path / NAME).exists()
    second.want()
    first.release()
    assert not (tmp_path / NAME).exists()
    second.hold()
    SearchFile(tmp_path).add(make_search())
    assert len(second.read(0)[1]) == 1
    (tmp_path / NAME).unlink()  # by somebody
    second.hold()
    assert (tmp_path / NAME).exists()
    second.release()
    second.hold()  # as a thread may that was late
    assert not (tmp_path / NAME).exists()


@pytest.mark.requirement("page:searches")
def test_no_link_is_followed_and_what_cannot_be_told_fails_no_search(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / NAME).symlink_to(elsewhere)
    with Engine.open(tmp_path / "store") as memory:
        note_searches(tmp_path, "mcp", memory)
        memory.search("harbour")
    with closing(caplog.handler):
        file = open_file(tmp_path)
        file.hold()
    assert elsewhere.read_text() == "mine"
    assert [each.name for each in caplog.records] == [search_file._log.name]
    assert file.read(0) == (0, [])
    file.release()
