"""What becomes of a change when its connection is lost: it is done again, or was done, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import psycopg
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable
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


def count_connections(what: str = "pid") -> int:
    """How many connections of cofio's the server has, of which this is not null."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
        sql = f"SELECT count({what}) FROM pg_stat_activity WHERE application_name = 'cofio'"
        return int(admin.execute(sql.encode()).fetchall()[0][0])


def kill_connections() -> int:
    """End every connection of cofio's, as a server that restarts does; how many there were."""
    return count_connections("pg_terminate_backend(pid, 5000)")


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
        assert count_connections() <= 2
        assert engine.check() == []


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
        wait_until(lambda: count_connections("nullif(wait_event_type = 'Lock', false)") == 1)
        other.execute(lock, [first.id])  # which the engine has, until it is undone
        other.commit()
        editing.result(30)
        assert [engine.read(each.id).text for each in (first, second)] == ["one", "two"]
        assert [engine.read(each.id).version for each in (first, second)] == [2, 2]
        assert engine.check() == []


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
