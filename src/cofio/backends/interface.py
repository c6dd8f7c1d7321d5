"""The interface of a backend: where records live.

A backend stores, filters and gives scores. What a score means, how two rankings become one, what is relevant and how
anything is worded is decided above it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ..values.errors import StorageTrouble
from ..values.progress import Progress
from ..values.query import Bounds
from ..values.records import Record
from .record_interface import Snapshot, Transaction
from .search_interface import Searcher
from .upkeep_interface import CodeBatch, EmbedBatch, Maintenance, Task, Upkeep

if TYPE_CHECKING:
    from .store_copy import StorePart

T = TypeVar("T")


class Identity(NamedTuple):
    """Which store this is, whatever its folder is called, and how far it has come."""

    store: str
    """Tells it from all others; a copy has the same."""
    position: int
    """How far the store has come: a later state of it has a higher one, and nothing else follows from it."""


class ReplicaState(NamedTuple):
    """How a copy of the store that may answer reads is getting on."""

    lag: float | None
    """Seconds that it was behind at most, when it was last looked at; None when that is not known."""
    problem: str = ""
    """Why it answers no reads at the moment, in a sentence; empty when it does."""


class Trouble(NamedTuple):
    """Why the store refuses writes at the moment."""

    kind: StorageTrouble
    reason: str
    """A sentence for people, without a path."""


class SharedValues(Protocol):
    """Short texts, by name, that all processes on a store have in common, on whichever machine they are."""

    @property
    def read_only(self) -> bool:
        """Whether they can be read and not be changed."""

    def read(self, name: str) -> str | None:
        """What stands under a name; None when nothing does."""

    def replace(self, name: str, old: str | None, new: str) -> bool:
        """Put `new` in the place of `old`, None for nothing; False, and no change, when something else stands there.

        Raises:
            Unavailable: the store cannot be reached or changed.
        """


class Backend(Protocol):
    """Where records live."""

    @property
    def read_only(self) -> bool:
        """Whether it can be read and not be changed: then each change raises Unavailable, and no work is done on it."""

    @property
    def shared_values(self) -> SharedValues | None:
        """What all processes on the store have in common; None where that is in files beside it, on one machine."""

    @property
    def replica(self) -> ReplicaState | None:
        """How the copy of the store is getting on that reads may go to; None when there is none."""

    def run_on_replica(self, work: Callable[[], T]) -> T:
        """What `work` returns, whose reads may be answered by a copy of the store, if there is one.

        They are then of a moment ago, as far as the copy may be behind, but include all that this process has written.
        Nothing that is read so may be what a change relies on. `work` runs again, without the copy, if that fails.
        """

    def verify(self) -> None:
        """Verify that this is still the store that the next process to open it will find.

        Raises:
            Unavailable: the store was deleted, moved or replaced while it was open.
        """

    def find_trouble(self) -> Trouble | None:
        """Return why writes of this process are refused at the moment, or None. It never waits."""

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of records and checkpoints, with every write acknowledged before it, by any process."""

    def transact(self, work: Callable[[Transaction], T], *, frees_space: bool = False) -> T:
        """What `work` returns, run in a transaction: all that it changes, durably, or nothing if it raises.

        `work` may run again, if the backend could not have its transaction beside those of others: it must not
        change anything but the transaction. If it `frees_space`, a backend may use what it keeps in reserve.

        Raises:
            Unavailable: the disk is full or failing, or another process holds the store for too long.
        """

    def search(self, bounds: Bounds) -> AbstractContextManager[Searcher]:
        """A search that sees nothing outside the bounds."""

    def export(self, bounds: Bounds) -> Iterator[Record]:
        """Every record within bounds, oldest change first, without holding them all in memory."""

    def dump(self) -> Generator[StorePart]:
        """All that the store holds, expired or not, as of one moment: records by their last change, then checkpoints.

        Each checkpoint comes after its base, and what is pending comes last.
        """

    def claim(self, embedder: str, limit: int) -> AbstractContextManager[EmbedBatch | None]:
        """Have up to `limit` records that need a vector of an embedder to oneself, for the block.

        None when none needs one, or when other processes are at those that do.
        """

    def claim_uncoded(self, embedder: str, limit: int) -> AbstractContextManager[CodeBatch | None]:
        """Have up to `limit` records to oneself, for the block, whose vectors of an embedder have no token codes.

        None when there are none, or when another process is at them.
        """

    def upkeep(self, task: Task) -> Upkeep:
        """Do a piece of the background work; what was done, and what is left.

        Raises:
            Unavailable: the disk is full or failing, or the store is gone.
        """

    def rebuild(self, embedder: str | None, progress: Progress | None = None, *, vectors: bool = False) -> None:
        """Rebuild everything derived, without what has expired and the vectors of any other embedder than this.

        With `vectors`, drop those of this one too, so that all records are embedded again.
        """

    @property
    def maintenance(self) -> Maintenance:
        """What people do with the store as a whole."""

    def close(self) -> None:
        """Close files and connections. Safe to call twice."""
