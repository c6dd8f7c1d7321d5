"""Several processes on one store is the normal case: nothing is lost, and nobody is told that it is locked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cofio import Engine, Query, Scope, Settings

from .children import Child, Nursery, holder
from .scale import scaled

QUIET = Settings(embedder="hashed", background=False)
PROCESSES = 8
WRITES = scaled(200, 10_000)


def make_board(folder: Path, processes: int) -> Path:
    """A file in which each process posts how many records it has acknowledged."""
    board = folder / "board"
    board.write_bytes(bytes(8 * processes))
    return board


def posted(board: Path) -> list[int]:
    """How many records each process has acknowledged."""
    content = board.read_bytes()
    return [int.from_bytes(content[at : at + 8], "little") for at in range(0, len(content), 8)]


def held(engine: Engine, process: int, number: int) -> bool:
    """Whether a record can be read and is found."""
    name = f"p{process}n{number}"
    hits = engine.search(Query(name, scope=Scope("all"), mode="keyword"))
    return engine.read(name).text.endswith(name) and [hit.record.id for hit in hits] == [name]


def test_eight_processes_write_and_search_at_once_and_nothing_is_lost(nursery: Nursery, tmp_path: Path) -> None:
    store, board = tmp_path / "store", make_board(tmp_path, PROCESSES)
    children = [
        nursery.fork("write_and_search", store=str(store), board=str(board), me=me, writes=WRITES)
        for me in range(PROCESSES)
    ]
    assert [child.end() for child in children] == [0] * PROCESSES
    with Engine.open(store, settings=QUIET) as engine:
        assert engine.scopes() == {Scope("all", f"p{me}"): WRITES for me in range(PROCESSES)}
        assert all(held(engine, me, number) for me in range(PROCESSES) for number in range(0, WRITES, 20))
        engine.settle()
        assert engine.check() == []
        assert engine.stats()["changes"] == engine.stats()["records"] == PROCESSES * WRITES


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="who holds a lock can only be seen in /proc/locks")
def test_when_the_process_that_indexes_is_killed_another_goes_on(nursery: Nursery, tmp_path: Path) -> None:
    store, board = tmp_path / "store", make_board(tmp_path, 4)
    told = {"store": str(store), "board": str(board), "hurried": True}
    children = {
        child.pid: child
        for child in (nursery.fork("write_and_search", me=me, writes=100_000, **told) for me in range(4))
    }
    killed: list[Child] = []
    until = time.monotonic() + 60
    while len(killed) < 3:
        assert time.monotonic() < until, "nobody indexes any more"
        pid = holder(store / "lease") if (store / "lease").exists() else None
        if pid in children:
            killed.append(children.pop(pid))
            killed[-1].kill()
        for child in children.values():
            child.listen(seconds=0.001)
    (last,) = children.values()
    before = len(last.said)
    last.listen(lambda: len(last.said) > before + 3)
    assert len(last.said) > before + 3, "the one that is left does not go on"
    last.kill()
    with Engine.open(store, settings=QUIET) as engine:
        acknowledged = posted(board)
        for me, number in enumerate(acknowledged):
            # What was in flight when it was killed may be there too: a write or a batch of at most four.
            assert number <= engine.count(Scope("all", f"p{me}")) <= number + 4
            assert all(held(engine, me, each) for each in range(max(0, number - 50), number))
        engine.settle()
        assert engine.check() == []
