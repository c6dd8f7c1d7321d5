"""What a count that is remembered says is what a count of every record would say."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import apsw
import pytest
from tests.sqlite.older_copy import put_back

from cofio import (
    AllOf,
    Change,
    Delete,
    Draft,
    Drop,
    Edit,
    Engine,
    Extend,
    Filter,
    Json,
    Kind,
    Put,
    Scope,
    Settings,
    Where,
)
from cofio.backends.sqlite import counts
from cofio.backends.sqlite.conditions import within
from cofio.values.query import Bounds
from cofio.values.times import to_micros

ONE, OTHER = Scope("demo"), Scope("demo", "other")
ASKED: list[tuple[Scope, tuple[Kind, ...], Filter | None]] = [
    (ONE, (), None),
    (ONE, (Kind.NOTE,), None),
    (OTHER, (Kind.NOTE, Kind.STATE), None),
    (ONE, (Kind.NOTE,), Where("tags", "has", "red")),
    (ONE, (), AllOf(Where("author", "=", "ada"), Where("data.n", ">=", 3))),
    (ONE, (), Where("data.on", "=", True)),
    (ONE, (), Where("data.on", "=", 1)),
]


def _count_all(memory: Engine, scope: Scope, kinds: tuple[Kind, ...], only: Filter | None) -> int:
    return len(memory.list(scope, kinds=kinds, filter=only, limit=10_000))


def test_a_count_is_right_after_any_change(
    memory: Engine, tmp_path: Path, clock: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    draw = random.Random(7)
    with Engine.open(tmp_path / "store", settings=Settings(embedder="none", background=False), clock=clock) as another:
        ids: list[str] = []
        for number in range(300):
            writer = draw.choice((memory, another))
            scope = draw.choice((ONE, OTHER))
            match draw.randrange(10):
                case 0 | 1 | 2 | 3:
                    data: Json = {"n": number % 7, "on": draw.choice((True, 1, "1"))}
                    tags = draw.sample(("red", "Red", "blue"), 1)
                    ttl = draw.choice((None, None, 50.0))
                    record = writer.write(scope, text=f"note {number}", tags=tags, author="ada", data=data, ttl=ttl)
                    ids.append(record.id)
                case 4:
                    writer.put(scope, draw.choice("abc"), data=number, kind=Kind.STATE)
                case 5 if ids:
                    writer.apply([Extend(id=draw.choice(ids), ttl=None)])
                case 6 if ids:
                    advance(draw.choice((1, 30)))
                case 7 | 8 if ids:
                    _change(writer, draw, ids, scope)
                case 9 if number % 50 == 49:
                    writer.apply([Drop(scope=OTHER)])
            for asked in draw.sample(ASKED, 3):
                scope, kinds, only = asked
                assert memory.count(scope, kinds=kinds, filter=only) == _count_all(memory, *asked), (number, asked)


def _change(writer: Engine, draw: random.Random, ids: list[str], scope: Scope) -> None:
    """Edit, move or delete a record, or put it in again, as long as it is there."""
    chosen = draw.choice(ids)
    if writer.read_many([chosen]) == [None]:
        return
    choices: list[list[Change]] = [
        [Edit(id=chosen, fields={"tags": ("blue",)})],
        [Edit(id=chosen, fields={"scope": scope})],
        [Delete(id=chosen)],
        [Delete(id=chosen), Put(draft=Draft(scope=scope, id=chosen, text="again", tags=("red",)))],
    ]
    writer.apply(draw.choice(choices))


def test_a_list_that_only_grows_is_counted_once(memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions: list[bool] = []

    def note(bounds: Bounds, now: int, *, by_row: bool) -> object:
        conditions.append(not by_row and now > 0)
        return within(bounds, now, by_row=by_row)

    monkeypatch.setattr(counts, "within", note)
    for number in range(5):
        memory.write(ONE, text=f"note {number}")
        memory.put(ONE, "phase", data=number, kind=Kind.STATE)
        assert memory.count(ONE, kinds=(Kind.NOTE,)) == number + 1
    assert conditions.count(True) == 1
    memory.delete(memory.list(ONE, kinds=(Kind.NOTE,))[0].id)
    assert memory.count(ONE, kinds=(Kind.NOTE,)) == 4
    assert conditions.count(True) == 2


def test_a_snapshot_that_is_older_than_what_is_remembered_counts_for_itself(
    memory: Engine, clock: Callable[[], datetime]
) -> None:
    cache, at = counts.CountCache(), to_micros(clock())
    bounds = Bounds(scope=ONE)
    memory.write(ONE, text="first")
    with memory._backend._database.snapshot() as earlier:  # type: ignore[attr-defined]
        memory.write(ONE, text="second")
        with memory._backend._database.snapshot() as later:  # type: ignore[attr-defined]
            assert isinstance(later, apsw.Connection)
            assert cache.count(later, bounds, at) == 2
        assert cache.count(earlier, bounds, at) == 1


def test_nothing_is_remembered_of_a_database_that_was_put_back(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=Settings(embedder="none", background=False)) as memory:
        memory.write(ONE, text="a note")
        memory.backup(tmp_path / "copy")
        for _ in range(5):
            memory.write(ONE, text="another note")
        assert (memory.count(ONE), memory.count(OTHER)) == (6, 0)
        put_back(tmp_path / "copy" / "memory.db", tmp_path / "store" / "memory.db")
        for _ in range(5):
            memory.write(OTHER, text="a note elsewhere")
        assert (memory.count(ONE), memory.count(OTHER)) == (6, 5)
