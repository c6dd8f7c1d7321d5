"""No statement of a call that should take as long in a large store as in a small one walks through a whole table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.coded import CodedEmbedder

from cofio import Draft, Engine, Kind, Query, Scope, Settings, Where
from cofio.backends.sqlite.database import Database
from cofio.conversations.conversations import Conversations
from cofio.conversations.projects import Project
from cofio.conversations.retrieval import MemoryQuery, search_episodes
from cofio.embed.hashed import HashedEmbedder
from cofio.extract.extractor import Message

HERE = Scope("here")
SAID = "I bought a red bicycle in Oslo. My sister Priya lives in Bergen now. I love hiking in the hills."
_WALK = re.compile(r"SCAN (record|vector|tag|given|gone|checkpoint|pending|thread)\b")
# To move along an index in its order, up to a limit, is no walk through the table.
_IN_ORDER = re.compile(r"ORDER BY (seq|id|checkpoint\.no)( DESC)? LIMIT|SELECT (max|min)\(", re.IGNORECASE)


class Statements:
    """What was run on the connections of a store."""

    def __init__(self) -> None:
        self.run: dict[str, Any] = {}

    def note(self, _cursor: apsw.Cursor, sql: str, values: Any) -> bool:
        """Note a statement with the first values that it had."""
        if isinstance(values, tuple | list) and any(type(value).__name__ == "CArrayBinding" for value in values):
            values = None
        self.run.setdefault(sql, values)
        return True


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    """The statements of every connection that is opened from here on."""
    noted, connect = Statements(), Database._connect

    def connect_noted(self: Database, *cache: int) -> apsw.Connection:
        connection = connect(self, *cache)
        connection.exec_trace = noted.note
        return connection

    monkeypatch.setattr(Database, "_connect", connect_noted)
    return noted


@pytest.fixture
def engine(statements: Statements, tmp_path: Path) -> Iterator[Engine]:
    """A memory with some of everything."""
    settings = Settings(background=False, embedder="none", sync="normal")
    with Engine.open(tmp_path / "store", settings=settings, embedder=HashedEmbedder()) as opened:
        opened.write_many([Draft(scope=HERE, text=f"note {number}", tags=("a",)) for number in range(50)])
        opened.put(HERE, "k", data={"n": 1})
        converse(opened)
        opened.checkpoints.save("library", "t", "c0", {"messages": ["a"]})
        opened.settle()
        statements.run.clear()
        yield opened


def converse(engine: Engine) -> None:
    conversations, project = Conversations(engine), Project()
    began = datetime(2026, 3, 1, tzinfo=UTC)
    conversations.append(
        project, "s", [
            Message(id="", sender="alice", role="user", at=began + timedelta(seconds=n), text=f"{SAID} {n}")
            for n in range(6)
        ],
    )  # fmt: skip
    conversations.carve(project, "s", whole=True)


def recall(engine: Engine) -> None:
    home = Project().scope / "user" / "alice"
    assert search_episodes(engine, home, MemoryQuery(text="bicycle in Oslo", limit=5)).hits


def search(engine: Engine) -> None:
    for mode in ("keyword", "semantic", "hybrid"):
        assert engine.search(Query("note 7", scope=HERE, exact=True, mode=mode, floor=0.0))
        engine.search(Query("note 7", scope=HERE, mode=mode, filter=Where("tags", "has", "a")))


def change(engine: Engine) -> None:
    written = engine.write(HERE, text="something new", dedupe=True)
    engine.settle()
    engine.edit(written.id, text="something else")
    engine.move(written.id, scope=HERE / "there")
    engine.put(HERE, "k", data={"n": 2})
    assert engine.same(HERE, "note 7", kind=Kind.NOTE)
    engine.read(written.id)
    engine.delete(written.id)
    engine.drop(HERE / "there")


def look(engine: Engine) -> None:
    engine.list(HERE, limit=5)
    engine.headings(HERE, limit=5)
    engine.get(HERE, "k")


def save(engine: Engine) -> None:
    for number in range(1, 4):
        engine.checkpoints.save("library", "t", f"c{number}", {"messages": ["a"] * number})
    assert engine.checkpoints.load("library", "t")
    engine.checkpoints.list("library", "t", limit=2)
    engine.checkpoints.delete("library", "t", "c1")


@pytest.mark.parametrize("act", [converse, recall, search, change, look, save])
def test_no_table_is_walked_through(
    engine: Engine, statements: Statements, tmp_path: Path, act: Callable[[Engine], None]
) -> None:
    act(engine)
    ran = [sql for sql in statements.run if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", sql)]
    assert len(ran) > 3
    plans = apsw.Connection(str(tmp_path / "store" / "memory.db"))
    walks = {}
    for sql in ran:
        steps = [
            step[-1] for step in plans.execute(f"EXPLAIN QUERY PLAN {sql}", statements.run[sql] or _fill(plans, sql))
        ]
        if walked := [step for step in steps if _WALK.search(step)]:
            walks[sql] = walked
    plans.close()
    assert walks == {}


def _fill(connection: apsw.Connection, sql: str) -> tuple[None, ...]:
    """Nothing for each value that a statement binds: its plan does not depend on them."""
    for count in range(40):
        try:
            connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * count).fetchall()
        except apsw.BindingsError:
            continue
        return (None,) * count
    raise AssertionError(sql)


def test_a_store_of_an_older_program_gets_the_better_index(tmp_path: Path) -> None:
    Engine.open(tmp_path / "store", settings=Settings(background=False, embedder="none")).close()
    old = apsw.Connection(str(tmp_path / "store" / "memory.db"))
    old.execute("DROP INDEX record_text; CREATE INDEX record_digest ON record (digest)")
    old.execute("BEGIN IMMEDIATE")  # as another program that writes
    Engine.open(tmp_path / "store", settings=Settings(background=False, embedder="none")).close()
    assert list_indexes(old) == {"record_digest"}
    old.execute("COMMIT")
    Engine.open(tmp_path / "store", settings=Settings(background=False, embedder="none")).close()
    assert list_indexes(old) == {"record_text"}
    old.close()


def list_indexes(connection: apsw.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%(digest%' AND type = 'index'")
    return {name for (name,) in rows}


def test_vectors_without_token_codes_and_the_contents_of_candidates_are_looked_up(
    statements: Statements, tmp_path: Path
) -> None:
    settings = Settings(background=False, embedder="none", sync="normal")
    with Engine.open(tmp_path / "store", settings=settings, embedder=CodedEmbedder()) as engine:
        engine.write_many([Draft(scope=HERE, text=f"turn {n}", parent="s", position=n) for n in range(50)])
        engine.settle()
        statements.run.clear()
        engine.settle()
        engine.search(Query("turn 7", floor=0.0))
    ran = [sql for sql in statements.run if "token_codes" in sql]
    plans = apsw.Connection(str(tmp_path / "store" / "memory.db"))
    steps = [
        [step[-1] for step in plans.execute(f"EXPLAIN QUERY PLAN {sql}", statements.run[sql] or _fill(plans, sql))]
        for sql in ran
    ]
    plans.close()
    assert len(ran) == 2
    assert any("vector_uncoded" in step for step in steps[0])
    assert not [step for plan in steps for step in plan if _WALK.search(step)]
