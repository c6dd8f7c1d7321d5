"""What people do with a store as a whole: check it, copy it, and see how large it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import apsw

from ...values.progress import Progress
from ...values.stats import Stats
from ...values.times import from_micros, to_micros
from ..store_time import compute_store_time
from ..upkeep_interface import Examination
from . import checks
from .copy_target import CopyTarget
from .database import Database, fetch, translate_errors
from .erasure import Erasure
from .vector_rows import count_waiting
from .word_index import IndexState, WordIndex


class SqliteMaintenance:
    """The checks, copies and numbers of one store."""

    def __init__(
        self, folder: Path, database: Database, words: WordIndex, erasure: Erasure, clock: Callable[[], datetime]
    ) -> None:
        self._folder = folder
        self._database = database
        self._words = words
        self._erasure = erasure
        self._clock = clock

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store and the work for this embedder, in sentences."""
        return checks.check(self._database, self._words, self._folder, embedder, progress)

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder while others go on writing."""
        folder = Path(target)
        with translate_errors(folder), CopyTarget(folder) as copy:
            _copy_database(self._database, copy.database, progress)
            settings = self._folder / "cofio.toml"
            if settings.is_file() and not settings.is_symlink():
                shutil.copyfile(settings, folder / "cofio.toml")
                (folder / "cofio.toml").chmod(0o600)
            database = Database(copy.database)
            try:
                WordIndex(folder / "index", database).rebuild(progress)
            finally:
                database.close()
            copy.complete()

    def examine(self) -> Examination:
        """What there is to say of a server: there is none."""
        return Examination({}, ())

    def count_remains(self) -> dict[str, int]:
        """How much there is of each kind of derived file that still holds what was deleted."""
        return self._erasure.count_remains()

    def stats(self, embedder: str | None) -> Stats:
        """Numbers about the store, among them how many records wait for a vector of this embedder."""
        folder = self._folder
        bytes_log = self._database.measure_log()
        with self._database.snapshot() as connection:
            state = IndexState.read(connection)
            vectors: list[tuple[str, int]] = fetch(
                connection,
                "SELECT name, (SELECT count(*) FROM vector WHERE embedder = embedder.no) FROM embedder",
            )
            waiting = connection.execute("SELECT count(*) FROM record WHERE seq > ?", (state.indexed_seq,)).get
            expiring, expired = connection.execute(
                "SELECT count(*), ifnull(sum(expires_at <= ?), 0) FROM record WHERE expires_at IS NOT NULL",
                (compute_store_time(to_micros(self._clock()), state.updated),),
            ).get
            checkpoints, threads = connection.execute("SELECT count(*), count(DISTINCT thread) FROM checkpoint").get
            schema = connection.pragma("user_version")
            waiting_for_vectors = count_waiting(connection, embedder) if embedder is not None else 0
        return Stats(
            store=str(folder),
            records=state.records - expired,
            words=state.words,
            changes=state.seq,
            expiring=expiring - expired,
            expired=expired,
            waiting_for_index=waiting,
            checkpoints=checkpoints,
            threads=threads,
            schema=int(schema),
            software=("sqlite", apsw.sqlite_lib_version()),
            bytes_database=_size(folder / "memory.db") + bytes_log,
            bytes_log=bytes_log,
            bytes_index=sum(_size(file) for file in (folder / "index").rglob("*")),
            bytes_vectors=sum(_size(file) for file in (folder / "vectors").rglob("*")),
            background_fault=state.fault,
            updated=from_micros(state.updated).isoformat() if state.updated else "",
            vectors=dict(vectors),
            waiting_for_vectors=waiting_for_vectors,
        )


def _copy_database(database: Database, target: Path, progress: Progress | None) -> None:
    """Copy the database, page by page, while others read and write it."""
    connection = apsw.Connection(str(target))
    try:
        target.chmod(0o600)
        # A source with a snapshot of its own: else every write of another process would start the copy over.
        with database.snapshot() as source, connection.backup("main", source, "main") as work:
            while not work.done:
                work.step(2000)
                if progress:
                    progress("copy", work.page_count - work.remaining, work.page_count)
        # What the copy's own folder does not have must not be believed to be there.
        connection.execute("UPDATE state SET index_name = '', indexed_seq = 0; DELETE FROM segment")
    finally:
        connection.close()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:
        return 0  # an index in use removes files as it merges
