"""A server that stays away, is full or turns cofio away: callers wait where that helps, or are told."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cofio import Engine, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress

from .. import postgres
from ..doors.rest.conftest import said, serving
from ..servers import give_away
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
