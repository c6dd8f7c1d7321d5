"""Where records live: the Backend protocol, and the changes and answers that cross it.

A backend stores, filters and gives scores. What a score means, how two rankings become one, what is
relevant and how anything is worded is decided above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from ..values.query import Filter, Order
from ..values.records import Draft, Heading, Kind, Record, Scope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

T = TypeVar("T")
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and how many there are."""


class Made(NamedTuple):
    """A vector that need not be made: the embedder that it is of, and itself, of length one."""

    embedder: str
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Store a draft: as a new record, in place of the one with its key, or as the record it once was.

    `if_version` is the version that the key's record must have; 0 means that there must be none. The `vector` of a
    restored draft is kept if its record has that very text, and no vector of it yet.
    """

    draft: Draft
    how: Literal["new", "key", "restore"] = "new"
    if_version: int | None = None
    dedupe: bool = False
    same: bool = False
    """Whether the answer is to name a record of the scope and kind with the same text."""
    vector: Made | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Change some fields of a record, among them its scope and key."""

    id: str
    fields: Mapping[str, object]
    if_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Forget one record."""

    id: str
    if_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Forget a scope and all that is under it."""

    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacant:
    """Go on only while no record of the scope and kind has a key from `first` up to, and without, `past`."""

    scope: Scope
    kind: Kind
    first: str
    past: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Let a record expire at another time, or never, without a new version: reading it may do that.

    Nothing happens to one that is not there any more.
    """

    id: str
    expires_at: datetime | None


Change: TypeAlias = Put | Edit | Delete | Drop | Vacant | Extend


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a read may see: nothing outside these is ever returned."""

    scope: Scope
    exact: bool
    kinds: tuple[Kind, ...]
    filter: Filter | None


class Match(NamedTuple):
    """A candidate: the record's number in the backend, its score by one signal, and how telling that is.

    Relevance is from 0 to 1 and can be compared between queries: by words, the share of the query's rarest words
    that the record holds, whatever its length; by vectors, the cosine.
    """

    no: int
    score: float
    relevance: float


class Brief(NamedTuple):
    """What ranking needs to know of a candidate. A search makes hundreds, so it is a tuple, which is cheap to make."""

    no: int
    id: str
    scope: int
    parent: str | None
    position: int | None
    author: str
    created_at: int
    """Microseconds since 1970, UTC."""
    words: int
    """How many words it is found by."""
    seq: int
    """Its last change."""
    text_seq: int
    """The last change of what its vector is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Derived work that is still to do."""

    lost_words: bool
    """Whether some records cannot be found by words until the index is rebuilt."""
    vectors: int
    """Records within bounds that have no vector of their present text; counted no further than `MANY`."""
    many: bool
    """Whether there are so many without a vector that they were not counted."""


@dataclass(frozen=True, slots=True)
class ToEmbed:
    """A record that needs a vector: its number, the state of its text, and the text."""

    no: int
    text_seq: int
    text: str


@dataclass(frozen=True, slots=True)
class EmbedBatch:
    """Records that need a vector; every earlier change than `upto` that is not among them has one."""

    items: tuple[ToEmbed, ...]
    upto: int
    embedder: int
    """The backend's number for the embedder, 0 for a new one: it changes when its vectors are thrown away."""


class View(Protocol):
    """One consistent look at the records."""

    now: datetime
    """The moment that expiry is judged by."""

    def read(self, record_id: str) -> Record | None:
        """The record with this id."""

    def get(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key."""

    def same(self, scope: Scope, kind: Kind, text: str) -> Record | None:
        """The oldest record of the scope and kind with just this text, white space apart."""

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The ids that begin so, in their order."""

    def adjacent_ids(self, record_id: str) -> tuple[str, str]:
        """The ids next before and next after this one in their order, also of what has expired; "" for none."""

    def listed(
        self, bounds: Bounds, *, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> list[Record]:
        """Records within bounds in the order in which they last changed, or were made."""

    def headings(
        self, bounds: Bounds, *, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> list[Heading]:
        """The same without their texts, which are not read."""

    def count(self, bounds: Bounds) -> int:
        """How many records are within bounds."""

    def scopes(self, under: Scope, kinds: Sequence[Kind] = ()) -> list[tuple[Scope, int]]:
        """Each scope that holds records, of these kinds if any are named, with their number."""

    def keyword(self, words: Sequence[str], bounds: Bounds, limit: int) -> list[Match]:
        """The best candidates by words."""

    def semantic(self, vector: Vector, embedder: str, bounds: Bounds, limit: int) -> list[Match]:
        """The nearest candidates by vector, with their cosine."""

    def cosines(self, vector: Vector, embedder: str, nos: Sequence[int]) -> dict[int, float]:
        """The cosine of each of these candidates that has a vector."""

    def nearest(self, vector: Sequence[float], bounds: Bounds, limit: int) -> list[Match]:
        """The records whose given vectors are nearest to this one, by the cosine of the nearest of each.

        Vectors of another size cannot be compared with it, and count as none.
        """

    def given(self, record_id: str) -> dict[str, tuple[float, ...]]:
        """The vectors that were given with a record, by the part of it that each is of."""

    def briefs(self, nos: Sequence[int]) -> dict[int, Brief]:
        """What ranking needs to know of these candidates."""

    def neighbours(self, of: Sequence[Brief], reach: int, bounds: Bounds) -> list[Brief]:
        """The records within bounds that stand up to `reach` positions from these under the same parent."""

    def records(self, nos: Sequence[int]) -> dict[int, Record]:
        """The records with these numbers."""

    def in_sessions(self) -> bool:
        """Whether any record stands under another, so that what is around it may count."""

    def backlog(self, embedder: str | None, bounds: Bounds) -> Backlog:
        """What a search within these bounds cannot see yet."""


class CheckpointRow(NamedTuple):
    """A checkpoint without its state."""

    no: int
    """Rises with each save, and stands for one state for ever."""
    thread: str
    ns: str
    id: str
    parent: str | None
    created_at: int
    """Microseconds since 1970, UTC."""
    expires_at: int | None
    metadata: str
    """JSON."""


class Link(NamedTuple):
    """A checkpoint as part of a chain: what its body is a change of, and how far it is from a whole state."""

    no: int
    id: str
    base: int | None
    depth: int
    place: int
    body: bytes


class PendingWrite(NamedTuple):
    """What a task wrote after a checkpoint, at its place among what that task wrote."""

    task: str
    at: int
    path: str
    channel: str
    type: str
    value: bytes


class CheckpointRows(Protocol):
    """The checkpoints within one transaction. A thread has a number, by which its checkpoints are asked for."""

    def thread(self, space: str, name: str, ns: str, *, make: bool = False) -> int | None:
        """The number of a thread, which is made if asked to."""

    def row(self, thread: int, id: str) -> CheckpointRow | None:
        """The checkpoint with this id."""

    def number(self, thread: int, id: str) -> int | None:
        """The number of the checkpoint with this id, even if it has expired."""

    def standing(
        self, space: str, name: str, ns: str, id: str, base: int | None
    ) -> tuple[int | None, int | None, bool]:
        """What a save has to know, in one look: the thread's number, the number of what the id holds, and whether the
        thread has the checkpoint that it is to be a change of. None and False for what there is not."""

    def measured(self, space: str, name: str | None) -> tuple[int, int, int]:
        """How many checkpoints there are, how many are whole states, and the bytes of their bodies."""

    def newest(self, thread: int, *, by_id: bool) -> CheckpointRow | None:
        """The checkpoint that was saved last, or the one with the highest id."""

    def listed(
        self, space: str, name: str | None, ns: str | None, *, by_id: bool, before: str | None
    ) -> Iterator[CheckpointRow]:
        """Checkpoints, newest first; with `before`, only those with a lower id."""

    def names(self, space: str) -> Iterator[tuple[str, str]]:
        """Each thread that has checkpoints, with its part, the one saved to last first."""

    def chain(self, no: int) -> list[Link]:
        """A checkpoint and all that it is made of, itself first and the whole state last."""

    def built_on(self, thread: int, nos: Sequence[int]) -> list[Link]:
        """The checkpoints whose bodies are changes of these."""

    def insert(
        self, thread: int, id: str, parent: str | None, base: tuple[int | None, int, int], *,
        created_at: int, expires_at: int | None, metadata: str, body: bytes,
    ) -> int:  # fmt: skip
        """Add a checkpoint with its base, depth and place; its number."""

    def rebase(self, no: int, base: int | None, depth: int, body: bytes) -> None:
        """Write a checkpoint's state as a change of another."""

    def remove(self, nos: Sequence[int]) -> None:
        """Delete checkpoints."""

    def tidy(self, thread: int) -> None:
        """Forget a thread that has no checkpoints left, with what was pending there."""

    def expired(self, before: int, limit: int) -> list[tuple[int, int, str]]:
        """Some of the checkpoints that expired before then: each thread's number, theirs, and their ids."""

    def forget(self, space: str, name: str) -> int:
        """Delete a thread with all its parts, and what is pending; how many checkpoints there were."""

    def copy(self, space: str, name: str, target: str) -> int:
        """Add to `target` a copy of every checkpoint of the thread, and of what is pending; how many."""

    def write(self, thread: int, id: str, writes: Sequence[tuple[PendingWrite, bool]]) -> None:
        """Keep what a task wrote; what is at its place already stays, unless its write says otherwise."""

    def pending(self, thread: int, id: str) -> list[PendingWrite]:
        """What was written after a checkpoint, in the order of the tasks' paths, tasks and places."""

    def drop_pending(self, thread: int, ids: Sequence[str]) -> None:
        """Forget what was written after these checkpoints."""

    def space(self, thread: int) -> str:
        """The space that a thread is in."""

    def unsought(self, space: str, limit: int) -> tuple[list[tuple[Link, str]], int]:
        """The next checkpoints whose words were not taken in, each with its metadata, and how far one then is."""

    def take_in(self, space: str, words: Sequence[tuple[int, str]], upto: int | None) -> None:
        """Keep the words of checkpoints, in place of those they had, in a space that is searched."""

    def bringing(self, space: str, word: str) -> list[tuple[int, int]]:
        """Of each thread that has come to hold the word its number, and that of the first checkpoint that did."""

    def numbered(self, no: int) -> CheckpointRow | None:
        """The checkpoint with this number."""

    def every(self) -> Iterator[CheckpointRow]:
        """Every checkpoint of every space, also what has expired, in the order of their numbers."""


class Identity(NamedTuple):
    """Which store this is, whatever its folder is called, and how far it has come."""

    store: str
    """Tells it from all others; a copy has the same."""
    seq: int
    """The number of its newest change: a later one has a higher one."""


class Backend(Protocol):
    """Where records live."""

    @property
    def read_only(self) -> bool:
        """Whether it can be read and not be changed: then each change raises Unavailable, and no work is done on it."""

    def verify(self) -> None:
        """See that what is written here is what whoever opens the store next will read.

        Raises:
            Unavailable: the store was deleted, moved or replaced while it was open.
        """

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""

    def checkpoints(self, now: datetime) -> AbstractContextManager[CheckpointRows]:
        """A consistent look at the checkpoints."""

    def change_checkpoints(self, work: Callable[[CheckpointRows], T], now: datetime) -> T:
        """What `work` returns, run in a transaction: all that it changes, durably, or nothing."""

    def apply(self, changes: Sequence[Change], now: datetime) -> list[Record | int]:
        """Make all of the changes, durably, or none.

        The answer for each: the record as it now is, or for Delete, Drop, Vacant and Extend how many were forgotten.

        Raises:
            NotFound, Conflict, Invalid: a change cannot be made.
            Unavailable: the disk is full or failing, or another process holds the store for too long.
        """

    def reading(self, now: datetime, *, words: bool = False) -> AbstractContextManager[View]:
        """A consistent look that includes every write acknowledged before it was taken, by any process.

        A view that is to search by `words` must say so when it is taken.
        """

    def export(self, bounds: Bounds, now: datetime) -> Iterator[Record]:
        """Every record within bounds, oldest change first, without holding them all in memory."""

    def lease(self) -> AbstractContextManager[bool]:
        """Try to become the one process that does derived work; False when another is."""

    def index_words(self, limit: int) -> int:
        """Take up to `limit` changed records into the word index; how many were taken. Needs the lease."""

    def to_embed(self, embedder: str, limit: int) -> EmbedBatch | None:
        """The next records that need a vector; None when all have one."""

    def store_vectors(self, embedder: str, batch: EmbedBatch, vectors: Vector | None) -> None:
        """Keep the vectors of a batch, but for records whose text changed meanwhile. Needs the lease."""

    def index_vectors(self, embedder: str) -> int:
        """Bring the vector codes up to date when enough has gathered; how many were coded. Needs the lease."""

    def purge(self, before: datetime) -> int:
        """Remove the records that expired before then; how many. Needs the lease."""

    def waiting(self, embedder: str) -> int:
        """How many records have no vector of their present text."""

    def tidy(self, now: datetime) -> None:
        """Small housekeeping between pieces of work: the log, and that what has expired stays so."""

    def scrub(self, limit: int) -> int:
        """Write anew a piece of the derived files that still hold what was deleted, about so many records of them.

        How many records such files hold yet, or some other number that is not 0 while there is more to do. Needs the
        lease, and that the changes have been taken into the word index.
        """

    def remains(self) -> dict[str, int]:
        """How much there is of each kind of derived file that still holds what was deleted."""

    def removals(self) -> int:
        """A number that rises whenever this process sees that something was deleted or replaced."""

    def compact(self, largest: int | None = None) -> bool:
        """Write the database anew, so that no gap of it holds what was deleted, unless it is larger than so many bytes;
        whether it was. Writers wait meanwhile.
        """

    def note_fault(self, fault: str) -> None:
        """Keep why background work failed for `check` and `stats` to tell, or nothing when it did not."""

    def rebuild(self, embedder: str | None, now: datetime, progress: Progress | None = None) -> None:
        """Make everything derived anew. What has expired goes, as do the vectors of any other embedder than this."""

    def forget_vectors(self) -> None:
        """Drop every vector, so that all records are embedded again."""

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store and the work for this embedder, in sentences; empty when nothing is."""

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder while others go on writing."""

    def stats(self, now: datetime) -> dict[str, int | str]:
        """Numbers about the store for people: records, sizes, versions."""

    def close(self) -> None:
        """Let go of files and connections. Safe to call twice."""
