"""Checkpoints in a memory: durable, small, and searched by their words."""

from __future__ import annotations

import os
from collections import OrderedDict
from datetime import timedelta
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from ..checkpoints.checkpoints import Checkpoint, Measure, lifetime
from ..engine.engine import Engine
from ..values.errors import Invalid
from .checkpointer import BaseCheckpointer, CheckpointerCapabilities
from .concurrency import in_thread
from .events import CHECKPOINT_LOADED, CHECKPOINT_SAVED, emit
from .providers.document_checkpointer import check_ids
from .state import AgentState

if TYPE_CHECKING:
    from .messages import Message

SPACE = "library"
MESSAGES = 20_000  # that are kept, of the states that were saved last, to find out quickly what is new in the next
ALWAYS = 3_000_000  # days


class _LastState(NamedTuple):
    """The messages of the state that was last saved to a thread, and what was made of them."""

    messages: tuple[Message, ...]
    dumped: list[Any]
    loose: list[int]
    """Where the messages are that have calls or metadata, in which anything may change."""
    empty: list[Any]
    """The lists and dictionaries of the others, which held nothing."""

    def extend(self, messages: tuple[Message, ...], dumped: list[Any], known: int) -> _LastState:
        """The same for a state that has the first `known` of these messages, and others after them."""
        loose, empty = [at for at in self.loose if at < known], self.empty.copy()
        for at, message in enumerate(messages[known:], known):
            if message.tool_calls or message.metadata:
                loose.append(at)
            else:
                empty += (message.tool_calls, message.metadata)
        return _LastState(messages, dumped, loose, empty)


class CofioCheckpointer(BaseCheckpointer):
    """Saves the states of agents in a memory, each as a change of an earlier one.

    An acknowledged save is durable. Several processes may use the same threads. With `ttl`, in seconds or as a
    timedelta, a checkpoint is gone that long after it was saved. Threads of another `space` are other threads.
    """

    def __init__(self, engine: Engine, *, ttl: float | timedelta | None = None, space: str = SPACE) -> None:
        if ttl is not None:
            lifetime(ttl)  # one that is none is refused here, and not at the first save
        self.engine = engine
        self.ttl = ttl
        self._space = space
        self._own = False
        self._last: OrderedDict[str, _LastState] = OrderedDict()
        self._message_count = 0
        self._lock = Lock()

    @classmethod
    def open(
        cls, store: str | os.PathLike[str] | None = None, *, ttl: float | timedelta | None = None
    ) -> CofioCheckpointer:
        """A checkpointer on the memory in the folder `store`, which it closes when it is closed."""
        checkpointer = cls(Engine.open(store), ttl=ttl)
        checkpointer._own = True
        return checkpointer

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """Every one of them."""
        return CheckpointerCapabilities.all_but()

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Keep the state, durably, and return the id of its checkpoint: the given one, or a new one."""
        saved_id = uuid4().hex if checkpoint_id in (None, "") else checkpoint_id
        await in_thread(self._save, state, thread_id, saved_id, metadata)
        emit(CHECKPOINT_SAVED, run_id=state.run_id, thread_id=thread_id, checkpoint_id=saved_id)
        return saved_id

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """Load the state of a checkpoint, or without an id of the newest; None where there is none."""
        found = await in_thread(self.engine.checkpoints.load, self._space, thread_id, checkpoint_id)
        if found is None:
            return None
        state = AgentState.from_checkpoint(found.state)
        emit(CHECKPOINT_LOADED, run_id=state.run_id, thread_id=thread_id, checkpoint_id=found.id)
        return state

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """List the ids of a thread's checkpoints, newest first."""
        check_ids(thread_id, None)
        found = await in_thread(self.engine.checkpoints.list, self._space, thread_id, ns="", limit=limit)
        return [each.id for each in found]

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Forget a checkpoint, or without an id the whole thread; whether there was something to forget."""
        return bool(await in_thread(self.engine.checkpoints.delete, self._space, thread_id, checkpoint_id))

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Tell whether there is such a checkpoint, or without an id any in the thread; no state is read."""
        return await in_thread(self.engine.checkpoints.heading, self._space, thread_id, checkpoint_id) is not None

    async def close(self) -> None:
        """Close the memory, if it was opened for this checkpointer."""
        if self._own:
            await in_thread(self.engine.close)

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Find the checkpoints in which the words of `query` came into a thread, the best first."""
        found = await in_thread(self.engine.checkpoints.search, self._space, query, limit=limit)
        return [{**_encode_metadata(each), "score": score} for each, score in found]

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """Find the checkpoints, of all threads, whose metadata has this value under this key; newest first."""
        found = await in_thread(self.engine.checkpoints.list, self._space, where={key: value}, limit=limit)
        return [_encode_metadata(each) for each in found]

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """Get the metadata that was saved with a checkpoint (the newest, without an id); None where there is none."""
        found = await in_thread(self.engine.checkpoints.heading, self._space, thread_id, checkpoint_id)
        return None if found is None else found.metadata

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Forget the checkpoints that were saved longer ago than this, and return how many."""
        days = older_than_days
        if isinstance(days, bool) or not isinstance(days, int | float) or not days >= 0:
            raise Invalid("older_than_days", f"expected a number of days, got {days!r}")
        if days > ALWAYS:
            return 0
        return await in_thread(self.engine.checkpoints.vacuum, self._space, timedelta(days=days))

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Save every checkpoint of a thread in another one too, under the same ids and in the same order.

        False, and nothing done, where the source has none.

        Raises:
            Invalid: there are checkpoints in the destination already.
        """
        return bool(await in_thread(self.engine.checkpoints.copy, self._space, source_thread_id, dest_thread_id))

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """List the threads whose ids fit the pattern, the one saved to last first."""
        return await in_thread(self.engine.checkpoints.threads, self._space, limit=limit, pattern=pattern)

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """List checkpoints of all threads with their metadata, newest first."""
        found = await in_thread(self.engine.checkpoints.list, self._space, limit=limit)
        return [_encode_metadata(each) for each in found]

    async def get_storage_stats(self, thread_id: str) -> dict[str, int]:
        """How many checkpoints a thread has, how many are whole states and how many changes, and their bytes."""
        measured: Measure = await in_thread(self.engine.checkpoints.measure, self._space, thread_id)
        return {
            "total_checkpoints": measured.checkpoints,
            "full_checkpoints": measured.whole,
            "delta_checkpoints": measured.checkpoints - measured.whole,
            "compressed_size": measured.bytes,
        }

    def __repr__(self) -> str:
        return f"CofioCheckpointer(engine={self.engine!r})"

    def _save(self, state: AgentState, thread_id: str, id: str, metadata: dict[str, Any] | None) -> None:
        dump, last = self._dump(state, thread_id)
        self.engine.checkpoints.save(self._space, thread_id, id, dump, metadata=metadata, ttl=self.ttl, owned=True)
        with self._lock:
            before = self._last.pop(thread_id, None)
            self._last[thread_id] = last
            self._message_count += len(state.messages) - (len(before.messages) if before else 0)
            while self._message_count > MESSAGES:
                self._message_count -= len(self._last.popitem(last=False)[1].messages)

    def _dump(self, state: AgentState, thread_id: str) -> tuple[dict[str, Any], _LastState]:
        """What `to_checkpoint` gives. Messages that the thread's last state had are not made again: they cannot have
        changed, but for what is in their lists and dictionaries, and it is seen at once that they are the same.
        """
        if not isinstance(state, AgentState):
            raise TypeError(f"state: expected an AgentState, got {type(state).__name__}")
        last = self._last.get(thread_id)
        if (
            last is None
            or type(state) is not AgentState
            or any(last.empty)
            or not all(map(is_, last.messages, state.messages))
        ):
            dump = state.to_checkpoint()
            return dump, _LastState((), [], [], []).extend(state.messages, dump["messages"], 0)
        known = last.dumped[: len(state.messages)]
        loose = [at for at in last.loose if at < len(known)]
        again = tuple(state.messages[at] for at in loose)
        dump = state.model_copy(update={"messages": again + state.messages[len(known) :]}).to_checkpoint()
        dumped: list[Any] = dump["messages"]
        for at, each in zip(loose, dumped, strict=False):
            known[at] = each
        dump["messages"] = known + dumped[len(loose) :]
        return dump, last.extend(state.messages, dump["messages"], len(known))


def _encode_metadata(found: Checkpoint) -> dict[str, Any]:
    described: dict[str, Any] = {
        "thread_id": found.thread,
        "checkpoint_id": found.id,
        "created_at": found.created_at.isoformat(),
        "metadata": found.metadata,
    }
    return described if found.expires_at is None else {**described, "expires_at": found.expires_at.isoformat()}
