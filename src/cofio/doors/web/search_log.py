"""The searches that clients make, as long as somebody looks: a page shows them, and nothing is kept of them otherwise.

Those of the server are in memory alone, the last few of each process; a page that is open says so where all processes
of the server can read it, and with the last page the noting ends. Other processes tell of theirs in a file.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from ...engine.engine import Engine
from ...values.query import Page, Query
from ..search_file import SearchFile
from ..search_notes import decode_search, encode_search
from .board import SEARCHES, Board
from .overload import get_current_door

Marks: TypeAlias = tuple[int, ...]
"""How far into the file of other processes a reader has come, and how many searches of each process it has seen."""
OWN_DOOR = "page"  # what people look for on the page itself is not what agents do


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
    """Notes the searches of an engine while a page shows them, beside those that other processes tell of."""

    store: SearchStore
    file: SearchFile | None = None
    """Where other processes on the memory tell of their searches."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def attach(self, engine: Engine) -> None:
        """Have the searches of an engine noted."""
        engine.observe_search = self.note

    def set_watchers(self, count: int) -> None:
        """Note how many pages this process has open that show searches."""
        self.store.set_watchers(count)
        if self.file is not None:
            if count:
                self.file.want()
            else:
                self.file.release()

    def note(self, query: Query, page: Page) -> None:
        """Put down a search, if a page is open that shows it."""
        if self.store.has_watchers() and (door := get_current_door()) != OWN_DOOR:
            self.store.add(encode_search(query, page, door, self.clock()))

    def read(self, marks: Marks) -> tuple[Marks, list[dict[str, Any]]]:
        """The searches that a reader with these marks has not seen, the first one first."""
        position, others = (0, list[bytes]()) if self.file is None else self.file.read(marks[0] if marks else 0)
        own_marks, own = self.store.read(marks[1:])
        searches = [search for each in (*own, *others) if (search := decode_search(each)) is not None]
        return (position, *own_marks), sorted(searches, key=lambda each: str(each["at"]))

    def follow(self, marks: Marks) -> tuple[Marks, list[dict[str, Any]]]:
        """Read as `read` does, and have other processes know that a page is open."""
        if self.file is not None:
            self.file.hold()
        return self.read(marks)
