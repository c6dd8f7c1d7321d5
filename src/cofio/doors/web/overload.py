"""What the doors over HTTP know of their own load, and how they refuse a call that they could not answer soon."""

from __future__ import annotations

import logging
import threading
from asyncio import AbstractEventLoop, TimerHandle, get_running_loop
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Protocol

from ...system.busy_threads import BusyThreads
from .failures import LogThrottle, RequestError

RETRY_AFTER = 1  # seconds that a client is asked to wait before it sends a refused request again
HEARTBEAT = 0.1  # seconds between two looks at how late the event loop is
LATE = 0.5  # seconds; while the loop is later than that, no more calls wait than there are threads
REFUSAL = "this server has more to do than it can do soon, and has done nothing of this: send it again in a moment"
_log = logging.getLogger("cofio.serve")


class _Thread(threading.local):
    """What a thread knows of itself."""

    door = ""


_thread = _Thread()


def get_current_door() -> str:
    """The name of the door that the present thread is at work for; empty when it is for none."""
    return _thread.door


class Overload(RequestError):
    """A call that would have to wait for too long. Nothing of it was done."""

    def __init__(self) -> None:
        super().__init__(503, REFUSAL, code="QUEUE_SATURATED", headers={"Retry-After": str(RETRY_AFTER)})


class LoopLag:
    """Measures how late the event loop is: what it does not get to has waited without being counted anywhere."""

    def __init__(self) -> None:
        self._due = float("inf")
        self._last = 0.0
        self._timer: TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """How late the last heartbeat was, or the next one is by now."""
        return max(self._last, monotonic() - self._due)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the running loop meanwhile."""
        self._schedule(get_running_loop())
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._due, self._last = float("inf"), 0.0

    def _schedule(self, loop: AbstractEventLoop) -> None:
        # By the system's clock: a loop may keep its own from standing still until it is done with what has come in.
        self._due = monotonic() + HEARTBEAT
        self._timer = loop.call_later(HEARTBEAT, self._beat, loop)

    def _beat(self, loop: AbstractEventLoop) -> None:
        self._last = max(0.0, monotonic() - self._due)
        self._schedule(loop)


class Queue(Protocol):
    """Calls that wait for a thread."""

    @property
    def queue_length(self) -> int:
        """How many wait."""
        ...

    def check_room(self) -> None:
        """Raise Overload if one more would have to wait for too long."""
        ...


class DoorLoad:
    """The load of one door: what waits in its queues, and how many calls it has refused."""

    def __init__(self, door: str, lag: LoopLag, threads: BusyThreads | None = None) -> None:
        """`threads` counts those of all doors that are at work, where someone wants to know."""
        self.door = door
        self.refused = 0
        self._lag = lag
        self._threads = threads
        self._queues: list[Queue] = []
        self._throttle = LogThrottle()

    @property
    def queue_length(self) -> int:
        """How many calls wait for a thread."""
        return sum(queue.queue_length for queue in self._queues)

    @property
    def is_late(self) -> bool:
        """Whether the event loop is so late that calls have waited before they came this far."""
        return self._lag.seconds > LATE

    @contextmanager
    def count_work(self) -> Iterator[None]:
        """Count the present thread as one that is at work, meanwhile, and know by it which door it works for."""
        _thread.door = self.door
        try:
            with nullcontext() if self._threads is None else self._threads.work():
                yield
        finally:
            _thread.door = ""

    def add_queue(self, queue: Queue) -> None:
        """Count what waits in the queue, too."""
        self._queues.append(queue)

    def check_room(self) -> None:
        """Raise Overload if a call would have to wait for too long, whichever queue it belongs to."""
        for queue in self._queues:
            queue.check_room()

    def refuse(self) -> Overload:
        """Count a refusal, and return it."""
        self.refused += 1
        if (more := self._throttle.admit()) is not None:
            _log.warning("more comes in at %s than can be answered soon: calls are refused with 503%s", self.door, more)
        return Overload()


class ServerLoad:
    """The load of one server: that of each door, and how late the event loop is that they share."""

    def __init__(self, threads: BusyThreads | None = None) -> None:
        """`threads` counts those of all doors that are at work, where someone wants to know."""
        self.lag = LoopLag()
        self._threads = threads
        self._doors: dict[str, DoorLoad] = {}

    @property
    def doors(self) -> Iterable[DoorLoad]:
        """The load of each door."""
        return tuple(self._doors.values())

    def has_queue(self) -> bool:
        """Whether calls wait for a thread, at any door."""
        return any(door.queue_length for door in self.doors)

    def find_door(self, name: str) -> DoorLoad:
        """Return the load of the door with this name, which is there from then on."""
        return self._doors.setdefault(name, DoorLoad(name, self.lag, self._threads))
