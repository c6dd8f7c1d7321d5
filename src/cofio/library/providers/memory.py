"""Checkpoints in this process, for tests and short runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ..checkpointer import CheckpointerCapabilities
from .document_checkpointer import Clock, Document, DocumentCheckpointer, Heading, decode, encode

__all__ = ["MemoryCheckpointer"]

P = ParamSpec("P")
T = TypeVar("T")


class _StoredCheckpoint(NamedTuple):
    """A checkpoint as text, so that what a caller does to a state he got or gave changes nothing here."""

    state: str
    metadata: str
    created_at: datetime
    turn: int


class MemoryCheckpointer(DocumentCheckpointer):
    """Keeps checkpoints in a dict; they are gone when the process ends, and no other process sees them.

    Everything works but a time to live; `search` reads all that there is, and finds words within words too.
    `persistent_checkpoint_ids` holds for as long as the process lives.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._stored_threads: dict[str, dict[str, _StoredCheckpoint]] = {}
        self._turn = 0
        self._lock = threading.RLock()

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities.all_but("ttl")

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._stored_threads.clear()

    def get_thread_ids(self) -> list[str]:
        """List the threads that have checkpoints, in the order in which they came."""
        with self._lock:
            return list(self._stored_threads)

    def get_checkpoint_count(self, thread_id: str | None = None) -> int:
        """Count the checkpoints of a thread, or of all."""
        with self._lock:
            if thread_id is not None:
                return len(self._stored_threads.get(thread_id, ()))
            return sum(map(len, self._stored_threads.values()))

    async def _cross(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return call(*args, **kwargs)  # nothing here waits for anything

    def _put(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any], *, fresh: bool) -> None:
        kept, about = encode(state), encode(metadata)
        with self._lock:
            self._turn += 1
            there = self._stored_threads.setdefault(thread, {})
            there.pop(id, None)
            there[id] = _StoredCheckpoint(kept, about, self._now(), self._turn)

    def _get(self, thread: str, id: str | None) -> Document | None:
        with self._lock:
            there = self._stored_threads.get(thread, {})
            found = next(reversed(there), None) if id is None else id
            kept = None if found is None else there.get(found)
        if found is None or kept is None:
            return None
        return Document(
            thread=thread,
            id=found,
            created_at=kept.created_at,
            metadata=decode(kept.metadata),
            turn=kept.turn,
            state=decode(kept.state),
        )

    def _headings(self, thread: str | None, limit: int) -> Iterator[Heading]:
        with self._lock:
            threads = self._stored_threads if thread is None else {thread: self._stored_threads.get(thread, {})}
            every = [(name, key, kept) for name, there in threads.items() for key, kept in there.items()]
        every.sort(key=lambda each: -each[2].turn)
        for name, key, kept in every[:limit]:
            about = decode(kept.metadata)
            yield Heading(thread=name, id=key, created_at=kept.created_at, metadata=about, turn=kept.turn)

    def _remove(self, thread: str, id: str | None) -> bool:
        with self._lock:
            if id is None:
                return self._stored_threads.pop(thread, None) is not None
            there = self._stored_threads.get(thread, {})
            gone = there.pop(id, None) is not None
            if gone and not there:
                del self._stored_threads[thread]
            return gone

    def _expunge(self, heading: Heading) -> bool:
        with self._lock:
            kept = self._stored_threads.get(heading.thread, {}).get(heading.id)
            return kept is not None and kept.turn == heading.turn and self._remove(heading.thread, heading.id)

    def _threads(self) -> list[str]:
        with self._lock:
            newest = {thread: next(reversed(there.values())).turn for thread, there in self._stored_threads.items()}
        return sorted(newest, key=lambda thread: -newest[thread])

    def _copy(self, source: str, target: str) -> bool:
        with self._lock:
            return super()._copy(source, target)

    def __repr__(self) -> str:
        return f"MemoryCheckpointer(threads={len(self._stored_threads)}, checkpoints={self.get_checkpoint_count()})"
