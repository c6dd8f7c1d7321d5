"""The activity: what was written last, the live feed of it, and the searches that clients make."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from cofio import Engine, Kind, Query, Scope
from cofio.doors.page import activity_feed
from cofio.doors.page.activity_feed import ActivityFeed
from cofio.doors.page.activity_view import PAGE, build_activity
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.doors.search_notes import SEARCH_SIZE
from cofio.doors.web.board import SEARCHES, Board
from cofio.doors.web.overload import DoorLoad, LoopLag
from cofio.doors.web.search_log import BoardSearches, LocalSearches, SearchLog

from .conftest import Browser

Ask = Callable[..., ViewRequest]
NOTES, SHOP = Scope("notes"), Scope("rest", "shop")
EVERY = 0.01
Event = tuple[str, Any]


@pytest.mark.requirement("page:activity")
def test_what_was_written_last_comes_first_with_its_door_and_author(memory: Engine, ask: Ask) -> None:
    memory.write(NOTES, text="first", source="mcp", author="claude")
    memory.write(NOTES, title="second", text="more", source="cli")
    entries = build_activity(ask()).entries
    assert [(each.title, each.door, each.author) for each in entries] == [
        ("second", "command line", ""),
        ("first", "MCP", "claude"),
    ]


@pytest.mark.requirement("page:activity")
def test_the_list_can_be_narrowed_and_paged(memory: Engine, ask: Ask) -> None:
    for number in range(PAGE + 1):
        memory.write(NOTES, text=f"note {number}", source="mcp")
    memory.write(NOTES, text="a fact", kind=Kind.FACT, source="rest")
    memory.put(NOTES, "counter", data=1, kind=Kind.LEDGER)  # which is nobody's business
    assert [each.title for each in build_activity(ask(kind="fact")).entries] == ["a fact"]
    assert [each.title for each in build_activity(ask(source="rest")).entries] == ["a fact"]
    first = build_activity(ask(source="mcp"))
    assert (len(first.entries), bool(first.next), first.before) == (PAGE, True, "")
    last = build_activity(ask(source="mcp", offset=str(PAGE)))
    assert [each.title for each in last.entries] == ["note 0"]


@pytest.mark.requirement("page:reach")
def test_a_limited_token_sees_what_was_written_in_its_scope(memory: Engine, ask: Ask) -> None:
    memory.write(NOTES, text="others")
    memory.write(SHOP / "main", text="theirs")
    assert [each.title for each in build_activity(ask(Viewer(reach=SHOP))).entries] == ["theirs"]


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


@pytest.mark.requirement("page:live")
def test_what_another_writes_appears_on_the_open_page(memory: Engine) -> None:
    async def run() -> None:
        feed = make_feed(memory)
        memory.write(NOTES, text="before")
        async with aclosing(feed.stream(Scope())) as stream:
            await anext(stream)
            await wait_for_baseline(feed)
            record = memory.write(NOTES, text="now <b>", source="mcp", author="claude")
            ((name, shown),) = await take(stream, 1)
            assert (name, shown["title"], shown["door"], shown["author"], shown["scope"], shown["version"]) == (
                "written", "now <b>", "MCP", "claude", "notes", 1,
            )  # fmt: skip
            memory.put(NOTES, "internal", data=1, kind=Kind.LEDGER)
            memory.edit(record.id, text="changed")
            ((name, shown),) = await take(stream, 1)
            assert (name, shown["title"], shown["version"]) == ("written", "changed", 2)
            memory.delete(record.id)
            assert await take(stream, 1) == [("forgotten", {"count": 1})]

    asyncio.run(run())


@pytest.mark.requirement("page:live")
@pytest.mark.requirement("page:reach")
def test_a_stream_has_nothing_of_other_scopes(memory: Engine) -> None:
    async def run() -> None:
        log = SearchLog(LocalSearches())
        log.attach(memory)
        feed = make_feed(memory, log)
        async with aclosing(feed.stream(SHOP)) as stream:
            await anext(stream)
            await wait_for_baseline(feed)
            memory.search(Query("secret plans", scope=NOTES))
            memory.write(NOTES, text="others")
            memory.write(Scope("rest", "shopping"), text="not the same name")
            memory.write(SHOP / "main", text="theirs")
            ((name, shown),) = await take(stream, 1)
            assert (name, shown["title"]) == ("written", "theirs")

    asyncio.run(run())


@pytest.mark.requirement("page:live")
def test_one_poller_serves_all_pages_and_ends_with_the_last(memory: Engine) -> None:
    async def run() -> None:
        feed = make_feed(memory)
        one, other = feed.stream(Scope()), feed.stream(Scope())
        await anext(one)
        poller = feed._poller
        assert poller is not None
        await anext(other)
        assert feed._poller is poller
        await one.aclose()
        assert not poller.done()
        await other.aclose()
        with pytest.raises(asyncio.CancelledError):
            await poller
        assert feed._poller is None

    asyncio.run(run())


@pytest.mark.requirement("page:live")
def test_a_page_that_does_not_keep_up_is_told_so_and_holds_up_no_other(memory: Engine) -> None:
    async def run() -> None:
        subscriber = activity_feed._Subscriber(Scope())
        for number in range(activity_feed.QUEUE + 5):
            subscriber.offer(("written", NOTES, {"number": number}))
        assert subscriber.queue.qsize() == activity_feed.QUEUE
        assert subscriber.has_missed
        subscriber.end()  # also with a queue that is full
        assert subscriber.queue.qsize() == activity_feed.QUEUE

    asyncio.run(run())


@pytest.mark.requirement("page:live")
def test_what_is_deleted_is_counted_also_after_an_old_record_was_changed(memory: Engine) -> None:
    first, *_ = (memory.write(NOTES, text=f"note {number}").id for number in range(activity_feed.BATCH + 5))
    reader = activity_feed.ChangeReader(lambda: memory)
    assert reader.read() + reader.read() == []
    memory.edit(first, text="changed")
    assert [event[0] for event in reader.read()] == ["written"]
    assert reader.read() == []
    memory.delete(first)
    assert reader.read() == [("forgotten", Scope(), {"count": 1})]


@pytest.mark.requirement("page:live")
def test_a_burst_is_told_as_one_that_was_missed(memory: Engine) -> None:
    reader = activity_feed.ChangeReader(lambda: memory)
    memory.write(NOTES, text="before")
    assert reader.read() == []
    for number in range(activity_feed.BATCH + 1):
        memory.write(NOTES, text=f"note {number}")
    events = reader.read()
    assert events[0][0] == "missed"
    assert len(events) == activity_feed.BATCH + 1
    assert reader.read() == []


@pytest.mark.requirement("page:live")
def test_a_stream_ends_at_once_when_the_server_stops(memory: Engine) -> None:
    async def run() -> None:
        feed = make_feed(memory)
        stream = feed.stream(Scope())
        await anext(stream)
        feed.close()
        assert [part async for part in stream if not part.startswith(b":")] == []

    asyncio.run(asyncio.wait_for(run(), 10))


@pytest.mark.requirement("page:live")
def test_a_stream_ends_by_itself_so_that_tokens_are_shown_again(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_feed, "LIFETIME", 0.1)

    async def run() -> list[bytes]:
        return [part async for part in make_feed(memory).stream(Scope())]

    assert asyncio.run(run())[0].startswith(b"retry:")


@pytest.mark.requirement("page:searches")
def test_searches_are_noted_only_while_a_page_is_open(memory: Engine) -> None:
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


@pytest.mark.requirement("page:searches")
@pytest.mark.parametrize("text", ["x" * 9000, "\N{GRINNING FACE}" * 5000, '"\\\n' * 3000])
def test_a_search_never_takes_more_room_than_there_is(memory: Engine, text: str) -> None:
    store = LocalSearches()
    log = SearchLog(store)
    log.attach(memory)
    store.set_watchers(1)
    memory.write(NOTES, title=text[:900], text=text)
    for scope in (Scope(), Scope(*["\N{GRINNING FACE}" * 200] * 16)):
        memory.search(Query(text, scope=scope))
    ring = store.read(())[1]
    assert len(ring) == 2
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


@pytest.mark.requirement("page:activity")
def test_the_page_is_readable_without_script(browser: Browser) -> None:
    browser.engine.write(NOTES, title="<script>alert(1)</script>", text="\u202ehidden", author="x\"'<")
    text = browser.show("/page/activity")
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert browser.read("activity")["entries"][0]["title"] == "<script>alert(1)</script>"
    assert "Nothing has been written" in browser.show("/page/activity?scope=nowhere")
