"""Checkpoints as changes of one another, over any storage: what a save costs is what is new in the state."""

from __future__ import annotations

import asyncio
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import uuid4

from ..checkpoints.cache import SizedCache
from ..checkpoints.chains import BaseChoice
from ..checkpoints.deltas import diff, patch
from ..values.errors import Invalid, Unavailable
from .concurrency import in_thread
from .events import CHECKPOINT_LOADED, CHECKPOINT_SAVED, emit
from .state import AgentState

P = ParamSpec("P")
T = TypeVar("T")

CACHED = 64  # states
CACHED_BYTES = 32 * 2**20
LARGE = 100_000  # bytes of JSON; to work on more would hold up everything else that the event loop has to do
ALL = 2**31  # more than a thread has


@dataclass
class CheckpointMetadata:
    """What is known of a checkpoint without its state."""

    checkpoint_id: str
    thread_id: str
    parent_id: str | None = None
    """The checkpoint that its data is a change of."""
    is_full: bool = True
    chain_depth: int = 0
    """How many changes lead to it from a whole state, at most."""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    size_bytes: int = 0
    """The size of the whole state as JSON."""
    compressed_size_bytes: int = 0
    """The size of what is stored."""
    place: int = 0
    """Counts the saves since a whole one: says what the next is best a change of."""


@dataclass
class DeltaCheckpoint:
    """A checkpoint as it is stored: compressed JSON of a change, or of the whole state."""

    metadata: CheckpointMetadata
    data: bytes
    is_delta: bool = True

    @property
    def compression_ratio(self) -> float:
        """How many times larger the state is than what is stored of it."""
        stored = self.metadata.compressed_size_bytes
        return self.metadata.size_bytes / stored if stored > 0 else 1.0


class DeltaStorage(ABC):
    """Where the checkpoints of a DeltaCheckpointer are.

    They are listed newest first by their `created_at`. A checkpointer gives each save of a thread a later one than all
    before it; what it only stores again as a change of something else keeps its own.
    """

    @abstractmethod
    async def store(self, thread_id: str, checkpoint_id: str, checkpoint: DeltaCheckpoint) -> None:
        """Store a checkpoint; one that is there already is replaced, at once or not at all.

        Stored again with another `created_at` it is the newest; with the same, it stays where it is among the others.
        """

    @abstractmethod
    async def retrieve(self, thread_id: str, checkpoint_id: str) -> DeltaCheckpoint | None:
        """The checkpoint with this id."""

    @abstractmethod
    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[CheckpointMetadata]:
        """The thread's checkpoints, newest first."""

    @abstractmethod
    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or the whole thread; whether there was one."""


class InMemoryDeltaStorage(DeltaStorage):
    """Checkpoints for as long as the process lives."""

    def __init__(self) -> None:
        self._storage: dict[str, dict[str, DeltaCheckpoint]] = {}

    async def store(self, thread_id: str, checkpoint_id: str, checkpoint: DeltaCheckpoint) -> None:
        """Store a checkpoint."""
        thread = self._storage.setdefault(thread_id, {})
        there = thread.get(checkpoint_id)
        if there is not None and there.metadata.created_at != checkpoint.metadata.created_at:
            del thread[checkpoint_id]
        thread[checkpoint_id] = checkpoint

    async def retrieve(self, thread_id: str, checkpoint_id: str) -> DeltaCheckpoint | None:
        """The checkpoint with this id."""
        return self._storage.get(thread_id, {}).get(checkpoint_id)

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[CheckpointMetadata]:
        """The thread's checkpoints, newest first."""
        newest: list[CheckpointMetadata] = []
        for checkpoint in reversed(self._storage.get(thread_id, {}).values()):
            if len(newest) >= limit:
                break
            newest.append(checkpoint.metadata)
        return newest

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or the whole thread; whether there was one."""
        if checkpoint_id is None:
            return self._storage.pop(thread_id, None) is not None
        thread = self._storage.get(thread_id, {})
        found = thread.pop(checkpoint_id, None) is not None
        if not thread:
            self._storage.pop(thread_id, None)
        return found


class DeltaCheckpointer:
    """Keeps states as changes of earlier ones, over any DeltaStorage.

    `max_chain_depth` is how many changes a load may have to go through; what a state is a change of is chosen so that
    even a few are enough for hundreds of saves. `compression_level` is zlib's, from 0 to 9.
    For checkpoints that are durable without a storage of one's own, see CofioCheckpointer.
    """

    def __init__(
        self, storage: DeltaStorage | None = None, max_chain_depth: int = 5, compression_level: int = 6
    ) -> None:
        if max_chain_depth < 0:
            raise ValueError("max_chain_depth must be at least 0")
        if not 0 <= compression_level <= 9:
            raise ValueError("compression_level must be from 0 to 9")
        self.storage = storage if storage is not None else InMemoryDeltaStorage()
        self.max_chain_depth = max_chain_depth
        self.compression_level = compression_level
        # What is stored and the state as JSON text. What a caller does to a state that it was given cannot reach into
        # it, and what another process stores under the same id is told from what is known here.
        self._cache: SizedCache[tuple[str, str], tuple[bytes, bytes]] = SizedCache(
            items=CACHED, size=CACHED_BYTES, measure=lambda cached: len(cached[0]) + len(cached[1])
        )
        self._lock = asyncio.Lock()

    async def save(self, state: AgentState, thread_id: str, checkpoint_id: str | None = None) -> str:
        """Keep a state under a new id, or under this one in place of what it held; the id.

        A save that breaks off leaves every state as it was.
        """
        _check_id("thread_id", thread_id)
        if checkpoint_id not in (None, ""):
            _check_id("checkpoint_id", checkpoint_id)
        saved_id = checkpoint_id or uuid4().hex
        document = state.to_checkpoint()
        try:
            plain = await _run(_is_larger(document, LARGE), _dump, document)
        except RecursionError:
            raise Invalid("state", "is nested too deep to be written as JSON") from None
        async with self._lock:
            if checkpoint_id:
                await self._rebase_children(thread_id, saved_id)
            before = await self.storage.list_checkpoints(thread_id, 2)
            newest = next((each for each in before if each.checkpoint_id != saved_id), None)
            checkpoint = await self._encode(thread_id, saved_id, plain, await self._find_base(thread_id, newest))
            # Also where the clock stands still or goes back: the storage goes by it.
            latest = max((each.created_at + timedelta(microseconds=1) for each in before), default=None)
            if latest is not None and latest > checkpoint.metadata.created_at:
                checkpoint.metadata.created_at = latest
            await self.storage.store(thread_id, saved_id, checkpoint)
            self._remember(checkpoint, plain)
        emit(CHECKPOINT_SAVED, run_id=state.run_id, thread_id=thread_id, checkpoint_id=saved_id)
        return saved_id

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """The state with this id, else the newest; None when there is none."""
        try:
            found = await self._read(thread_id, checkpoint_id)
        except _Inconsistent:  # by a save or a delete at the same time: not a second time while none can begin
            async with self._lock:
                found = await self._read(thread_id, checkpoint_id)
        if found is None:
            return None
        checkpoint_id, plain = found
        state = await _run(len(plain) > LARGE, _load_state, plain)
        emit(CHECKPOINT_LOADED, run_id=state.run_id, thread_id=thread_id, checkpoint_id=checkpoint_id)
        return state

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """The ids of the thread's checkpoints, newest first."""
        return [each.checkpoint_id for each in await self.storage.list_checkpoints(thread_id, limit)]

    async def get_metadata(self, thread_id: str, checkpoint_id: str) -> CheckpointMetadata | None:
        """What is known of a checkpoint without its state."""
        checkpoint = await self.storage.retrieve(thread_id, checkpoint_id)
        return checkpoint.metadata if checkpoint else None

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or the whole thread; whether there was one.

        What was kept as a change of the checkpoint is first stored as a change of something else: a process that ends
        in between leaves every state as it was.
        """
        async with self._lock:
            if checkpoint_id is not None:
                return await self._delete_one(thread_id, checkpoint_id)
            self._cache.drop_where(lambda key: key[0] == thread_id)
            return await self.storage.delete(thread_id)

    async def get_storage_stats(self, thread_id: str) -> dict[str, Any]:
        """How many checkpoints a thread has, how many are whole, and the bytes of the states and of what is stored."""
        all_of_them = await self.storage.list_checkpoints(thread_id, ALL)
        total = sum(each.size_bytes for each in all_of_them)
        stored = sum(each.compressed_size_bytes for each in all_of_them)
        full = sum(each.is_full for each in all_of_them)
        return {
            "total_checkpoints": len(all_of_them),
            "total_size": total,
            "compressed_size": stored,
            "compression_ratio": total / stored if stored > 0 else 1.0,
            "full_checkpoints": full,
            "delta_checkpoints": len(all_of_them) - full,
        }

    async def _delete_one(self, thread_id: str, checkpoint_id: str) -> bool:
        if not await self._rebase_children(thread_id, checkpoint_id):
            return False
        self._cache.drop([(thread_id, checkpoint_id)])
        return await self.storage.delete(thread_id, checkpoint_id)

    async def _rebase_children(self, thread_id: str, checkpoint_id: str) -> bool:
        """Store what is a change of this checkpoint as changes of something else; whether the checkpoint is there."""
        going = await self.storage.retrieve(thread_id, checkpoint_id)
        if going is None:
            return False
        parent = None
        if going.metadata.parent_id is not None:
            parent = await self.get_metadata(thread_id, going.metadata.parent_id)
        children = [
            each
            for each in reversed(await self.storage.list_checkpoints(thread_id, ALL))
            if each.parent_id == checkpoint_id
        ]
        for child in children:
            plain = await self._read_plain(thread_id, child.checkpoint_id)
            if plain is None:
                continue
            moved = await self._encode(thread_id, child.checkpoint_id, plain, parent)
            moved.metadata = replace(moved.metadata, created_at=child.created_at, place=child.place)
            await self.storage.store(thread_id, child.checkpoint_id, moved)
            self._remember(moved, plain)
            parent = parent or moved.metadata  # its siblings become changes of the first one that is whole
        return True

    async def _find_base(self, thread_id: str, newest: CheckpointMetadata | None) -> CheckpointMetadata | None:
        """The checkpoint that the one after `newest` is stored as a change of, with the place before its own."""
        if newest is None:
            return None
        choice: BaseChoice[_Step] = BaseChoice(newest.place, self.max_chain_depth)
        step: CheckpointMetadata | None = newest
        while step is not None and not choice.is_made:
            choice.offer(_Step(step))
            step = await self.get_metadata(thread_id, step.parent_id) if step.parent_id is not None else None
        return choice.best and replace(choice.best.metadata, place=newest.place)

    async def _encode(
        self, thread_id: str, id: str, plain: bytes, parent: CheckpointMetadata | None
    ) -> DeltaCheckpoint:
        """A checkpoint of the state, as a change of its parent unless that is no smaller."""
        before = await self._read_plain(thread_id, parent.checkpoint_id) if parent else None
        large = len(plain) > LARGE or (before is not None and len(before) > LARGE)
        data, is_change = await _run(large, _pack_next, before, plain, self.compression_level)
        known = CheckpointMetadata(id, thread_id, size_bytes=len(plain), compressed_size_bytes=len(data))
        if parent is not None and is_change:
            known = replace(
                known, parent_id=parent.checkpoint_id, is_full=False, chain_depth=parent.chain_depth + 1,
                place=parent.place + 1,
            )  # fmt: skip
        return DeltaCheckpoint(known, data, is_delta=is_change)

    async def _read(self, thread_id: str, checkpoint_id: str | None) -> tuple[str, bytes] | None:
        """The id of a checkpoint, or of the newest, and its state as JSON text; None when it is not there."""
        if checkpoint_id is not None:
            plain = await self._read_plain(thread_id, checkpoint_id)
            return None if plain is None else (checkpoint_id, plain)
        newest = await self.storage.list_checkpoints(thread_id, limit=1)
        if not newest:
            return None
        plain = await self._read_plain(thread_id, newest[0].checkpoint_id)
        if plain is None:
            raise _Inconsistent(f"checkpoint {newest[0].checkpoint_id!r} is listed, and not in the storage")
        return newest[0].checkpoint_id, plain

    async def _read_plain(self, thread_id: str, checkpoint_id: str) -> bytes | None:
        """A checkpoint's state as JSON text; None when it is not there."""
        checkpoint = await self.storage.retrieve(thread_id, checkpoint_id)
        if checkpoint is None:
            return None
        cached = self._cache.get((thread_id, checkpoint_id))
        if cached is not None and cached[0] == checkpoint.data:
            return cached[1]
        asked, changes = checkpoint, []
        while checkpoint.metadata.parent_id is not None:
            changes.append(checkpoint.data)
            checkpoint = await self.storage.retrieve(thread_id, checkpoint.metadata.parent_id)
            if checkpoint is None:
                raise _Inconsistent(f"checkpoint {checkpoint_id!r}: one that it is a change of is not in the storage")
        try:
            plain = await _run(asked.metadata.size_bytes > LARGE, _unpack_chain, checkpoint.data, changes)
        except (zlib.error, ValueError, TypeError, RecursionError) as error:
            raise _Inconsistent(f"checkpoint {checkpoint_id!r} is damaged ({error})") from error
        self._remember(asked, plain)
        return plain

    def _remember(self, checkpoint: DeltaCheckpoint, plain: bytes) -> None:
        key = (checkpoint.metadata.thread_id, checkpoint.metadata.checkpoint_id)
        self._cache.put(key, (checkpoint.data, plain))


class _Step(NamedTuple):
    """A stored checkpoint as part of a chain."""

    metadata: CheckpointMetadata

    @property
    def depth(self) -> int:
        return self.metadata.chain_depth

    @property
    def position(self) -> int:
        return self.metadata.place


class _Inconsistent(Unavailable):
    """What was read does not fit together: it was changed in between, or is damaged."""


async def _run(large: bool, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `call` returns; where it has much to do, beside the event loop."""
    return await in_thread(call, *args, **kwargs) if large else call(*args, **kwargs)


def _pack_next(before: bytes | None, plain: bytes, level: int) -> tuple[bytes, bool]:
    """What is to be stored of a state, and whether that is a change of the one before: whichever is smaller."""
    if before is None:
        return zlib.compress(plain, level), False
    # With a sum of the state that it leads to: what it is a change of may have been replaced while it was read.
    change = zlib.compress(_dump([zlib.crc32(plain), diff(json.loads(before), json.loads(plain))]), level)
    if len(change) * 4 > len(plain):  # perhaps no smaller than the whole
        whole = zlib.compress(plain, level)
        if len(whole) <= len(change):
            return whole, False
    return change, True


def _unpack_chain(whole: bytes, changes: list[bytes]) -> bytes:
    """The state that changes of a whole one lead to, the last change first; ValueError when they do not fit it."""
    plain = zlib.decompress(whole)
    if changes:
        state = json.loads(plain)
        for data in reversed(changes):
            sum_of_it, change = json.loads(zlib.decompress(data))
            state = patch(state, change)
        plain = _dump(state)
        if zlib.crc32(plain) != sum_of_it:
            raise ValueError("it is a change of something else than what is there")
    return plain


def _load_state(plain: bytes) -> AgentState:
    return AgentState.from_checkpoint(json.loads(plain))


def _dump(state: Any) -> bytes:
    return json.dumps(state, ensure_ascii=True, separators=(",", ":")).encode()


def _is_larger(value: Any, size: int) -> bool:
    """Whether a JSON value takes more than about `size` bytes; found out without writing it."""
    left = [value]
    while left and size > 0:
        each = left.pop()
        size -= 8
        if isinstance(each, str):
            size -= len(each)
        elif isinstance(each, dict):
            left.extend(each)
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
    return size <= 0


def _check_id(name: str, id: object) -> None:
    if not isinstance(id, str) or not id:
        raise ValueError(f"{name} must be a string that is not empty")
