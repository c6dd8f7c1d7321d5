"""A server that restarts, crashes, is full or turns cofio away: callers wait where that helps, or are told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from cofio import Engine, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress

from .. import postgres
from ..doors.rest.conftest import said, serving
from ..servers import give_away
from ..waiting import join, wait_until
from .machines import Server, run_server

PATIENCE = "cofio.backends.postgres.database.PATIENCE"
DURABLE = Settings(background=False, embedder="none")
HERE = Scope("here")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of these tests' own."""
    with run_server() as running:
        yield running


@pytest.fixture
def store(server: Server, tmp_path: Path) -> str:
    """The address of a store on it."""
    return f"{server.url}?schema={postgres.name_schema(tmp_path)}"


@pytest.fixture
def engine(store: str) -> Iterator[Engine]:
    """A memory on it."""
    with Engine.open(store, settings=DURABLE) as opened:
        yield opened


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_a_server_that_restarts_loses_nothing_and_doubles_nothing(server: Server, engine: Engine, how: str) -> None:
    ended = threading.Event()
    acknowledged: list[int] = []

    def write() -> None:
        version = 0
        while not ended.is_set():
            number = len(acknowledged)
            engine.write(HERE, text=f"number {number}")
            version = engine.put(HERE, "counter", data=number, if_version=version).version
            acknowledged.append(number)

    def has_passed(count: int) -> bool:
        return len(acknowledged) > count

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(2):
            count = len(acknowledged)
            wait_until(partial(has_passed, count + 10))
            server.restart(how)
        wait_until(lambda: len(acknowledged) > 40)
    finally:
        ended.set()
        join(writer)
    texts = [record.text for record in engine.export() if record.text]
    assert texts == [f"number {number}" for number in acknowledged]
    counter = engine.get(HERE, "counter")
    assert counter is not None
    assert counter.version == len(acknowledged)
    assert engine.check() == []


def test_a_killed_backend_takes_all_with_it_and_none_is_missed(server: Server, engine: Engine) -> None:
    """PostgreSQL ends all sessions when one of its processes is killed, and recovers."""
    choose = random.Random(0)
    for number in range(4):
        engine.write(HERE, text=f"number {number}")
        os.kill(choose.choice(server.list_backends()), signal.SIGKILL)
        engine.put(HERE, "key", data=number)
    assert sorted(record.text for record in engine.export() if record.text) == [f"number {n}" for n in range(4)]
    assert engine.check() == []


def test_a_server_that_stays_away_is_waited_for_once(
    server: Server, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PATIENCE, 1.0)
    record = engine.write(HERE, text="walrus")
    server.stop()
    try:
        for call in (engine.count, lambda: engine.write(HERE, text="lost"), lambda: engine.read(record.id)):
            with pytest.raises(Unavailable, match="the database failed: connection failed") as raised:
                call()
            assert raised.value.public == "the database cannot be reached"
        said = [line.getMessage() for line in caplog.records if line.name == "cofio.store"]
        assert len(said) == 1
        assert said[0].startswith("the database cannot be reached: connection failed")
    finally:
        server.start()
    assert engine.read(record.id) == record
    assert engine.count() == 1
    assert caplog.records[-1].getMessage() == "the database is there again"
    assert {line.name for line in caplog.records} == {"cofio.store"}  # the pool's own complaints are not passed on


def test_over_http_a_server_that_is_away_is_a_503_in_public_words(
    server: Server, store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PATIENCE, 0.3)
    body = {"session_id": "s", "messages": [said("I love climbing.")]}
    with serving(StoreAddress(url=store)) as (api, _):
        assert api.post("add", body).status_code == 200
        server.stop()
        try:
            answer = api.post("add", body)
        finally:
            server.start()
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "the database cannot be reached"
        assert str(server.port) not in answer.text
        again = {"session_id": "t", "messages": [said("I love coffee.")]}
        assert api.post("add", again).status_code == 200


def test_a_server_without_a_free_connection_is_waited_for(
    server: Server, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PATIENCE, 0.5)
    server.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'cofio'")
    with ExitStack() as others:
        with suppress(psycopg.OperationalError):
            for _ in range(100):
                others.enter_context(psycopg.connect(server.url))
        with pytest.raises(Unavailable, match="too many clients already"):
            engine.write(HERE, text="lost")
        monkeypatch.undo()
    assert engine.write(HERE, text="walrus").version == 1
    assert engine.count() == 1


def test_a_password_that_is_changed_is_told_and_not_shown(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all keeper 127.0.0.1/32 scram-sha-256\n" + before)
    server.execute("SELECT pg_reload_conf()")
    server.execute("CREATE ROLE keeper LOGIN PASSWORD 'opensesame'")
    server.execute("GRANT CREATE ON DATABASE postgres TO keeper")
    url = server.url.replace("postgres@", "keeper:{}@") + f"?schema={postgres.name_schema(tmp_path)}"
    with pytest.raises(Unavailable, match="password authentication failed") as raised:
        Engine.open(url.format("opensaysme"), settings=DURABLE)
    assert "opensaysme" not in str(raised.value)
    with Engine.open(url.format("opensesame"), settings=DURABLE) as engine:
        engine.write(HERE, text="walrus")
        monkeypatch.setattr(PATIENCE, 0.3)
        server.execute("ALTER ROLE keeper PASSWORD 'other'")
        server.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'keeper'")
        with pytest.raises(Unavailable, match="password authentication failed") as raised:
            engine.write(HERE, text="lost")
        assert "opensesame" not in str(raised.value)
        server.execute("ALTER ROLE keeper PASSWORD 'opensesame'")
        monkeypatch.undo()
        assert engine.count() == 1
    rules.write_text(before)
    server.execute("SELECT pg_reload_conf()")


def test_a_database_that_is_dropped_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.execute("CREATE DATABASE brief")
    with Engine.open(server.spell("brief"), settings=DURABLE) as engine:
        engine.write(HERE, text="walrus")
        monkeypatch.setattr(PATIENCE, 0.3)
        server.execute("DROP DATABASE brief WITH (FORCE)")
        for call in (engine.count, lambda: engine.write(HERE, text="lost")):
            with pytest.raises(Unavailable, match='database "brief" does not exist'):
                call()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the server's user."""
    place = tmp_path / "disk"
    place.mkdir()
    for folder in (place, *place.parents):  # which pytest makes for its own user only
        if folder.stat().st_mode & 0o011 != 0o011:
            folder.chmod(folder.stat().st_mode | 0o011)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", place], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    (place / "tables").mkdir()
    give_away(place)
    yield place
    subprocess.run(["umount", "--lazy", place], capture_output=True)


def test_a_full_disk_is_told_and_loses_nothing(server: Server, disk: Path) -> None:
    server.execute(f"CREATE TABLESPACE small LOCATION '{disk / 'tables'}'")
    server.execute("CREATE DATABASE small TABLESPACE small")
    try:
        with Engine.open(server.spell("small"), settings=DURABLE) as engine:
            written = [engine.write(HERE, text=f"number {number}").id for number in range(10)]
            with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            texts = (random.Random(number).randbytes(3000).hex() for number in range(1000))
            with pytest.raises(Unavailable, match="its disk is full: free some space on its server"):
                written.extend(engine.write(HERE, text=text).id for text in texts)
            (disk / "ballast").unlink()  # before anything is read, for which the server may have to write out pages
            assert {record.id for record in engine.export()} == set(written)
            written.append(engine.write(HERE, text="there is room").id)
            assert {record.id for record in engine.export()} == set(written)
            assert engine.check() == []
    finally:
        server.execute("DROP DATABASE small WITH (FORCE)")
        server.execute("DROP TABLESPACE small")
