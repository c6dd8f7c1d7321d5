"""A whole store, carried from one backend to another: records, what was made of them for searches, and checkpoints.

All that a store holds is read in an order that the target has too, so both are walked through together, like two sorted
lists: what the target lacks is added, what it has otherwise is replaced, and what the source no longer has is removed.
A copy that was cut off goes on in this way, whatever happened to its source meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ..values.errors import Unavailable
from ..values.progress import Progress
from ..values.records import Record
from . import rules
from .checkpoint_interface import PendingWrite, StoredCheckpoint, ThreadKey
from .record_interface import ChangeNumbers

if TYPE_CHECKING:
    from ..values.changes import Vector
    from .interface import Backend, Identity

MOST_PARTS = 500  # that are stored in one transaction
MOST_BYTES = 8_000_000  # about as many, so that a copy takes little memory whatever it copies
PART_BYTES = 500  # that a part takes beside its texts


class StoredRecord(NamedTuple):
    """A record with the vectors that were given with it, and with what an embedder made of its present text."""

    record: Record
    vectors: Mapping[str, Vector]
    """By their embedder."""
    codes: Mapping[str, bytes]
    """Those of the text's tokens, by their embedder, as far as they were made."""
    numbers: ChangeNumbers


class StoredPending(NamedTuple):
    """What a task wrote after a checkpoint."""

    thread: ThreadKey
    id: str
    write: PendingWrite


StorePart: TypeAlias = StoredRecord | StoredCheckpoint | StoredPending


class Loader(Protocol):
    """A store that a copy is made in. No process opens it until it is finished."""

    def dump(self) -> Generator[StorePart]:
        """All that was copied so far, as `Backend.dump` gives it; nothing is pending when it is opened."""

    def load(self, parts: Sequence[StorePart], obsolete: Sequence[StorePart]) -> None:
        """Remove what is obsolete and store the parts with their numbers, durably or not at all."""

    def finish(self, identity: Identity, updated: str, progress: Progress | None) -> None:
        """Make it a store that every process can open, known by the identity of the one that it was copied from.

        `updated` is the time of the source's newest change in ISO 8601; "" when there was none.
        """


@dataclass(slots=True)
class Inventory:
    """How many parts of each kind there are, and for each kind the sum of their digests, in any order."""

    records: int = 0
    vectors: int = 0
    checkpoints: int = 0
    pending: int = 0
    _sums: dict[str, int] = field(default_factory=dict)

    def add(self, part: StorePart) -> None:
        """Count one more."""
        match part:
            case StoredRecord():
                kind = "records"
                self.records += 1
                self.vectors += len(part.vectors)
            case StoredCheckpoint():
                kind = "checkpoints"
                self.checkpoints += 1
            case StoredPending():
                kind = "pending writes"
                self.pending += 1
        self._sums[kind] = self._sums.get(kind, 0) + compute_digest(part)

    def find_difference(self, other: Inventory) -> str:
        """The first kind of part that the two do not have alike; "" when they are the same."""
        if (self.records, self.vectors) != (other.records, other.vectors):
            return "records"
        kinds = {**self._sums, **other._sums}
        return next((kind for kind in kinds if self._sums.get(kind) != other._sums.get(kind)), "")

    def __str__(self) -> str:
        return f"{self.records:,} records, {self.vectors:,} vectors, {self.checkpoints:,} checkpoints"


def compute_digest(part: StorePart) -> int:
    """A number that is the same for two parts that are alike to the last bit, on whatever backend."""
    if isinstance(part, StoredRecord):
        given = sorted((part.record.given or {}).items())
        made = sorted((name, vector.astype("<f2").tobytes()) for name, vector in part.vectors.items())
        content: object = (part.record, part.numbers, given, made, sorted(part.codes.items()))
    else:
        content = tuple(part)
    return int.from_bytes(blake2b(repr(content).encode(), digest_size=16).digest())


def group_vectors(parts: Sequence[StorePart]) -> dict[str, dict[str, Vector]]:
    """The vectors of records by their embedder, and by the ids of the records."""
    vectors: defaultdict[str, dict[str, Vector]] = defaultdict(dict)
    for part in parts:
        if isinstance(part, StoredRecord):
            for embedder, vector in part.vectors.items():
                vectors[embedder][part.record.id] = vector
    return vectors


def group_codes(parts: Sequence[StorePart]) -> dict[str, dict[str, bytes]]:
    """The token codes of records by their embedder, and by the ids of the records."""
    codes: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    for part in parts:
        if isinstance(part, StoredRecord):
            for embedder, code in part.codes.items():
                codes[embedder][part.record.id] = code
    return codes


def copy(source: Backend, target: Loader, progress: Progress | None = None) -> Inventory:
    """Carry over everything that has not expired, as of one moment, and compare it; what it was.

    Raises:
        Unavailable: the source or the target fails, or the copy is not like its source.
    """
    numbers = source.maintenance.stats(None)
    identity = source.identity()  # before: what is written meanwhile is not in the copy
    total = numbers.records + numbers.checkpoints
    if progress:
        progress("copy", 0, total)
    carried = _carry(source, target, lambda done: progress and progress("copy", done, max(done, total)))
    copied = Inventory()
    with closing(target.dump()) as parts:
        for part in parts:
            copied.add(part)
            done = copied.records + copied.checkpoints
            if progress and done % MOST_PARTS == 0:
                progress("verify", done, max(done, total))
    if kind := copied.find_difference(carried):
        raise Unavailable(
            f"the copy is not like its source: the {kind} differ (it has {copied}, of {carried}); run it again, which"
            " copies what differs"
        )
    target.finish(identity, numbers.updated, progress)
    return copied


def _carry(source: Backend, target: Loader, report: Callable[[int], object]) -> Inventory:
    carried, batch = Inventory(), _Batch(target)
    with source.snapshot() as snapshot:
        now = snapshot.now
    with closing(source.dump()) as parts, closing(target.dump()) as dumped:
        there = _Unread(dumped)
        for part in parts:
            if isinstance(part, StoredRecord) and rules.is_expired(part.record, now):
                continue
            place = _find_place(part)
            for each in there.read_before(place):
                batch.remove(each)
            if there.place != place:
                batch.add(part)
            elif compute_digest(old := there.read()) != compute_digest(part):
                batch.remove(old)
                batch.add(part)
            carried.add(part)
            if batch.is_full:
                batch.flush()
                report(carried.records + carried.checkpoints)
        for each in there.read_before(_END):
            batch.remove(each)
        batch.flush()
    return carried


_END = (3, 0)


def _find_place(part: StorePart) -> tuple[int, int]:
    """Where a part comes in a dump. Of what is pending an unfinished copy has none, so its order does not matter."""
    if isinstance(part, StoredRecord):
        return 0, part.numbers.last
    return (1, part.row) if isinstance(part, StoredCheckpoint) else (2, 0)


class _Unread:
    """The rest of a dump, of which the next part is known."""

    def __init__(self, parts: Iterator[StorePart]) -> None:
        self._parts = parts
        self._next: StorePart | None = None
        self.place = _END
        self._advance()

    def _advance(self) -> None:
        self._next = next(self._parts, None)
        self.place = _END if self._next is None else _find_place(self._next)

    def read(self) -> StorePart:
        """Return the next part."""
        part = self._next
        assert part is not None
        self._advance()
        return part

    def read_before(self, place: tuple[int, int]) -> Iterator[StorePart]:
        """Return the parts that come before a place."""
        while self.place < place:
            yield self.read()


class _Batch:
    """What is to be stored in the next transaction."""

    def __init__(self, target: Loader) -> None:
        self._target = target
        self._parts: list[StorePart] = []
        self._obsolete: list[StorePart] = []
        self._bytes = 0

    def add(self, part: StorePart) -> None:
        """Store a part."""
        self._parts.append(part)
        self._bytes += _measure(part)

    def remove(self, part: StorePart) -> None:
        """Remove what was stored before."""
        self._obsolete.append(part)
        self._bytes += _measure(part)

    @property
    def is_full(self) -> bool:
        """Whether it should be stored now."""
        return len(self._parts) + len(self._obsolete) >= MOST_PARTS or self._bytes >= MOST_BYTES

    def flush(self) -> None:
        """Store what there is, and begin again."""
        if self._parts or self._obsolete:
            self._target.load(self._parts, self._obsolete)
            self._parts, self._obsolete, self._bytes = [], [], 0


def _measure(part: StorePart) -> int:
    """About how many bytes a part takes."""
    match part:
        case StoredRecord(record, vectors, codes):
            given = sum(map(len, (record.given or {}).values()))
            made = sum(map(len, vectors.values())) + sum(map(len, codes.values()))
            return PART_BYTES + 4 * len(record.text) + 32 * given + made
        case StoredCheckpoint():
            return PART_BYTES + len(part.body) + len(part.metadata)
        case StoredPending():
            return PART_BYTES + len(part.write.value)
