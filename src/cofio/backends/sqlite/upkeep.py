"""The derived work on a store, which one process at a time does: its tasks, its batches to embed, a rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from ...values.errors import Unavailable
from ...values.progress import Progress
from ..upkeep_interface import Erase, Index, Purge, ReportFault, Task, Tidy, Upkeep
from .database import Database, fetch, give_rowids, translate_errors
from .erasure import Erasure
from .expiry import Expiry
from .reserve import Reserve
from .upkeep_lock import UpkeepLock
from .vector_rows import (
    SqliteCodeBatch,
    SqliteEmbedBatch,
    count_waiting,
    drop_vectors,
    fetch_batch,
    fetch_uncoded,
)
from .word_index import IndexState, WordIndex

if TYPE_CHECKING:
    from .vector_codes import VectorIndex

LONG_TAIL, LONG_TAIL_WORDS = 4000, 200_000  # changes, and words of them, that are left to be indexed in the background
SPARE_ROUNDS = 2  # pieces more than that, for a write that takes what there is into the index: long records fill some
TRUNCATE_EVERY = 3.0  # seconds, at least, between two times that the log is emptied


class DerivedWork:
    """All work on a store that nothing a caller is promised depends on."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        words: WordIndex,
        clock: Callable[[], datetime],
        reserve: Reserve | None = None,
    ) -> None:
        """Make the `reserve` again whenever there is room for it."""
        self._folder = folder
        self._reserve = reserve
        self._database = database
        self._words = words
        self._vectors: dict[str, VectorIndex] = {}
        self.lock = UpkeepLock(folder, database, on_release=words.release_writer)
        self.expiry = Expiry(database, clock)
        self.erasure = Erasure(folder, database, words, self.index_words, self.open_vectors, self.lock)
        self._log_is_stuck = False
        self._expired_before: datetime | None = None
        self._truncated = time.monotonic()
        self._next_look = (0, 0)

    def run(self, task: Task) -> Upkeep:
        """Do one task, as far as it is due."""
        match task:
            case Index():
                return self._index(task)
            case Tidy():
                return self._tidy()
            case Purge():
                done, before = self.expiry.purge()
                return Upkeep(done=done, expired_before=before)
            case Erase():
                return Upkeep(more=bool(self.erasure.erase(task.seconds)))
            case ReportFault():
                return self._report(task.fault)

    @contextmanager
    def claim(self, embedder: str, limit: int) -> Iterator[SqliteEmbedBatch | None]:
        """Hold the next records that need a vector of an embedder; None when none does or another process is at it."""
        with self.lock.try_acquire() as locked:
            yield fetch_batch(self._database, embedder, limit) if locked else None

    @contextmanager
    def claim_uncoded(self, embedder: str, limit: int) -> Iterator[SqliteCodeBatch | None]:
        """Hold the next records whose vectors have no token codes; None when all have or another process is at it."""
        with self.lock.try_acquire() as locked:
            yield fetch_uncoded(self._database, embedder, limit) if locked else None

    def open_vectors(self, embedder: str) -> VectorIndex:
        """Return the vector codes of an embedder. numpy is loaded here, and not before it is needed."""
        from .vector_codes import VectorIndex

        if embedder not in self._vectors:
            self._vectors[embedder] = VectorIndex(self._folder / "vectors", self._database, embedder)
        return self._vectors[embedder]

    def index_words(self, limit: int) -> int:
        """Take changed records into the word index; how many, or at least `limit` if there are more. Needs the lock."""
        self.erasure.start()
        with translate_errors(self._folder / "index"):
            taken = self._words.index_changes(limit)
        if taken:
            self.erasure.note_change()
        return taken

    def may_have_long_tail(self, seq: int, words: int) -> bool:
        """Whether `bound_tail` has to look, by the newest change and by how many words all records have."""
        return seq >= self._next_look[0] or words >= self._next_look[1]

    def bound_tail(self, seq: int, words: int) -> None:
        """Take the words of what was written into the index, if the next search would have to wait for that."""
        with self._database.snapshot() as connection:
            state = IndexState.read(connection)
        if state.tail_seq > state.indexed_seq:
            return  # the index was lost: no write waits until it is rebuilt
        indexed = state.indexed_seq
        is_long = seq - indexed >= LONG_TAIL or (words >= self._next_look[1] > 0 and seq > indexed)
        self._next_look = (max(seq, indexed) + LONG_TAIL if is_long else indexed + LONG_TAIL, words + LONG_TAIL_WORDS)
        if is_long:
            # What was written is durable, whatever becomes of this; the background work tries again and reports it.
            with suppress(Unavailable), self.lock.try_acquire() as locked:
                # About as far as this write: others may write as fast as this indexes.
                for _ in range((seq - indexed) // LONG_TAIL + SPARE_ROUNDS if locked else 0):
                    if self.index_words(LONG_TAIL) < LONG_TAIL:
                        break

    def index_vectors(self, embedder: str) -> int:
        """Code the vectors that are in no file, when enough have gathered; how many. Needs the lock."""
        with translate_errors(self._folder / "vectors"):
            return self.open_vectors(embedder).write_codes()

    def rebuild(self, embedder: str | None, progress: Progress | None, *, vectors: bool) -> None:
        """Rebuild everything derived, without what has expired and the vectors of any other embedder."""
        from . import checks  # few calls need it

        if vectors:
            self._database.write(lambda connection: drop_vectors(connection, "1"))
        self.expiry.purge()
        with self.lock.acquire(), translate_errors(self._folder):
            with self._database.snapshot() as connection:
                is_miscounted = checks.is_miscounted(connection)

            def reset(connection: apsw.Connection) -> None:
                if is_miscounted:
                    checks.recount(connection)
                connection.execute("DELETE FROM segment")
                give_rowids(connection)
                if embedder is not None:
                    drop_vectors(connection, "name <> ?", embedder)

            self._database.write(reset)
            self._words.rebuild(progress)
            with self._database.snapshot() as connection:
                names = [name for (name,) in fetch(connection, "SELECT name FROM embedder")]
            for number, name in enumerate(names):
                self.open_vectors(name).write_codes()
                if progress:
                    progress("vectors", number + 1, len(names))

    def _index(self, task: Index) -> Upkeep:
        waiting = 0
        if task.count_waiting and task.embedder is not None:
            with self._database.snapshot() as connection:
                waiting = count_waiting(connection, task.embedder)
        with self.lock.try_acquire() as locked:
            if not locked:
                return Upkeep(busy=True, more=True, waiting=waiting)
            taken = self.index_words(task.limit)
            if taken < task.limit and task.embedder is not None:
                self.index_vectors(task.embedder)  # also if none is new: a file may have been lost
        return Upkeep(done=taken, more=taken >= task.limit, waiting=waiting)

    def _tidy(self) -> Upkeep:
        self.erasure.start()
        self._expired_before = self.expiry.purge_proven() or self._expired_before
        from .checks import find_stuck_log  # no call of a user's needs it

        problem = find_stuck_log(self._database)
        if time.monotonic() - self._truncated >= TRUNCATE_EVERY and self._database.truncate_log():
            self._truncated = time.monotonic()
        self.expiry.keep_time()
        if self._reserve is not None:
            self._reserve.make()
        if problem and not self._log_is_stuck:
            import logging  # not free, and few processes come here

            logging.getLogger("cofio.store").warning("%s", problem)
        self._log_is_stuck = bool(problem)
        again_in = None if problem else self.erasure.tidy()  # which would make a log that cannot be emptied longer
        # Told once, and only now: had something failed on the way here, the next round would have to tell it.
        before, self._expired_before = self._expired_before, None
        return Upkeep(more=again_in is not None, again_in=again_in, expired_before=before, problem=problem)

    def _report(self, fault: str) -> Upkeep:
        with self._database.snapshot() as connection:
            stored = connection.execute("SELECT fault FROM state").get
        if stored != fault:
            sql = "UPDATE state SET fault = ?"
            self._database.write(lambda connection: connection.execute(sql, (fault,)).get)
        return Upkeep()
