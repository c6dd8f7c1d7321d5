"""Which expired records the background work removes for good, when the clock may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from cofio import Engine, Scope
from cofio.backends.sqlite import SqliteBackend
from cofio.backends.sqlite.expiry import Expiry

DEMO = Scope("demo")


@pytest.fixture
def make_expiry(
    memory: Engine, tmp_path: Path, clock: Callable[[], datetime], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[list[float]], Expiry]]:
    """Begins the work of another process on the memory, by a clock that cannot be set: the first of a list."""
    backend = SqliteBackend(tmp_path / "store", clock=clock)

    def make(passed: list[float]) -> Expiry:
        monkeypatch.setattr("cofio.backends.store_time.read_steady_clock", lambda: passed[0])
        return Expiry(backend._database, clock)

    yield make
    backend.close()


def test_what_a_clock_saw_expired_only_for_a_while_is_not_purged(
    memory: Engine, advance: Callable[[float], None], make_expiry: Callable[[list[float]], Expiry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    passed = [0.0]
    record = memory.write(DEMO, text="mortal", ttl=60)
    expiry = make_expiry(passed)
    passed[0] = 7200
    advance(7200)
    assert expiry.purge_proven() is None
    advance(-7200)
    expiry.purge_proven()
    advance(7200)
    monkeypatch.setattr("cofio.backends.store_time.PURGE_AFTER", 0.0)  # the hour is over
    assert expiry.purge_proven() is not None
    advance(-7200)
    assert memory.read(record.id) == record
    advance(60)
    expiry.purge_proven()
    assert memory.purge() == 0


def test_what_expires_only_by_a_clock_that_was_set_ahead_meanwhile_is_not_purged(
    memory: Engine, advance: Callable[[float], None], make_expiry: Callable[[list[float]], Expiry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    passed = [0.0]
    monkeypatch.setattr("cofio.backends.store_time.PURGE_AFTER", 0.0)
    record = memory.write(DEMO, text="mortal", ttl=18_000)
    expiry = make_expiry(passed)
    advance(72_000)
    passed[0] = 7200
    expiry.purge_proven()
    advance(-64_800)
    assert memory.read(record.id) == record
    passed[0] = 18_001
    advance(10_801)
    expiry.purge_proven()
    expiry.purge_proven()  # the first look of those that count
    assert memory.purge() == 0


def test_a_purge_of_what_expired_long_ago_does_not_take_the_time_back(
    memory: Engine, advance: Callable[[float], None], clock: Callable[[], datetime],
    make_expiry: Callable[[list[float]], Expiry],
) -> None:  # fmt: skip
    memory.write(DEMO, text="mortal", ttl=60)
    advance(60)
    then = clock()
    advance(3600)
    memory.write(DEMO, text="lasting")
    assert make_expiry([0.0]).purge(then) == (1, then)
    assert memory.stats()["updated"] == clock().isoformat()
