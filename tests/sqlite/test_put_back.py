"""A database that is put back while it is open: what was read of it before is not taken for what is there now."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from tests.sqlite.older_copy import put_back

from cofio import Engine, Query, Scope, Settings
from cofio.embed.hashed import HashedEmbedder

HERE = Scope("here")
QUIET = Settings(background=False, sync="normal")
COUNT = 200  # more than a search compares exactly


def open_memory(folder: Path) -> Engine:
    return Engine.open(folder, settings=QUIET, embedder=HashedEmbedder())


@pytest.mark.parametrize("is_read_before", [True, False])
def test_a_state_is_not_saved_as_a_change_of_one_that_was_lost(tmp_path: Path, is_read_before: bool) -> None:
    store = tmp_path / "store"
    long = {str(number): "x" * 50 + str(number) for number in range(100)}
    with open_memory(store) as memory, open_memory(store) as other:
        memory.checkpoints.save("s", "t", "1", {**long, "v": "one"})
        memory.backup(tmp_path / "copy")
        for number in range(2, 6):
            memory.checkpoints.save("s", "t", str(number), {**long, "v": number, "lost": "yes"})
        put_back(tmp_path / "copy" / "memory.db", store / "memory.db")
        for number in range(2, 6):
            other.checkpoints.save("s", "t", f"n{number}", {**long, "v": number, "kept": "yes"})
        if is_read_before:
            newest = memory.checkpoints.load("s", "t")
            assert newest is not None
            assert newest.state == {**long, "v": 5, "kept": "yes"}
        memory.checkpoints.save("s", "t", "6", {**long, "v": 6, "lost": "yes"})
    with open_memory(store) as memory:
        saved = memory.checkpoints.load("s", "t", "6")
        assert saved is not None
        assert saved.state == {**long, "v": 6, "lost": "yes"}


def test_vectors_are_read_anew(tmp_path: Path) -> None:
    store = tmp_path / "store"
    jam = Query("plum jam", mode="semantic", scope=HERE, limit=3, floor=0.0)

    def fill(memory: Engine, jams: Collection[int]) -> list[str]:
        """Write, and have searches make the vectors; what the last one found."""
        for number in range(COUNT):
            memory.write(HERE, text="plum jam" if number in jams else f"stone wall {number}")
            memory.search(jam)
        return [hit.record.id for hit in memory.search(jam)]

    with open_memory(store) as memory:
        memory.write(HERE, text="first apple")
        memory.search(jam)
        memory.backup(tmp_path / "copy")
        fill(memory, range(COUNT // 2))
        put_back(tmp_path / "copy" / "memory.db", store / "memory.db")
        with open_memory(store) as other:
            expected = fill(other, range(COUNT - 3, COUNT))
        assert [hit.record.id for hit in memory.search(jam)] == expected
