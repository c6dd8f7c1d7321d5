"""The embedded backend as a whole: what each door's read and write becomes in the parts beside this file."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import apsw

from ...config.lost_store import check_whole, follow_up_loss, note_loss
from ...system.locks import try_lock
from ...system.processes import run_after_fork
from ...system.safe_files import check_entries, open_file
from ...text.tokenizer import embed_text
from ...values.errors import Invalid, Unavailable
from ...values.query import Bounds
from ...values.records import UNSOUGHT, Record
from ..checkpoint_interface import CheckpointRows
from ..interface import EmbedBatch, Identity, Progress, ToEmbed
from ..record_interface import Snapshot, Transaction
from . import checks
from .checkpoint_rows import Rows, deleted_words, merge_words
from .conditions import micros, within
from .copy_target import Copy
from .database import Database, fetch, translated
from .database_files import find_access
from .record_rows import COLUMNS, RecordRows, RecordTransaction, Row, read_given, record_of
from .snapshot import SqliteView, seen_seq
from .spool import spool
from .store_time import correct_time, steady
from .tail import Tail
from .word_index import Look, State, WordIndex

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .vector_codes import VectorIndex

T = TypeVar("T")
Given: TypeAlias = dict[str, tuple[float, ...]]
TRUNCATE_EVERY = 3.0  # seconds, at least, between two times that the log is emptied
REBUILD_AT_ONCE = 20_000  # a lost index of so few records is rebuilt before the search that missed it goes on

_FILES = ("memory.db", "memory.db-wal", "memory.db-shm", "memory.db-journal", "lease")
_FOLDERS = ("index", "vectors")
_NO_WORDS = Tail(0)
_log = logging.getLogger("cofio.store")
_leases: set[int] = set()


def _let_go() -> None:
    """A forked child has no part in its parent's lease, which would otherwise last as long as the child does."""
    for handle in _leases:
        os.close(handle)
    _leases.clear()


run_after_fork(_let_go)


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
        self._vectors: dict[str, VectorIndex] = {}
        self._aligned = False
        self._log_is_held = False
        self._truncated = time.monotonic()

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
    def reading(self, *, words: bool = False) -> Iterator[SqliteView]:
        """A consistent look that includes every write acknowledged before it was taken."""
        if not words:
            with self._database.reading() as connection:
                yield SqliteView(self, connection, Look(State.read(connection), None, _NO_WORDS), self._clock())
            return
        with self._database.borrowed() as connection:
            yield SqliteView(self, connection, self.look(connection), self._clock())

    def look(self, connection: apsw.Connection) -> Look:
        """Begin a snapshot with the index that belongs to it, which is first rebuilt if it is lost and small."""
        for _ in range(100):
            look = self._words.look(connection)
            lost = look.state.tail_seq > look.state.indexed_seq
            if not lost or look.state.records > REBUILD_AT_ONCE or self.read_only:
                return look
            connection.execute("ROLLBACK")
            try:
                with self.lease() as mine:
                    if mine:
                        self._words.take_in(1)
            except Unavailable:
                break
            if not mine:
                time.sleep(0.1)  # whoever has it is about to do this
        return self._words.look(connection)  # what can be found without the index is found

    def mend(self, connection: apsw.Connection, state: State) -> Look:
        """Give up an index that turned out to be damaged, and begin another snapshot with a new one."""
        connection.execute("ROLLBACK")
        self._words.forget(state.index)
        return self.look(connection)

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

    # Checkpoints.

    @contextmanager
    def checkpoints(self) -> Iterator[CheckpointRows]:
        """A consistent look at the checkpoints."""
        with self._database.reading() as connection:
            yield Rows(connection, micros(self._clock()))

    def change_checkpoints(self, work: Callable[[CheckpointRows], T]) -> T:
        """What `work` returns, run in a transaction."""
        return self._database.write(lambda connection: work(Rows(connection, micros(self._clock()))))

    # Derived work.

    @contextmanager
    def lease(self) -> Iterator[bool]:
        """Hold the store's lock file: the kernel lets go of it when the process dies, however it dies."""
        if self.read_only:
            yield False
            return
        self.verify()  # else this would be the lease of another store, or a file where there is none any more
        with translated(self.folder):
            handle = open_file(self.folder / "lease", os.O_CREAT | os.O_RDWR)
        _leases.add(handle)
        try:
            if not try_lock(handle):
                yield False
                return
            try:
                yield True
            finally:
                self._words.release_writer()
        finally:
            _leases.discard(handle)
            os.close(handle)

    def index_words(self, limit: int) -> int:
        """Take changed records into the word index."""
        with translated(self.folder / "index"):
            return self._words.take_in(limit)

    def to_embed(self, embedder: str, limit: int) -> EmbedBatch | None:
        """The next records that need a vector."""
        with self._database.reading() as connection:
            number, seen = seen_seq(connection, embedder)
            newest = State.read(connection).seq
            if seen >= newest:
                return None
            rows = fetch(
                connection,
                "SELECT record.no, record.text_seq, seq, kind, title, text, tags, record.data FROM record"
                " LEFT JOIN vector ON vector.embedder = ? AND vector.no = record.no"
                " WHERE seq > ? AND vector.text_seq IS NOT record.text_seq ORDER BY seq LIMIT ?",
                (number, seen, limit),
            )
        upto = rows[-1][2] if len(rows) == limit else newest
        return EmbedBatch(tuple(_to_embed(row) for row in rows), upto, number)

    def store_vectors(self, embedder: str, batch: EmbedBatch, vectors: Vector | None) -> None:
        """Keep the vectors of a batch, but for records whose text changed meanwhile."""
        data = [] if vectors is None else [row.tobytes() for row in vectors.astype("<f2")]

        def store(connection: apsw.Connection) -> None:
            width = 0 if vectors is None else vectors.shape[1]
            number, vseq, updated = _embedder(connection, embedder, width)
            for item, blob in zip(batch.items, data, strict=True):
                vseq += 1
                connection.execute(
                    "INSERT OR REPLACE INTO vector (embedder, no, vseq, text_seq, data)"
                    " SELECT ?, no, ?, text_seq, ? FROM record WHERE no = ? AND text_seq = ?",
                    (number, vseq, blob, item.no, item.text_seq),
                )
            connection.execute(
                "UPDATE embedder SET vseq = ?, seen_seq = max(seen_seq, ?), seen_at = ? WHERE no = ?",
                (vseq, batch.upto if batch.embedder in (0, number) else 0, updated, number),
            )

        self._database.write(store)

    def index_vectors(self, embedder: str) -> int:
        """Bring the vector codes up to date when enough has gathered."""
        with translated(self.folder / "vectors"):
            return self.vectors(embedder).bring_up()

    def vectors(self, embedder: str) -> VectorIndex:
        """The vector codes of an embedder. numpy is loaded here, and not before it is needed."""
        from .vector_codes import VectorIndex

        if embedder not in self._vectors:
            self._vectors[embedder] = VectorIndex(self.folder / "vectors", self._database, embedder)
        return self._vectors[embedder]

    def purge(self, before: datetime) -> int:
        """Remove the records that expired before then."""
        with self._database.reading() as connection:
            if not connection.execute("SELECT 1 FROM record WHERE expires_at <= ? LIMIT 1", (micros(before),)).get:
                return 0
        return self._database.write(lambda connection: RecordTransaction(connection, before).purge(micros(before)))

    def waiting(self, embedder: str) -> int:
        """How many records have no vector of their present text."""
        with self._database.reading() as connection:
            return int(
                connection.execute(
                    "SELECT count(*) FROM record LEFT JOIN vector ON vector.no = record.no"
                    " AND vector.embedder = (SELECT no FROM embedder WHERE name = ?1)"
                    " WHERE seq > ifnull((SELECT seen_seq FROM embedder WHERE name = ?1), 0)"
                    " AND vector.text_seq IS NOT record.text_seq",
                    (embedder,),
                ).get
            )

    def tidy(self) -> None:
        """Move the write-ahead log into the database, and the store's time past what has expired.

        Raises:
            Unavailable: somebody who reads, and does not go on, has kept the log for long.
        """
        held = checks.held_log(self._database)
        if time.monotonic() - self._truncated >= TRUNCATE_EVERY and self._database.truncate_log():
            self._truncated = time.monotonic()
        at = micros(self._clock())
        with self._database.reading() as connection:
            updated = State.read(connection).updated
            ahead = steady(at, updated) < updated
            ended = any(
                connection.execute(
                    f"SELECT 1 FROM {table} WHERE expires_at > ? AND expires_at <= ? LIMIT 1", (updated, at)
                ).get
                for table in ("record", "checkpoint")
            )
        if ahead:
            self._database.write(lambda connection: correct_time(connection, at))
        elif ended:
            sql = "UPDATE state SET updated = max(updated, ?)"
            self._database.write(lambda connection: connection.execute(sql, (at,)).get)
        if held is None:
            self._log_is_held = False
            return
        if not self._log_is_held:
            self._log_is_held = True
            _log.warning("%s", held)
        raise Unavailable(held)

    # What was deleted.

    def scrub(self, limit: int) -> int:
        """Write anew a piece of what still holds deleted records; how many are left in such files. Needs the lease."""
        with self._database.reading() as connection:
            words_left = deleted_words(connection)
        if words_left:
            self._database.write(merge_words)
        codes = self.folder / "vectors"
        with translated(self.folder):
            left = self._words.rewrite(limit) + sum(self.vectors(name).rewrite() for name in self._coded())
            if any(codes.glob("*.codes*")):
                from .vector_codes import sweep

                sweep(codes, self._database)
        return left + int(words_left)

    def remains(self) -> dict[str, int]:
        """How many records and vectors are in files that also hold deleted ones, and whether checkpoints' words are."""
        with self._database.reading() as connection:
            found = {"words of checkpoints": int(deleted_words(connection))}
        found["words of records"] = self._words.remains()
        found["vectors"] = sum(self.vectors(name).remains() for name in self._coded())
        return found

    def removals(self) -> int:
        """A number that rises whenever this process sees that something was deleted or replaced."""
        with self._database.reading() as connection:
            return self._words.removals + int(connection.execute("SELECT no FROM checkpoint_gone").get)

    def compact(self, largest: int | None = None) -> bool:
        """Write the database anew and empty its log, unless it is larger than so many bytes; whether it was done."""
        size = self._database.path.stat().st_size
        room = shutil.disk_usage(self.folder).free >= 3 * size  # the log grows by as much, and so may a copy
        if largest is not None and (size > largest or not room):
            return False
        if not room:
            raise Unavailable(f"there is not room enough to write {self._database.path} anew; free some space")
        self._database.vacuum(in_memory=largest is not None)
        self._database.checkpoint()
        self._database.truncate_log()
        return True

    def _coded(self) -> list[str]:
        """The embedders that have files of codes."""
        with self._database.reading() as connection:
            sql = "SELECT DISTINCT embedder.name FROM segment JOIN embedder ON embedder.no = segment.embedder"
            return [name for (name,) in fetch(connection, sql)]

    def note_fault(self, fault: str) -> None:
        """Keep why background work failed, or that it does not."""
        with self._database.reading() as connection:
            known = connection.execute("SELECT fault FROM state").get
        if known != fault:
            sql = "UPDATE state SET fault = ?"
            self._database.write(lambda connection: connection.execute(sql, (fault,)).get)

    def rebuild(self, embedder: str | None, progress: Progress | None = None) -> None:
        """Make everything derived anew; what has expired goes, as do the vectors of any other embedder."""
        self.purge(self._clock())
        with self._leased(), translated(self.folder):
            with self._database.reading() as connection:
                miscounted = checks.miscounted(connection)

            def reset(connection: apsw.Connection) -> None:
                if miscounted:
                    checks.recount(connection)
                connection.execute("DELETE FROM segment")
                if embedder is not None:
                    _forget_embedders(connection, "name <> ?", embedder)

            self._database.write(reset)
            self._words.rebuild(progress)
            with self._database.reading() as connection:
                names = [name for (name,) in fetch(connection, "SELECT name FROM embedder")]
            for number, name in enumerate(names):
                self.vectors(name).bring_up()
                if progress:
                    progress("vectors", number + 1, len(names))

    def forget_vectors(self) -> None:
        """Drop every vector, so that all records are embedded again."""

        self._database.write(lambda connection: _forget_embedders(connection, "1"))

    # For people.

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store."""
        return checks.check(self._database, self._words, self.folder, embedder, progress)

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder while others go on writing."""
        place = Path(target)
        with translated(place), Copy(place) as copy:
            checks.copy(self._database, copy.database, progress)
            settings = self.folder / "cofio.toml"
            if settings.is_file() and not settings.is_symlink():
                shutil.copyfile(settings, place / "cofio.toml")
                (place / "cofio.toml").chmod(0o600)
            database = Database(copy.database)
            try:
                WordIndex(place / "index", database).rebuild(progress)
            finally:
                database.close()
            copy.complete()

    def stats(self) -> dict[str, int | str]:
        """Numbers about the store for people."""
        return checks.stats(self._database, self.folder, micros(self._clock()))

    def close(self) -> None:
        """Let go of files and connections."""
        self._database.close()

    @contextmanager
    def _leased(self) -> Iterator[None]:
        """Hold the lease, waiting for whoever has it to finish their piece of work."""
        self._database.check_writable()
        for _ in range(600):
            with self.lease() as mine:
                if mine:
                    yield
                    return
            time.sleep(0.1)
        raise Unavailable("another process is indexing this store and does not let go; try again later")


def _to_embed(row: tuple[int, int, int, str, str, str, str, str]) -> ToEmbed:
    no, text_seq, _, kind, title, text, tags, data = row
    if kind in UNSOUGHT:
        return ToEmbed(no, text_seq, "")
    return ToEmbed(no, text_seq, embed_text(title=title, text=text, tags=json.loads(tags), data=json.loads(data)))


def _embedder(connection: apsw.Connection, name: str, width: int) -> tuple[int, int, int]:
    """An embedder's number, its newest vector's order, and the store's time.

    Vectors of another width than before cannot be compared with those: then it starts afresh.
    """
    _forget_embedders(connection, "name = ? AND ? NOT IN (0, dimensions) AND dimensions <> 0", name, width)
    connection.execute("INSERT OR IGNORE INTO embedder (name) VALUES (?)", (name,))
    if width:
        connection.execute("UPDATE embedder SET dimensions = ? WHERE name = ? AND dimensions = 0", (width, name))
    number, vseq = connection.execute("SELECT no, vseq FROM embedder WHERE name = ?", (name,)).get
    return number, vseq, connection.execute("SELECT updated FROM state").get


def keep_vectors(connection: apsw.Connection, name: str, vectors: Mapping[str, Vector]) -> None:
    """Store vectors, all of one size, by the ids of their records, where a record has none of its present text."""
    number, vseq, _ = _embedder(connection, name, len(next(iter(vectors.values()))))
    for record_id, vector in vectors.items():
        vseq += 1
        connection.execute(
            "INSERT OR REPLACE INTO vector (embedder, no, vseq, text_seq, data)"
            " SELECT ?1, record.no, ?2, record.text_seq, ?3 FROM record"
            " LEFT JOIN vector ON vector.embedder = ?1 AND vector.no = record.no"
            " WHERE id = ?4 AND vector.text_seq IS NOT record.text_seq",
            (number, vseq, vector.astype("<f2").tobytes(), record_id),
        )
    connection.execute("UPDATE embedder SET vseq = ? WHERE no = ?", (vseq, number))


def _forget_embedders(connection: apsw.Connection, which: str, *values: str | int) -> None:
    """Drop the vectors of some embedders. Their numbers are never used again, so no process mistakes new for old."""
    for (number,) in fetch(connection, f"SELECT no FROM embedder WHERE {which}", values):
        for table in ("segment", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE embedder = ?", (number,))
        connection.execute("DELETE FROM embedder WHERE no = ?", (number,))
