"""What the processes of one server know of each other at any moment: numbers and counts in memory that they share.

Each number has one writer, so none needs a lock.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from itertools import chain

from ...config.settings import MAX_WORKERS
from ...system.processes import make_shared_memory, read_steady_clock
from ..search_notes import SEARCH_SIZE

COUNTS_SIZE = 2**20  # bytes of the counts of one process; pages that are not used take no memory
MORE_CONNECTIONS = 64  # that an idle worker may have than a busy one which hands it another
_PER_PROCESS = 8  # numbers of each process
_PROCESS, _CONNECTIONS, _BUSY_THREADS, _TASKS_SENT, _TASKS_RECEIVED, _SESSIONS, _WATCHERS, _SEARCHES = range(8)
_SHARED = (MAX_WORKERS + 1) * _PER_PROCESS
_PARENT, _WAKE, _TASKS, _HEARTBEAT, _INCOMPLETE, _REPORT_TURN, *_REPORT_LENGTHS = range(_SHARED, _SHARED + 8)
_STORE = _SHARED + 8  # and the one after it
_NUMBERS = _SHARED + 10
REPORT_SIZE = 4096  # bytes of one report of the background process; there is room for two, the last one and the next
SEARCHES = 32  # the last of each worker
_SEARCH_HEAD = 16  # bytes before each: which search of its worker it is, and its length
_SEARCH_START = 8 * _NUMBERS + 2 * REPORT_SIZE
_SEARCH_ROOM = _SEARCH_HEAD + SEARCH_SIZE
_SIZE = _SEARCH_START + MAX_WORKERS * SEARCHES * _SEARCH_ROOM
_END = 0  # where in the counts of a process it says how long they are
_ENTRY = 16  # bytes of an entry before its name: the length of the name, and the value


class Board:
    """The numbers of all processes. Workers have the numbers from 0, the background process has the one after them."""

    def __init__(self, memory: int, workers: int) -> None:
        """`memory` is the descriptor of the shared memory."""
        self.workers = workers
        self._bytes = memoryview(mmap.mmap(memory, _SIZE))
        self._numbers = self._bytes[: 8 * _NUMBERS].cast("q")
        self._heads = self._bytes.cast("q")

    @staticmethod
    def make() -> int:
        """Make the memory of a board; its descriptor."""
        return make_shared_memory("cofio-board", _SIZE)

    @property
    def background(self) -> int:
        """The number of the background process."""
        return self.workers

    def set_parent(self, process: int) -> None:
        """Note the id of the process that started the others."""
        self._numbers[_PARENT] = process

    def set_store(self, store_id: tuple[int, int]) -> None:
        """Note which store this server is on."""
        for at, number in enumerate(store_id, _STORE):
            self._numbers[at] = _to_signed(number)

    def is_store(self, store_id: tuple[int, int] | None) -> bool:
        """Whether this is the store that the server is on."""
        return store_id is not None and [*map(_to_signed, store_id)] == [*self._numbers[_STORE : _STORE + 2]]

    def register(self, number: int, process: int) -> None:
        """Note that a process can be asked from now on; with 0, that it has ended and has nothing open any more."""
        start = number * _PER_PROCESS
        self._numbers[start + _PROCESS] = process
        if process:
            return
        for at in (_CONNECTIONS, _BUSY_THREADS, _SESSIONS, _WATCHERS):
            self._numbers[start + at] = 0
        # A task that a process was telling or hearing of when it was killed would be counted for ever. What is set is
        # what that process wrote, which no one else writes.
        if number == self.background:
            for at in range(0, self.workers * _PER_PROCESS, _PER_PROCESS):
                self._numbers[at + _TASKS_RECEIVED] = self._numbers[at + _TASKS_SENT]
        else:
            self._numbers[start + _TASKS_SENT] = self._numbers[start + _TASKS_RECEIVED]

    def is_up(self, number: int) -> bool:
        """Whether there is such a process, and it can be asked."""
        return 0 <= number <= self.workers and self._numbers[number * _PER_PROCESS + _PROCESS] != 0

    def list_processes(self) -> list[int]:
        """The ids of all processes of this server, the first of which started the others."""
        ids = (self._numbers[number * _PER_PROCESS + _PROCESS] for number in range(self.workers + 1))
        return [each for each in chain((self._numbers[_PARENT],), ids) if each]

    def set_connections(self, number: int, count: int) -> None:
        """Note how many connections a worker has open."""
        self._numbers[number * _PER_PROCESS + _CONNECTIONS] = count

    def find_fewest_connections(self, besides: int) -> int | None:
        """How many connections the worker has that has the fewest, of those that are up; None if there is none."""
        return min(
            (
                self._numbers[number * _PER_PROCESS + _CONNECTIONS]
                for number in range(self.workers)
                if number != besides and self.is_up(number)
            ),
            default=None,
        )

    def set_sessions(self, number: int, count: int) -> None:
        """Note how many sessions of MCP a worker holds."""
        self._numbers[number * _PER_PROCESS + _SESSIONS] = count

    def list_sessions(self) -> list[int]:
        """How many sessions of MCP each worker holds."""
        return [self._numbers[number * _PER_PROCESS + _SESSIONS] for number in range(self.workers)]

    def set_busy_threads(self, number: int, count: int) -> None:
        """Note how many threads of a worker are at work for clients."""
        self._numbers[number * _PER_PROCESS + _BUSY_THREADS] = count

    def has_busy_threads(self) -> bool:
        """Whether a worker is at work for a client."""
        return any(self._numbers[number * _PER_PROCESS + _BUSY_THREADS] > 0 for number in range(self.workers))

    def find_idle_worker(self, besides: int, limit: int) -> int | None:
        """Return a worker that is at work for no client, for one that is; None if there is none.

        One that has as many connections as its `limit`, or many more than the other, counts as none.
        """
        own = besides * _PER_PROCESS
        if not self._numbers[own + _BUSY_THREADS]:
            return None
        most = min(limit, self._numbers[own + _CONNECTIONS] + MORE_CONNECTIONS)
        for number in range(self.workers):
            at = number * _PER_PROCESS
            is_idle = not self._numbers[at + _BUSY_THREADS] and self._numbers[at + _CONNECTIONS] < most
            if number != besides and is_idle and self.is_up(number):
                return number
        return None

    def add_tasks_sent(self, number: int, change: int) -> None:
        """Count tasks that a worker tells the background process of."""
        self._numbers[number * _PER_PROCESS + _TASKS_SENT] += change

    def count_task_received(self, number: int) -> None:
        """Count a task that the background process was told of by a worker, unless it was given up meanwhile."""
        at = number * _PER_PROCESS
        received = self._numbers[at + _TASKS_RECEIVED]
        self._numbers[at + _TASKS_RECEIVED] = min(self._numbers[at + _TASKS_SENT], received + 1)

    def set_tasks(self, count: int) -> None:
        """Note how many tasks the background process has yet to finish."""
        self._numbers[_TASKS] = count

    def count_tasks(self) -> int:
        """How many tasks are not finished, with those that the background process is yet to hear of."""
        starts = [number * _PER_PROCESS for number in range(self.workers)]
        unheard = (self._numbers[at + _TASKS_SENT] - self._numbers[at + _TASKS_RECEIVED] for at in starts)
        return self._numbers[_TASKS] + sum(max(0, each) for each in unheard)

    def claim_wake(self) -> bool:
        """Note that the background process is to be woken; whether that is still to be done."""
        if self._numbers[_WAKE]:
            return False
        self._numbers[_WAKE] = 1
        return True

    def clear_wake(self) -> None:
        """Note that the background process has woken up."""
        self._numbers[_WAKE] = 0

    def set_incomplete(self, incomplete: bool) -> None:
        """Note whether an older memory is still being taken over."""
        self._numbers[_INCOMPLETE] = int(incomplete)

    def is_incomplete(self) -> bool:
        """Whether an older memory is still being taken over."""
        return self._numbers[_INCOMPLETE] != 0

    def write_report(self, report: bytes) -> None:
        """Put down what the background process has to say of itself, no longer than `REPORT_SIZE`."""
        turn = self._numbers[_REPORT_TURN] + 1
        start = 8 * _NUMBERS + turn % 2 * REPORT_SIZE
        self._bytes[start : start + len(report)] = report
        self._numbers[_REPORT_LENGTHS[turn % 2]] = len(report)
        self._numbers[_REPORT_TURN] = turn  # last, so that what is read is whole

    def read_report(self) -> bytes:
        """What the background process last had to say of itself; empty before the first time."""
        while True:
            turn = self._numbers[_REPORT_TURN]
            start = 8 * _NUMBERS + turn % 2 * REPORT_SIZE
            report = bytes(self._bytes[start : start + self._numbers[_REPORT_LENGTHS[turn % 2]]])
            if self._numbers[_REPORT_TURN] == turn:  # else the next but one may be written over it
                return report

    def set_watchers(self, number: int, count: int) -> None:
        """Note how many pages a worker has open that show what is searched for."""
        self._numbers[number * _PER_PROCESS + _WATCHERS] = count

    def has_watchers(self) -> bool:
        """Whether a page is open that shows what is searched for."""
        return any(self._numbers[number * _PER_PROCESS + _WATCHERS] > 0 for number in range(self.workers))

    def add_search(self, number: int, search: bytes) -> None:
        """Put down a search that a worker has made, no longer than `SEARCH_SIZE`, in the place of its oldest."""
        count = self._numbers[number * _PER_PROCESS + _SEARCHES] + 1
        head, start = self._find_search(number, count)
        self._heads[head] = 0  # so that none reads it meanwhile
        self._bytes[start : start + len(search)] = search
        self._heads[head + 1] = len(search)
        self._heads[head] = count
        self._numbers[number * _PER_PROCESS + _SEARCHES] = count

    def read_searches(self, number: int, after: int) -> tuple[int, list[bytes]]:
        """The searches of a worker after the first `after` of them, as far as they are still there; and their count."""
        count = self._numbers[number * _PER_PROCESS + _SEARCHES]
        searches = []
        for each in range(max(after, count - SEARCHES) + 1, count + 1):
            head, start = self._find_search(number, each)
            search = bytes(self._bytes[start : start + self._heads[head + 1]])
            if self._heads[head] == each:  # else another was written over it meanwhile
                searches.append(search)
        return count, searches

    def _find_search(self, number: int, count: int) -> tuple[int, int]:
        """Where the numbers before a search are, and where it begins itself."""
        place = _SEARCH_START + (number * SEARCHES + count % SEARCHES) * _SEARCH_ROOM
        return place // 8, place + _SEARCH_HEAD

    def beat(self) -> None:
        """Note that the background process is alive."""
        self._numbers[_HEARTBEAT] = int(read_steady_clock() * 1000)

    def measure_silence(self) -> float:
        """For how many seconds nothing was heard of the background process; 0 before it was first heard of."""
        last = self._numbers[_HEARTBEAT]
        return max(0.0, read_steady_clock() - last / 1000) if last else 0.0


class SharedCounts:
    """Counts by name that one process adds to and others read; they outlive the process, and the next one goes on."""

    def __init__(self, memory: int) -> None:
        """`memory` is the descriptor of the shared memory."""
        self._bytes = memoryview(mmap.mmap(memory, COUNTS_SIZE))
        # Each number is written and read at once, so that no process sees half of it.
        self._integers, self._values = self._bytes.cast("q"), self._bytes.cast("d")
        self._places: dict[str, int] = {}
        self._next_place = 8
        """Where the first entry is that is not among the places."""
        self._lock = threading.Lock()

    @staticmethod
    def make() -> int:
        """Make the memory of the counts of one process; its descriptor."""
        return make_shared_memory("cofio-counts", COUNTS_SIZE)

    def add(self, name: str, amount: float = 1.0) -> None:
        """Add to a count, which begins at 0. When there is no room for another name, it is not counted."""
        with self._lock:
            place = self._find(name)
            if place is not None:
                self._values[place // 8 + 1] += amount

    def read(self) -> dict[str, float]:
        """All counts by their names, whichever process adds to them."""
        return {name: value for name, _, value in self._entries(8)}

    def _find(self, name: str) -> int | None:
        """Where a count is; it is made if need be."""
        place = self._places.get(name)
        if place is None:
            for known, at, _ in self._entries(self._next_place):
                self._places[known], self._next_place = at, _find_next(at, self._integers[at // 8])
            place = self._places.get(name)
        return self._append(name) if place is None else place

    def _append(self, name: str) -> int | None:
        text = name.encode()
        place = self._next_place
        start, end = place + _ENTRY, _find_next(place, len(text))
        if end > COUNTS_SIZE:
            return None
        self._integers[place // 8], self._values[place // 8 + 1] = len(text), 0.0
        self._bytes[start : start + len(text)] = text
        self._integers[_END] = end  # last, so that what is read is whole
        self._places[name], self._next_place = place, end
        return place

    def _entries(self, start: int) -> Iterator[tuple[str, int, float]]:
        place, end = start, self._integers[_END]
        while place < end:
            size, value = self._integers[place // 8], self._values[place // 8 + 1]
            text = place + _ENTRY
            yield str(self._bytes[text : text + size], "utf-8"), place, value
            place = _find_next(place, size)


def _to_signed(number: int) -> int:
    """Return a number that stands for one of 64 bits without a sign."""
    return number - 2**64 if number >= 2**63 else number


def _find_next(place: int, size: int) -> int:
    """Where the entry after one with a name of `size` bytes begins: numbers that are aligned are written in one go."""
    return place + _ENTRY + (size + 7) // 8 * 8
