"""A store on a disk or in a folder that cannot be written: it is searched and read, and a change is refused plainly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable

QUIET = Settings(embedder="hashed", background=False, sync="normal")
HERE = Scope("here")
TEXTS = {f"walrus number {number}" for number in range(5)}
COFIO = [sys.executable, "-m", "cofio"]
Freeze = Callable[[Path], Path]


# What makes permissions count for root, too, in the processes that are started so.
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"] if os.geteuid() == 0 else []


def forbid(store: Path) -> None:
    """Take away the permission to write a store."""
    for file in [store, *store.rglob("*")]:
        file.chmod(0o500 if file.is_dir() else 0o400)


def allow(store: Path) -> None:
    """Give the permission back."""
    for file in [store, *store.rglob("*")]:
        file.chmod(0o700 if file.is_dir() else 0o600)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Freeze]:
    """Copies a store to a disk that is then mounted read-only."""
    place = tmp_path / "disk"
    place.mkdir()

    def freeze(store: Path) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        shutil.copytree(store, place / "store")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        return place / "store"

    yield freeze
    subprocess.run(["umount", "--lazy", str(place)], capture_output=True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store, some of whose records are in the word index and have vectors, and some not."""
    with Engine.open(tmp_path / "store", settings=QUIET) as engine:
        for text in sorted(TEXTS)[:3]:
            engine.write(HERE, text=text)
        engine.settle()
        for text in sorted(TEXTS)[3:]:
            engine.write(HERE, text=text)
        engine.checkpoints.save("space", "thread", "saved", {"a": 1})
    return tmp_path / "store"


def files(store: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {str(file): file.read_bytes() for file in store.rglob("*") if file.is_file()}


def verify(engine: Engine) -> None:
    """All of it can be read and found."""
    assert {record.text for record in engine.list()} == TEXTS
    assert {record.text for record in engine.export()} == TEXTS
    assert {hit.record.text for hit in engine.search(Query("walrus", mode="keyword"))} == TEXTS
    assert len(engine.search(Query("walrus number 1"))) >= 3
    assert engine.scopes() == {HERE: 5}
    assert engine.checkpoints.load("space", "thread", "saved") is not None
    assert engine.check() == []
    assert engine.stats()["records"] == 5


def test_it_is_searched_read_and_copied_and_stays_as_it_is(disk: Freeze, store: Path, tmp_path: Path) -> None:
    frozen = disk(store)
    before = files(frozen)
    with Engine.open(frozen, settings=Settings(embedder="hashed", sync="normal")) as engine:
        assert engine.read_only
        verify(engine)
        assert engine.settle() == 0
        engine.backup(tmp_path / "copy")
    assert files(frozen) == before
    with Engine.open(tmp_path / "copy", settings=QUIET) as copy:
        assert not copy.read_only
        verify(copy)


def test_without_what_is_derived_it_is_searched_and_a_change_says_that_it_is_read_only(
    disk: Freeze, store: Path
) -> None:
    for name in ("index", "vectors"):
        shutil.rmtree(store / name)
    with Engine.open(disk(store), settings=QUIET) as engine:
        first = engine.list()[0].id
        changes: list[Callable[[], object]] = [
            lambda: engine.write(HERE, text="new"),
            lambda: engine.put(HERE, "key", data=1),
            lambda: engine.delete(first),
            lambda: engine.drop(HERE),
            lambda: engine.checkpoints.save("space", "thread", "next", {"a": 2}),
            lambda: engine.reindex(),
        ]
        for change in changes:
            with pytest.raises(Unavailable, match="is read-only, as its disk or folder is") as raised:
                change()
            assert raised.value.public == "The memory is read-only here: it can be searched and read, not changed"
        verify(engine)


def test_what_is_still_in_its_log_is_read_if_it_can_be_or_told(disk: Freeze, store: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    with Engine.open(store, settings=QUIET) as engine:
        engine.write(HERE, id="late", text="in the log")
        for name in ("live", "without"):
            shutil.copytree(store, both / name)  # as if the machine had stopped here
    (both / "without" / "memory.db-shm").unlink()
    frozen = disk(both)
    with Engine.open(frozen / "live", settings=QUIET) as engine:
        assert engine.read("late").text == "in the log"
        assert len(engine.list()) == 6
    with pytest.raises(Unavailable, match=r"newest changes are still in memory\.db-wal: copy the folder"):
        Engine.open(frozen / "without", settings=QUIET)


def test_one_of_an_older_version_is_told_what_to_do(disk: Freeze, tmp_path: Path) -> None:
    schema = Path(__file__).parents[1] / "upgrade" / "schema1.sql"
    store = tmp_path / "old"
    store.mkdir()
    database = apsw.Connection(str(store / "memory.db"))
    database.execute(schema.read_text()).fetchall()
    database.close()
    with pytest.raises(Unavailable, match=r"older cofio .* and is read-only: copy its folder"):
        Engine.open(disk(store), settings=QUIET)


@pytest.mark.parametrize("how", ["disk", "folder"])
def test_the_command_line_reads_it_and_refuses_to_write(disk: Freeze, store: Path, tmp_path: Path, how: str) -> None:
    frozen, prefix = (disk(store), []) if how == "disk" else (store, BOUND)
    if how == "folder":
        forbid(store)
    before = files(frozen)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "COFIO_EMBEDDER": "none", "COFIO_STORE": str(frozen)}
        return subprocess.run([*prefix, *COFIO, *words], cwd=tmp_path, env=environ, capture_output=True, text=True)

    record = run("list", "--json").stdout.splitlines()[0]
    for words in (
        ["search", "walrus"], ["list"], ["show", json.loads(record)["id"]], ["export"], ["stats"], ["scopes"],
        ["doctor"], ["backup", "copied"],
    ):  # fmt: skip
        done = run(*words)
        assert (done.returncode, done.stdout != "") == (0, True), (words, done)
    added = run("add", "something")
    assert (added.returncode, added.stdout) == (1, "")
    assert "memory.db is read-only" in added.stderr
    assert files(frozen) == before
    allow(store)


def test_a_store_that_may_not_be_written_is_not_believed_once_another_writes_it(store: Path) -> None:
    script = f"""
import sys
from cofio import Engine, Settings, Unavailable
with Engine.open({str(store)!r}, settings=Settings(embedder="none")) as engine:
    print(engine.read_only, len(engine.list()), len(engine.search("walrus")), flush=True)
    sys.stdin.readline()
    try:
        print(len(engine.list()))
    except Unavailable as error:
        print(error)
"""
    forbid(store)
    with subprocess.Popen(
        [*BOUND, sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "True 5 5\n"
        allow(store)
        with Engine.open(store, settings=QUIET) as owner:
            owner.write(HERE, text="new")
            said, _ = reader.communicate("\n", timeout=30)
    assert "was changed by another program while it was read as a read-only memory; start this program again" in said
