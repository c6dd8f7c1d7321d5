"""The activity: what was written last, the live feed of it, and the searches that clients and other processes make."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from cofio import Engine, Kind, Query, Scope
from cofio.config.address import StoreAddress
from cofio.doors import search_file
from cofio.doors.page import activity_feed
from cofio.doors.page.activity_feed import ActivityFeed
from cofio.doors.page.activity_view import PAGE, build_activity
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.doors.search_file import LARGEST, NAME, SearchFile, note_searches
from cofio.doors.search_notes import SEARCH_SIZE, decode_search
from cofio.doors.web.board import SEARCHES, Board
from cofio.doors.web.overload import DoorLoad, LoopLag
from cofio.doors.web.search_log import BoardSearches, LocalSearches, SearchLog

Ask = Callable[..., ViewRequest]
NOTES, SHOP = Scope("notes"), Scope("rest", "shop")
EVERY = 0.01
Event = tuple[str, Any]


@pytest.mark.requirement("page:activity", "page:reach")
def test_what_was_written_last_comes_first_and_can_be_narrowed_and_paged(memory: Engine, ask: Ask) -> None:
    for number in range(PAGE + 1):
        memory.write(NOTES, text=f"note {number}", source="mcp", author="claude")
    memory.write(SHOP / "main", title="a fact", text="more", kind=Kind.FACT, source="cli")
    memory.put(NOTES, "counter", data=1, kind=Kind.LEDGER)  # which is nobody's business
    entries = build_activity(ask()).entries
    shown = [(each.title, each.door, each.author) for each in entries[:2]]
    assert shown == [("a fact", "command line", ""), (f"note {PAGE}", "MCP", "claude")]
    for narrowed in (ask(kind="fact"), ask(source="cli"), ask(Viewer(reach=SHOP))):
        assert [each.title for each in build_activity(narrowed).entries] == ["a fact"]
    first = build_activity(ask(source="mcp"))
    assert (len(first.entries), bool(first.next), first.before) == (PAGE, True, "")
    last = build_activity(ask(source="mcp", offset=str(PAGE)))
    assert [each.title for each in last.entries] == ["note 0"]


async def take(stream: AsyncIterator[bytes], count: int) -> list[Event]:
    """The next events of a stream; what only keeps it open is left out."""
    events: list[Event] = []
    while len(events) < count:
        for block in (await asyncio.wait_for(anext(stream), 30)).decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
            if "event" in lines:
                events.append((lines["event"], json.loads(lines["data"])))
    return events


def make_feed(memory: Engine, log: SearchLog | None = None) -> ActivityFeed:
    return ActivityFeed(lambda: memory, log or SearchLog(LocalSearches()), every=EVERY)


async def wait_for_baseline(feed: ActivityFeed) -> None:
    while feed._changes._expected is None:
        await asyncio.sleep(EVERY)


@pytest.mark.requirement("page:live", "page:reach")
@pytest.mark.parametrize("reach", [Scope(), NOTES])
def test_what_another_writes_appears_on_the_open_page_if_it_may_be_seen_there(memory: Engine, reach: Scope) -> None:
    async def run() -> None:
        log = SearchLog(LocalSearches())
        log.attach(memory)
        feed = make_feed(memory, log)
        memory.write(NOTES, text="before")
        async with aclosing(feed.stream(reach)) as stream:
            await anext(stream)
            await wait_for_baseline(feed)
            if reach == NOTES:
                memory.search(Query("secret plans", scope=SHOP))
                memory.write(Scope("rest", "notes"), text="others")
                memory.write(Scope("notes2"), text="not the same name")
            record = memory.write(NOTES, text="now <b>", source="mcp", author="claude")
            ((name, shown),) = await take(stream, 1)
            assert (name, shown["title"], shown["door"], shown["author"], shown["scope"], shown["version"]) == (
                "written", "now <b>", "MCP", "claude", "notes", 1,
            )  # fmt: skip
            memory.put(NOTES, "internal", data=1, kind=Kind.LEDGER)
            memory.edit(record.id, text="changed")
            ((name, shown),) = await take(stream, 1)
            assert (name, shown["title"], shown["version"]) == ("written", "changed", 2)
            if not reach.names:
                memory.delete(record.id)
                assert await take(stream, 1) == [("forgotten", {"count": 1})]

    asyncio.run(run())


@pytest.mark.requirement("page:live")
def test_what_is_deleted_is_counted_and_a_burst_is_told_as_one_that_was_missed(memory: Engine) -> None:
    first, *_ = (memory.write(NOTES, text=f"note {number}").id for number in range(activity_feed.BATCH + 5))
    reader = activity_feed.ChangeReader(lambda: memory)
    assert reader.read() + reader.read() == []
    memory.edit(first, text="changed")
    assert [event[0] for event in reader.read()] == ["written"]
    assert reader.read() == []
    memory.delete(first)
    assert reader.read() == [("forgotten", Scope(), {"count": 1})]
    for number in range(activity_feed.BATCH + 1):
        memory.write(NOTES, text=f"new {number}")
    events = reader.read()
    assert events[0][0] == "missed"
    assert len(events) == activity_feed.BATCH + 1
    assert reader.read() == []


@pytest.mark.requirement("page:live")
def test_a_page_that_does_not_keep_up_is_told_so_and_streams_end_with_the_server_or_their_time(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        feed = make_feed(memory)
        stream, unread = feed.stream(Scope()), feed.stream(Scope())
        for each in (stream, unread):
            assert (await anext(each)).startswith(b"retry:")
        await wait_for_baseline(feed)
        for number in range(3):
            memory.write(NOTES, text=f"note {number}")
        while (await take(stream, 1))[0][0] != "missed":
            pass
        feed.close()
        await asyncio.sleep(0)  # it closes in the next turn of the loop
        assert [part async for part in unread] == []
        assert all(b"event: written" in part for part in [part async for part in stream])
        monkeypatch.setattr(activity_feed, "LIFETIME", 0.1)  # so that tokens are shown again
        assert len([part async for part in make_feed(memory).stream(Scope())]) >= 1

    monkeypatch.setattr(activity_feed, "QUEUE", 1)
    asyncio.run(run())


@pytest.mark.requirement("page:searches")
def test_searches_are_noted_in_little_room_and_only_while_a_page_is_open(memory: Engine) -> None:
    store = LocalSearches()
    log = SearchLog(store)
    log.attach(memory)
    found = memory.write(NOTES, title="Harbour", text="the harbour release")
    memory.search("harbour")
    assert log.read(()) == ((0, 0), [])
    store.set_watchers(1)
    with DoorLoad("mcp", LoopLag()).count_work():
        memory.search("harbour")
    with DoorLoad("page", LoopLag()).count_work():
        memory.search("what a person types")
    marks, searches = log.read(())
    assert [(each["door"], each["query"], each["count"]) for each in searches] == [("mcp", "harbour", 1)]
    assert [hit["id"] for hit in searches[0]["hits"]] == [found.id]
    assert log.read(marks) == (marks, [])
    store.set_watchers(0)
    memory.search("harbour")
    assert log.read(marks)[1] == []
    store.set_watchers(1)
    for text in ("\N{GRINNING FACE}" * 5000, '"\\\n' * 3000):  # which never take more room than there is
        memory.write(NOTES, title=text[:900], text=text)
        for scope in (Scope(), Scope(*["\N{GRINNING FACE}" * 200] * 16)):
            memory.search(Query(text, scope=scope))
    ring = store.read(())[1][1:]
    assert len(ring) == 4
    assert all(len(each) <= SEARCH_SIZE and json.loads(each)["query"] for each in ring)


@pytest.mark.requirement("page:searches")
def test_the_searches_of_all_workers_are_on_one_board() -> None:
    shared = Board.make()
    one, other = (BoardSearches(Board(shared, 2), number) for number in range(2))
    assert not one.has_watchers()
    other.set_watchers(1)
    assert one.has_watchers()
    for number in range(SEARCHES + 3):
        one.add(b"%d" % number)
    other.add(b"of the other")
    marks, searches = one.read(())
    assert searches == [*(b"%d" % number for number in range(3, SEARCHES + 3)), b"of the other"]
    other.add(b"x" * SEARCH_SIZE)
    assert other.read(marks)[1] == [b"x" * SEARCH_SIZE]
    Board(shared, 2).register(1, 0)  # the worker with the page was killed
    assert not one.has_watchers()


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
@pytest.mark.usefixtures("process")
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
def test_what_another_left_or_wrote_wrongly_is_not_shown_and_removed_by_the_next_search_or_server(
    tmp_path: Path,
) -> None:
    file = tmp_path / NAME
    file.write_bytes(b"\n" + make_search("left by a killed server") + b"\n")
    with Engine.open(tmp_path / "store") as memory:
        note_searches(tmp_path, "mcp", memory)
        memory.search("harbour")
    assert not file.exists()
    file.write_bytes(make_search())
    SearchFile(tmp_path).remove_stale()  # as a server does that starts
    assert not file.exists()
    file.write_bytes(b"\n" + make_search("left by another") + b"\n")
    os.chmod(file, 0o644)
    held = open_file(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    wrong = [b"{", b"[]", b'{"at": 1}', make_search().replace(b"notes", b"\\u0000"), b"[" * 5000]
    for each in (*wrong, make_search().replace(b'"hits": []', b'"hits": [1]'), make_search("good")):
        SearchFile(tmp_path).add(each)
    with file.open("ab") as opened:
        opened.write(make_search("only begun")[:-1])
    log = SearchLog(LocalSearches(), held)
    marks, searches = log.read(())
    assert [each["query"] for each in searches] == ["good"]
    assert log.read(marks) == (marks, [])
    SearchFile(tmp_path).remove_stale()
    assert file.exists()  # as long as it is held
    held.release()
    assert log.read(marks)[1] == []


@pytest.mark.requirement("page:searches")
def test_the_file_is_bounded_emptied_by_who_reads_it_and_taken_on_by_a_second_server(tmp_path: Path) -> None:
    file, first, second = tmp_path / NAME, open_file(tmp_path), open_file(tmp_path)
    for number in range(2 * LARGEST // len(make_search())):
        SearchFile(tmp_path).add(make_search(str(number)))
    assert file.stat().st_size <= LARGEST
    position, searches = first.read(0)
    assert decode_search(searches[0]) is not None
    assert file.stat().st_size == 1
    SearchFile(tmp_path).add(make_search("after that"))
    assert [json.loads(each)["query"] for each in first.read(position)[1]] == ["after that"]
    second.release()  # which is not its own
    assert file.exists()
    second.want()
    first.release()
    assert not file.exists()
    second.hold()
    SearchFile(tmp_path).add(make_search())
    assert len(second.read(0)[1]) == 1
    file.unlink()  # by somebody
    second.hold()
    assert file.exists()
    second.release()
    second.hold()  # as a thread may that was late
    assert not file.exists()


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
