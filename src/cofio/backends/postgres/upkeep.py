"""Background work on a store: what has expired goes, and large sets of vectors get an index.

Words and counts are written with each record, so there is nothing to bring up to date. Any number of processes may do
this at once: each takes what no other has.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from ...values.progress import Progress
from ...values.times import from_micros, to_micros
from ..store_time import ExpiryEvidence, compute_store_time
from ..upkeep_interface import Erase, Index, Purge, ReportFault, Task, Tidy, Upkeep
from .database import Connection, Connections, FirstAnswer
from .hnsw import VectorIndexes
from .record_rows import CORRECT_TIME, NOTE_MOMENT, OPEN_SNAPSHOT, OPEN_TRANSACTION, PostgresTransaction
from .vector_rows import drop_vectors, fill

PURGED_AT_ONCE = 1000
_TABLES = (
    "record", "record_id", "posting", "given", "vector", "unembedded", "checkpoint", "checkpoint_word", "pending",
)  # fmt: skip


class PostgresUpkeep:
    """The background work of one store."""

    def __init__(self, connections: Connections, clock: Callable[[], datetime]) -> None:
        self._connections = connections
        self._clock = clock
        self._evidence = ExpiryEvidence(clock)
        self._indexes = VectorIndexes(connections)

    def run(self, task: Task) -> Upkeep:
        """Do a piece of the work."""
        match task:
            case Index():
                return self._index(task)
            case Tidy():
                return self._tidy()
            case Purge():
                return self._purge()
            case Erase():
                return self._erase(task)
            case ReportFault():
                self._connections.fetch("UPDATE @state SET fault = $1 WHERE fault <> $1", (task.fault,))
                return Upkeep()

    def rebuild(self, embedder: str | None, progress: Progress | None, *, vectors: bool) -> None:
        """Rebuild everything derived."""
        self._purge()
        self._rebuild_words(progress)
        rows = self._connections.fetch("SELECT no, name FROM @embedder")
        dropped = [number for number, name in rows if vectors or (embedder is not None and name != embedder)]
        if dropped:
            drop_vectors(self._connections, dropped)
        if embedder is not None:
            fill(self._connections, embedder)
        if progress:
            progress("vectors", 1, 1)

    def _rebuild_words(self, progress: Progress | None) -> None:
        """Write the words of every record again, some records at a time, and count each scope."""
        scopes = [scope for (scope,) in self._connections.fetch("SELECT no FROM @scope ORDER BY no")]
        for done, scope in enumerate(scopes, 1):
            self._connections.transact(OPEN_TRANSACTION, partial(self._rebuild_scope, scope))
            if progress:
                progress("words", done, len(scopes))

    def _rebuild_scope(self, scope: int, connection: Connection, opening: FirstAnswer) -> None:
        PostgresTransaction(self._connections, connection, opening, self._clock()).rebuild_words(scope)

    def count_waiting(self, embedder: str) -> int:
        """Count the records that have no vector of their present text."""
        number = fill(self._connections, embedder)
        return int(self._connections.fetch("SELECT count(*) FROM @unembedded WHERE embedder = $1", (number,))[0][0])

    def _index(self, task: Index) -> Upkeep:
        waiting = 0
        if task.count_waiting and task.embedder is not None:
            waiting = self.count_waiting(task.embedder)
        return Upkeep(waiting=waiting)

    def _tidy(self) -> Upkeep:
        """Remove what has surely expired, and let the store's time go on without changes, or back after a wrong one."""
        before = self._evidence.find_expired_before()
        while before is not None and self._purge_before(to_micros(before), PURGED_AT_ONCE) >= PURGED_AT_ONCE:
            pass
        self._keep_time()
        self._indexes.tend()
        self._connections.forget_marks()
        return Upkeep(expired_before=before)

    def _keep_time(self) -> None:
        at = to_micros(self._clock())
        ((updated, has_expired),) = self._connections.fetch(
            "SELECT m.at, EXISTS (SELECT FROM @record WHERE expires_at > m.at AND expires_at <= $1::bigint)"
            " OR EXISTS (SELECT FROM @checkpoint WHERE expires_at > m.at AND expires_at <= $1::bigint)"
            " FROM (SELECT coalesce(max(at), 0) AS at FROM @moment) AS m",
            (at,),
        )
        if compute_store_time(at, updated) < updated:
            self._connections.fetch(CORRECT_TIME, (at,))
        elif has_expired:
            self._connections.fetch(NOTE_MOMENT, (at, 0))

    def _purge(self) -> Upkeep:
        """Remove all that has expired by the store's time."""
        before = compute_store_time(to_micros(self._clock()), self._connections.fetch(OPEN_SNAPSHOT)[0][-1])
        done = 0
        while some := self._purge_before(before, PURGED_AT_ONCE):
            done += some
        return Upkeep(done=done, expired_before=from_micros(before))

    def _purge_before(self, before: int, limit: int) -> int:
        return self._connections.transact(
            OPEN_TRANSACTION,
            lambda connection, opening: PostgresTransaction(
                self._connections, connection, opening, datetime.now(UTC)
            ).purge(before, limit),
        )

    def _erase(self, task: Erase) -> Upkeep:
        """Have PostgreSQL clear the rows that were deleted. Its log and its copies are its operator's."""
        if task.seconds is None:
            for table in _TABLES:
                with self._connections.borrow() as connection:  # not in a transaction
                    self._connections.execute(connection, f"VACUUM @{table}")
        return Upkeep()
