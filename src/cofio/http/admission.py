"""Admission control: calls run in a few threads of their door, wait in turn, and are refused when they would wait long.

Waiting is fair by client: each client that waits has its turn, however many calls another has sent. When there is no
room left, the client with the most waiting calls loses its newest one. A client that keeps the processor busy runs one
call at a time while others call, too.
"""

from __future__ import annotations

import logging
import sys
from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from time import monotonic, thread_time
from typing import NamedTuple, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Scope

from ..engine.fair_lock import set_hurry
from .errors import RequestError
from .logs import LogThrottle

RETRY_AFTER_SECONDS = 1
MAX_CALL_SECONDS = 1.0  # that a call may take, from when it begins to wait
MAX_LARGE_CALL_SECONDS = 10.0  # the same for large files and states
MAX_WAIT_SECONDS = 5.0  # that a call may wait where only a few wait, each of which takes long
FORESEEN_SHARE = 0.35  # of the time that a call may take: the rest is for calls that take longer than those before them
BURST_PER_THREAD, MAX_BURST = 4, 16  # calls that may wait in any case, as a short burst is no overload
MAX_WAITING = 512
AVERAGE_WEIGHT, FIRST_AVERAGE_SECONDS = 0.2, 0.1  # the weight of the last call in the running average; how that begins
TICK_SECONDS = 0.1
MAX_LAG_SECONDS = 0.5  # while the event loop is later than that, no more calls wait than there are threads
ACTIVE_SECONDS = 10.0  # since its last call, for which a client counts as one that threads are shared with
KEPT_AFTER_TICK = 0.9  # of the processor time that a client has used: what is older than some seconds hardly counts
GREEDY_SECONDS = 0.25  # of it, with which a client counts as greedy: that of one who keeps a quarter of a core busy
SWITCH_SECONDS, SHARED_SWITCH_SECONDS = 0.005, 0.0005  # after which a thread that computes lets another one run
IS_GONE = "is_gone"  # in a request's state: tells whether its client has closed the connection
CLIENT = "client_name"  # in a request's state: by which waiting is shared fairly
REFUSAL = "this server has more to do than it can do soon, and has done nothing of this: send it again in a moment"
IsGone = Callable[[], bool]
Result = TypeVar("Result")
_log = logging.getLogger("cofio.serve")


class Overload(RequestError):
    """A call that would have to wait for too long. Nothing of it was done."""

    def __init__(self) -> None:
        super().__init__(503, REFUSAL, code="QUEUE_SATURATED", headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


class ServerLoad:
    """The load of one process: the queues of its doors, who calls, and how late the event loop is."""

    def __init__(self) -> None:
        self.on_refusal: Callable[[str], None] = lambda door: None
        """Called with the name of the door of each call that is refused."""
        self.running: Counter[str] = Counter()
        """Calls that have a thread, by client."""
        self._queues: list[CallQueue] = []
        self._last_calls: OrderedDict[str, float] = OrderedDict()
        """When each client that was active lately has last called."""
        self._used: dict[str, float] = {}
        """Processor seconds that each client has used lately."""
        self._due, self._lag = float("inf"), 0.0
        self._timer: TimerHandle | None = None
        self._throttle = LogThrottle()

    def add_queue(self, queue: CallQueue) -> None:
        """Count the calls of a queue, too."""
        self._queues.append(queue)

    def count_waiting(self) -> dict[str, int]:
        """Return how many calls wait for a thread, by door."""
        waiting: Counter[str] = Counter()
        for queue in self._queues:
            waiting[queue.door] += queue.waiting
        return dict(waiting)

    def has_queue(self) -> bool:
        """Return whether calls wait for a thread, at any door."""
        return any(queue.waiting for queue in self._queues)

    @property
    def is_late(self) -> bool:
        """Whether the event loop is late: what it does not get to has waited without being counted anywhere."""
        return max(self._lag, monotonic() - self._due) > MAX_LAG_SECONDS

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch over the queues and the running event loop meanwhile."""
        self._schedule(get_running_loop())
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._due, self._lag = float("inf"), 0.0

    def _schedule(self, loop: AbstractEventLoop) -> None:
        # By the system's clock: uvloop's own stands still until it is done with what has come in.
        self._due = monotonic() + TICK_SECONDS
        self._timer = loop.call_later(TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: AbstractEventLoop) -> None:
        self._lag = max(0.0, monotonic() - self._due)
        sys.setswitchinterval(SHARED_SWITCH_SECONDS if self.has_others() else SWITCH_SECONDS)
        self._used = {each: KEPT_AFTER_TICK * used for each, used in self._used.items() if used > GREEDY_SECONDS / 100}
        for queue in self._queues:
            queue.refuse_late()
        self.start_next()
        self._schedule(loop)

    def note_call(self, client: str) -> None:
        """Note that a client calls."""
        now = monotonic()
        self._last_calls[client] = now
        self._last_calls.move_to_end(client)
        while next(iter(self._last_calls.values())) < now - ACTIVE_SECONDS:
            self._last_calls.popitem(last=False)

    def note_use(self, client: str, seconds: float) -> None:
        """Note how much processor time a call took."""
        self._used[client] = self._used.get(client, 0.0) + seconds

    def check_room(self, door: str, client: str) -> None:
        """Raise Overload if a queue of a door has no room for one more call of a client."""
        for queue in self._queues:
            if queue.door == door:
                queue.check_room(client)

    def has_others(self) -> bool:
        """Return whether more than one client was active lately."""
        return len(self._last_calls) > 1

    def is_greedy(self, client: str) -> bool:
        """Return whether a client keeps the processor busy."""
        return self._used.get(client, 0.0) > GREEDY_SECONDS

    def start_next(self, last: CallQueue | None = None) -> None:
        """Give free threads to the calls whose turn it is, at the queue where one has just ended last of all."""
        if last is not None:
            self._queues.remove(last)
            self._queues.append(last)
        for queue in self._queues:
            queue.start_next()

    def refuse(self, door: str) -> Overload:
        """Count a refusal, and return it."""
        self.on_refusal(door)
        if (more := self._throttle.admit()) is not None:
            _log.warning("more comes in at %s than can be answered soon: calls are refused with 503%s", door, more)
        return Overload()

    def close(self, seconds: float) -> None:
        """Let nothing more begin, and wait up to `seconds` for what has begun."""
        for queue in self._queues:
            queue.shut_down(wait=False)

        def wait_for_all() -> None:
            for queue in self._queues:
                queue.shut_down(wait=True)

        # A pool is waited for without limit, or not at all: so a thread waits that need not be waited for.
        waiter = Thread(target=wait_for_all, name="cofio-calls-end", daemon=True)
        waiter.start()
        waiter.join(seconds)


class _Waiter(NamedTuple):
    since: float
    turn: Future[None]


class CallQueue:
    """Runs calls in a few threads. All of its state belongs to the event loop, so it needs no lock."""

    def __init__(self, threads: int, door: str, load: ServerLoad, *, max_seconds: float = MAX_CALL_SECONDS) -> None:
        """A call that would wait and run for longer than `max_seconds` is refused."""
        self.door = door
        self._threads = threads
        self._load = load
        self._max_seconds = max_seconds
        self._pool = ThreadPoolExecutor(threads, f"cofio-{door}")
        self._burst = min(MAX_BURST, BURST_PER_THREAD * threads)
        self._average = FIRST_AVERAGE_SECONDS
        self._running: Counter[str] = Counter()
        """Threads at work, by client."""
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        """Waiting calls by client; the client whose turn is next stands first."""
        load.add_queue(self)

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        return sum(map(len, self._queues.values()))

    def check_room(self, client: str | None = None) -> None:
        """Raise Overload if one more call would have to wait for too long.

        A client with fewer waiting calls than another has room: the other makes some for it.
        """
        if self._is_full():
            own = None if client is None else len(self._queues.get(client, ()))
            if own is None or own + 1 >= max(map(len, self._queues.values())):
                raise self._load.refuse(self.door)

    def _is_full(self) -> bool:
        room, foreseen = self._threads, FORESEEN_SHARE * self._max_seconds
        if not self._load.is_late:
            rounds = foreseen / max(self._average, 1e-6) - 1  # the last is the call's own
            oldest = min((queue[0].since for queue in self._queues.values()), default=monotonic())
            if monotonic() - oldest > foreseen:  # the calls at hand take longer than those before them
                rounds = 0
            room = min(MAX_WAITING, max(self._burst, int(rounds * self._threads)))
        return self.waiting >= room

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
        used, is_hurried = 0.0, self._load.has_others() and not self._load.is_greedy(client)

        def measure() -> Result:
            nonlocal used
            set_hurry(is_hurried)
            began = thread_time()
            try:
                return work()
            finally:
                used = thread_time() - began

        begun = monotonic()
        try:
            if is_gone is not None and is_gone():
                raise ClientDisconnect
            return await get_running_loop().run_in_executor(self._pool, measure)
        finally:
            self._average += AVERAGE_WEIGHT * (monotonic() - begun - self._average)
            self._load.note_use(client, used)
            self._end_turn(client)

    async def _take_turn(self, client: str) -> None:
        self._load.note_call(client)
        if not self._queues and self._may_run(client):
            self._begin_turn(client)
            return
        if self._is_full():
            self._drop_newest()
        waiter = _Waiter(monotonic(), get_running_loop().create_future())
        self._queues.setdefault(client, deque()).append(waiter)
        self.start_next()
        try:
            await waiter.turn
        except BaseException:
            if waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self._end_turn(client)  # it was cancelled at the moment when its turn came
            elif waiter in self._queues.get(client, ()):
                self._queues[client].remove(waiter)
                self._forget_if_empty(client)
            raise

    def _may_run(self, client: str) -> bool:
        """Return whether there is a thread for a client: one is left free for others, where others call, too."""
        if self._running.total() >= self._threads:
            return False
        if not self._load.has_others():
            return True
        is_first = not self._load.running[client]
        return is_first or (not self._load.is_greedy(client) and self._running[client] < self._threads - 1)

    def _begin_turn(self, client: str) -> None:
        self._running[client] += 1
        self._load.running[client] += 1

    def _end_turn(self, client: str) -> None:
        for running in (self._running, self._load.running):
            running[client] -= 1
            if not running[client]:
                del running[client]
        self._load.start_next(self)

    def start_next(self) -> None:
        """Give free threads to the clients whose turn it is."""
        while (client := next(filter(self._may_run, self._queues), None)) is not None:
            waiter = self._queues[client].popleft()
            self._queues.move_to_end(client)
            self._forget_if_empty(client)
            if not waiter.turn.done():  # else it was cancelled a moment ago
                self._begin_turn(client)
                waiter.turn.set_result(None)

    def refuse_late(self) -> None:
        """Refuse the calls that have waited for too long."""
        patience = self._max_seconds if self.waiting >= self._burst else max(self._max_seconds, MAX_WAIT_SECONDS)
        for client, queue in list(self._queues.items()):
            while queue and monotonic() - queue[0].since > patience:
                self._refuse(queue.popleft())
            self._forget_if_empty(client)

    def _drop_newest(self) -> None:
        """Refuse the newest call of the client that has the most waiting."""
        client = max(self._queues, key=lambda each: len(self._queues[each]))
        self._refuse(self._queues[client].pop())
        self._forget_if_empty(client)

    def _refuse(self, waiter: _Waiter) -> None:
        if not waiter.turn.done():
            waiter.turn.set_exception(self._load.refuse(self.door))

    def _forget_if_empty(self, client: str) -> None:
        if not self._queues[client]:
            del self._queues[client]

    def shut_down(self, *, wait: bool) -> None:
        """Begin nothing any more; with `wait`, wait for what has begun."""
        self._pool.shutdown(wait=wait, cancel_futures=True)


def get_gone_check(scope: Scope) -> IsGone | None:
    """Return what tells whether the client of a request has closed the connection, where that can be known."""
    check: IsGone | None = scope["state"].get(IS_GONE)
    return check


def get_client(scope: Scope) -> str:
    """Return the name by which waiting is shared fairly: that of the token where there are several, or none."""
    return str(scope["state"].get(CLIENT, ""))
