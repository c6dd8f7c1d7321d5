"""What the processes of one server know of each other at any moment: numbers and counts in memory that they share.

Each number has one writer, so none needs a lock.
"""

from __future__ import annotations

import mmap
import struct
import threading
from collections.abc import Iterator
from itertools import chain

from ...config.settings import MAX_WORKERS
from ...system.processes import make_shared_memory, read_steady_clock

COUNTS_SIZE = 2**20  # bytes of the counts of one process; pages that are not used take no memory
_PER_PROCESS = 8  # numbers of each process
_PROCESS, _CONNECTIONS, _REQUESTS, _TASKS_SENT, _TASKS_RECEIVED = range(5)
_SHARED = (MAX_WORKERS + 1) * _PER_PROCESS
_PARENT, _WAKE, _TASKS, _HEARTBEAT, _INCOMPLETE = range(_SHARED, _SHARED + 5)
_SIZE = 8 * (_SHARED + 8)
_HEAD = struct.Struct("=q")
_ENTRY = struct.Struct("=qd")


class Board:
    """The numbers of all processes. Workers have the numbers from 0, the background process has the one after them."""

    def __init__(self, memory: int, workers: int) -> None:
        """`memory` is the descriptor of the shared memory."""
        self.workers = workers
        self._numbers = memoryview(mmap.mmap(memory, _SIZE)).cast("q")

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

    def register(self, number: int, process: int) -> None:
        """Note that a process can be asked from now on; with 0, that it has ended and has nothing open any more."""
        start = number * _PER_PROCESS
        self._numbers[start + _PROCESS] = process
        if not process:
            self._numbers[start + _CONNECTIONS] = self._numbers[start + _REQUESTS] = 0

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

    def add_requests(self, number: int, change: int) -> None:
        """Count requests of a worker that have begun, or with a negative number ended."""
        self._numbers[number * _PER_PROCESS + _REQUESTS] += change

    def has_requests(self) -> bool:
        """Whether a client waits for an answer."""
        return any(self._numbers[number * _PER_PROCESS + _REQUESTS] > 0 for number in range(self.workers))

    def add_tasks_sent(self, number: int, change: int) -> None:
        """Count tasks that a worker tells the background process of."""
        self._numbers[number * _PER_PROCESS + _TASKS_SENT] += change

    def count_task_received(self, number: int) -> None:
        """Count a task that the background process was told of by a worker."""
        self._numbers[number * _PER_PROCESS + _TASKS_RECEIVED] += 1

    def set_tasks(self, count: int) -> None:
        """Note how many tasks the background process has yet to finish."""
        self._numbers[_TASKS] = count

    def count_tasks(self) -> int:
        """How many tasks are not finished, with those that the background process is yet to hear of."""
        starts = [number * _PER_PROCESS for number in range(self.workers)]
        unheard = sum(self._numbers[at + _TASKS_SENT] - self._numbers[at + _TASKS_RECEIVED] for at in starts)
        return self._numbers[_TASKS] + max(0, unheard)

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
        self._bytes = mmap.mmap(memory, COUNTS_SIZE)
        self._places: dict[str, int] = {}
        self._end = _HEAD.size
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
                size, value = _ENTRY.unpack_from(self._bytes, place)
                _ENTRY.pack_into(self._bytes, place, size, value + amount)

    def read(self) -> dict[str, float]:
        """All counts by their names, whichever process adds to them."""
        return {name: value for name, _, value in self._entries(_HEAD.size)}

    def _find(self, name: str) -> int | None:
        """Where a count is; it is made if need be."""
        place = self._places.get(name)
        if place is None:
            self._places |= {known: at for known, at, _ in self._entries(self._end)}
            place = self._places.get(name)
        return self._append(name) if place is None else place

    def _append(self, name: str) -> int | None:
        text = name.encode()
        place = self._end
        start, end = place + _ENTRY.size, _find_next(place, len(text))
        if end > COUNTS_SIZE:
            return None
        _ENTRY.pack_into(self._bytes, place, len(text), 0.0)
        self._bytes[start : start + len(text)] = text
        _HEAD.pack_into(self._bytes, 0, end)  # last, so that what is read is whole
        self._places[name], self._end = place, end
        return place

    def _entries(self, start: int) -> Iterator[tuple[str, int, float]]:
        (end,) = _HEAD.unpack_from(self._bytes, 0)
        place = start
        while place < end:
            size, value = _ENTRY.unpack_from(self._bytes, place)
            text = place + _ENTRY.size
            yield self._bytes[text : text + size].decode(), place, value
            place = _find_next(place, size)
        self._end = max(self._end, place)


def _find_next(place: int, size: int) -> int:
    """Where the entry after one with a name of `size` bytes begins: numbers that are aligned are written in one go."""
    return place + _ENTRY.size + (size + 7) // 8 * 8
