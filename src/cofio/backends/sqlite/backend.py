"""The embedded backend as a whole: what each door's read and write becomes in the parts beside this file."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import apsw

from ...config.lost_store import check_whole, follow_up_loss, note_loss
from ...config.settings import LOCK_SECONDS
from ...system.safe_files import check_entries
from ...values.errors import CofioError, Invalid, Unavailable
from ...values.progress import Progress
from ...values.query import Bounds
from ...values.records import Record
from ...values.times import to_micros
from ..interface import Identity, Trouble
from ..record_columns import RecordColumns, decode_record
from ..record_interface import Snapshot, Transaction
from ..spool import spool
from ..store_time import compute_store_time
from ..upkeep_interface import CodeBatch, EmbedBatch, Maintenance, Task, Upkeep
from .conditions import within
from .counts import CountCache
from .database import Database
from .database_files import find_access
from .record_rows import COLUMNS, RecordRows, RecordTransaction, read_given
from .reserve import RESERVE, RESERVE_BYTES, Reserve
from .searcher import SearchIndexes, SqliteSearcher
from .upkeep import DerivedWork
from .word_index import IndexState, WordIndex

if TYPE_CHECKING:
    from ..store_copy import Loader, StorePart

T = TypeVar("T")
Given: TypeAlias = dict[str, tuple[float, ...]]
_FILES = ("memory.db", "memory.db-wal", "memory.db-shm", "memory.db-journal", "lease", RESERVE)
OPENING_BYTES = 2**20  # of the reserve, which a store on a full disk is opened with
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
        lock_seconds: float = LOCK_SECONDS,
        keep_reserve: bool = False,
    ) -> None:
        """A write waits `lock_seconds` for another process's. With `keep_reserve`, space is set aside for deletes."""
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
        self._reserve = Reserve(folder)
        connect = partial(Database, folder / "memory.db", sync=sync, vfs=vfs, lock_seconds=lock_seconds)
        self._database = self._try_on_full_disk(connect, OPENING_BYTES)
        keeps_reserve = keep_reserve and not self.read_only
        if keeps_reserve:
            self._reserve.make()
        if not self.read_only:
            follow_up_loss(folder, self.identity().store)
        self._words = WordIndex(folder / "index", self._database)
        self.derived = DerivedWork(
            folder, self._database, self._words, self._clock, self._reserve if keeps_reserve else None
        )
        self._indexes = SearchIndexes(
            self._words, self.derived.open_vectors, self.derived.lock.try_acquire, self._database
        )
        self._is_aligned = False
        self._counts = CountCache()

    @staticmethod
    def open_loader(folder: Path, store: str, *, resume: bool) -> AbstractContextManager[Loader]:
        """A copy of the store with this id, to be made in a folder."""
        from .store_loader import open_loader  # which few programs need

        return open_loader(folder, store, resume=resume)

    @cached_property
    def maintenance(self) -> Maintenance:
        """What people ask of the store as a whole; loaded when they do."""
        from .maintenance import SqliteMaintenance

        return SqliteMaintenance(self.folder, self._database, self._words, self.derived.erasure, self._clock)

    @property
    def read_only(self) -> bool:
        """Whether it can be read and not be changed."""
        return self._database.read_only

    @property
    def shared_values(self) -> None:
        """Nothing: all who open the folder have the files in it."""
        return None

    @property
    def replica(self) -> None:
        """None: there is one store."""
        return None

    def run_on_replica(self, work: Callable[[], T]) -> T:
        """What `work` returns."""
        return work()

    def verify(self) -> None:
        """Verify that the store is still where it was opened."""
        self._database.verify()

    def find_trouble(self) -> Trouble | None:
        """Return why writes of this process are refused at the moment, or None."""
        return self._database.find_trouble()

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""
        with self._database.snapshot() as connection:
            return Identity(*connection.execute("SELECT store, seq FROM state").get)

    # Reading and writing records.

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Open a snapshot that includes every write acknowledged before it."""
        with self._database.snapshot() as connection:
            updated = connection.execute("SELECT updated FROM state").get
            yield RecordRows(connection, self._clock(), updated, self._counts)

    def transact(self, work: Callable[[Transaction], T], *, frees_space: bool = False) -> T:
        """What `work` returns, run in a transaction; once, unless it `frees_space` on a disk that is full."""
        if not self._is_aligned:
            self._words.align()
            self._is_aligned = True

        size = (0, 0)

        def run(connection: apsw.Connection) -> T:
            nonlocal size
            transaction = RecordTransaction(connection, self._clock())
            result = work(transaction)
            transaction.finish()
            size = transaction.size
            return result

        write = partial(self._database.write, run)
        result = self._try_on_full_disk(write, RESERVE_BYTES) if frees_space else write()
        if self.derived.may_have_long_tail(*size):
            # What was committed has succeeded, whatever comes of this: the background work does it otherwise.
            with suppress(CofioError, apsw.Error, OSError):
                self.derived.bound_tail(*size)
        return result

    def _try_on_full_disk(self, work: Callable[[], T], size: int) -> T:
        """What `work` returns; if the disk is full, it is tried again with `size` bytes of the reserve."""
        try:
            return work()
        except Unavailable as error:
            if error.trouble != "disk full" or not self._reserve.release(size):
                raise
        return work()

    @contextmanager
    def search(self, bounds: Bounds) -> Iterator[SqliteSearcher]:
        """A search within bounds."""
        with self._database.borrow() as connection:
            yield SqliteSearcher(connection, bounds, self._indexes, self._clock)

    def export(self, bounds: Bounds) -> Iterator[Record]:
        """Every record within bounds, oldest change first.

        They are spooled first: a slow consumer must not keep a transaction open, and with it the log.
        """
        read = partial(self._read_export, bounds, self._clock())
        for row, given in read() if self.read_only else spool(read, self.folder):
            record = decode_record(row)
            yield replace(record, given=given) if given else record

    def _read_export(self, bounds: Bounds, now: datetime) -> Generator[tuple[RecordColumns, Given]]:
        """The rows of the records within bounds, each with the vectors that were given with it."""
        with self._database.snapshot() as connection:
            at = compute_store_time(to_micros(now), IndexState.read(connection).updated)
            condition = within(bounds, at, by_row=False)
            for row in connection.execute(
                f"SELECT {COLUMNS}, EXISTS (SELECT 1 FROM given WHERE given.no = record.no) FROM record"
                f" WHERE {condition.sql} ORDER BY seq",
                condition.values,
            ):
                yield row[:-1], read_given(connection, row[0]) if row[-1] else {}

    def dump(self) -> Generator[StorePart]:
        """All that the store holds, as of one moment."""
        from .dump import dump  # which needs numpy

        with self._database.snapshot() as connection:
            yield from dump(connection)

    # Derived work.

    def claim(self, embedder: str, limit: int) -> AbstractContextManager[EmbedBatch | None]:
        """Have up to `limit` records that need a vector of an embedder to oneself, for the block."""
        return self.derived.claim(embedder, limit)

    def claim_uncoded(self, embedder: str, limit: int) -> AbstractContextManager[CodeBatch | None]:
        """Have up to `limit` records whose vectors have no token codes to oneself, for the block."""
        return self.derived.claim_uncoded(embedder, limit)

    def upkeep(self, task: Task) -> Upkeep:
        """Do a piece of the background work."""
        return self.derived.run(task)

    def rebuild(self, embedder: str | None, progress: Progress | None = None, *, vectors: bool = False) -> None:
        """Rebuild everything derived."""
        self.derived.rebuild(embedder, progress, vectors=vectors)

    def close(self) -> None:
        """Close files and connections."""
        self._database.close()
