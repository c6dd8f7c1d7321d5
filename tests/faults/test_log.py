"""Whoever reads slowly or stops reading does not make the write-ahead log grow; if somebody else does, it is told."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.waiting import wait_until

import cofio.engine.background
from cofio import Draft, Engine, Scope, Settings, Unavailable
from cofio.backends import spool
from cofio.backends.sqlite import SqliteBackend, checks

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    """A store with some records."""
    with closing(SqliteBackend(tmp_path / "store", sync="normal")) as opened:
        yield opened


@pytest.fixture
def engine(backend: SqliteBackend) -> Engine:
    """A memory on it."""
    engine = Engine(backend, settings=QUIET)
    engine.write_many(Draft(scope=HERE, id=f"r{number:03}", text=f"text {number}") for number in range(200))
    return engine


@pytest.fixture
def stalled(tmp_path: Path, engine: Engine) -> Iterator[apsw.Connection]:
    """A reader that has begun and does not go on."""
    connection = apsw.Connection(str(tmp_path / "store" / "memory.db"))
    connection.execute("BEGIN; SELECT * FROM state").fetchall()
    yield connection
    connection.close()


def change_all(engine: Engine, times: int = 3) -> None:
    for turn in range(times):
        for record in engine.list(HERE, limit=1000):
            engine.edit(record.id, text=f"{record.id} changed {turn}")


@pytest.mark.parametrize("in_memory", [10, 8 * 2**20])
def test_an_export_that_nobody_reads_on_is_of_one_moment_and_keeps_no_log(
    backend: SqliteBackend, engine: Engine, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    engine.put(HERE, "key", data=1, given={"part": [1.0, 2.0]})
    before = list(engine.export())
    assert len(before) == 201
    exported = engine.export()
    first = next(exported)
    change_all(engine)
    assert backend._database.checkpoint() == 0
    engine.drop(HERE)
    assert [first, *exported] == before
    assert before[-1].given == {"part": (1.0, 2.0)}
    assert not [file for file in backend.folder.iterdir() if "tmp" in file.name]


def test_rows_that_find_no_room_are_given_as_they_are_read_and_before_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 100)

    def read() -> Generator[tuple[int]]:
        yield from ((number,) for number in range(1000))
        raise Unavailable("damaged")

    for folder in (tmp_path / "missing", tmp_path):
        rows = spool.spool(read, folder)
        assert [next(rows) for _ in range(1000)] == [(number,) for number in range(1000)]
        with pytest.raises(Unavailable, match="damaged"):
            next(rows)


def test_a_log_that_a_stalled_reader_keeps_is_told_by_doctor_stats_and_background_work(
    tmp_path: Path, engine: Engine, stalled: apsw.Connection, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(checks, "LARGE_LOG", 2**20)
    monkeypatch.setattr(cofio.engine.background, "PAUSE", 0.01)
    monkeypatch.setattr(cofio.engine.background, "ROUND", 0.01)
    change_all(engine)
    (told,) = engine.check()
    assert told.startswith("memory.db-wal grows, ")
    assert told.endswith("some program has been reading for long and does not end; stop it")
    assert int(engine.stats()["bytes_log"]) > 2**20
    with Engine.open(tmp_path / "store", settings=Settings(embedder="none", sync="normal")) as working:
        wait_until(lambda: "memory.db-wal grows" in str(working.stats()["background_fault"]))
        stalled.close()
        wait_until(lambda: not working.stats()["background_fault"])
    assert engine.check() == []
    assert len([line for line in caplog.records if "memory.db-wal grows" in line.getMessage()]) == 1
