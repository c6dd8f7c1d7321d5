"""A backup that is cut off: it is not taken for a memory, and the next one to the same place is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Draft, Engine, Invalid, Scope, Settings, Unavailable

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")
RECORDS = 2100
KILLED = """
import os, signal, sys
from cofio import Engine, Settings
store, target, stage = sys.argv[1:]

def progress(what, done, of):
    if what == stage:
        os.kill(os.getpid(), signal.SIGKILL)

with Engine.open(store, settings=Settings(background=False, embedder="none")) as engine:
    engine.backup(target, progress)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that takes a while to copy; not to be changed."""
    folder = tmp_path_factory.mktemp("original") / "store"
    with Engine.open(folder, settings=QUIET) as engine:
        engine.write_many(Draft(scope=HERE, text=f"walrus {number} " * 40) for number in range(RECORDS))
    (folder / "cofio.toml").write_text('embedder = "none"\n')
    return folder


@pytest.mark.parametrize(("stage", "there"), [("copy", False), ("words", True)])
def test_a_backup_that_is_killed_is_no_memory_and_the_next_one_is_whole(
    store: Path, tmp_path: Path, stage: str, there: bool
) -> None:
    target = tmp_path / "backups" / "copy"
    if there:
        target.mkdir(parents=True)
    done = subprocess.run([sys.executable, "-c", KILLED, str(store), str(target), stage])
    assert done.returncode == -signal.SIGKILL
    assert (target / "memory.db.partial").stat().st_size > 0
    assert not (target / "memory.db").exists()
    command = [sys.executable, "-m", "cofio", "list", "--store", str(target)]
    listed = subprocess.run(command, capture_output=True, text=True)
    assert (listed.returncode, listed.stdout) == (1, "")
    assert "there is no memory in" in listed.stderr
    with Engine.open(store, settings=QUIET) as engine:
        engine.backup(target)
    assert {file.name for file in target.iterdir()} == {"memory.db", "index", "vectors", "lease", "cofio.toml"}
    with Engine.open(target, settings=QUIET) as copy:
        assert copy.count() == RECORDS
        assert copy.check() == []


@pytest.mark.parametrize("there", [False, True])
def test_a_backup_that_fails_leaves_nothing(store: Path, tmp_path: Path, there: bool) -> None:
    target = tmp_path / "copy"
    if there:
        target.mkdir()

    def stop(what: str, done: int, of: int) -> None:
        assert (target / "memory.db.partial").exists()
        if what == "words":
            raise KeyboardInterrupt

    with Engine.open(store, settings=QUIET) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.backup(target, stop)
        assert [*target.iterdir()] == [] if there else not target.exists()


@pytest.mark.parametrize("name", ["memory.db", "notes.txt", "index"])
def test_what_is_no_unfinished_backup_is_not_overwritten(store: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / name).write_text("mine")
    if name != "index":
        (target / "memory.db.partial").write_text("half a copy")
    with Engine.open(store, settings=QUIET) as engine, pytest.raises(Invalid, match="is not an empty folder"):
        engine.backup(target)
    assert (target / name).read_text() == "mine"


def test_a_folder_that_a_backup_is_being_made_in_takes_no_other_backup_or_memory(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    refused: list[str] = []
    with Engine.open(store, settings=QUIET) as engine:

        def progress(stage: str, done: int, of: int) -> None:
            with pytest.raises(Unavailable, match="another copy is being made"):
                engine.backup(target)
            with pytest.raises(Unavailable, match="a copy that is being made"):
                Engine.open(target, settings=QUIET)
            refused.append(stage)

        engine.backup(target, progress)
    assert refused
    with Engine.open(target, settings=QUIET) as copy:
        assert copy.count() == RECORDS


def test_a_backup_never_takes_the_place_of_a_memory_that_was_begun_meanwhile(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"

    def progress(stage: str, done: int, of: int) -> None:
        if stage == "words":
            (target / "memory.db").write_bytes(b"somebody's")

    with Engine.open(store, settings=QUIET) as engine, pytest.raises(Unavailable, match="was begun"):
        engine.backup(target, progress)
    assert (target / "memory.db").read_bytes() == b"somebody's"
