"""How a door leaves the event loop: what may take time runs in one of a few threads of the door's own.

The calls that wait for a thread are no more than can be answered soon: one more is refused at once.
"""

from __future__ import annotations

import threading
from asyncio import CancelledError, wrap_future
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from enum import Enum, auto
from time import monotonic
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Scope

from .overload import DoorLoad

PATIENCE = 1.0  # seconds that a call may take, from when it begins to wait for a thread
LONG_PATIENCE = 10.0  # seconds, for what takes long by itself: large files and states
CAUTION = 0.5  # of the patience, as much as may be foreseen: the rest is for what takes longer than what came before
BURST = 16  # calls that may wait in any case, as a short burst is no overload
BURST_PER_THREAD = 4  # the same for few threads
MAX_WAITING = 512  # calls that may wait, however quick those before them were
WEIGHT = 0.2  # of the last call in the running average of how long calls take
FIRST_GUESS = 0.1  # seconds that a call takes, before any has been made
HANDOVER = 0.1  # seconds that a thread waits, at most, for the event loop to take up its last answer
GONE_CHECK = "is_gone"  # in a request's state: tells whether its client has closed the connection
IsGone = Callable[[], bool]
Result = TypeVar("Result")


class _Skip(Enum):
    """Why a call was not begun."""

    STALE = auto()
    """It had waited for too long."""
    NO_CLIENT = auto()
    """Its client has gone."""


class _Thread(threading.local):
    """What a thread knows of its last call."""

    handover: threading.Lock | None = None
    """Free once the event loop has taken up the answer."""


class Workers:
    """Threads for one kind of work, of which no more than `count` is done at once.

    They are an executor's rather than anyio's: to hand work to those costs twice as much.
    """

    def __init__(self, count: int, name: str, load: DoorLoad | None = None, *, patience: float = PATIENCE) -> None:
        """Without a `load`, calls wait for as long as it takes; else none is to take longer than `patience`."""
        self._pool = ThreadPoolExecutor(count, name)
        self._count = count
        self._burst = min(BURST, BURST_PER_THREAD * count)
        self._load = load
        self._patience = patience
        self._average = FIRST_GUESS
        """Seconds that a call takes. Threads overwrite each other's, now and then: it is an estimate."""
        self._thread = _Thread()
        self._queue: deque[float] = deque()
        """Since when each call waits, the first one first: it can be changed by any thread without a lock."""
        if load is not None:
            load.add_queue(self)

    @property
    def queue_length(self) -> int:
        """How many calls wait for a thread."""
        return len(self._queue)

    def check_room(self) -> None:
        """Raise Overload if one more call would have to wait for too long."""
        waiting = len(self._queue)
        if waiting < self._count or self._load is None:
            return
        if waiting >= self._count_room(self._load):
            raise self._load.refuse()

    def _count_room(self, load: DoorLoad) -> int:
        """How many calls may wait."""
        if load.is_late:
            return self._count
        if monotonic() - self._get_oldest() > CAUTION * self._patience:  # what is at work takes longer than before
            return self._burst
        rounds = CAUTION * self._patience / max(self._average, 1e-6) - 1  # the last one is the call's own
        return min(MAX_WAITING, max(self._burst, int(rounds * self._count)))

    def _get_oldest(self) -> float:
        """Return since when the first call waits."""
        try:
            return self._queue[0]
        except IndexError:  # a thread has just taken it
            return monotonic()

    async def run(self, work: Callable[[], Result], is_gone: IsGone | None = None) -> Result:
        """Run `work` in one of the threads, and return what it returns.

        Work should return its failures, not raise them: what leaves a thread as an exception keeps a request's body in
        memory for long. Work for which `is_gone` is given only reads: it is not begun once its client has gone.

        Raises:
            Overload: it has, or would have, to wait for too long. It was not begun.
            ClientDisconnect: `is_gone` said so. It was not begun.
        """
        self.check_room()
        since = monotonic()
        self._queue.append(since)
        handover = threading.Lock()
        handover.acquire()
        call = self._pool.submit(self._begin, work, is_gone, since, handover)
        try:
            outcome = await wrap_future(call)
        except CancelledError:
            if call.cancel():  # before it was begun
                self._queue.remove(since)
            raise
        finally:
            handover.release()
        if outcome is _Skip.STALE:
            assert self._load is not None
            raise self._load.refuse()
        if outcome is _Skip.NO_CLIENT:
            raise ClientDisconnect
        return outcome

    def _begin(
        self, work: Callable[[], Result], is_gone: IsGone | None, since: float, handover: threading.Lock
    ) -> Result | _Skip:
        """Do the work in a thread, unless it is too late for that.

        The thread's last answer has to have been taken up before, which `handover` tells: the event loop, which is one
        thread among many that want the interpreter lock, would else get to nothing while there is work.
        """
        if self._thread.handover is not None:
            self._thread.handover.acquire(timeout=HANDOVER)
        self._thread.handover = handover
        self._queue.remove(since)  # the first, but for those that were cancelled
        begin = monotonic()
        if self._is_stale(begin - since):
            return _Skip.STALE
        if is_gone is not None and is_gone():
            return _Skip.NO_CLIENT
        try:
            with nullcontext() if self._load is None else self._load.count_work():
                return work()
        finally:
            self._average += WEIGHT * (monotonic() - begin - self._average)

    def _is_stale(self, seconds: float) -> bool:
        """Whether a call has waited for too long; not where few wait, each of which just takes long."""
        return self._load is not None and seconds > self._patience and len(self._queue) >= self._burst

    def shut_down(self, *, wait: bool) -> None:
        """Begin nothing any more; with `wait`, wait for what has begun."""
        self._pool.shutdown(wait=wait, cancel_futures=True)


def get_gone_check(scope: Scope) -> IsGone | None:
    """Return what tells whether the client of a request has closed the connection, where that can be known."""
    check: IsGone | None = scope["state"].get(GONE_CHECK)
    return check


def end_workers(all_workers: Sequence[Workers], seconds: float) -> None:
    """Let nothing more begin, and wait for what has begun, but no longer than `seconds`."""
    for workers in all_workers:
        workers.shut_down(wait=False)

    def wait_for_all() -> None:
        for workers in all_workers:
            workers.shut_down(wait=True)

    # A pool is waited for without limit, or not at all: so a thread waits that need not be waited for.
    waiter = threading.Thread(target=wait_for_all, name="cofio-workers-end", daemon=True)
    waiter.start()
    waiter.join(seconds)
