"""How the tables of a store are brought up to date: beside readers and writers, by several at once, despite kills."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable
from cofio.backends.postgres import schema_changes
from cofio.backends.postgres.database import Connections, ServerAddress
from cofio.backends.postgres.migrations import Server, prepare
from cofio.backends.postgres.schema_steps import list_steps
from cofio.backends.store_copy import StoredRecord
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.opening import open_backend

from .. import postgres
from ..coded import CodedEmbedder, encode_words
from ..waiting import wait_until

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")
NEWEST = list_steps()[-1].number
ADD_COLUMN = (
    "-- compatible\nALTER TABLE @record ADD COLUMN colour text; -- of the walrus\nCREATE TABLE @paint (no bigint);"
)
BUILD_INDEX = "-- compatible\n-- concurrent\nCREATE INDEX CONCURRENTLY record_author ON @record (scope, author);"
BREAK = "ALTER TABLE @record RENAME COLUMN author TO writer;"
WAITING_STEPS = (
    "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND (query LIKE 'ALTER TABLE%' OR query LIKE 'CREATE INDEX CONCURRENTLY%')"
)
# Opens a store with the steps of a folder, as a newer server does.
SERVER = """
import sys
from pathlib import Path
from cofio.backends.postgres.database import Connections, ServerAddress
from cofio.backends.postgres.migrations import prepare
prepare(Connections(ServerAddress.parse(sys.argv[1]), sync="full"), folder=Path(sys.argv[2]))
"""


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder with the steps of this version and more."""

    def make(*more: str) -> Path:
        folder = tmp_path / f"steps-{len(more)}-{len(''.join(more))}"
        folder.mkdir()
        for file in files("cofio.backends").joinpath("schema", "postgres").iterdir():
            (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        first = len([*folder.iterdir()]) + 1
        for number, script in enumerate(more, first):
            (folder / f"{number:04}_more.sql").write_text(script, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """A memory with something in it, on a server of this version."""
    with Engine.open(store, settings=QUIET) as opened:
        for number in range(20):
            opened.write(HERE, text=f"walrus {number}")
        yield opened


@pytest.fixture
def admin(store: StoreAddress) -> Iterator[psycopg.Connection]:
    """A connection that sees the store's tables."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as connection:
        connection.execute(f'SET search_path = "{postgres.get_schema(store)}"'.encode())
        yield connection


def upgrade(store: StoreAddress, folder: Path) -> Server:
    """Open a store as a server does that knows the steps of a folder."""
    return prepare(Connections(ServerAddress.parse(store.spell()), sync="full"), folder=folder)


def fetch(admin: psycopg.Connection, statement: str) -> Any:
    """The one value of a statement; None when there is no row."""
    row = admin.execute(statement.encode()).fetchone()
    return None if row is None else row[0]


@contextmanager
def reading(store: StoreAddress) -> Iterator[None]:
    """Have a reader with a long snapshot, who has looked at the records."""
    with psycopg.connect(postgres.find_url()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute(f'SELECT count(*) FROM "{postgres.get_schema(store)}".record'.encode())
        yield


@contextmanager
def working(store: StoreAddress) -> Iterator[list[int]]:
    """Have a server of this version write and search without a pause; how many rounds it has made."""
    ended, rounds = threading.Event(), [0]

    def work() -> None:
        with Engine.open(store, settings=QUIET) as engine:
            while not ended.is_set():
                engine.write(HERE, text=f"seal {rounds[0]}")
                assert engine.search(Query("seal", mode="keyword", floor=0.0, limit=1))
                rounds[0] += 1

    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(work)
        try:
            yield rounds
        finally:
            ended.set()
        worker.result(60)


@pytest.mark.parametrize("script", [ADD_COLUMN, BUILD_INDEX], ids=["table", "index"])
def test_a_step_waits_for_a_long_reader_and_keeps_nobody_else_waiting(
    engine: Engine, store: StoreAddress, steps: Callable[..., Path], admin: psycopg.Connection, script: str
) -> None:
    with working(store) as rounds, ThreadPoolExecutor(1) as pool:
        with reading(store):
            upgraded = pool.submit(upgrade, store, steps(script))
            wait_until(lambda: fetch(admin, WAITING_STEPS))
            before = rounds[0]
            wait_until(lambda: rounds[0] > before + 20)  # the server goes on while the step cannot
            assert not upgraded.done()
            assert fetch(admin, "SELECT schema FROM state") == NEWEST
        upgraded.result(60)
        before = rounds[0]
        wait_until(lambda: rounds[0] > before + 5)  # and after it, as it is one that older servers can live with
    assert fetch(admin, "SELECT schema FROM state") == NEWEST + 1
    assert fetch(admin, "SELECT needs FROM state") == 1
    assert engine.check() == []


def test_servers_that_start_at_once_make_each_step_once(
    engine: Engine, store: StoreAddress, steps: Callable[..., Path], admin: psycopg.Connection
) -> None:
    once = "-- compatible\nCREATE TABLE @counted (n integer);\nINSERT INTO @counted VALUES (1);"
    folder = steps(ADD_COLUMN, BUILD_INDEX, once)
    with working(store) as rounds, ThreadPoolExecutor(6) as pool:
        wait_until(lambda: rounds[0] > 2)
        servers = [*pool.map(lambda _: upgrade(store, folder), range(6))]
        before = rounds[0]
        wait_until(lambda: rounds[0] > before + 2)
    assert {server.newest for server in servers} == {NEWEST + 3}
    assert fetch(admin, "SELECT schema FROM state") == NEWEST + 3
    assert fetch(admin, "SELECT count(*) FROM counted") == 1
    assert fetch(admin, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'record_author'::regclass") is True
    assert engine.check() == []


def test_a_store_is_made_by_all_steps_and_with_partitions(
    store: StoreAddress, steps: Callable[..., Path], admin: psycopg.Connection
) -> None:
    """An index of a partitioned table is built on each partition, also where that was cut off in the midst."""
    folder = steps(BUILD_INDEX)
    upgrade(StoreAddress(url=f"{store.spell()}&partitions=3"), folder)
    index = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'record_author'::regclass"
    assert fetch(admin, index) is True
    admin.execute("DROP INDEX record_author")
    admin.execute("CREATE INDEX record_author ON ONLY record (scope, author)")
    admin.execute("CREATE INDEX record_author_0 ON record_0 (scope, author)")
    admin.execute("ALTER INDEX record_author ATTACH PARTITION record_author_0")
    admin.execute(f"UPDATE state SET schema = {NEWEST}".encode())
    assert fetch(admin, index) is False
    upgrade(store, folder)
    assert fetch(admin, index) is True
    assert fetch(admin, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'record_author'::regclass") == 3


def test_a_server_is_told_when_a_newer_one_has_changed_the_tables(
    engine: Engine, store: StoreAddress, steps: Callable[..., Path], admin: psycopg.Connection
) -> None:
    record = engine.write(HERE, text="walrus")
    upgrade(store, steps(ADD_COLUMN))
    engine.write(HERE, text="goes on")
    engine.verify()
    Engine.open(store, settings=QUIET).close()
    upgrade(store, steps(ADD_COLUMN, "CREATE TABLE @other (n integer);"))
    before = fetch(admin, "SELECT count(*) FROM record")
    needs = rf"a newer cofio \(it needs schema {NEWEST + 2}, this version knows {NEWEST}\)"
    for call in (
        engine.verify,
        lambda: engine.write(HERE, text="too old"),
        lambda: Engine.open(store, settings=QUIET),
    ):
        with pytest.raises(Unavailable, match=needs):
            call()
    assert engine.read(record.id) == record  # as long as it can be read
    assert fetch(admin, "SELECT count(*) FROM record") == before
    upgrade(store, steps(ADD_COLUMN, "CREATE TABLE @other (n integer);", BREAK))
    with pytest.raises(Unavailable, match="are those of another version of cofio"):
        engine.read(record.id)


@pytest.mark.parametrize(("script", "is_noticed"), [(ADD_COLUMN, False), (BUILD_INDEX, True), (BUILD_INDEX, False)])
def test_a_server_that_is_killed_at_a_step_leaves_it_to_the_next(
    engine: Engine, store: StoreAddress, steps: Callable[..., Path], admin: psycopg.Connection, script: str,
    is_noticed: bool,
) -> None:  # fmt: skip
    """The database notices at once that the process is gone, or goes on with what it was told."""
    folder = steps(script)
    with reading(store):
        process = subprocess.Popen([sys.executable, "-c", SERVER, store.spell(), str(folder)])
        try:
            wait_until(lambda: fetch(admin, WAITING_STEPS))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        if is_noticed:
            admin.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM ({WAITING_STEPS}) AS waiting".encode())
        assert fetch(admin, "SELECT schema FROM state") == NEWEST
    upgrade(store, folder)
    assert fetch(admin, "SELECT schema FROM state") == NEWEST + 1
    if script is BUILD_INDEX:
        assert fetch(admin, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'record_author'::regclass") is True
    engine.write(HERE, text="walrus")
    assert engine.check() == []


def test_a_step_that_fails_or_never_gets_its_table_changes_nothing(
    engine: Engine, store: StoreAddress, steps: Callable[..., Path], admin: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with pytest.raises(Unavailable, match="division by zero"):
        upgrade(store, steps("CREATE TABLE @half (n integer);\nINSERT INTO @half VALUES (1 / 0);"))
    monkeypatch.setattr(schema_changes, "PATIENCE", 0.0)
    monkeypatch.setattr(schema_changes, "LOCK_TIMEOUT", "20ms")
    folder = steps(ADD_COLUMN)
    with reading(store), pytest.raises(Unavailable, match=r"because of another transaction of process \d+ \(.*pg_term"):
        upgrade(store, folder)
    assert fetch(admin, "SELECT to_regclass('half')") is None
    assert fetch(admin, "SELECT schema FROM state") == NEWEST
    engine.write(HERE, text="walrus")
    upgrade(store, folder)


def test_a_store_from_before_token_codes_gets_them(store: StoreAddress, admin: psycopg.Connection) -> None:
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as older:
        older.write(HERE, text="walrus")
        older.settle()
        admin.execute("ALTER TABLE vector DROP COLUMN token_codes")
        admin.execute("ALTER TABLE embedder DROP COLUMN coder, DROP COLUMN coder_until")
        admin.execute("UPDATE state SET schema = 1")
    with Engine.open(store, settings=QUIET, embedder=CodedEmbedder()) as newer:
        newer.write(HERE, text="heron")
        newer.settle()
        assert newer.check() == []
    assert fetch(admin, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'vector_uncoded'::regclass") is True
    assert fetch(admin, "SELECT needs FROM state") == 1
    backend = open_backend(store, QUIET)
    try:
        codes = {part.record.text: part.codes for part in backend.dump() if isinstance(part, StoredRecord)}
    finally:
        backend.close()
    assert codes == {text: {"hashed-384": encode_words(text)} for text in ("walrus", "heron")}
