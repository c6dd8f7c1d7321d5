"""The live feed: what is written and searched for, by server-sent events to every page that is open.

One poller for all pages of a process asks the store, once a second, how far it has come. So a page sees what any
process writes, whichever worker it is connected to. Each page has a queue that holds so much and no more: one that does
not keep up is told that it has missed something, and none waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import partial
from itertools import takewhile
from time import monotonic
from typing import Any, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from ...engine.engine import Engine
from ...text.jsonl import dump_line
from ...values.errors import CofioError, Unavailable
from ...values.records import Record, Scope
from ..web.failures import RequestError, render_failure
from ..web.search_log import LocalSearches, Marks, SearchLog
from ..web.workers import Workers
from .list_entries import VISIBLE, hide_internal, make_entry, name_door
from .renderer import to_json
from .view_types import PageServer
from .viewer import Viewer

POLL = 1.0  # seconds between two questions to the store
HEARTBEAT = 15.0  # seconds after which a page hears that the connection is there, if there is nothing else to say
LIFETIME = 120.0  # seconds after which a page has to connect again, and so shows its token again
QUEUE = 100  # events that wait for one page
MOST_PAGES = 100  # of one process
BATCH = 50  # records that are looked at when something has changed
RETRY = 2000  # milliseconds after which a browser connects again
Event: TypeAlias = tuple[str, Scope | None, Mapping[str, Any]]
"""What it is called, whose it is (None for everybody's), and what it says."""
_log = logging.getLogger("cofio.page")


@dataclass(eq=False, slots=True)
class _Subscriber:
    """A page that is open."""

    reach: Scope
    queue: asyncio.Queue[Event | None] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    has_missed: bool = False

    def offer(self, event: Event) -> None:
        """Give the page an event that it may see, unless its queue is full."""
        scope = event[1]
        if scope is not None and scope not in self.reach:
            return
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.has_missed = True

    def end(self) -> None:
        """End the page's stream, whatever waits in its queue."""
        while self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class ChangeReader:
    """Finds out what was written since the last time it was asked."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._position: int | None = None
        self._versions: dict[str, int] = {}
        """The versions of the records that were last changed, by their ids."""
        self._expected: int | None = None
        """How many records there are, if none was deleted since; None when that is not known."""

    def read(self) -> list[Event]:
        """What was written since the last time; nothing the first time.

        Raises:
            Unavailable: the store cannot be asked.
        """
        engine = self._engine()
        position = engine.identity().position
        if position == self._position:
            if self._expected is None:
                self._expected = self._count(engine)
            return []
        newest = engine.list(kinds=VISIBLE, filter=hide_internal(Scope()), limit=BATCH)
        is_first, self._position = self._position is None, position
        known, self._versions = self._versions, {each.id: each.version for each in newest}
        # What comes after one that is known is older, and only new to the list: another was deleted.
        fresh = [*takewhile(lambda each: known.get(each.id) != each.version, newest)]
        if is_first:
            return []
        if len(fresh) == BATCH and known:
            self._expected = None
            return [("missed", None, {}), *_make_events(fresh)]
        strangers = [each.version for each in fresh if each.id not in known]
        if self._expected is not None:  # one that comes with a later version may have been there, or be new
            self._expected = None if max(strangers, default=1) > 1 else self._expected + len(strangers)
        # To count is to walk over all records where some were changed, so it is done only where none was.
        return _make_events(fresh) if fresh else self._find_deletions(engine)

    def _find_deletions(self, engine: Engine) -> list[Event]:
        expected, self._expected = self._expected, self._count(engine)
        gone = 0 if expected is None else expected - self._expected
        return [("forgotten", Scope(), {"count": gone})] if gone > 0 else []

    def _count(self, engine: Engine) -> int:
        return engine.count(kinds=VISIBLE, filter=hide_internal(Scope()))


def _make_events(records: Sequence[Record]) -> list[Event]:
    """What is told of records, which come with the newest first."""
    return [("written", each.scope, to_json(make_entry(each))) for each in reversed(records)]


class ActivityFeed:
    """Answers each page with the stream of what happens; `close` ends all of them."""

    def __init__(
        self, engine: Callable[[], Engine], searches: SearchLog, zone: tzinfo = UTC, *, every: float = POLL
    ) -> None:
        """`zone` is the one of the times that are told of a failure, `every` the seconds between two questions."""
        self._engine = engine
        self._zone = zone
        self._every = every
        self._changes = ChangeReader(engine)
        self._searches = searches
        self._marks: Marks = ()
        self._subscribers: set[_Subscriber] = set()
        self._workers = Workers(1, "cofio-page-feed")
        self._poller: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a page."""
        viewer: Viewer = scope["state"]["viewer"]
        response: Response
        if self._is_closed or len(self._subscribers) >= MOST_PAGES:
            refusal = RequestError(503, "too many pages are open that show what happens", headers={"Retry-After": "5"})
            response = render_failure(scope, refusal, self._zone)
        else:
            headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
            response = StreamingResponse(self.stream(viewer.reach), headers=headers, media_type="text/event-stream")
        with suppress(ClientDisconnect):
            await response(scope, receive, send)

    async def stream(self, reach: Scope) -> AsyncGenerator[bytes]:
        """The events within a scope, as they are sent, until the feed is closed or the time is over."""
        subscriber = _Subscriber(reach)
        self._add(subscriber)
        until = monotonic() + LIFETIME
        try:
            yield f"retry: {RETRY}\n: open\n\n".encode()
            while (left := until - monotonic()) > 0:
                try:
                    event = await asyncio.wait_for(subscriber.queue.get(), min(HEARTBEAT, left))
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if event is None:
                    return
                if subscriber.has_missed:
                    subscriber.has_missed = False
                    yield _encode("missed", {})
                yield _encode(event[0], event[2])
        finally:
            self._remove(subscriber)

    def close(self) -> None:
        """End every stream, from any thread; no page is answered any more."""
        self._is_closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_all)

    def _end_all(self) -> None:
        for each in self._subscribers:
            each.end()
        if self._poller is not None:
            self._poller.cancel()
        self._workers.shut_down(wait=False)

    def _add(self, subscriber: _Subscriber) -> None:
        self._loop = asyncio.get_running_loop()
        self._subscribers.add(subscriber)
        self._searches.set_watchers(len(self._subscribers))
        if self._poller is None or self._poller.done():
            self._changes = ChangeReader(self._engine)
            self._marks = self._searches.read(self._marks)[0]
            self._poller = self._loop.create_task(self._poll())

    def _remove(self, subscriber: _Subscriber) -> None:
        self._subscribers.discard(subscriber)
        self._searches.set_watchers(len(self._subscribers))
        if not self._subscribers and self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def _poll(self) -> None:
        """Ask the store and the log of searches, as long as a page is open."""
        is_down = False
        while self._subscribers:
            begin = monotonic()
            try:
                events = await self._workers.run(self._changes.read)
                is_down = False
            except CofioError as error:  # the next question may be answered
                events = [] if is_down else [("unavailable", None, {"reason": _describe(error)})]
                is_down = True
            self._marks, searches = await self._workers.run(partial(self._searches.follow, self._marks))
            events += [
                ("search", Scope.parse(each["scope"]), {**each, "door": name_door(each["door"])}) for each in searches
            ]
            for event in events:
                for each in self._subscribers:
                    each.offer(event)
            await asyncio.sleep(max(self._every / 20, self._every - (monotonic() - begin)))


def _describe(error: CofioError) -> str:
    """What people elsewhere may hear of a failure."""
    return (error.public or "the memory cannot be read just now") if isinstance(error, Unavailable) else str(error)


def _encode(name: str, content: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {dump_line(content, separators=(',', ':'))}\n\n".encode()


def make_feed(server: PageServer) -> ActivityFeed:
    """The feed of a server."""
    feed = ActivityFeed(server.engine, server.searches or SearchLog(LocalSearches()), server.settings.zone)
    if server.streams is not None:
        server.streams.add(feed.close)
    return feed
