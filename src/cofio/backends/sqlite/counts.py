"""Counts of the records within bounds, remembered until a change can have made them wrong.

A count walks over every record within bounds, and a list says with each page how many there are. A session that only
writes and lists pays for what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple, TypeAlias

import apsw

from ...values.query import Bounds
from .conditions import Bound, within
from .database import read_generation

MOST_COUNTS = 256  # the numbers that are remembered
_Key: TypeAlias = tuple[int, str, tuple[Bound, ...]]
_STATE = "SELECT seq, records, EXISTS (SELECT 1 FROM record WHERE expires_at > ? AND expires_at <= ?) FROM state"


class _Count(NamedTuple):
    """How many records were within some bounds, and of which moment that is."""

    number: int
    seq: int
    records: int
    """How many records there were in all."""
    at: int


class CountCache:
    """The numbers that were last counted on one store, by the condition that they are of."""

    def __init__(self) -> None:
        self._counts: OrderedDict[_Key, _Count] = OrderedDict()
        self._lock = Lock()

    def count(self, connection: apsw.Connection, bounds: Bounds, at: int) -> int:
        """Return how many records are within bounds, and have not expired `at` that time, in a snapshot."""
        condition = within(bounds, 0, by_row=False)  # the time apart, this says all that a count depends on
        key = read_generation(connection), condition.sql, tuple(condition.values)
        with self._lock:
            known = self._counts.get(key)
        seq, records, has_expired = connection.execute(_STATE, (at if known is None else known.at, at)).get
        count = None
        if known is not None and not has_expired and known.at <= at and known.seq <= seq:
            count = _count_since(connection, bounds, known, seq, records, at)
        if count is None:
            condition = within(bounds, at, by_row=False)
            count = int(connection.execute(f"SELECT count(*) FROM record WHERE {condition.sql}", condition.values).get)
        with self._lock:
            self._counts[key] = _Count(count, seq, records, at)
            self._counts.move_to_end(key)
            if len(self._counts) > MOST_COUNTS:
                self._counts.popitem(last=False)
        return count


def _count_since(
    connection: apsw.Connection, bounds: Bounds, known: _Count, seq: int, records: int, at: int
) -> int | None:
    """Return the number with what was added since; None when records were changed or deleted that it may be made of."""
    if known.seq == seq:
        return known.number if known.records == records else None
    # A record's number is the change that it came with, and its kind is what it was.
    among = f" AND kind IN ({','.join('?' * len(bounds.kinds))})" if bounds.kinds else ""
    added, changed = connection.execute(
        f"SELECT count(*) FILTER (WHERE no > ?1), count(*) FILTER (WHERE no <= ?1{among}) FROM record WHERE seq > ?1",
        (known.seq, *bounds.kinds),
    ).get
    if changed or known.records + added != records:
        return None
    condition = within(bounds, at, by_row=True)
    inside = connection.execute(
        f"SELECT count(*) FROM record WHERE seq > ? AND no > ? AND {condition.sql}",
        (known.seq, known.seq, *condition.values),
    ).get
    return known.number + int(inside)
