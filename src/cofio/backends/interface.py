"""The interface of a backend: where records live.

A backend stores, filters and gives scores. What a score means, how two rankings become one, what is relevant and how
anything is worded is decided above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from ..values.query import Bounds
from ..values.records import Record
from .record_interface import Snapshot, Transaction
from .search_interface import Searcher

if TYPE_CHECKING:
    from ..values.changes import Vector

T = TypeVar("T")
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and how many there are."""


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

    def now(self) -> datetime:
        """The time by the store's clock."""

    def verify(self) -> None:
        """See that what is written here is what whoever opens the store next will read.

        Raises:
            Unavailable: the store was deleted, moved or replaced while it was open.
        """

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent look at records and checkpoints, with every write acknowledged before it, by any process."""

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """What `work` returns, run in a transaction: all that it changes, durably, or nothing if it raises.

        `work` may run again, if the backend could not have its transaction beside those of others: it must not
        change anything but the transaction.

        Raises:
            Unavailable: the disk is full or failing, or another process holds the store for too long.
        """

    def search(self, bounds: Bounds) -> AbstractContextManager[Searcher]:
        """A search that sees nothing outside the bounds."""

    def export(self, bounds: Bounds) -> Iterator[Record]:
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

    def tidy(self) -> None:
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

    def rebuild(self, embedder: str | None, progress: Progress | None = None) -> None:
        """Make everything derived anew. What has expired goes, as do the vectors of any other embedder than this."""

    def forget_vectors(self) -> None:
        """Drop every vector, so that all records are embedded again."""

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store and the work for this embedder, in sentences; empty when nothing is."""

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder while others go on writing."""

    def stats(self) -> dict[str, int | str]:
        """Numbers about the store for people: records, sizes, versions."""

    def close(self) -> None:
        """Let go of files and connections. Safe to call twice."""
