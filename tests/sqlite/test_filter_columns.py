"""Filters by columns: the same hits as when every record is held against the filter, whatever was changed meanwhile."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from tests.sqlite.older_copy import put_back

from cofio import AllOf, AnyOf, Draft, Engine, Filter, Importance, Json, Kind, Query, Record, Scope, Settings, Where
from cofio.backends.sqlite import SqliteBackend, filter_columns, searcher
from cofio.backends.sqlite.filter_columns import RowFilter
from cofio.backends.sqlite.word_index import IndexState
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.fresh_vectors import FreshVectors
from cofio.values.query import Mode, Operator

QUIET = Settings(background=False, embedder="none", sync="normal")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
SCOPES = (Scope("a"), Scope("a", "b"), Scope("ab"))
WORDS = ("apple", "pear", "plum", "cherry", "quince", "medlar", "sloe", "fig")
AUTHORS = ("ann", "bob", "")
TAGS = ("auth", "Bug", "api", "deploy")
NUMBERS = (-2, -1, 0, 1, 2, 0.5, 2**53, 2**53 + 1, 2**61 - 1, 10**30)
DATA: tuple[Any, ...] = (*NUMBERS, True, False, None, "1", "x", "", [1], {"b": 1})
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMMANDS = ("write", "edit", "delete", "move", "settle")
# So few rows are named to the index, and so many hits are looked at: how it is asked for what passes depends on both.
WAYS = [(4000, 12_000), (0, 12_000), (4000, 0), (5, 60)]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An empty memory, in which columns are used however few records there are."""
    use_columns(monkeypatch, wanted=True)
    with Engine.open(tmp_path, settings=QUIET, embedder=HashedEmbedder(), clock=lambda: NOON) as opened:
        yield opened


def use_columns(monkeypatch: pytest.MonkeyPatch, *, wanted: bool) -> None:
    """Let filters be tested by columns, or by a walk through the records."""
    for name in ("SMALL", "SMALL_BY_WORDS"):
        monkeypatch.setattr(searcher, name, 0 if wanted else 10**9)


def make_draft(draw: random.Random, number: int, *, in_session: bool = False) -> Draft:
    """A record of any kind that filters can tell from others."""
    return Draft(
        scope=draw.choice(SCOPES),
        kind=Kind.TURN if in_session else draw.choice((Kind.NOTE, Kind.FACT)),
        title=draw.choice(("", "title", "other")),
        text=" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) + f" n{number}",
        author=draw.choice(AUTHORS),
        tags=tuple(draw.sample(TAGS, draw.randint(0, 3))),
        importance=draw.choice(list(Importance)),
        source=draw.choice(("python", "mcp")),
        parent=f"session{number // 20}" if in_session else None,
        position=number % 20 if in_session else draw.choice((None, 1, 2)),
        created_at=NOON - timedelta(hours=number if number % 7 else draw.randint(0, 500)),
        data=cast(
            Json, draw.choice((None, {"a": draw.choice(DATA)}, {"a": {"b": draw.choice(DATA)}, "n": number % 10}))
        ),
    )


def make_filter(draw: random.Random, depth: int = 0) -> Filter:
    """A filter of any kind; most of them are such that columns know all that they ask."""
    if depth < 2 and draw.random() < 0.35:
        parts = [make_filter(draw, depth + 1) for _ in range(draw.randint(0 if depth else 1, 3))]
        return draw.choice((AllOf, AnyOf))(*parts)
    order = draw.choice(list(ORDERS))
    moment = NOON - timedelta(hours=draw.randint(0, 400))
    name = draw.choice(("data.a", "data.a.b", "data.n"))
    tests: list[tuple[Any, Any, Any]] = [
        ("tags", "has", draw.choice(TAGS)),
        ("tags", "in", tuple(draw.sample(TAGS, draw.randint(0, 2)))),
        ("author", draw.choice(("=", "!=")), draw.choice(AUTHORS)),
        ("author", "in", tuple(draw.sample(AUTHORS, draw.randint(0, 3)))),
        ("kind", draw.choice(("=", "!=")), draw.choice((Kind.NOTE, Kind.FACT, Kind.TURN))),
        ("source", "=", "mcp"),
        ("title", draw.choice(("=", "!=")), "title"),
        ("importance", "in", (Importance.LOW, Importance.HIGH)),
        ("created_at", draw.choice((order, "=", "!=")), moment),
        ("updated_at", order, moment),
        ("position", draw.choice((order, "=", "!=")), draw.choice((1, 2, 1.5))),
        ("version", order, 1),
        ("scope", draw.choice(("=", "!=", "has")), draw.choice((*SCOPES, Scope()))),
        ("scope", "in", tuple(draw.sample(SCOPES, 2))),
        (name, draw.choice(("=", "!=")), draw.choice(DATA[:-2])),
        (name, order, draw.choice(NUMBERS)),
        (name, "in", tuple(draw.sample(DATA[:-2], draw.randint(0, 7)))),
        (name, order, "1"),
        ("author", order, "b"),
        ("id", "!=", "nothing"),
    ]
    return Where(*draw.choice(tests))


def passes(record: Record, filter_: Filter) -> bool:
    """Whether a record passes a filter, as its words say."""
    if not isinstance(filter_, Where):
        join = all if isinstance(filter_, AllOf) else any
        return join(passes(record, part) for part in filter_.parts)
    if filter_.operator == "in":
        one: Operator = "has" if filter_.name == "tags" else "="
        assert isinstance(filter_.value, tuple)
        return any(passes(record, Where(filter_.field, one, value)) for value in filter_.value)
    wanted: Any = filter_.value
    if filter_.name == "tags":
        return wanted.casefold() in {tag.casefold() for tag in record.tags}
    value: Any = record.data if filter_.name == "data" else getattr(record, filter_.name)
    for name in filter_.path:
        if not isinstance(value, dict) or name not in value:
            return filter_.operator == "!="
        value = value[name]
    if filter_.operator == "has":
        return bool(value.names[: len(wanted.names)] == wanted.names)
    if filter_.name != "data" and value is None:
        return filter_.operator == "!="
    if filter_.operator in ("=", "!="):
        return (is_same(value, wanted)) == (filter_.operator == "=")
    return sort_of(value) == sort_of(wanted) and ORDERS[filter_.operator](value, wanted)


def is_same(value: Any, wanted: Any) -> bool:
    """Whether two values are equal as JSON has it."""
    return sort_of(value) == sort_of(wanted) and bool(to_float(value) == to_float(wanted))


def sort_of(value: Any) -> str:
    """What sort of JSON value it is."""
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else type(value).__name__


def to_float(value: Any) -> Any:
    """A whole number that is too large for SQLite as what it becomes there."""
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def find(memory: Engine, query: Query) -> dict[str, float]:
    """What a search finds, with the scores."""
    return {hit.record.id: hit.score for hit in memory.search(query)}


def change(memory: Engine, draw: random.Random, number: int, *, in_session: bool) -> None:
    """Change something about the store."""
    records = memory.list(limit=1000)
    command = draw.choice(COMMANDS)
    if command == "write" or not records:
        memory.write_many([make_draft(draw, number + n, in_session=in_session) for n in range(draw.randint(1, 30))])
    elif command == "settle":
        memory.settle()
    elif command == "delete":
        memory.delete(draw.choice(records).id)
    elif command == "move":
        memory.move(draw.choice(records).id, scope=draw.choice(SCOPES))
    else:
        other = make_draft(draw, number, in_session=in_session)
        names = draw.sample(("author", "tags", "data", "text", "importance", "title", "source"), 2)
        memory.edit(draw.choice(records).id, **{name: getattr(other, name) for name in names})


@pytest.mark.parametrize(("few", "hits"), WAYS)
@pytest.mark.parametrize("in_session", [False, True])
def test_columns_and_a_walk_through_the_records_give_the_same_hits(
    memory: Engine, monkeypatch: pytest.MonkeyPatch, in_session: bool, few: int, hits: int
) -> None:
    monkeypatch.setattr(searcher, "FEW", few)
    monkeypatch.setattr(searcher, "MOST_HITS", hits)
    # Else a search makes vectors, and the next one has more to find.
    monkeypatch.setattr(FreshVectors, "add", lambda *_, **__: False)
    draw = random.Random(f"{in_session} {few} {hits}")
    for at in range(0, 200, 50):
        memory.write_many([make_draft(draw, at + n, in_session=in_session) for n in range(50)])
        if at == 100:
            memory.settle()
    for number in range(25):
        filter_, scope = make_filter(draw), draw.choice((Scope(), Scope("a")))
        text = " ".join(draw.sample(WORDS, draw.randint(1, 3)))
        # What stands around the best of a session depends on how many were weighed.
        limit = 1000 if in_session else draw.choice((3, 1000))
        for mode in MODES:
            query = Query(text, mode=mode, filter=filter_, scope=scope, limit=limit, floor=0.0)
            use_columns(monkeypatch, wanted=True)
            by_columns = find(memory, query)
            use_columns(monkeypatch, wanted=False)
            by_walk = find(memory, query)
            # Which of two that are equally good comes first may differ, and so may the last digit of a cosine.
            assert list(by_columns.values()) == pytest.approx(list(by_walk.values()), abs=1e-6), (filter_, mode)
            if limit == 1000:
                assert by_columns == pytest.approx(by_walk, abs=1e-6), (filter_, mode)
        change(memory, draw, 300 + 40 * number, in_session=in_session)


@pytest.mark.parametrize("seed", range(2))
def test_a_search_finds_all_that_pass_and_nothing_else(memory: Engine, seed: int) -> None:
    draw = random.Random(seed)
    memory.write_many([make_draft(draw, number) for number in range(300)])
    for number in range(25):
        filter_ = make_filter(draw)
        records = memory.list(limit=1000)
        passing = {record.id for record in records if passes(record, filter_)}
        with_fig = {record.id for record in records if "fig" in record.text.split()}
        found = {mode: find(memory, Query("fig", mode=mode, filter=filter_, limit=1000, floor=0.0)) for mode in MODES}
        assert set(found["keyword"]) == passing & with_fig, filter_
        assert set(found["semantic"]) <= passing, filter_
        assert set(found["hybrid"]) >= passing & with_fig, filter_
        if not number % 5:
            memory.settle()
            found = {"semantic": find(memory, Query("fig", mode="semantic", filter=filter_, limit=1000, floor=0.0))}
            assert set(found["semantic"]) == passing, filter_
        change(memory, draw, 400 + 40 * number, in_session=False)


def open_filter(backend: SqliteBackend, connection: Any, filter_: Filter) -> RowFilter:
    """Which rows may pass a filter, as of the snapshot that the connection has."""
    found = backend._indexes.columns.open(connection, IndexState.read(connection), filter_, known_only=False)
    assert found is not None
    return found


def test_a_snapshot_that_is_overtaken_still_has_what_passed_in_it(memory: Engine) -> None:
    backend, annes = memory._backend, Where("author", "=", "ann")
    assert isinstance(backend, SqliteBackend)
    first, second = memory.write_many([Draft(scope=SCOPES[0], text="fig", author=name) for name in ("ann", "bob")])
    with backend._database.snapshot() as early:
        before = open_filter(backend, early, annes)
        memory.edit(first.id, author="bob")
        memory.edit(second.id, author="ann")
        memory.delete(first.id)
        with backend._database.snapshot() as late:
            assert open_filter(backend, late, annes).select([2]) == [0]
        for early_filter in (before, open_filter(backend, early, annes)):
            assert 1 in early_filter.selection.tolist()
            assert 0 in early_filter.select([1, 2])


def test_a_column_is_not_read_from_a_snapshot_that_is_overtaken(memory: Engine) -> None:
    backend = memory._backend
    assert isinstance(backend, SqliteBackend)
    record = memory.write(SCOPES[0], text="fig", author="ann", title="old")
    with backend._database.snapshot() as early:
        state = IndexState.read(early)
        memory.edit(record.id, title="new")
        assert len(memory.search(Query("fig", mode="keyword", filter=Where("author", "=", "ann")))) == 1
        columns = backend._indexes.columns
        assert columns.open(early, state, Where("title", "=", "old"), known_only=False) is None
    assert len(memory.search(Query("fig", mode="keyword", filter=Where("title", "=", "new")))) == 1
    assert not memory.search(Query("fig", mode="keyword", filter=Where("title", "=", "old")))


@pytest.mark.parametrize(("written", "is_read_before"), [(1, True), (5, False), (7, True)])  # lost were five
def test_columns_are_read_anew_when_the_database_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, is_read_before: bool
) -> None:
    use_columns(monkeypatch, wanted=True)
    annes = Query("fig", mode="keyword", filter=Where("author", "=", "ann"))
    with Engine.open(tmp_path / "store", settings=QUIET) as memory:
        memory.write(SCOPES[0], text="fig", author="bob")
        memory.backup(tmp_path / "copy")
        for _ in range(5):
            memory.write(SCOPES[0], text="fig", author="bob")
        assert not memory.search(annes)
        put_back(tmp_path / "copy" / "memory.db", tmp_path / "store" / "memory.db")
        if is_read_before:
            assert not memory.search(annes)
        ids = {memory.write(SCOPES[0], text="fig", author="ann").id for _ in range(written)}
        assert {hit.record.id for hit in memory.search(annes)} == ids


def test_columns_that_were_asked_for_the_longest_ago_are_dropped(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_columns, "MOST_COLUMNS", 3)
    backend = memory._backend
    assert isinstance(backend, SqliteBackend)
    memory.write_many([Draft(scope=SCOPES[0], text="fig", data={f"n{n}": 1}, tags=(f"t{n}",)) for n in range(10)])
    for number in [*range(10), 0]:
        for filter_ in (Where(f"data.n{number}", "=", 1), Where("tags", "has", f"t{number}")):
            assert len(memory.search(Query("fig", mode="keyword", filter=filter_))) == 1
            assert len(backend._indexes.columns._columns) <= 3
    everything = AllOf(*(Where(f"data.n{n}", "!=", 2) for n in range(10)))
    assert len(memory.search(Query("fig", mode="keyword", filter=everything))) == 10


def test_a_filter_is_remembered_until_something_changes(memory: Engine) -> None:
    backend = memory._backend
    assert isinstance(backend, SqliteBackend)
    ones, trues = Where("data.n", "=", 1), Where("data.n", "=", True)
    assert ones == trues
    records = memory.write_many([Draft(scope=SCOPES[0], text="fig", data={"n": n}) for n in (1, True, 2)])
    with backend._database.snapshot() as connection:
        first = open_filter(backend, connection, ones)
        assert open_filter(backend, connection, trues).selection.tolist() == [2]
        assert open_filter(backend, connection, ones) is first
        assert first.selection.tolist() == [1]
    memory.edit(records[2].id, data={"n": 1})
    with backend._database.snapshot() as connection:
        assert open_filter(backend, connection, ones).selection.tolist() == [1, 3]


@pytest.mark.parametrize("hits_for_a_row", [1, 100])
def test_words_that_hardly_any_passing_record_has_are_found_in_those(
    memory: Engine, monkeypatch: pytest.MonkeyPatch, hits_for_a_row: int
) -> None:
    monkeypatch.setattr(searcher, "HITS_FOR_A_ROW", hits_for_a_row)
    memory.write_many(
        [Draft(scope=SCOPES[0], text=f"plum {'plum' * (n % 10 > 0)} {n}", data={"n": n % 10}) for n in range(2000)]
    )
    memory.settle()
    passing = Where("data.n", "=", 0)
    found = find(memory, Query("plum", mode="keyword", filter=passing, limit=150, floor=0.0))
    assert set(found) == {record.id for record in memory.list(filter=passing, limit=1000)} & set(found)
    assert len(found) == 150


def test_a_small_scope_needs_no_columns(memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = memory._backend
    assert isinstance(backend, SqliteBackend)
    memory.write_many([Draft(scope=SCOPES[n % 2], text="fig", author=AUTHORS[n % 3]) for n in range(60)])
    monkeypatch.setattr(searcher, "SMALL", 50)
    query = Query("fig", mode="keyword", scope=SCOPES[1], filter=Where("author", "=", "ann"), limit=100)
    assert len(memory.search(query)) == 10
    assert not backend._indexes.columns._columns
    assert len(memory.search(Query("fig", mode="keyword", filter=query.filter, limit=100))) == 20
    assert backend._indexes.columns._columns
    assert len(memory.search(query)) == 10


def test_columns_do_not_keep_what_was_deleted_for_ever(memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_columns, "SPARE", 4)
    backend = memory._backend
    assert isinstance(backend, SqliteBackend)
    query = Query("fig", mode="keyword", filter=Where("author", "=", "ann"), limit=100)
    for _ in range(10):
        records = memory.write_many([Draft(scope=SCOPES[0], text="fig", author="ann") for _ in range(10)])
        assert len(memory.search(query)) == 10
        for record in records:
            memory.delete(record.id)
        assert not memory.search(query)
    assert backend._indexes.columns._size <= 20
