"""Admission control: calls run in a few threads of their door, wait in turn, and are refused when they would wait long.

Waiting is fair by client: each client that waits has its turn, however many calls another has sent. When there is no
room left, the client with the most waiting calls loses its newest one.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from time import monotonic
from typing import NamedTuple, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Scope

from .errors import RequestError
from .logs import LogThrottle

RETRY_AFTER_SECONDS = 1
MAX_CALL_SECONDS = 1.0  # that a call may take, from when it begins to wait
MAX_LARGE_CALL_SECONDS = 10.0  # the same for large files and states
FORESEEN_SHARE = 0.5  # of that time: the rest is for calls that take longer than those before them
BURST = 16  # calls that may wait in any case, as a short burst is no overload
BURST_PER_THREAD = 4  # the same for few threads
MAX_WAITING = 512
AVERAGE_WEIGHT = 0.2  # of the last call in the running average
FIRST_AVERAGE_SECONDS = 0.1
LAG_CHECK_SECONDS = 0.1
MAX_LAG_SECONDS = 0.5  # while the event loop is later than that, no more calls wait than there are threads
ACTIVE_SECONDS = 10.0  # since its last call, for which a client counts as one that threads are shared with
IS_GONE = "is_gone"  # in a request's state: tells whether its client has closed the connection
REFUSAL = "this server has more to do than it can do soon, and has done nothing of this: send it again in a moment"
IsGone = Callable[[], bool]
Result = TypeVar("Result")
_log = logging.getLogger("cofio.serve")


class Overload(RequestError):
    """A call that would have to wait for too long. Nothing of it was done."""

    def __init__(self) -> None:
        super().__init__(503, REFUSAL, code="QUEUE_SATURATED", headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


class LoopLag:
    """Measures how late the event loop is: what it does not get to has waited without being counted anywhere."""

    def __init__(self) -> None:
        self._due = float("inf")
        self._last = 0.0
        self._timer: TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """Seconds by which the last check was late, or the next one is by now."""
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
        # By the system's clock: uvloop's own stands still until it is done with what has come in.
        self._due = monotonic() + LAG_CHECK_SECONDS
        self._timer = loop.call_later(LAG_CHECK_SECONDS, self._check, loop)

    def _check(self, loop: AbstractEventLoop) -> None:
        self._last = max(0.0, monotonic() - self._due)
        self._schedule(loop)


class DoorLoad:
    """The load of one door: its waiting calls, and how many it has refused."""

    def __init__(self, door: str, lag: LoopLag) -> None:
        self.door = door
        self.refused = 0
        self.lag = lag
        self._queues: list[CallQueue] = []
        self._throttle = LogThrottle()
        self.on_refusal: Callable[[str], None] = lambda door: None

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        return sum(queue.waiting for queue in self._queues)

    def add_queue(self, queue: CallQueue) -> None:
        """Count the calls of a queue, too."""
        self._queues.append(queue)

    def check_room(self, client: str | None = None) -> None:
        """Raise Overload if one of the door's queues has no room for a call of a client."""
        for queue in self._queues:
            queue.check_room(client)

    def refuse(self) -> Overload:
        """Count a refusal, and return it."""
        self.refused += 1
        self.on_refusal(self.door)
        if (more := self._throttle.admit()) is not None:
            _log.warning("more comes in at %s than can be answered soon: calls are refused with 503%s", self.door, more)
        return Overload()


class ServerLoad:
    """The load of one process: that of each door, and how late the event loop is that they share."""

    def __init__(self) -> None:
        self.lag = LoopLag()
        self.on_refusal: Callable[[str], None] = lambda door: None
        """Called with the name of the door of each call that is refused."""
        self._doors: dict[str, DoorLoad] = {}

    @property
    def doors(self) -> Sequence[DoorLoad]:
        """The load of each door."""
        return tuple(self._doors.values())

    def has_queue(self) -> bool:
        """Return whether calls wait for a thread, at any door."""
        return any(door.waiting for door in self.doors)

    def find_door(self, name: str) -> DoorLoad:
        """Return the load of the door with this name."""
        if name not in self._doors:
            self._doors[name] = DoorLoad(name, self.lag)
            self._doors[name].on_refusal = lambda door: self.on_refusal(door)
        return self._doors[name]


class _Waiter(NamedTuple):
    since: float
    turn: Future[None]


class CallQueue:
    """Runs calls in a few threads. All of its state belongs to the event loop, so it needs no lock."""

    def __init__(
        self, threads: int, name: str, load: DoorLoad | None = None, *, max_seconds: float = MAX_CALL_SECONDS
    ) -> None:
        """Without a `load` calls wait for as long as it takes; with one, a call that would take longer is refused."""
        self._pool = ThreadPoolExecutor(threads, name)
        self._threads = threads
        self._burst = min(BURST, BURST_PER_THREAD * threads)
        self._load = load
        self._max_seconds = max_seconds
        self._average = FIRST_AVERAGE_SECONDS
        self._running: dict[str, int] = {}
        """Threads at work, by client."""
        self._last_calls: dict[str, float] = {}
        """When each client that was active lately has last called."""
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        """Waiting calls by client; the client whose turn is next stands first."""
        if load is not None:
            load.add_queue(self)

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        return sum(map(len, self._queues.values()))

    def check_room(self, client: str | None = None) -> None:
        """Raise Overload if one more call would have to wait for too long.

        A client with fewer waiting calls than another has room: the other makes some for it.
        """
        load, waiting = self._load, self.waiting
        if load is None or waiting < self._threads or waiting < self._count_room(load):
            return
        own = None if client is None else len(self._queues.get(client, ()))
        if own is None or own + 1 >= max(map(len, self._queues.values())):
            raise load.refuse()

    def _count_room(self, load: DoorLoad) -> int:
        """Return how many calls may wait."""
        if load.lag.seconds > MAX_LAG_SECONDS:
            return self._threads
        foreseen = FORESEEN_SHARE * self._max_seconds
        oldest = min((queue[0].since for queue in self._queues.values()), default=monotonic())
        if monotonic() - oldest > foreseen:  # the calls at hand take longer than those before them
            return self._burst
        rounds = foreseen / max(self._average, 1e-6) - 1  # the last one is the call's own
        return min(MAX_WAITING, max(self._burst, int(rounds * self._threads)))

    async def run(self, work: Callable[[], Result], is_gone: IsGone | None = None, *, client: str = "") -> Result:
        """Run `work` in a thread, and return its result.

        Work should return its failures, not raise them: an exception keeps a request's body in memory for long. Work
        for which `is_gone` is given only reads: it is not begun once its client has gone.

        Raises:
            Overload: it has, or would have, to wait for too long. It was not begun.
            ClientDisconnect: `is_gone` said so. It was not begun.
        """
        self.check_room(client)
        await self._take_turn(client)
        try:
            if is_gone is not None and is_gone():
                raise ClientDisconnect
            begun = monotonic()
            try:
                return await get_running_loop().run_in_executor(self._pool, work)
            finally:
                self._average += AVERAGE_WEIGHT * (monotonic() - begun - self._average)
        finally:
            self._end_turn(client)

    async def _take_turn(self, client: str) -> None:
        self._last_calls.pop(client, None)
        self._last_calls[client] = monotonic()
        if not self._queues and self._may_run(client):
            self._running[client] = self._running.get(client, 0) + 1
            return
        if self._load is not None and self.waiting >= self._count_room(self._load):
            self._drop_newest()
        waiter = _Waiter(monotonic(), get_running_loop().create_future())
        self._queues.setdefault(client, deque()).append(waiter)
        self._start_next()
        try:
            await waiter.turn
        except BaseException:
            if waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self._end_turn(client)  # it was cancelled at the moment when its turn came
            else:
                self._forget(client, waiter)
            raise

    def _may_run(self, client: str) -> bool:
        """Return whether there is a thread for a client: one is left free for others, where others call, too."""
        self._forget_inactive()
        used = sum(self._running.values())
        limit = self._threads if len(self._last_calls) < 2 else max(1, self._threads - 1)
        return used < self._threads and self._running.get(client, 0) < limit

    def _forget_inactive(self) -> None:
        oldest = monotonic() - ACTIVE_SECONDS
        while self._last_calls and (first := next(iter(self._last_calls.items())))[1] < oldest:
            del self._last_calls[first[0]]

    def _start_next(self) -> None:
        """Give free threads to the clients whose turn it is."""
        while (client := next(filter(self._may_run, self._queues), None)) is not None:
            waiter = self._queues[client].popleft()
            self._move_to_end(client)
            if waiter.turn.done():  # cancelled a moment ago
                continue
            if self._load is not None and self._is_stale(waiter):
                waiter.turn.set_exception(self._load.refuse())
            else:
                self._running[client] = self._running.get(client, 0) + 1
                waiter.turn.set_result(None)

    def _is_stale(self, waiter: _Waiter) -> bool:
        """Return whether a call has waited for too long; not where few wait, each of which just takes long."""
        return monotonic() - waiter.since > self._max_seconds and self.waiting >= self._burst

    def _move_to_end(self, client: str) -> None:
        if self._queues[client]:
            self._queues.move_to_end(client)
        else:
            del self._queues[client]

    def _end_turn(self, client: str) -> None:
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        self._start_next()

    def _drop_newest(self) -> None:
        """Refuse the newest call of the client that has the most waiting."""
        assert self._load is not None
        client = max(self._queues, key=lambda each: len(self._queues[each]))
        waiter = self._queues[client].pop()
        if not self._queues[client]:
            del self._queues[client]
        if not waiter.turn.done():
            waiter.turn.set_exception(self._load.refuse())

    def _forget(self, client: str, waiter: _Waiter) -> None:
        queue = self._queues.get(client)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._queues[client]

    def shut_down(self, *, wait: bool) -> None:
        """Begin nothing any more; with `wait`, wait for what has begun."""
        self._pool.shutdown(wait=wait, cancel_futures=True)


def get_gone_check(scope: Scope) -> IsGone | None:
    """Return what tells whether the client of a request has closed the connection, where that can be known."""
    check: IsGone | None = scope["state"].get(IS_GONE)
    return check


def get_client(scope: Scope) -> str:
    """Return the name by which waiting is shared fairly: that of the token, or none."""
    token = scope["state"].get("token")
    return "" if token is None else str(token.name)


def shut_down_queues(queues: Sequence[CallQueue], seconds: float) -> None:
    """Let nothing more begin, and wait up to `seconds` for what has begun."""
    for queue in queues:
        queue.shut_down(wait=False)

    def wait_for_all() -> None:
        for queue in queues:
            queue.shut_down(wait=True)

    # A pool is waited for without limit, or not at all: so a thread waits that need not be waited for.
    waiter = Thread(target=wait_for_all, name="cofio-calls-end", daemon=True)
    waiter.start()
    waiter.join(seconds)
