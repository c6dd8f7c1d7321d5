"""A standby that answers reads: never older than it may be, never behind this process's own writes; and one alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .. import postgres, servers
from ..waiting import wait_until
from .processes import Gateway, starting

HERE = Scope("here")
QUIET = Settings(background=False, embedder="none", sync="normal")
BUSY_LAG = 3600.0  # seconds: what is behind because the machine is busy does not count


class Standby:
    """A server that follows the one of the tests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, statement: str) -> Any:
        """The first thing that a statement gives."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
            return None if row is None else row[0]

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let it fall behind for the block."""
        self.run("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.run("SELECT pg_get_wal_replay_pause_state()") == "paused")
        try:
            yield
        finally:
            self.run("SELECT pg_wal_replay_resume()")

    def catch_up(self) -> None:
        """Wait until it has all that the primary has by now."""
        with psycopg.connect(postgres.find_url(), autocommit=True) as primary:
            row = primary.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            assert row is not None
        wait_until(lambda: self.run(f"SELECT pg_last_wal_replay_lsn() >= '{row[0]}'"))


@pytest.fixture(scope="module")
def standby() -> Iterator[Standby]:
    """A copy of the server, made by pg_basebackup, that follows it."""
    programs, port = servers.find_postgresql(), servers.free_port()
    with servers.folder_for_postgresql() as folder:
        data = folder / "data"
        where = ("-d", postgres.find_url(), "-D", data)
        programs.run("pg_basebackup", *where, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        command: list[str | Path] = [programs.folder / "postgres", "-D", data, "-p", str(port), *settings]
        with servers.running(command, "ready to accept read-only", cwd=folder, **programs.user):
            yield Standby(f"postgresql://postgres@127.0.0.1:{port}/postgres")


def make_settings(standby: Standby, lag: float = BUSY_LAG) -> Settings:
    """Settings with a standby for reading."""
    return Settings(background=False, embedder="none", sync="normal", read_store=standby.url, replica_lag=lag)


@pytest.fixture
def engine(store: StoreAddress, standby: Standby) -> Iterator[Engine]:
    """A memory whose reads may go to the standby."""
    with Engine.open(store, settings=make_settings(standby), embedder=HashedEmbedder()) as opened:
        yield opened


def find(engine: Engine, text: str) -> list[str]:
    """The texts that a search by words finds."""
    return [hit.record.text for hit in engine.search(Query(text, mode="keyword", limit=1000, floor=0.0))]


def is_used(engine: Engine) -> bool:
    """Whether reads go to the standby at the moment."""
    state = engine.describe_replica()
    return state is not None and not state.problem


@contextmanager
def watch_reads() -> Iterator[list[str]]:
    """Gives the list of the servers that read-only transactions of this process go to, by their ports."""
    ports: list[str] = []
    execute = psycopg.Connection.execute

    def note(self: psycopg.Connection, query: Any, *args: Any, **options: Any) -> Any:
        if isinstance(query, str) and query.startswith("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            ports.append(str(self.info.port))
        return execute(self, query, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", note)
        yield ports


def get_port(url: str) -> str:
    """The port in a URL."""
    return url.rpartition(":")[2].partition("/")[0]


def test_searches_go_to_the_standby_once_it_has_what_this_process_wrote(engine: Engine, standby: Standby) -> None:
    here, there = get_port(postgres.find_url()), get_port(standby.url)
    for number in range(20):
        engine.write(HERE, text=f"walrus {number}")
        assert len(find(engine, "walrus")) == number + 1  # wherever it is asked
    standby.catch_up()

    def is_there() -> bool:
        with watch_reads() as ports:
            assert len(find(engine, "walrus")) == 20
        assert {*ports} <= {here, there}
        return {*ports} == {there}

    wait_until(is_there)
    assert is_used(engine)


def test_an_own_write_is_found_and_a_change_is_read_though_the_standby_is_behind(
    engine: Engine, standby: Standby, store: StoreAddress
) -> None:
    engine.write(HERE, text="walrus zero")
    standby.catch_up()
    with standby.pause(), Engine.open(store, settings=QUIET) as other:
        stored = other.put(HERE, "counter", data=41)
        assert engine.get(HERE, "counter") == stored
        assert engine.put(HERE, "counter", data=42, if_version=stored.version).data == 42
        for number in range(5):
            record = engine.write(HERE, text=f"walrus {number}")
            assert len(find(engine, "walrus")) == number + 2
            edited = engine.edit(record.id, text=f"walrus {number} again", if_version=record.version)
            assert engine.run_on_replica(partial(engine.read, edited.id)) == edited
            assert engine.read(edited.id) == edited
            assert f"walrus {number} again" in find(engine, "again")
        with watch_reads() as ports:
            find(engine, "walrus")
        assert {*ports} == {get_port(postgres.find_url())}


def test_what_another_process_wrote_is_found_when_the_time_is_over(store: StoreAddress, standby: Standby) -> None:
    """With the standby stopped, a reader sees the old state no longer than it may: then it asks the primary."""
    with (
        Engine.open(store, settings=QUIET) as writer,
        Engine.open(store, settings=make_settings(standby, lag=1.0)) as reader,
    ):
        writer.write(HERE, text="walrus first")
        standby.catch_up()
        wait_until(lambda: find(reader, "walrus") and is_used(reader))
        with standby.pause():
            writer.write(HERE, text="walrus second")
            wait_until(lambda: find(reader, "walrus") and not is_used(reader))
            assert len(find(reader, "walrus")) == 2
            state = reader.describe_replica()
            assert state is not None
            assert "more than 1 seconds behind" in state.problem
        standby.catch_up()
        wait_until(lambda: is_used(reader))


def test_reads_go_to_the_primary_while_the_standby_is_away_or_is_none(store: StoreAddress, standby: Standby) -> None:
    with Engine.open(store, settings=make_settings(Standby(postgres.find_url()))) as engine:
        assert find(engine, "walrus") == []
        assert "no standby" in str(engine.describe_replica())
    with closing(Gateway(standby.url)) as gateway:
        settings = make_settings(Standby(gateway.url))
        with Engine.open(store, settings=settings) as engine:
            engine.write(HERE, text="walrus")
            standby.catch_up()
            wait_until(lambda: is_used(engine))
            assert find(engine, "walrus") == ["walrus"]
            gateway.cut()
            for _ in range(3):
                assert find(engine, "walrus") == ["walrus"]
            state = engine.describe_replica()
            assert state is not None
            assert state.problem.startswith("it c")
            assert state.lag is None
            gateway.is_open = True
            wait_until(lambda: is_used(engine))
        gateway.cut()
        with Engine.open(store, settings=settings) as engine:  # also when it was never there
            assert find(engine, "walrus") == ["walrus"]


def test_a_server_tells_how_far_the_standby_is_behind(store: StoreAddress, standby: Standby, tmp_path: Path) -> None:
    with starting(store, tmp_path) as start:
        server = start(COFIO_READ_STORE=standby.url, COFIO_REPLICA_LAG="60")
        server.say("I saw a heron at the lake.")
        server.ask("flush", session_id="s")
        found = server.ask("search", user_id="alice", query="heron")
        assert "heron" in json.dumps(found["episodes"])
        wait_until(lambda: server.get_health()[1]["replica"]["status"] == "ok")
        assert 0 <= server.get_health()[1]["replica"]["lag"] < 60
        assert "cofio_replica_lag_seconds" in server.request("GET", "/metrics")[1]
        assert standby.url not in server.request("GET", "/health")[1]


def test_a_standby_alone_is_read_only(store: StoreAddress, standby: Standby, tmp_path: Path) -> None:
    schema = store.spell().partition("?schema=")[2]
    alone = StoreAddress(url=f"{standby.url}?schema={schema}")
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as engine:
        record = engine.write(HERE, text="walrus")
        engine.settle()
    standby.catch_up()
    with Engine.open(alone, settings=Settings(embedder="none"), embedder=HashedEmbedder()) as engine:
        assert engine.read_only
        assert engine.read(record.id) == record
        assert [hit.record for hit in engine.search("walrus")] == [record]
        assert engine.stats().records == 1
        assert engine.check() == []
        for change in (lambda: engine.write(HERE, text="x"), lambda: engine.delete(record.id), engine.purge):
            with pytest.raises(Unavailable, match="the server is a standby: it can be searched and read, not changed"):
                change()
    with starting(alone, tmp_path) as start:
        server = start()
        assert server.get_health()[0] == 200
        body = {"session_id": "s", "messages": [{"sender_id": "a", "role": "user", "timestamp": 1, "content": "Hi."}]}
        assert server.request("POST", "/api/v2/memory/add", body)[0] == 503
        assert server.request("POST", "/api/v2/memory/search", {"user_id": "a", "query": "walrus"})[0] == 200
