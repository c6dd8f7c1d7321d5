"""The searches that clients make, as long as somebody looks: a page shows them, and nothing is kept of them otherwise.

They are in memory alone, the last few of each process; a page that is open says so where all processes of the server
can read it, and with the last page the noting ends.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from ...engine.engine import Engine
from ...values.query import Page, Query
from .board import SEARCH_SIZE, SEARCHES, Board
from .overload import get_current_door

Marks: TypeAlias = tuple[int, ...]
"""How many searches of each process a reader has seen."""
QUERY, TITLE, HITS = 300, 80, 5  # characters of each, and hits, that are noted
OWN_DOOR = "page"  # what people look for on the page itself is not what agents do
_SHORT = 40  # characters of each where the whole would be too long


class SearchStore(Protocol):
    """Where the last searches of all processes of a server are."""

    def set_watchers(self, count: int) -> None:
        """Note how many pages this process has open that show searches."""

    def has_watchers(self) -> bool:
        """Whether any process has such a page open."""

    def add(self, search: bytes) -> None:
        """Put down a search of this process."""

    def read(self, marks: Marks) -> tuple[Marks, list[bytes]]:
        """The searches that a reader with these marks has not seen, and the marks of one who has."""


class LocalSearches:
    """The last searches of a server that is one process."""

    def __init__(self) -> None:
        self._watchers = 0
        self._count = 0
        self._last: deque[bytes] = deque(maxlen=SEARCHES)
        self._lock = threading.Lock()

    def set_watchers(self, count: int) -> None:
        """Note how many pages are open that show searches."""
        self._watchers = count

    def has_watchers(self) -> bool:
        """Whether a page is open that shows searches."""
        return self._watchers > 0

    def add(self, search: bytes) -> None:
        """Put down a search."""
        with self._lock:
            self._last.append(search)
            self._count += 1

    def read(self, marks: Marks) -> tuple[Marks, list[bytes]]:
        """The searches after those that the marks count."""
        with self._lock:
            fresh = self._count - (marks[0] if marks else 0)
            return (self._count,), list(self._last)[-fresh:] if fresh > 0 else []


class BoardSearches:
    """The last searches of all workers of a server, on their board."""

    def __init__(self, board: Board, number: int) -> None:
        """`number` is that of this worker."""
        self._board = board
        self._number = number
        self._lock = threading.Lock()

    def set_watchers(self, count: int) -> None:
        """Note how many pages this worker has open that show searches."""
        self._board.set_watchers(self._number, count)

    def has_watchers(self) -> bool:
        """Whether any worker has such a page open."""
        return self._board.has_watchers()

    def add(self, search: bytes) -> None:
        """Put down a search of this worker."""
        with self._lock:
            self._board.add_search(self._number, search)

    def read(self, marks: Marks) -> tuple[Marks, list[bytes]]:
        """The searches of all workers after those that the marks count."""
        known = marks or (0,) * self._board.workers
        answers = [self._board.read_searches(number, after) for number, after in enumerate(known)]
        return tuple(count for count, _ in answers), [search for _, searches in answers for search in searches]


@dataclass(frozen=True, slots=True)
class SearchLog:
    """Notes the searches of an engine while a page shows them."""

    store: SearchStore
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def attach(self, engine: Engine) -> None:
        """Have the searches of an engine noted."""
        engine.observe_search = self.note

    def note(self, query: Query, page: Page) -> None:
        """Put down a search, if a page is open that shows it."""
        if self.store.has_watchers() and (door := get_current_door()) != OWN_DOOR:
            self.store.add(_encode_search(query, page, door, self.clock()))

    def read(self, marks: Marks) -> tuple[Marks, list[dict[str, Any]]]:
        """The searches that a reader with these marks has not seen, the first one first."""
        marks, searches = self.store.read(marks)
        return marks, sorted((json.loads(each) for each in searches), key=lambda each: str(each["at"]))


def _encode_search(query: Query, page: Page, door: str, at: datetime) -> bytes:
    """A search as JSON of at most `SEARCH_SIZE` bytes: names are cut for that, and hits left out.

    Without its scope, as the last resort: it is then shown to those alone who see everything.
    """
    encoded = b""
    for most, length, scope in ((HITS, QUERY, True), (HITS, _SHORT, True), (0, _SHORT, True), (0, _SHORT, False)):
        hits = [
            {"id": hit.record.id, "title": _name(hit.record.title or hit.record.text, min(TITLE, length)),
             "kind": str(hit.record.kind), "score": round(hit.score, 3)}
            for hit in page.hits[:most]
        ]  # fmt: skip
        search = {
            "at": at.isoformat(timespec="milliseconds"), "door": door, "query": query.text[:length],
            "scope": str(query.scope) if scope else "", "mode": query.mode, "count": len(page.hits), "cut": page.cut,
            "hits": hits,
        }  # fmt: skip
        encoded = json.dumps(search, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
        if len(encoded) <= SEARCH_SIZE:
            break
    return encoded


def _name(text: str, length: int) -> str:
    """The first line of a text, cut."""
    return text.strip()[: length + 1].partition("\n")[0][:length]
