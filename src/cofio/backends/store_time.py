"""The store's time: the machine's clock, made steady, in microseconds since 1970."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from ..system.processes import read_steady_clock

REBASE_AFTER = 86_400.0  # seconds that the clock must have been ahead of the time that passed, to be taken for right
PURGE_AFTER = 3600.0  # seconds, by a clock that cannot be set, that a record must have been seen expired
SLACK = 300_000_000  # microseconds: a clock that is set back by more than these five minutes had been wrong


def compute_store_time(now: int, updated: int) -> int:
    """Compute the store's time from the machine's clock and the time of the newest change.

    A clock that was set back by some minutes does not take the store's time back with it, so nothing that has expired
    becomes visible again. One that was set back by more had been wrong before, and the time of that change is ignored.
    """
    return updated if now < updated <= now + SLACK else now


class ExpiryEvidence:
    """What has surely expired: what expired by a clock that was wrong cannot be brought back once it is removed."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._started = (read_steady_clock(), clock())
        self._ahead_since: float | None = None
        self._evidence: tuple[float, datetime] | None = None
        """Since when, by a clock that cannot be set, every check has found what expired before that time expired."""

    def find_expired_before(self) -> datetime | None:
        """Return the time before which all has expired that every check of an hour found so; None until it is over.

        A clock that was set ahead since this began does not count, unless it stays so for a day: then it had been
        behind, as on a machine that learns the time late.
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
        return before
