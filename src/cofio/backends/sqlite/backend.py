"""The embedded backend as a whole: what each door's read and write becomes in the parts beside this file."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import apsw

from ...config.lost_store import check_whole, follow_up_loss, note_loss
from ...system.safe_files import check_entries
from ...values.errors import Invalid, Unavailable
from ...values.query import Bounds
from ...values.records import Record
from ..interface import EmbedBatch, Identity, Progress
from ..record_interface import Snapshot, Transaction
from .conditions import micros, within
from .database import Database
from .database_files import find_access
from .maintenance import SqliteMaintenance
from .record_rows import COLUMNS, RecordRows, RecordTransaction, Row, read_given, record_of
from .searcher import SearchIndexes, SqliteSearcher
from .spool import spool
from .store_time import steady
from .upkeep import DerivedWork
from .word_index import State, WordIndex

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .vector_codes import VectorIndex

T = TypeVar("T")
Given: TypeAlias = dict[str, tuple[float, ...]]
_FILES = ("memory.db", "memory.db-wal", "memory.db-shm", "memory.db-journal", "lease")
_FOLDERS = ("index", "vectors")


class SqliteBackend:
    """A store in a folder: memory.db, index/ and vectors/."""

    def __init__(
        self,
        folder: Path,
        *,
        sync: str = "full",
        vfs: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._clock = clock or (lambda: datetime.now(UTC))
        self.folder = folder = folder.absolute()  # whatever becomes of the working folder
        check_whole(folder)
        try:
            check_entries(folder, files=_FILES, folders=_FOLDERS)
            if find_access(folder / "memory.db") == "write":
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                for name in _FOLDERS:
                    (folder / name).mkdir(exist_ok=True, mode=0o700)
        except FileExistsError as error:
            raise Invalid("store", f"{folder} is a file; a store is a folder") from error
        except OSError as error:
            raise Unavailable(
                f"{folder} cannot be made or written ({error.strerror or error}): name another folder with --store or"
                " COFIO_STORE"
            ) from error
        note_loss(folder)
        self._database = Database(folder / "memory.db", sync=sync, vfs=vfs)
        if not self.read_only:
            follow_up_loss(folder, self.identity().store)
        self._words = WordIndex(folder / "index", self._database)
        self._derived = DerivedWork(folder, self._database, self._words, self._clock)
        self._maintenance = SqliteMaintenance(folder, self._database, self._words, self._clock)
        self._indexes = SearchIndexes(self._words, self.vectors, self.lease, read_only=self.read_only)
        self._aligned = False

    @property
    def read_only(self) -> bool:
        """Whether it can be read and not be changed."""
        return self._database.read_only

    def now(self) -> datetime:
        """The time by the store's clock."""
        return self._clock()

    def verify(self) -> None:
        """See that the store is still where it was opened."""
        self._database.verify()

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""
        with self._database.reading() as connection:
            return Identity(*connection.execute("SELECT store, seq FROM state").get)

    # Reading and writing records.

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """A consistent look that includes every write acknowledged before it was taken."""
        with self._database.reading() as connection:
            yield RecordRows(connection, self._clock(), connection.execute("SELECT updated FROM state").get)

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """What `work` returns, run in a transaction; it never runs twice here, as there is one writer at a time."""
        if not self._aligned:
            self._words.align()
            self._aligned = True

        def run(connection: apsw.Connection) -> T:
            transaction = RecordTransaction(connection, self._clock())
            result = work(transaction)
            transaction.finish()
            return result

        return self._database.write(run)

    @contextmanager
    def search(self, bounds: Bounds) -> Iterator[SqliteSearcher]:
        """A search within bounds."""
        with self._database.borrowed() as connection:
            yield SqliteSearcher(connection, bounds, self._indexes, self._clock)

    def export(self, bounds: Bounds) -> Iterator[Record]:
        """Every record within bounds, oldest change first.

        They are put aside first: whoever takes one a minute must not keep the log of all who write meanwhile.
        """
        read = partial(self._read_export, bounds, self._clock())
        for row, given in read() if self.read_only else spool(read, self.folder):
            record = record_of(row)
            yield replace(record, given=given) if given else record

    def _read_export(self, bounds: Bounds, now: datetime) -> Generator[tuple[Row, Given]]:
        """The rows of the records within bounds, each with the vectors that were given with it."""
        with self._database.reading() as connection:
            at = steady(micros(now), State.read(connection).updated)
            condition = within(bounds, at, by_row=False)
            for row in connection.execute(
                f"SELECT {COLUMNS}, EXISTS (SELECT 1 FROM given WHERE given.no = record.no) FROM record"
                f" WHERE {condition.sql} ORDER BY seq",
                condition.values,
            ):
                yield row[:-1], read_given(connection, row[0]) if row[-1] else {}

    # Derived work.

    def lease(self) -> AbstractContextManager[bool]:
        """Hold the lock on the derived work for the block; False when another process holds it."""
        return self._derived.lease()

    def index_words(self, limit: int) -> int:
        """Take changed records into the word index."""
        return self._derived.index_words(limit)

    def to_embed(self, embedder: str, limit: int) -> EmbedBatch | None:
        """The next records that need a vector."""
        return self._derived.to_embed(embedder, limit)

    def store_vectors(self, embedder: str, batch: EmbedBatch, vectors: Vector | None) -> None:
        """Keep the vectors of a batch, but for records whose text changed meanwhile."""
        self._derived.store_vectors(embedder, batch, vectors)

    def index_vectors(self, embedder: str) -> int:
        """Bring the vector codes up to date when enough has gathered."""
        return self._derived.index_vectors(embedder)

    def vectors(self, embedder: str) -> VectorIndex:
        """The vector codes of an embedder."""
        return self._derived.vectors(embedder)

    def purge(self, before: datetime) -> int:
        """Remove the records that expired before then."""
        return self._derived.purge(before)

    def waiting(self, embedder: str) -> int:
        """How many records have no vector of their present text."""
        return self._derived.waiting(embedder)

    def tidy(self) -> None:
        """Move the write-ahead log into the database, and the store's time past what has expired."""
        self._derived.tidy()

    def scrub(self, limit: int) -> int:
        """Write anew a piece of what still holds deleted records; how many are left in such files."""
        return self._derived.scrub(limit)

    def remains(self) -> dict[str, int]:
        """How many records and vectors are in files that also hold deleted ones, and whether checkpoints' words are."""
        return self._derived.remains()

    def removals(self) -> int:
        """A number that rises whenever this process sees that something was deleted or replaced."""
        return self._derived.removals()

    def compact(self, largest: int | None = None) -> bool:
        """Write the database anew and empty its log, unless it is larger than so many bytes; whether it was done."""
        return self._derived.compact(largest)

    def note_fault(self, fault: str) -> None:
        """Keep why background work failed, or that it does not."""
        self._derived.note_fault(fault)

    def rebuild(self, embedder: str | None, progress: Progress | None = None) -> None:
        """Make everything derived anew; what has expired goes, as do the vectors of any other embedder."""
        self._derived.rebuild(embedder, progress)

    def forget_vectors(self) -> None:
        """Drop every vector, so that all records are embedded again."""
        self._derived.forget_vectors()

    # For people.

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store."""
        return self._maintenance.check(embedder, progress)

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder while others go on writing."""
        self._maintenance.backup(target, progress)

    def stats(self) -> dict[str, int | str]:
        """Numbers about the store for people."""
        return self._maintenance.stats()

    def close(self) -> None:
        """Let go of files and connections."""
        self._database.close()
