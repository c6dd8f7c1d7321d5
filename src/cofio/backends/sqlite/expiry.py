"""How expired records are removed, and how the store's time is corrected when a clock was wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from ...system.processes import read_steady_clock
from ...values.times import to_micros
from .database import Database
from .record_rows import RecordTransaction
from .store_time import compute_store_time, correct_time
from .word_index import IndexState

REBASE_AFTER = 86_400.0  # seconds that the clock must have been ahead of the time that passed, to be taken for right
PURGE_AFTER = 3600.0  # seconds, by a clock that cannot be set, that a record must have been seen expired


class Expiry:
    """Removes what has expired, which cannot be undone if it was the clock that was wrong."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._started = (read_steady_clock(), clock())
        self._ahead_since: float | None = None
        self._evidence: tuple[float, datetime] | None = None
        """Since when, by a clock that cannot be set, every check has found what expired before that time expired."""

    def purge(self, before: datetime | None = None) -> tuple[int, datetime]:
        """Remove the records that expired before then, or by now; how many, and that time."""
        until = self._clock() if before is None else before
        at = to_micros(until)
        with self._database.snapshot() as connection:
            if not connection.execute("SELECT 1 FROM record WHERE expires_at <= ? LIMIT 1", (at,)).get:
                return 0, until
        return self._database.write(lambda connection: RecordTransaction(connection, until).purge(at)), until

    def purge_proven(self) -> datetime | None:
        """Remove what every check of an hour, which no change of the clock can fake, has found expired.

        Returns the time before which it expired; None while the hour is not over. A clock that was set ahead since
        this began does not count, unless it stays so for a day: then it had been behind, as on a machine that learns
        the time late.
        """
        now, passed, clock = time.monotonic(), read_steady_clock(), self._clock()
        expected = self._started[1] + timedelta(seconds=passed - self._started[0])
        if clock <= expected:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since = passed
        elif passed - self._ahead_since >= REBASE_AFTER:
            self._started, self._ahead_since, expected = (passed, clock), None, clock
        clock = min(clock, expected)
        since, before = self._evidence or (now, clock)
        before = min(before, clock)
        self._evidence = (since, before)
        if now - since < PURGE_AFTER:
            return None
        self._evidence = (now, clock)
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
