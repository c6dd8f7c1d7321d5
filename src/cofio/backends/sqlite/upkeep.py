"""The derived work on a store: its word index, its vector codes, and what deleted and expired records leave behind."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from ...values.errors import Unavailable
from ..interface import EmbedBatch, Progress
from . import checks
from .checkpoint_rows import deleted_words, merge_words
from .conditions import micros
from .database import Database, fetch, translated
from .record_rows import RecordTransaction
from .store_time import correct_time, steady
from .upkeep_lock import UpkeepLock
from .vector_rows import count_waiting, drop_vectors, fetch_batch, store_batch
from .word_index import IndexState, WordIndex

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .vector_codes import VectorIndex

TRUNCATE_EVERY = 3.0  # seconds, at least, between two times that the log is emptied
_log = logging.getLogger("cofio.store")


class DerivedWork:
    """All work on a store that nothing a caller is promised depends on."""

    def __init__(self, folder: Path, database: Database, words: WordIndex, clock: Callable[[], datetime]) -> None:
        self.folder = folder
        self._database = database
        self._words = words
        self._clock = clock
        self._lock = UpkeepLock(folder, database)
        self._vectors: dict[str, VectorIndex] = {}
        self._log_is_held = False
        self._truncated = time.monotonic()

    @contextmanager
    def lease(self) -> Iterator[bool]:
        """Hold the lock on the derived work for the block; False when another process holds it."""
        with self._lock.try_acquire() as locked:
            try:
                yield locked
            finally:
                if locked:
                    self._words.release_writer()

    def index_words(self, limit: int) -> int:
        """Take changed records into the word index."""
        with translated(self.folder / "index"):
            return self._words.take_in(limit)

    def to_embed(self, embedder: str, limit: int) -> EmbedBatch | None:
        """The next records that need a vector."""
        with self._database.reading() as connection:
            return fetch_batch(connection, embedder, limit)

    def store_vectors(self, embedder: str, batch: EmbedBatch, vectors: Vector | None) -> None:
        """Keep the vectors of a batch, but for records whose text changed meanwhile."""
        self._database.write(lambda connection: store_batch(connection, embedder, batch, vectors))

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
            return count_waiting(connection, embedder)

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
            updated = IndexState.read(connection).updated
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
        found["words of records"] = self._words.count_stale()
        found["vectors"] = sum(self.vectors(name).count_stale() for name in self._coded())
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
        with self._lock.acquire(), translated(self.folder):
            with self._database.reading() as connection:
                miscounted = checks.miscounted(connection)

            def reset(connection: apsw.Connection) -> None:
                if miscounted:
                    checks.recount(connection)
                connection.execute("DELETE FROM segment")
                if embedder is not None:
                    drop_vectors(connection, "name <> ?", embedder)

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
        self._database.write(lambda connection: drop_vectors(connection, "1"))
