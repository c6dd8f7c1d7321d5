"""A copy of another store, made part by part in a folder that no process opens until it is whole."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw

from ...values.errors import Invalid
from ...values.progress import Progress
from ...values.times import to_micros
from .. import rules
from ..checkpoint_interface import StoredCheckpoint
from ..interface import Identity
from ..store_copy import StoredPending, StoredRecord, StorePart, group_codes, group_vectors
from .copy_target import CopyTarget
from .database import Database, translate_errors
from .dump import dump
from .record_rows import RecordTransaction
from .word_index import WordIndex


@contextmanager
def open_loader(folder: Path, store: str, *, resume: bool) -> Iterator[SqliteLoader]:
    """A copy of the store with this id, in a folder that is empty, or that holds what is there of such a copy.

    With `resume`, that goes on, and what there is of it stays when the copy is cut off; else it begins again.

    Raises:
        Invalid: the folder holds something else, or an unfinished copy of another store.
    """
    with translate_errors(folder), CopyTarget(folder, resume=resume) as target:
        database = Database(target.database, sync="normal")  # all of it is synced when it is whole
        try:
            _begin(folder, database, store)
            yield SqliteLoader(target, database)
        finally:
            database.close()


def _begin(folder: Path, database: Database, store: str) -> None:
    """Note whose copy it is, and begin without what is pending."""

    def begin(connection: apsw.Connection) -> None:
        found, changes = connection.execute("SELECT store, seq FROM state").get
        if found != store and (changes or connection.execute("SELECT count(*) FROM checkpoint").get):
            raise Invalid("target", f"{folder} holds an unfinished copy of another memory: remove it, or name another")
        connection.execute("UPDATE state SET store = ?", (store,))
        connection.execute("DELETE FROM pending")

    database.write(begin)


class SqliteLoader:
    """A copy that is being made."""

    def __init__(self, target: CopyTarget, database: Database) -> None:
        self._target = target
        self._database = database

    def dump(self) -> Generator[StorePart]:
        """All that was copied so far."""
        with self._database.snapshot() as connection:
            yield from dump(connection)

    def load(self, parts: Sequence[StorePart], obsolete: Sequence[StorePart]) -> None:
        """Remove what is obsolete, and store the parts."""

        def load(connection: apsw.Connection) -> None:
            transaction = RecordTransaction(connection, datetime.now(UTC))
            _remove(transaction, obsolete)
            _store_records(transaction, [part for part in parts if isinstance(part, StoredRecord)])
            for part in parts:
                if isinstance(part, StoredCheckpoint):
                    transaction.checkpoints.load(part)
                elif isinstance(part, StoredPending):
                    transaction.checkpoints.write_pending(part.thread, part.id, [(part.write, False)])
            transaction.finish()

        self._database.write(load)

    def finish(self, identity: Identity, updated: str, progress: Progress | None) -> None:
        """Make it a store that every process can open."""
        at = to_micros(datetime.fromisoformat(updated)) if updated else 0

        def finish(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM gone")  # the index is made of what is there
            connection.execute(
                "UPDATE state SET store = ?, updated = ?,"
                " seq = max(?, ifnull((SELECT max(max(no, seq)) FROM record), 0))",
                (identity.store, at, identity.position),
            )

        self._database.write(finish)
        WordIndex(self._target.folder / "index", self._database).rebuild(progress)
        self._database.close()
        self._target.complete()


def _remove(transaction: RecordTransaction, obsolete: Sequence[StorePart]) -> None:
    for part in obsolete:
        if isinstance(part, StoredRecord):
            transaction.delete(part.record.id)
    transaction.checkpoints.delete([part.row for part in obsolete if isinstance(part, StoredCheckpoint)])


def _store_records(transaction: RecordTransaction, parts: Sequence[StoredRecord]) -> None:
    for record, _, _, numbers in parts:
        transaction.restore(record, rules.prepare_text(record), record.given or {}, numbers)
    codes = group_codes(parts)
    for embedder, by_id in group_vectors(parts).items():
        transaction.store_vectors(embedder, by_id, codes[embedder])
