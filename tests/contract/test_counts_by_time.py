"""Records are counted by when they were created, in steps of time, and listed by when they expire."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from cofio import Engine, Kind, Scope
from cofio.values.errors import Invalid, LimitExceeded
from cofio.values.query import Where

NOTES = Scope("notes")
DAY = timedelta(days=1)
FIRST = datetime(2026, 2, 1, tzinfo=UTC)


def write(memory: Engine, text: str, at: datetime, kind: Kind = Kind.NOTE, scope: Scope = NOTES) -> None:
    memory.write(scope, text=text, kind=kind, created_at=at)


def test_each_step_has_the_number_of_its_records_by_kind(memory: Engine, advance: Callable[[float], None]) -> None:
    write(memory, "one", FIRST)
    write(memory, "two", FIRST + DAY - timedelta(microseconds=1))
    write(memory, "three", FIRST + DAY)
    write(memory, "four", FIRST + DAY, Kind.FACT)
    early = datetime(1969, 12, 31, 23, 59, tzinfo=UTC)
    write(memory, "early", early)
    memory.write(NOTES, text="short", created_at=FIRST, ttl=60)
    for first in (3, 2):
        counts = memory.count_by_time(FIRST, FIRST + 7 * DAY, DAY)
        assert [tuple(each) for each in counts] == [
            (FIRST, Kind.NOTE, first),
            (FIRST + DAY, Kind.FACT, 1),
            (FIRST + DAY, Kind.NOTE, 1),
        ]
        advance(61)  # what has expired is not counted
    (count,) = memory.count_by_time(early - DAY, early + DAY, DAY)
    assert count.at == datetime(1969, 12, 31, tzinfo=UTC)


def test_what_is_outside_of_the_time_or_the_bounds_is_not_counted(memory: Engine) -> None:
    write(memory, "before", FIRST - timedelta(seconds=1))
    write(memory, "inside", FIRST)
    write(memory, "at the end", FIRST + DAY)
    write(memory, "elsewhere", FIRST, scope=Scope("other"))
    counts = memory.count_by_time(FIRST, FIRST + DAY, timedelta(hours=1), NOTES)
    assert [each.records for each in counts] == [1]
    assert memory.count_by_time(FIRST, FIRST + DAY, DAY, NOTES, kinds=(Kind.FACT,)) == []
    assert memory.count_by_time(FIRST, FIRST + DAY, DAY, filter=Where("source", "=", "nobody")) == []


def test_too_many_steps_are_refused(memory: Engine) -> None:
    with pytest.raises(LimitExceeded):
        memory.count_by_time(FIRST, FIRST + 366 * DAY, timedelta(seconds=2))
    with pytest.raises(Invalid):
        memory.count_by_time(FIRST, FIRST + DAY, timedelta(0))
    with pytest.raises(Invalid):
        memory.count_by_time(FIRST.replace(tzinfo=None), FIRST + DAY, DAY)


def test_what_expires_next_is_listed_first(memory: Engine) -> None:
    memory.write(NOTES, text="in an hour", ttl=3600)
    memory.write(NOTES, text="never")
    memory.write(NOTES, text="in a minute", ttl=60)
    listed = memory.list(NOTES, order="expires", newest=False)
    assert [record.text for record in listed] == ["in a minute", "in an hour", "never"]
    assert [record.text for record in memory.list(NOTES, order="expires")] == ["never", "in an hour", "in a minute"]
