"""The store's time: the machine's clock, made steady, in microseconds since 1970."""

from __future__ import annotations

import apsw

SLACK = 300_000_000  # microseconds: a clock that is set back by more than these five minutes had been wrong


def compute_store_time(now: int, updated: int) -> int:
    """Compute the store's time from the machine's clock and the time of the newest change.

    A clock that was set back by some minutes does not take the store's time back with it, so nothing that has expired
    becomes visible again. One that was set back by more had been wrong before, and the time of that change is ignored.
    """
    return updated if now < updated <= now + SLACK else now


def correct_time(connection: apsw.Connection, now: int) -> None:
    """Set back the store's time, and what was measured by it, when a clock that was ahead has been corrected."""
    connection.execute("UPDATE state SET updated = ?1, indexed_at = min(indexed_at, ?1)", (now,))
    connection.execute("UPDATE embedder SET seen_at = min(seen_at, ?)", (now,))
