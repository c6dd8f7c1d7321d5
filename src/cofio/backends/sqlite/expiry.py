"""How expired records are removed, and how the store's time is corrected when a clock was wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ...values.times import to_micros
from ..store_time import ExpiryEvidence, compute_store_time
from .database import Database, correct_time
from .record_rows import RecordTransaction
from .word_index import IndexState


class Expiry:
    """Removes what has expired, which cannot be undone if it was the clock that was wrong."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._evidence = ExpiryEvidence(clock)

    def purge(self, before: datetime | None = None) -> tuple[int, datetime]:
        """Remove the records that expired before then, or by now; how many, and that time."""
        until = self._clock() if before is None else before
        at = to_micros(until)
        with self._database.snapshot() as connection:
            if not connection.execute("SELECT 1 FROM record WHERE expires_at <= ? LIMIT 1", (at,)).get:
                return 0, until
        return self._database.write(lambda connection: RecordTransaction(connection, until).purge(at)), until

    def purge_proven(self) -> datetime | None:
        """Remove what has surely expired; the time before which it did, or None while that is not known."""
        before = self._evidence.find_expired_before()
        if before is not None:
            self.purge(before)
        return before

    def keep_time(self) -> None:
        """Move the store's time past what has expired, so that it stays so, or back when a clock was ahead."""
        at = to_micros(self._clock())
        with self._database.snapshot() as connection:
            updated = IndexState.read(connection).updated
            is_ahead = compute_store_time(at, updated) < updated
            has_expired = any(
                connection.execute(
                    f"SELECT 1 FROM {table} WHERE expires_at > ? AND expires_at <= ? LIMIT 1", (updated, at)
                ).get
                for table in ("record", "checkpoint")
            )
        if is_ahead:
            self._database.write(lambda connection: correct_time(connection, at))
        elif has_expired:
            sql = "UPDATE state SET updated = max(updated, ?)"
            self._database.write(lambda connection: connection.execute(sql, (at,)).get)
