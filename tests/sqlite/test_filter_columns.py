"""Filters by columns: the same hits as when every record is held against the filter, whatever was changed meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from tests.sqlite.older_copy import put_back

from cofio import AllOf, AnyOf, Draft, Engine, Filter, Importance, Json, Kind, Query, Scope, Settings, Where
from cofio.backends.sqlite import SqliteBackend, filter_columns, searcher
from cofio.backends.sqlite.filter_columns import RowFilter
from cofio.backends.sqlite.word_index import IndexState
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.fresh_vectors import FreshVectors
from cofio.values.query import Mode

QUIET = Settings(background=False, embedder="none", sync="normal")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
SCOPES = (Scope("a"), Scope("a", "b"), Scope("ab"))
WORDS = ("apple", "pear", "plum", "cherry", "quince", "medlar", "sloe", "fig")
AUTHORS = ("ann", "bob", "")
TAGS = ("auth", "Bug", "api", "deploy")
NUMBERS = (-2, -1, 0, 1, 2, 0.5, 2**53, 2**53 + 1, 2**61 - 1, 10**30)
DATA: tuple[Any, ...] = (*NUMBERS, True, False, None, "1", "x", "", [1], {"b": 1})
ORDERS = ("<", "<=", ">", ">=")
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
    order = draw.choice(ORDERS)
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
    if not hits:  # columns are dropped and made again all the time
        monkeypatch.setattr(filter_columns, "MOST_COLUMNS", 2)
        monkeypatch.setattr(filter_columns, "SPARE", 0)
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
        title = Where("title", "=", "old")  # no column is read for others from a snapshot that is overtaken
        assert backend._indexes.columns.open(early, IndexState.read(early), title, known_only=False) is None


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
