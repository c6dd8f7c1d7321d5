"""What becomes of a change when its connection is lost: it is done again, or was done, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable
from cofio.backends.postgres.database import Connections, ServerAddress
from cofio.config.address import StoreAddress

from .. import postgres
from ..waiting import join

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """A memory on it."""
    with Engine.open(store, settings=QUIET) as opened:
        yield opened


def kill_connections() -> int:
    """End every connection of cofio's, as a server that restarts does; how many there were."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
        sql = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = 'cofio'"
        row = admin.execute(sql).fetchone()
        assert row is not None
        return int(row[0])


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


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_asked_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """The connection goes right before or right after the server commits."""
    execute = psycopg.Connection.execute
    hits: list[object] = []

    def lose(self: psycopg.Connection, query: Any, *args: Any, **options: Any) -> object:
        if query == "COMMIT" and not hits and self.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            hits.append(query)
            if is_committed:
                execute(self, "COMMIT")
                assert self._pipeline is not None
                self._pipeline.sync()
            self.pgconn.finish()
            raise psycopg.OperationalError("the connection was lost")
        return execute(self, query, *args, **options)

    before = engine.count()
    monkeypatch.setattr(psycopg.Connection, "execute", lose)
    record = engine.write(HERE, text="once")
    monkeypatch.undo()
    assert hits == ["COMMIT"]
    assert engine.count() == before + 1
    assert engine.read(record.id) == record
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
    monkeypatch.setattr("cofio.backends.postgres.database.PATIENCE", 0.2)
    Engine.open(store, settings=QUIET).close()
    connections = Connections(ServerAddress.parse(store.spell()), sync="normal", size=1)
    connections.open()
    try:
        with connections.borrow(), pytest.raises(Unavailable, match="no connection to the database was free"):
            connections.fetch("SELECT 1")
        assert connections.fetch("SELECT 1") == [(1,)]
    finally:
        connections.close()


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
