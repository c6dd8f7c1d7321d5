"""The store's time: the machine's clock, made steady, in microseconds since 1970."""

from __future__ import annotations

import apsw

SLACK = 300_000_000  # microseconds: a clock that is set back by more than these five minutes had been wrong


def steady(now: int, updated: int) -> int:
    """The store's time: a clock that was set back by some minutes does not take the store back with it, so nothing that
    has expired comes to life again. When it was set back by more, it had been wrong, and what it said is forgotten.
    """
    return updated if now < updated <= now + SLACK else now


def correct_time(connection: apsw.Connection, now: int) -> None:
    """Take back the store's time, and what was measured by it, when a clock that was ahead has been put right."""
    connection.execute("UPDATE state SET updated = ?1, indexed_at = min(indexed_at, ?1)", (now,))
    connection.execute("UPDATE embedder SET seen_at = min(seen_at, ?)", (now,))
