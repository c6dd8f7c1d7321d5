"""Emptying the write-ahead log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cofio.backends.sqlite.database import Database
from cofio.backends.sqlite.database_files import is_log_empty

from ..waiting import join, wait_until


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database whose commits are synced."""
    with closing(Database(tmp_path / "memory.db")) as opened:
        yield opened


def write(database: Database) -> None:
    database.write(lambda connection: connection.execute("UPDATE state SET fault = fault || 'x'").get)


def test_an_emptied_log_is_not_emptied_again(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "memory.db-wal"
    write(database)
    assert not is_log_empty(log)
    assert database.truncate_log()
    emptied = log.stat()
    assert (emptied.st_size, is_log_empty(log), database.measure_log()) == (0, True, 0)
    assert database.truncate_log()
    assert log.stat().st_mtime_ns == emptied.st_mtime_ns
    write(database)
    assert database.measure_log() > 0


def test_a_large_log_is_emptied_though_there_is_always_one_who_reads(
    database: Database, monkeypatch: pytest.MonkeyPatch
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
