"""What people do with a memory on PostgreSQL as a whole: back it up, put it back, and have it examined."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from cofio import Engine, Invalid, Query, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.embed.hashed import HashedEmbedder

from .. import postgres, servers

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """A memory with something in it."""
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as opened:
        for number in range(30):
            opened.write(HERE, text=f"walrus {number}")
        opened.checkpoints.save("library", "t", "c", {"messages": ["one"]})
        opened.settle()
        yield opened


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Path:
    """PostgreSQL's programs, on the PATH."""
    installed = shutil.which("pg_restore") if os.environ.get("COFIO_TEST_POSTGRESQL") else None
    # A newer one may not suit the server.
    found = Path(installed).parent if installed else servers.find_postgresql().folder
    monkeypatch.setenv("PATH", f"{found}{os.pathsep}{os.environ['PATH']}")
    return found


def execute(*statements: str) -> None:
    with psycopg.connect(postgres.find_url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_dump_is_put_back_by_pg_restore(engine: Engine, store: StoreAddress, tools: Path, tmp_path: Path) -> None:
    target = tmp_path / "memory.dump"
    engine.backup(target)
    assert target.stat().st_mode & 0o777 == 0o600
    before, states, identity = [*engine.export()], engine.checkpoints.load("library", "t"), engine.identity()
    engine.write(HERE, text="after the dump")
    with pytest.raises(Invalid, match="exists"):
        engine.backup(target)
    engine.close()
    postgres.remove(store)
    restore: list[str | Path] = [tools / "pg_restore", f"--dbname={postgres.find_url()}", "--no-owner"]
    subprocess.run([*restore, "--exit-on-error", target], check=True, capture_output=True)
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as back:
        assert [*back.export()] == before
        assert back.checkpoints.load("library", "t") == states
        assert back.identity() == identity
        assert back.check() == []
        for mode in ("keyword", "semantic"):
            assert back.search(Query("walrus 7", mode=mode))[0].record.text == "walrus 7"
        back.write(HERE, text="and on it goes")


def test_the_password_is_in_the_environment_and_never_among_the_arguments(
    engine: Engine, store: StoreAddress, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in place of pg_dump says what it was told, and then is the real one."""
    said = tmp_path / "said"
    (tmp_path / "bin").mkdir()
    own = tmp_path / "bin" / "pg_dump"
    own.write_text(
        f'#!/bin/sh\necho "$0 $*" >> {said}\necho "PGPASSWORD=$PGPASSWORD" >> {said}\nexec {tools}/pg_dump "$@"\n'
    )
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own.parent}{os.pathsep}{os.environ['PATH']}")
    address = postgres.log_in(store, "postgres", "secret").spell()
    assert main(["--store", address, "backup", str(tmp_path / "memory.dump")]) == 0
    *_, arguments, variable = said.read_text().splitlines()
    assert variable == "PGPASSWORD=secret"
    assert "secret" not in arguments
    assert f"dbname={conninfo_to_dict(postgres.find_url())['dbname']}" in arguments


def test_without_a_pg_dump_that_is_new_enough_the_error_says_what_else_there_is(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"pg_dump is not on the PATH: install .*, or name a folder"):
        engine.backup(tmp_path / "memory.dump")
    (tmp_path / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 14.2'\n")
    (tmp_path / "pg_dump").chmod(0o755)
    with pytest.raises(Unavailable, match=r"is 14, and the server has PostgreSQL \d+: install"):
        engine.backup(tmp_path / "memory.dump")
    assert not (tmp_path / "memory.dump").exists()
    engine.backup(tmp_path / "folder")
    with Engine.open(tmp_path / "folder", settings=QUIET, embedder=HashedEmbedder()) as copy:
        assert [*copy.export()] == [*engine.export()]
        assert copy.check() == []


def test_a_dump_that_fails_leaves_nothing(engine: Engine, store: StoreAddress, tools: Path, tmp_path: Path) -> None:
    postgres.remove(store)
    with pytest.raises(Unavailable, match="pg_dump failed: "):
        engine.backup(tmp_path / "memory.dump")
    assert [file.name for file in tmp_path.iterdir() if "dump" in file.name or ".tmp" in file.name] == []


def test_each_finding_of_the_doctor_names_what_to_run(engine: Engine, store: StoreAddress) -> None:
    schema = postgres.get_schema(store)
    execute(
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.record_scope'::regclass",
        f"UPDATE {schema}.scope_size SET records = records + 1",
        f"DELETE FROM {schema}.record_id WHERE no = (SELECT min(no) FROM {schema}.record_id)",
        f"DELETE FROM {schema}.posting WHERE no = (SELECT max(no) FROM {schema}.posting)",
    )
    found = engine.check()
    assert len(found) == 4
    (index,) = [each for each in found if "REINDEX" in each]
    execute(index[index.index("REINDEX") :])
    execute(f"UPDATE pg_index SET indisvalid = true WHERE indexrelid = '{schema}.record_scope'::regclass")
    assert len([each for each in engine.check() if "`cofio reindex`" in each]) == 3


def test_a_server_that_is_away_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    address = f"postgresql://me:secret@127.0.0.1:{servers.free_port()}/memory"
    for command in (["stats"], ["doctor"], ["add", "x"], ["backup", str(tmp_path / "b.dump")]):
        assert main(["--store", address, *command]) == 1, command
        said = capsys.readouterr().err
        assert said.startswith("cofio: "), (command, said)
        assert "secret" not in said
        assert "Connection refused" in said or "connection failed" in said, (command, said)
    assert main(["copy", str(tmp_path), address]) == 1
    assert [*tmp_path.iterdir()] == []
