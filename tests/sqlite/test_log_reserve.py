"""The room ahead of the write-ahead log: commits do not make its file longer, and nothing that it holds is touched."""

from __future__ import annotations

import errno
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from cofio import CofioError, Engine, Scope, Settings, Unavailable
from cofio.backends.sqlite import SqliteBackend, log_reserve
from cofio.backends.sqlite.database import Database
from cofio.backends.sqlite.log_reserve import STEP, is_log_empty

from ..waiting import join, wait_until

HERE = Scope("here")
QUIET = Settings(background=False, embedder="none")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store"


@pytest.fixture
def engine(store: Path) -> Iterator[Engine]:
    """A memory whose commits are synced."""
    with Engine.open(store, settings=QUIET) as opened:
        yield opened


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database whose commits are synced."""
    with closing(Database(tmp_path / "memory.db")) as opened:
        yield opened


def write(database: Database) -> None:
    database.write(lambda connection: connection.execute("UPDATE state SET fault = fault || 'x'").get)


def test_commits_do_not_make_the_log_longer_while_there_is_room(engine: Engine, store: Path) -> None:
    engine.write(HERE, text="makes it longer")
    engine.write(HERE, text="gets it room")
    log = store / "memory.db-wal"
    size = log.stat().st_size
    for number in range(10):
        engine.write(HERE, text=f"has room {number}")
    assert log.stat().st_size == size
    assert size % STEP == 0
    assert 0 < int(engine.stats()["bytes_log"]) < size


def test_a_log_gets_more_room_when_a_commit_has_used_it_up(engine: Engine, store: Path) -> None:
    log, sizes = store / "memory.db-wal", set()
    for number in range(6):
        engine.write(HERE, text=f"{number} " + "long " * 100_000)
        engine.write(HERE, text=f"{number} short")
        sizes.add(log.stat().st_size)
    assert len(sizes) > 2
    assert all(size % STEP == 0 for size in sizes)


def test_an_emptied_log_has_room_and_is_not_emptied_again(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "memory.db-wal"
    write(database)
    assert not is_log_empty(log)
    assert database.truncate_log()
    emptied = log.stat()
    assert (emptied.st_size, is_log_empty(log), database.measure_log()) == (STEP, True, 0)
    assert log.read_bytes() == bytes(STEP)
    assert database.truncate_log()
    assert log.stat().st_mtime_ns == emptied.st_mtime_ns
    write(database)
    assert log.stat().st_size == STEP
    assert database.measure_log() > 0


def test_a_large_log_is_emptied_though_there_is_always_one_who_reads(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, steps = threading.Event(), [threading.Semaphore(1), threading.Semaphore(0)]

    def read(own: threading.Semaphore, other: threading.Semaphore) -> None:
        while not ended.is_set():
            own.acquire(timeout=1)
            with database.snapshot() as connection:
                connection.execute("SELECT fault FROM state").fetchall()
                other.release()  # who begins before this one ends
                time.sleep(0.01)

    write(database)
    readers = [threading.Thread(target=read, args=(steps[n], steps[1 - n])) for n in range(2)]
    for reader in readers:
        reader.start()
    try:
        wait_until(lambda: not truncates_after_write(database))
        monkeypatch.setattr("cofio.backends.sqlite.database.LONG_LOG", 1)
        wait_until(lambda: truncates_after_write(database))
    finally:
        ended.set()
        join(*readers)
    assert database.measure_log() == 0


def truncates_after_write(database: Database) -> bool:
    write(database)
    return database.truncate_log()


def test_what_is_not_synced_needs_no_room(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "memory.db", sync="normal")) as database:
        write(database)
        write(database)
        assert (tmp_path / "memory.db-wal").stat().st_size % STEP
        assert database.truncate_log()
        assert (tmp_path / "memory.db-wal").stat().st_size == 0


def test_a_disk_that_is_nearly_full_is_left_its_room(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reserve, "SPARE_DISK", 2**62)
    for _ in range(3):
        write(database)
    log = tmp_path / "memory.db-wal"
    assert log.stat().st_size % STEP
    assert database.truncate_log()
    assert log.stat().st_size == 0


@pytest.mark.parametrize("cut", [0, 1, 4096, STEP])
def test_whoever_finds_the_log_of_a_killed_process_finds_all_that_was_written(
    engine: Engine, store: Path, tmp_path: Path, cut: int
) -> None:
    """The room is as the process left it, or a power cut has taken some of it."""
    for number in range(5):
        engine.write(HERE, id=f"r{number}", text=f"record {number}")
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(store / "memory.db", copy)
    content = (store / "memory.db-wal").read_bytes()
    assert not any(content[len(content) - STEP :])
    (copy / "memory.db-wal").write_bytes(content[: len(content) - cut])
    with Engine.open(copy, settings=QUIET) as found:
        assert [record.id for record in found.list(HERE, limit=100)] == [f"r{number}" for number in reversed(range(5))]
        assert found.check() == []


def test_two_that_write_at_once_lose_nothing_to_each_others_room(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reserve, "STEP", 2**13)
    monkeypatch.setattr(log_reserve, "MORE", 2**15)
    backends = [SqliteBackend(store) for _ in range(2)]
    engines = [Engine(backend, settings=QUIET) for backend in backends]
    failures: list[BaseException] = []

    def work(engine: Engine, backend: SqliteBackend, name: str) -> None:
        try:
            for number in range(150):
                engine.write(HERE, id=f"{name}{number}", text=f"record {number} " * (1 + number % 90))
                if number % 20 == 7:
                    backend._database.checkpoint()
                    backend._database.truncate_log()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=each) for each in zip(engines, backends, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    copy = store.with_name("copy")
    copy.mkdir()
    for name in ("memory.db", "memory.db-wal"):
        shutil.copy(store / name, copy)
    for engine in engines:
        engine.close()
    assert not failures
    for folder in (store, copy):
        with Engine.open(folder, settings=QUIET) as found:
            assert found.count(HERE) == 300
            assert found.check() == []


def test_no_zeros_go_into_the_log_of_another_store(store: Path, tmp_path: Path) -> None:
    """The folder is replaced while a write waits for its turn: by its name, the log is another one's then."""
    log = store / "memory.db-wal"
    with Engine.open(store, settings=QUIET) as engine:
        write_until_uneven(engine, log)
        with closing(apsw.Connection(str(store / "memory.db"))) as other:
            other.execute("BEGIN IMMEDIATE")
            refused: list[CofioError] = []
            writer = threading.Thread(target=lambda: refused.append(write_in_vain(engine)))
            writer.start()
            backend = engine._backend
            assert isinstance(backend, SqliteBackend)
            wait_until(backend._database._write_lock.locked)
            time.sleep(0.1)  # until it is at the lock of the database
            store.rename(tmp_path / "moved")
            with Engine.open(store, settings=QUIET) as replaced:
                write_until_uneven(replaced, log)
                content = log.read_bytes()
                other.execute("ROLLBACK")
                join(writer)
                assert log.read_bytes() == content
        assert len(refused) == 1


def write_until_uneven(engine: Engine, log: Path) -> None:
    """Write until a commit has made the log longer."""
    engine.write(HERE, text="first")
    for number in range(10_000):
        if log.stat().st_size % STEP:
            return
        engine.write(HERE, text=f"more {number}")
    pytest.fail("the log has not become longer")


def write_in_vain(engine: Engine) -> CofioError:
    with pytest.raises(Unavailable) as caught:
        engine.write(HERE, text="late")
    return caught.value


def test_a_write_needs_no_room(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no descriptor left, or the disk may not say how full it is."""

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(log_reserve, "open_file", fail)
    for _ in range(3):
        write(database)
    assert (tmp_path / "memory.db-wal").stat().st_size % STEP
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", fail)
    for _ in range(3):
        write(database)
    assert database.truncate_log()
    assert (tmp_path / "memory.db-wal").stat().st_size == 0


@pytest.mark.parametrize("refusal", [apsw.BusyError, apsw.LockedError, apsw.ReadOnlyError])
def test_a_log_that_may_not_be_measured_is_as_long_as_its_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: type[apsw.Error]
) -> None:
    class Refusing:
        in_transaction = False

        def wal_checkpoint(self, **_: object) -> tuple[int, int]:
            raise refusal

    write(database)
    monkeypatch.setattr(database, "_take_reader", Refusing)
    monkeypatch.setattr(database, "_return_reader", lambda _: None)
    assert database.measure_log() == (tmp_path / "memory.db-wal").stat().st_size > 0
