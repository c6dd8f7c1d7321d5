"""The lock of the derived work, and what becomes of it where it cannot be had."""

from __future__ import annotations

from pathlib import Path

from cofio import Engine, Scope
from cofio.backends.sqlite import SqliteBackend
from cofio.backends.upkeep_interface import Erase, Index

DEMO = Scope("demo")


def test_who_cannot_have_the_lock_indexes_nothing_and_counts_what_waits(memory: Engine, tmp_path: Path) -> None:
    memory.write(DEMO, text="walrus colony")
    one, two = (SqliteBackend(tmp_path / "store") for _ in range(2))
    with one.derived.lock.try_acquire() as locked:
        assert locked
        done = two.upkeep(Index(limit=10, embedder="hashed-384", count_waiting=True))
        assert (done.busy, done.more, done.done, done.waiting) == (True, True, 0, 1)
        assert memory.stats()["waiting_for_index"] == 1
        assert two.upkeep(Erase(seconds=0.0)).more
    done = two.upkeep(Index(limit=10, embedder="hashed-384"))
    assert (done.busy, done.more, done.done, done.waiting) == (False, False, 1, 0)
    assert memory.stats()["waiting_for_index"] == 0
    one.close()
    two.close()
