"""What becomes of a change when its connection is lost: it is done again, or was done, and never twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psycopg
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable
from cofio.backends.postgres.database import Connection, Connections, FirstAnswer, ServerAddress
from cofio.backends.postgres.record_rows import OPEN_TRANSACTION
from cofio.config.address import StoreAddress
from cofio.values.changes import Edit

from .. import postgres
from ..waiting import join, wait_until

PATIENCE = "cofio.backends.postgres.database.PATIENCE"
QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """A memory on it."""
    with Engine.open(store, settings=QUIET) as opened:
        yield opened


@contextmanager
def open_connections(store: StoreAddress) -> Iterator[Connections]:
    """The connections of a backend, to a store that is there."""
    Engine.open(store, settings=QUIET).close()
    connections = Connections(ServerAddress.parse(store.spell()), sync="normal", size=2)
    connections.open()
    try:
        yield connections
    finally:
        connections.close()


def ask(sql: str) -> list[tuple[int]]:
    """Ask the server as its superuser."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
        return admin.execute(sql.encode()).fetchall()


def list_backends() -> list[int]:
    """The processes of the server that serve cofio."""
    return [pid for (pid,) in ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'cofio'")]


def count_waiting() -> int:
    """How many of them wait for a lock."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cofio' AND wait_event_type = 'Lock'"
    return ask(sql)[0][0]


def kill_connections() -> int:
    """End every connection of cofio's, as a server that restarts does; how many there were."""
    sql = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = 'cofio'"
    return ask(sql)[0][0]


def test_connections_that_lay_idle_when_the_server_ended_them_are_not_missed(engine: Engine) -> None:
    record = engine.write(HERE, text="walrus")
    for _ in range(3):
        assert kill_connections() > 0
        assert engine.read(record.id) == record
        assert kill_connections() > 0
        assert [hit.record for hit in engine.search(Query("walrus", mode="keyword"))] == [record]
        assert kill_connections() > 0
        record = engine.edit(record.id, text=f"walrus {record.version}")
    assert record.version == 4


def test_what_is_written_while_connections_are_killed_is_there_once(engine: Engine) -> None:
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(0.15):
            kill_connections()

    killer = threading.Thread(target=kill)
    version = 0
    killer.start()
    try:
        for number in range(120):
            engine.write(HERE, text=f"number {number}")
            version = engine.put(HERE, "counter", data=number, if_version=version).version
    finally:
        ended.set()
        join(killer)
    texts = [record.text for record in engine.export() if record.text]
    assert texts == [f"number {number}" for number in range(120)]
    assert version == 120
    assert engine.check() == []


def test_a_store_that_was_dropped_meanwhile_is_unavailable(engine: Engine, store: StoreAddress) -> None:
    engine.write(HERE, text="walrus")
    postgres.remove(store)
    with pytest.raises(Unavailable, match="the store's tables are gone"):
        engine.count()
    with pytest.raises(Unavailable, match="the store's tables are gone"):
        engine.write(HERE, text="again")
    with pytest.raises(Unavailable):
        engine.verify()


def test_all_connections_in_use_is_an_error_and_no_hang(store: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PATIENCE, 0.2)
    with Engine.open(store, settings=replace(QUIET, pool_size=2)) as engine:
        record = engine.write(HERE, text="walrus")
        with ExitStack() as snapshots:
            for _ in range(2):
                snapshots.enter_context(engine._backend.snapshot())
            for call in (engine.count, lambda: engine.write(HERE, text="another")):
                with pytest.raises(Unavailable, match="no connection to the database was free in time") as raised:
                    call()
                assert "COFIO_POOL_SIZE" in str(raised.value)
        assert list(engine.export()) == [record]


def test_more_threads_than_connections_wait_for_each_other(store: StoreAddress) -> None:
    with Engine.open(store, settings=replace(QUIET, pool_size=2)) as engine, ThreadPoolExecutor(16) as threads:
        for made in threads.map(lambda number: engine.put(HERE, str(number), data=number), range(100)):
            assert made.version == 1
        found = threads.map(lambda number: engine.get(HERE, str(number)), range(100))
        assert [record.data for record in found if record is not None] == list(range(100))
        assert len(list_backends()) <= 2
        assert engine.check() == []


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03", "23505"])
def test_what_others_were_in_the_way_of_runs_again(store: StoreAddress, code: str) -> None:
    with open_connections(store) as connections:
        runs: list[int] = []

        def work(connection: Connection, opening: FirstAnswer) -> int:
            runs.append(1)
            connections.execute(connection, "UPDATE @moment SET changes = changes + 1 WHERE slot = -7")
            if len(runs) < 3:
                connections.execute(connection, f"DO $$BEGIN RAISE SQLSTATE '{code}'; END$$").close()
            return len(runs)

        connections.fetch("INSERT INTO @moment VALUES (-7, 0, 0)")
        assert connections.transact(OPEN_TRANSACTION, work) == 3
        assert connections.fetch("SELECT changes FROM @moment WHERE slot = -7") == [(1,)]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("53100", "its disk is full: free some space"),
        ("57014", "raise the statement_timeout of this user"),
        ("53200", "the database failed"),
        ("XX001", "the database failed"),
    ],
)
def test_what_would_fail_again_is_told_at_once(store: StoreAddress, code: str, words: str) -> None:
    with open_connections(store) as connections:
        runs: list[int] = []

        def work(connection: Connection, opening: FirstAnswer) -> None:
            runs.append(1)
            connections.execute(connection, f"DO $$BEGIN RAISE SQLSTATE '{code}'; END$$").close()

        with pytest.raises(Unavailable, match=words):
            connections.transact(OPEN_TRANSACTION, work)
        assert runs == [1]
        assert connections.fetch("SELECT 1") == [(1,)]


def test_one_of_two_that_wait_for_each_other_runs_again(store: StoreAddress) -> None:
    # It looks for a deadlock three seconds after it began to wait, and the other one not before a minute.
    patient = StoreAddress(url=f"{store.spell()}&options=-c%20deadlock_timeout%3D3s")
    lock = f'SELECT FROM "{store.spell().partition("?schema=")[2]}".record WHERE id = %s FOR UPDATE'.encode()
    with (
        Engine.open(patient, settings=QUIET) as engine,
        psycopg.connect(postgres.find_url()) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        first, second = engine.write(HERE, text="first"), engine.write(HERE, text="second")
        other.execute("SET deadlock_timeout = '60s'")
        other.execute(lock, [second.id])
        changes = [Edit(id=first.id, fields={"text": "one"}), Edit(id=second.id, fields={"text": "two"})]
        editing = thread.submit(engine.apply, changes)
        wait_until(lambda: count_waiting() == 1)
        other.execute(lock, [first.id])  # which the engine has, until it is undone
        other.commit()
        editing.result(30)
        assert [engine.read(each.id).text for each in (first, second)] == ["one", "two"]
        assert [engine.read(each.id).version for each in (first, second)] == [2, 2]
        assert engine.check() == []


def test_a_transaction_whose_session_is_ended_runs_again(store: StoreAddress) -> None:
    with open_connections(store) as connections:
        runs: list[int] = []

        def work(connection: Connection, opening: FirstAnswer) -> int:
            runs.append(opening.fetch()[1])
            connections.execute(connection, "INSERT INTO @moment VALUES (-7, 0, 0)")
            if len(runs) == 1:
                ask(f"SELECT pg_terminate_backend({runs[0]}, 5000)")
            return len(runs)

        assert connections.transact(OPEN_TRANSACTION, work) == 2
        assert connections.fetch("SELECT count(*) FROM @moment WHERE slot = -7") == [(1,)]


def test_a_silent_server_is_noticed_by_the_socket(store: StoreAddress) -> None:
    with open_connections(store) as connections, connections.borrow() as connection:
        end = socket.socket(fileno=socket.dup(connection.fileno()))
        with end:
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert connection.execute("SHOW tcp_keepalives_idle").fetchall() == [
            ("10",)
        ]  # and a silent client by the server
    given = ServerAddress.parse("postgresql://me@there/db?keepalives_idle=77&tcp_user_timeout=0")
    assert "keepalives_idle=77" in given.conninfo
    assert "tcp_user_timeout=0" in given.conninfo


def test_a_closed_memory_says_so_at_once(store: StoreAddress) -> None:
    engine = Engine.open(store, settings=QUIET)
    engine.close()
    with pytest.raises(Unavailable, match="closed"):
        engine._backend.verify()


def test_what_is_written_while_words_are_indexed_again_is_found(engine: Engine, store: StoreAddress) -> None:
    ended = threading.Event()
    written: list[str] = []

    def write() -> None:
        with Engine.open(store, settings=QUIET) as other:
            while not ended.is_set():
                written.append(other.write(HERE, text=f"walrus {len(written)}").id)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            engine.reindex()
    finally:
        ended.set()
        join(writer)
    assert engine.check() == []
    found = engine.search(Query("walrus", mode="keyword", limit=1000, floor=0.0))
    assert len(found) == min(1000, len(written))
