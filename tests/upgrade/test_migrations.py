"""Stores written by other versions: older ones are brought up to date, newer and foreign ones are left alone."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from tests.coded import CodedEmbedder, encode_words

from cofio import Conflict, Draft, Engine, Importance, Kind, Query, Record, Scope, Settings, Unavailable
from cofio.backends.sqlite import database as database_module
from cofio.backends.sqlite.database import APPLICATION, NEEDED_SCHEMA, load_migrations, migrate
from cofio.backends.store_copy import StoredRecord
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine import opening
from cofio.values.changes import Put

SCHEMA1 = Path(__file__).parent / "schema1.sql"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
QUIET = Settings(background=False, embedder="none")


def opened(store: Path) -> Engine:
    """The store, in the middle of 2026."""
    return Engine.open(store, settings=QUIET, embedder=HashedEmbedder(), clock=lambda: NOW)


def tables(connection: apsw.Connection) -> set[str]:
    """The names of the tables that are no part of a virtual one."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {str(name) for (name,) in rows.fetchall()}


@pytest.fixture
def database(tmp_path: Path) -> apsw.Connection:
    """An empty database file."""
    return apsw.Connection(str(tmp_path / "memory.db"))


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store that a program at schema 1 left behind: its database alone, without the derived folders."""
    store = tmp_path / "old"
    store.mkdir()
    connection = apsw.Connection(str(store / "memory.db"))
    connection.execute(SCHEMA1.read_text()).fetchall()
    connection.close()
    return store


def test_steps_are_numbered_from_one_without_gaps() -> None:
    assert [number for number, _ in load_migrations()] == list(range(1, len(load_migrations()) + 1))


def test_steps_are_made_in_order_and_each_once(database: apsw.Connection, tmp_path: Path) -> None:
    steps = [
        (1, "CREATE TABLE one (x); INSERT INTO one VALUES (1)"),
        (2, "SELECT x FROM one; ALTER TABLE one ADD COLUMN y; CREATE TABLE two (x)"),
        (3, "INSERT INTO two SELECT x + 1 FROM one"),
    ]
    for upto in (1, 1, 3, 3):
        migrate(database, tmp_path, steps[:upto])
        assert database.pragma("user_version") == upto
    assert database.pragma("application_id") == APPLICATION
    assert database.pragma("journal_mode") == "wal"
    assert database.execute("SELECT * FROM one").fetchall() == [(1, None)]
    assert database.execute("SELECT * FROM two").fetchall() == [(2,)]


def test_a_step_that_fails_leaves_the_schema_before_it(database: apsw.Connection, tmp_path: Path) -> None:
    good = [(1, "CREATE TABLE one (x)"), (2, "CREATE TABLE two (x)")]
    bad = (3, "CREATE TABLE three (x); INSERT INTO one VALUES (3); INSERT INTO nowhere VALUES (1)")
    with pytest.raises(apsw.SQLError, match="nowhere"):
        migrate(database, tmp_path, [*good, bad])
    assert database.pragma("user_version") == 2
    assert tables(database) == {"one", "two"}
    assert database.execute("SELECT count(*) FROM one").get == 0
    assert not database.in_transaction
    migrate(database, tmp_path, [*good, (3, "CREATE TABLE three (x)")])
    assert database.pragma("user_version") == 3
    assert tables(database) == {"one", "two", "three"}


def test_a_database_newer_than_the_program_is_refused_untouched(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as memory:
        memory.write(Scope("demo"), text="from the future")
    file = tmp_path / "store" / "memory.db"
    newest = load_migrations()[-1][0]
    connection = apsw.Connection(str(file))
    connection.pragma("user_version", newest + 1)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(Unavailable, match="upgrade cofio") as caught:
        opened(tmp_path / "store")
    assert str(newest + 1) in str(caught.value)
    assert file.read_bytes() == before


@pytest.mark.parametrize("mark", [0, 42])
def test_a_database_of_another_program_is_refused_untouched(tmp_path: Path, mark: int) -> None:
    file = tmp_path / "memory.db"
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    connection.pragma("application_id", mark)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(Unavailable, match="some other program"):
        opened(tmp_path)
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("memory.db-*"))


@pytest.mark.parametrize("content", [b"just some text, and quite enough of it to be no database" * 100, b"\0" * 4096])
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memory.db").write_bytes(content)
    with pytest.raises(Unavailable, match=r"memory\.db"):
        opened(tmp_path)
    assert (tmp_path / "memory.db").read_bytes() == content


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "memory.db").touch()
    with opened(tmp_path) as memory:
        memory.write(Scope("demo"), text="hello")
        assert memory.check() == []


def test_the_first_step_still_makes_what_it_once_made(
    database: apsw.Connection, old_store: Path, tmp_path: Path
) -> None:
    migrate(database, tmp_path, load_migrations()[:1])
    question = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    old = apsw.Connection(str(old_store / "memory.db"))
    assert database.execute(question).fetchall() == old.execute(question).fetchall()
    old.close()


def test_every_record_of_a_store_of_schema_1_reads_as_it_was_written(old_store: Path) -> None:
    then = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    note = Record(
        id="01aaaaaaaaaaaaaaaaaaaaaaaa", scope=Scope("demo"), kind=Kind.NOTE, key=None, title="Auth: chose JWT",
        text="Stateless, no session store.", data=None, tags=("auth", "API"), importance=Importance.MEDIUM, author="pm",
        source="python", parent=None, position=None, created_at=then, updated_at=then, expires_at=None, version=1,
    )  # fmt: skip
    state = Record(
        id="01ffffffffffffffffffffffff", scope=Scope("demo"), kind=Kind.STATE, key="phase", title="", text="",
        data={"n": 2, "naïve": [True, None, 1.5]}, tags=(), importance=Importance.MEDIUM, author="", source="python",
        parent=None, position=None, created_at=then.replace(second=6), updated_at=then.replace(second=7),
        expires_at=None, version=2,
    )  # fmt: skip
    turn = Record(
        id="01bbbbbbbbbbbbbbbbbbbbbbbb", scope=Scope("ünï/code", "a%b"), kind=Kind.TURN, key=None, title="",
        text='東京タワー 🚀 O’Brien\'s "quote"\nsecond line', data=None, tags=(), importance=Importance.CRITICAL,
        author="Zoë", source="mcp", parent="session", position=-3, created_at=datetime(1999, 12, 31, tzinfo=UTC),
        updated_at=then.replace(second=7), expires_at=None, version=1,
    )  # fmt: skip
    with opened(old_store) as memory:
        records = list(memory.export())
        assert records[:3] == [note, state, turn]
        assert [(record.id, record.expires_at) for record in records[3:]] == [
            ("01cccccccccccccccccccccccc", datetime(2100, 1, 1, tzinfo=UTC))
        ]
        assert memory.get(Scope("demo"), "phase", kind=Kind.STATE) == state
        assert memory.stats()["schema"] == NEEDED_SCHEMA


def test_a_store_of_schema_1_can_be_searched_and_written(old_store: Path) -> None:
    with opened(old_store) as memory:
        for settled in (False, True):
            for asked, found in (("jwt", "01a"), ("phase", "01f"), ("東京", "01b"), ("obrien", "01b"), ("2100", "01c")):
                hits = memory.search(Query(asked, mode="keyword"))
                assert [hit.record.id[:3] for hit in hits] == [found], (settled, asked)
            assert not memory.search(Query("expired", mode="keyword"))
            assert not memory.search(Query("deleted", mode="keyword"))
            memory.settle()
        hits = memory.search(Query("stateless session store", mode="semantic"))
        assert [hit.record.id[:3] for hit in hits] == ["01a"]
        assert hits.degraded is None
        memory.put(Scope("demo"), "phase", data={"n": 3}, kind=Kind.STATE, if_version=2)
        assert memory.write(Scope("demo"), text="Stateless, no session store.", dedupe=True).existed
        memory.delete("01aaaaaaaaaaaaaaaaaaaaaaaa")
        memory.settle()
        assert memory.count() == 3
        assert memory.check() == []


def test_a_store_of_schema_1_can_be_reindexed_and_backed_up(old_store: Path, tmp_path: Path) -> None:
    with opened(old_store) as memory:
        memory.reindex(vectors=True)
        assert memory.check() == []
        memory.backup(tmp_path / "copy")
        exported = list(memory.export())
    with opened(tmp_path / "copy") as copy:
        assert list(copy.export()) == exported
        assert copy.check() == []


@pytest.mark.usefixtures("process")
def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path: Path) -> None:
    script = """
import sys
from cofio import Engine, Scope, Settings
sys.stdin.readline()
with Engine.open(sys.argv[1], settings=Settings(background=False, embedder="none")) as memory:
    memory.write(Scope("demo"), text="hello", id=sys.argv[2])
"""
    for attempt in range(3):
        store = tmp_path / str(attempt)
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(store), str(number)],
                stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for number in range(3)
        ]  # fmt: skip
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            _, complaint = process.communicate(timeout=60)
            assert process.returncode == 0, complaint
        with opened(store) as memory:
            assert sorted(record.id for record in memory.export()) == ["0", "1", "2"]
            assert memory.check() == []


def test_a_store_of_schema_1_takes_vectors_with_its_records(old_store: Path) -> None:
    with opened(old_store) as memory:
        assert memory.nearest([1.0, 0.0]) == []
        memory.put(Scope("demo"), "phase", data={"n": 3}, kind=Kind.STATE, given={"$": [1.0, 0.0]})
        assert [hit.record.id[:3] for hit in memory.nearest([1.0, 0.0])] == ["01f"]
        assert memory.drop(Scope("demo")) > 0
        assert memory.nearest([1.0, 0.0]) == []
        memory.settle()
        assert memory.check() == []


def open_as_older(store: Path) -> None:
    """Open a store as a program does that knows no kinds but those of schema 3."""
    connection = apsw.Connection(str(store / "memory.db"))
    try:
        migrate(connection, store / "memory.db", load_migrations()[:3])
    finally:
        connection.close()


@pytest.mark.parametrize("kind", [Kind.DOCUMENT, Kind.TOPIC])
def test_the_first_record_of_a_kind_that_older_programs_fail_at_keeps_them_out(tmp_path: Path, kind: Kind) -> None:
    with opened(tmp_path / "store") as memory:
        memory.write(Scope("demo"), text="nothing new in it")
        assert memory.stats()["schema"] == 3
        open_as_older(tmp_path / "store")
        known = memory.write(Scope("demo"), text="a new kind", kind=kind).id
        assert memory.stats()["schema"] == 4
        memory.backup(tmp_path / "copy")
        memory.delete(known)
        exported = list(memory.export())
    for store in (tmp_path / "store", tmp_path / "copy"):
        with pytest.raises(Unavailable, match=r"newer cofio \(schema 4, this one knows 3\); upgrade cofio"):
            open_as_older(store)
        with opened(store) as memory:
            assert memory.check() == []
            assert [record for record in memory.export() if record.id != known] == exported


def test_a_document_that_is_not_written_after_all_leaves_the_schema(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as memory:
        taken = memory.write(Scope("demo"), text="first").id
        document = Draft(scope=Scope("demo"), kind=Kind.DOCUMENT, text="a new kind")
        with pytest.raises(Conflict):
            memory.apply([Put(draft=document), Put(draft=Draft(scope=Scope("demo"), id=taken, text="second"))])
        assert memory.stats()["schema"] == 3
    open_as_older(tmp_path / "store")


def open_coded(store: Path) -> Engine:
    """The store, with an embedder that makes token codes."""
    return Engine.open(store, settings=QUIET, embedder=CodedEmbedder(), clock=lambda: NOW)


def read_codes(store: Path) -> dict[str, str]:
    """The token codes of each record that has some, by the first letters of its id."""
    backend = opening.open_backend(StoreAddress(folder=store), QUIET, lambda: NOW)
    try:
        parts = [part for part in backend.dump() if isinstance(part, StoredRecord)]
        return {part.record.id[:3]: part.codes["hashed-384"].hex() for part in parts if part.codes}
    finally:
        backend.close()


def test_a_store_of_schema_1_gets_token_codes_for_the_vectors_that_it_has(old_store: Path, tmp_path: Path) -> None:
    with opened(old_store) as memory:
        memory.write(Scope("demo"), id="01g", text="heron")
        memory.settle()
        assert memory.stats()["schema"] == 3
    open_as_older(old_store)
    assert read_codes(old_store) == {}
    with open_coded(old_store) as memory:
        assert [hit.record.id for hit in memory.search(Query("heron", mode="semantic"))] == ["01g"]
        memory.settle()
        assert memory.stats()["schema"] == 5
        assert memory.check() == []
        memory.backup(tmp_path / "copy")
        memory.reindex(vectors=True)
        memory.settle()
    codes = read_codes(old_store)
    assert codes["01g"] == encode_words("heron").hex()
    assert sorted(codes) == ["01a", "01b", "01c", "01f", "01g"]
    assert read_codes(tmp_path / "copy").items() >= codes.items()  # it has what has expired, too
    with pytest.raises(Unavailable, match=r"newer cofio \(schema 5, this one knows 3\); upgrade cofio"):
        open_as_older(old_store)
    with opened(old_store) as memory:  # by an embedder without codes
        memory.edit("01g", text="walrus")
        memory.settle()
        assert memory.check() == []
    assert sorted(read_codes(old_store)) == ["01a", "01b", "01c", "01f"]


def test_a_store_without_token_codes_stays_open_to_older_programs(tmp_path: Path) -> None:
    chosen = Settings(background=False, embedder="none", token_codes=False)
    with Engine.open(tmp_path / "store", settings=chosen, embedder=CodedEmbedder()) as memory:
        memory.write(Scope("demo"), text="heron")
        memory.settle()
        assert memory.stats()["schema"] == 3
    open_as_older(tmp_path / "store")


def read_vector_table(store: Path) -> str:
    """How the table of vectors was made."""
    connection = apsw.Connection(str(store / "memory.db"))
    try:
        return str(connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'vector'").get)
    finally:
        connection.close()


def test_a_new_store_and_a_small_old_one_keep_their_vectors_by_rowid(tmp_path: Path, old_store: Path) -> None:
    assert "WITHOUT ROWID" in read_vector_table(old_store)
    for store in (tmp_path / "new", old_store):
        with opened(store) as memory:
            memory.write(Scope("demo"), text="sessions are stateless")
            memory.settle()
            assert memory.search(Query("stateless sessions", mode="semantic")).hits
            assert memory.check() == []
        assert "WITHOUT ROWID" not in read_vector_table(store)


def test_a_large_old_store_is_laid_out_anew_by_a_reindex_and_not_when_it_is_opened(
    old_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "MOST_REWRITTEN", 0)
    with opened(old_store) as memory:
        memory.settle()
        memory.write(Scope("demo"), text="sessions are stateless")
        memory.settle()
    with opened(old_store) as memory:
        assert "WITHOUT ROWID" in read_vector_table(old_store)
        memory.purge()
        before = memory.stats().vectors
        memory.reindex()
        assert "WITHOUT ROWID" not in read_vector_table(old_store)
        assert memory.stats().vectors == before
        assert memory.search(Query("stateless session store", mode="semantic")).hits
        assert memory.check() == []


def test_a_vector_that_an_older_program_made_of_a_profile_goes_with_its_text(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as memory:
        known = memory.put(Scope("demo"), "profile", text="keeps bees", kind=Kind.NOTE)
        memory.settle()
        assert memory.stats().vectors == {"hashed-384": 1}
    connection = apsw.Connection(str(tmp_path / "store" / "memory.db"))
    connection.execute("UPDATE record SET kind = 'profile'")
    connection.close()
    with opened(tmp_path / "store") as memory:
        memory.edit(known.id, text="keeps goats")
        memory.settle()
        assert not any(memory.stats().vectors.values())
        assert memory.stats().waiting_for_vectors == 0
        assert memory.check() == []
