"""What the library does, reported to observers: without one, an event costs one look at an empty tuple.

    with observe(print):
        await manager.on_session_start(state)

Names of events, and what their data holds:

    memory.checkpoint.saved       thread_id, checkpoint_id
    memory.checkpoint.loaded      thread_id, checkpoint_id
    memory.compactor.triggered    strategy, messages_before, and threshold or tokens_before and trigger
    memory.compactor.completed    strategy, messages_before, messages_after, summarized_count, duration_ms,
                                  degraded (there is a function for summaries, and it could not be used)
    memory.conversation.added     message_count, roles
    memory.conversation.pruned    strategy, window_size, removed_count
    memory.manager.injected       memory_count, types
    memory.manager.extracted      memory_count, types, keys
    memory.manager.failed         stage, error
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from types import TracebackType
from typing import Any, TypeAlias
from uuid import uuid4

CHECKPOINT_SAVED = "memory.checkpoint.saved"
CHECKPOINT_LOADED = "memory.checkpoint.loaded"
COMPACTOR_TRIGGERED = "memory.compactor.triggered"
COMPACTOR_COMPLETED = "memory.compactor.completed"
CONVERSATION_ADDED = "memory.conversation.added"
CONVERSATION_PRUNED = "memory.conversation.pruned"
MANAGER_INJECTED = "memory.manager.injected"
MANAGER_EXTRACTED = "memory.manager.extracted"
MANAGER_FAILED = "memory.manager.failed"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamEvent:
    """One thing that happened, in the run that it belongs to, if it belongs to one."""

    run_id: str | None
    event_type: str
    data: dict[str, Any]
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    event_id: str = field(default_factory=lambda: str(uuid4()))

    def to_dict(self) -> dict[str, Any]:
        """The event for a log or a wire, with its time as text."""
        return {
            "event_id": self.event_id,
            "run_id": self.run_id,
            "event_type": self.event_type,
            "timestamp": self.timestamp.isoformat(),
            "data": self.data,
        }


Observer: TypeAlias = Callable[[StreamEvent], Awaitable[object] | object]
"""Is told of an event; what it returns is awaited if that can be."""

_run: ContextVar[str | None] = ContextVar("cofio_run_id", default=None)
_telling: ContextVar[bool] = ContextVar("cofio_telling", default=False)
_lock = Lock()
_observations: tuple[Observation, ...] = ()
_tasks: set[asyncio.Task[None]] = set()  # the loop itself does not hold on to its tasks


class Observation:
    """An observer that is being told; call it, or leave its `with` block, to end that."""

    def __init__(self, callback: Observer) -> None:
        self._callback = callback
        self._loop = _find_running_loop()

    def __call__(self) -> None:
        """Tell the observer nothing more. A second time does nothing."""
        global _observations
        with _lock:
            _observations = tuple(each for each in _observations if each is not self)

    def __enter__(self) -> Observation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self()

    def tell(self, event: StreamEvent) -> None:
        """Tell the observer; whatever goes wrong with it is logged and stays here."""
        try:
            answer = self._callback(event)
            if isinstance(answer, Awaitable):
                self._follow(_await_observer(answer, event.event_type))
        except Exception:
            logger.warning("an observer of %s failed", event.event_type, exc_info=True)

    def _follow(self, work: Any) -> None:
        """See an asynchronous observer through: on the loop of this thread, else on its own, else here and now."""
        loop = _find_running_loop()
        if loop is not None:
            task = loop.create_task(work)
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)
        elif self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(work, self._loop)
        else:
            asyncio.run(work)


def observe(callback: Observer) -> Observation:
    """Have a function told of every event from now on, in the order in which they happen.

    An `async def` is scheduled on the running loop. An observer may be told from any thread; what it raises is logged,
    and events that it causes itself are not told, so that it cannot go round in circles.

    Raises:
        TypeError: `callback` cannot be called.
    """
    global _observations
    if not callable(callback):
        raise TypeError(f"observe needs a function that takes an event, not {type(callback).__name__}")
    observation = Observation(callback)
    with _lock:
        _observations = (*_observations, observation)
    return observation


def emit(event_type: str, /, *, run_id: str | None = None, **data: Any) -> None:
    """Tell every observer; never raises. The run is that of the context, else `run_id`."""
    observations = _observations
    if not observations or _telling.get():
        return
    token = _telling.set(True)
    try:
        event = StreamEvent(run_id=_run.get() or run_id, event_type=event_type, data=data)
        for observation in observations:
            observation.tell(event)
    finally:
        _telling.reset(token)


class run_context:  # noqa: N801 - used like a function, as `with run_context("r1")` or `async with`
    """Names the run that the events of a block belong to; without a name it gets a new one."""

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id or uuid4().hex
        self._tokens: list[Token[str | None]] = []

    def __enter__(self) -> str:
        self._tokens.append(_run.set(self.run_id))
        return self.run_id

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _run.reset(self._tokens.pop())

    async def __aenter__(self) -> str:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)


def current_run_id() -> str | None:
    """The run that events belong to here."""
    return _run.get()


async def _await_observer(answer: Awaitable[object], event_type: str) -> None:
    try:
        await answer
    except Exception:
        logger.warning("an observer of %s failed", event_type, exc_info=True)


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
