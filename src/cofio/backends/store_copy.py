"""A whole store, carried from one backend to another: records, the vectors that were made of them, and checkpoints.

It can be done again after it was cut off: what the target has already, and as new, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..values.changes import PrecomputedVector, Put
from ..values.progress import Progress
from ..values.records import Draft, Record
from . import rules
from .checkpoint_interface import CheckpointRows, PendingWrite, StoredCheckpoint, ThreadKey
from .record_interface import Transaction

if TYPE_CHECKING:
    from ..values.changes import Vector
    from .interface import Backend

AT_ONCE = 200  # parts that are stored in one transaction
_FIELDS = [field.name for field in fields(Draft)]


class StoredRecord(NamedTuple):
    """A record with the vectors that were given with it, and those that were made of its present text."""

    record: Record
    vectors: Mapping[str, Vector]
    """By their embedder."""


class StoredPending(NamedTuple):
    """What a task wrote after a checkpoint."""

    thread: ThreadKey
    id: str
    write: PendingWrite


StorePart: TypeAlias = StoredRecord | StoredCheckpoint | StoredPending


class Inventory:
    """How many parts of each kind there are, and a sum of their digests, in whatever order they come.

    Records that are to expire are known one by one: some may be gone when the copy is looked at.
    """

    def __init__(self) -> None:
        self.records = self.vectors = self.checkpoints = self.pending = 0
        self._sum = 0
        self._expiring: dict[str, int] = {}

    def add(self, part: StorePart) -> None:
        """Count one more."""
        match part:
            case StoredRecord(record, vectors):
                self.records += 1
                self.vectors += len(vectors)
                given = sorted((record.given or {}).items())
                made = sorted((name, vector.astype("<f2").tobytes()) for name, vector in vectors.items())
                content: object = (record, given, made)
            case StoredCheckpoint():
                self.checkpoints += 1
                content = (
                    part.thread,
                    part.id,
                    part.parent,
                    part.created_at,
                    part.expires_at,
                    part.metadata,
                    part.body,
                )
            case StoredPending():
                self.pending += 1
                content = tuple(part)
        digest = int.from_bytes(blake2b(repr(content).encode(), digest_size=16).digest())
        if isinstance(part, StoredRecord) and part.record.expires_at is not None:
            self._expiring[part.record.id] = digest
        else:
            self._sum += digest

    def is_copy_of(self, other: Inventory) -> bool:
        """Whether it is the same, but for what has expired since the other was taken."""
        mine, others = self._get_lasting(), other._get_lasting()
        return mine == others and self._expiring.items() <= other._expiring.items()

    def _get_lasting(self) -> tuple[int, int, int, int]:
        return self._sum, self.records - len(self._expiring), self.checkpoints, self.pending

    def __str__(self) -> str:
        return f"{self.records} records, {self.vectors} vectors, {self.checkpoints} checkpoints"


def copy(source: Backend, target: Backend, progress: Progress | None = None) -> Inventory:
    """Carry everything over that has not expired, and return what that was."""
    total, done, carried = source.maintenance.stats(None), 0, Inventory()
    rows: dict[int, int] = {}
    dumped = source.dump()
    while parts := tuple(islice(dumped, AT_ONCE)):
        target.transact(partial(_store, parts=parts, rows=rows))
        for part in parts:
            carried.add(part)
        done += len(parts)
        if progress:
            progress("copy", done, max(done, total.records + total.checkpoints))
    return carried


def take_inventory(backend: Backend, progress: Progress | None = None) -> Inventory:
    """Count all that a store holds."""
    total, found = backend.maintenance.stats(None), Inventory()
    for done, part in enumerate(backend.dump(), 1):
        found.add(part)
        if progress and done % AT_ONCE == 0:
            progress("verify", done, max(done, total.records + total.checkpoints))
    return found


def _store(transaction: Transaction, parts: tuple[StorePart, ...], rows: dict[int, int]) -> None:
    """Store some parts. `rows` says which row of the target each checkpoint of the source has become."""
    puts = list(_list_puts(parts))
    rules.apply(transaction, puts, rules.prepare(puts))
    checkpoints = transaction.checkpoints
    for part in parts:
        if isinstance(part, StoredCheckpoint):
            rows[part.row] = _restore(checkpoints, part, rows)
        elif isinstance(part, StoredPending):
            checkpoints.write_pending(part.thread, part.id, [(part.write, False)])


def _list_puts(parts: tuple[StorePart, ...]) -> Iterator[Put]:
    for part in parts:
        if isinstance(part, StoredRecord):
            draft = Draft(**{name: getattr(part.record, name) for name in _FIELDS})
            vectors = [PrecomputedVector(embedder, vector) for embedder, vector in part.vectors.items()]
            yield Put(draft=draft, how="restore", vector=vectors[0] if vectors else None)
            for vector in vectors[1:]:
                yield Put(draft=draft, how="restore", vector=vector)


def _restore(checkpoints: CheckpointRows, part: StoredCheckpoint, rows: Mapping[int, int]) -> int:
    found = checkpoints.find_for_save(part.thread, part.id, None)[0]
    base = None if part.base is None else rows[part.base]
    return checkpoints.restore(part._replace(base=base)) if found is None else found
