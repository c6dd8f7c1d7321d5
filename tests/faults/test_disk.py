"""A disk that is full or fails: the caller hears Unavailable, what was not acknowledged is not there, and all is
well again when the disk is."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from cofio import Draft, Engine, Query, Scope, Settings, Unavailable
from cofio.backends.sqlite import SqliteBackend, database
from cofio.backends.upkeep_interface import Tidy

from ..servers import find_memory_folder
from .children import Nursery
from .disk import Call, Disk, Fault, failing_calls
from .scale import scaled

QUIET = Settings(embedder="hashed", background=False)
STEP = scaled(8, 1)
HERE = Scope("here")


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """The folder of a test, in memory where there is room: what fails is told to, and a real disk is slow to sync."""
    parent = find_memory_folder()
    if parent is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A disk that can be told to fail."""
    made = Disk()
    yield made
    made.fault = None


class Store:
    """A store on a disk that may fail, with what it acknowledged."""

    def __init__(self, folder: Path, disk: Disk | None) -> None:
        self.folder = folder
        self._vfs = disk.name if disk else None
        self._engine: Engine | None = None
        self._count = itertools.count()
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()

    def open(self) -> bool:
        """Open the store if it is not; whether it is now."""
        try:
            self._engine = self._engine or Engine(SqliteBackend(self.folder, vfs=self._vfs), settings=QUIET)
        except Unavailable:
            return False
        return True

    def write(self, records: int) -> bool:
        """Write so many records at once; whether that was acknowledged. What is there is true at once."""
        if not self.open():
            return False
        assert self._engine
        texts = [f"text{next(self._count)}" for _ in range(records)]
        try:
            self._engine.write_many(Draft(scope=HERE, text=text) for text in texts)
        except Unavailable:
            self.refused.update(texts)
        else:
            self.acknowledged.update(texts)
        self.verify(self._engine)
        return texts[0] in self.acknowledged

    def work(self) -> None:
        """All that is done to a store: open, write, index, checkpoint, write again, close."""
        self.write(1)
        self.write(3)
        if self._engine:
            with allowing_unavailable():
                self._engine.settle()
            with allowing_unavailable():
                self._engine._backend.upkeep(Tidy())  # as the background work does between its pieces
        self.write(2)
        self.close()

    def close(self) -> None:
        """Close the store."""
        if self._engine:
            engine, self._engine = self._engine, None
            with allowing_unavailable():
                engine.close()

    def verify(self, engine: Engine) -> None:
        """What was acknowledged is there and nothing else, to be read and to be found."""
        assert {record.text for record in engine.list(limit=1000)} == self.acknowledged
        for text in (*self.acknowledged, *self.refused):
            found = [hit.record.text for hit in engine.search(Query(text, scope=HERE, mode="keyword"))]
            assert found == [text] * (text in self.acknowledged)

    def verify_anew(self, folder: Path | None = None) -> None:
        """The same, for whoever opens the store next; and it is sound."""
        with Engine.open(folder or self.folder, settings=QUIET) as engine:
            self.verify(engine)
            engine.settle()
            assert engine.check() == []

    def verify_as_if_killed(self) -> None:
        """The same, for whoever opened it if this process died here and now."""
        copy = self.folder.with_name("copy")
        copy.mkdir()
        for name in ("memory.db", "memory.db-wal"):
            if (self.folder / name).exists():
                shutil.copy(self.folder / name, copy)
        self.verify_anew(copy)
        shutil.rmtree(copy, ignore_errors=True)


@contextmanager
def allowing_unavailable() -> Iterator[None]:
    """Lets Unavailable pass, and nothing else."""
    try:
        yield
    except Unavailable:
        return


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError])
@pytest.mark.parametrize("call", ["write", "sync", "truncate"])
def test_a_write_that_the_disk_fails_is_refused_and_is_not_there(
    disk: Disk, tmp_path: Path, call: Call, error: type[apsw.Error], lasting: bool
) -> None:
    for at in itertools.count(0, STEP if call == "write" else 1):
        store = Store(tmp_path / str(at), disk)
        fault = Fault(call, at, lasting=lasting)
        disk.fault, disk.error = fault, error
        store.work()
        disk.fault = None
        if not fault.struck:
            break
        assert store.write(1), "the disk is well again, and the store is not"
        store.close()
        store.verify_anew()
        shutil.rmtree(store.folder, ignore_errors=True)


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_write_that_the_disk_failed_stays_away_though_the_process_is_killed_at_once(
    disk: Disk, tmp_path: Path, call: Call
) -> None:
    for at in itertools.count():
        store = Store(tmp_path / "store", disk)
        assert store.write(1)
        disk.fault = Fault(call, at)
        store.write(2)
        disk.fault = None
        store.verify_as_if_killed()
        store.close()
        shutil.rmtree(store.folder, ignore_errors=True)
        if not store.refused:
            break


@pytest.mark.parametrize("call", ["write", "truncate"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_write_that_the_operating_system_fails_is_refused_and_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: Call
) -> None:
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 20)
    for at in itertools.count(0, STEP if call == "write" else 1):
        store = Store(tmp_path / str(at), None)
        fault = Fault(call, at)
        with failing_calls(fault, number):
            store.work()
        if not fault.struck:
            break
        assert store.write(1)
        store.close()
        store.verify_anew()
        shutil.rmtree(store.folder, ignore_errors=True)


@pytest.mark.parametrize("seed", range(scaled(1, 50)))
def test_on_a_disk_that_is_really_full_everything_acknowledged_is_found(
    nursery: Nursery, mount: Callable[[str], Path], tmp_path: Path, seed: int
) -> None:
    small_disk = mount("2m")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600_000))
    child = nursery.fork("fill_disk", store=str(small_disk / "store"), ballast=str(ballast), seed=seed)
    assert child.end() == 0
    texts = {said["did"] for said in child.said if "did" in said}
    (gone,) = (said["gone"] for said in child.said if "gone" in said)
    expected = {text for text in texts if text.split()[0] != gone}
    assert len(expected) > 20
    for folder in (small_disk / "store", shutil.copytree(small_disk / "store", tmp_path / "copy")):
        with Engine.open(folder, settings=QUIET) as engine:
            assert {record.text for record in engine.list(limit=10_000)} == expected
            for text in expected:
                hits = engine.search(Query(text.split()[0], scope=HERE, mode="keyword", floor=0.0))
                assert [hit.record.text for hit in hits] == [text]
            with allowing_unavailable():
                engine.settle()
    with Engine.open(tmp_path / "copy", settings=QUIET) as engine:
        engine.settle()
        assert engine.check() == []


def test_a_disk_too_full_for_vector_codes_does_not_end_the_process(
    nursery: Nursery, mount: Callable[[str], Path]
) -> None:
    disk = mount("30m")
    store, ballast = disk / "store", disk / "ballast"
    with Engine.open(store, settings=QUIET) as engine:
        engine.write_many(Draft(scope=HERE, text=f"text{number}") for number in range(400))
        engine.settle()
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - 120_000))  # the codes of 400 vectors take 180,000
    for expected in (False, True):
        child = nursery.fork("settle", store=str(store))
        assert child.end() == 0
        assert child.said == [{"settled": expected}]
        ballast.unlink(missing_ok=True)
    with Engine.open(store, settings=QUIET) as engine:
        assert list((store / "vectors").glob("*.codes"))
        assert engine.check() == []
