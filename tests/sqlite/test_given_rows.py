"""Given vectors in SQLite: they are read in pieces, and no row of one stays behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cofio import Engine, Scope, Settings
from cofio.backends.sqlite import SqliteBackend, searcher

HERE = Scope("here")


@pytest.fixture
def backend(tmp_path: Path) -> SqliteBackend:
    """An empty store."""
    return SqliteBackend(tmp_path / "store", sync="normal")


@pytest.fixture
def engine(backend: SqliteBackend) -> Engine:
    """An engine on it."""
    return Engine(backend, settings=Settings(background=False, embedder="none"))


@pytest.mark.parametrize("at_once", [1, 7])
def test_the_nearest_do_not_depend_on_how_many_vectors_are_read_at_once(
    engine: Engine, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine:
        for number in range(20):
            parts = {part: [number * 7 % 11 - 5, number * step % 5 + 1] for part, step in (("p", 3), ("q", 4))}
            engine.put(HERE, str(number), given=parts)
        whole = [(hit.record.key, hit.score) for hit in engine.nearest([2, 1], limit=8)]
        monkeypatch.setattr(searcher, "GIVEN_AT_ONCE", at_once)
        assert [(hit.record.key, hit.score) for hit in engine.nearest([2, 1], limit=8)] == whole
        assert len(whole) == 8


def test_no_row_of_a_given_vector_outlives_its_record(engine: Engine, backend: SqliteBackend) -> None:
    with engine:
        one = engine.put(HERE, "a", text="a", given={"$": [1, 0]})
        engine.put(HERE, "b", text="b", given={"$": [1, 0]}, ttl=timedelta(microseconds=1))
        engine.put(HERE, "c", text="c", given={"$": [1, 0], "x": [2, 1]})
        engine.delete(one.id)
        assert engine.purge() == 1
        engine.drop(HERE)
        with backend._database.snapshot() as connection:
            assert connection.execute("SELECT count(*) FROM given").get == 0
