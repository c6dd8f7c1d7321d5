"""One engine in many threads: no update is lost, and closing it while it is in use is told to all who use it."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.waiting import wait_until

import cofio.engine.background
from cofio import Conflict, Draft, Engine, Query, Scope, Settings, Unavailable
from cofio.backends.sqlite import vector_codes

from .scale import scaled

THREADS = 16
BUSY = Settings(embedder="hashed", sync="normal")
HERE = Scope("here")


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background work is always at it."""
    monkeypatch.setattr(cofio.engine.background, "PAUSE", 0.001)
    monkeypatch.setattr(vector_codes, "TAIL", 8)


def at_once(*works: Callable[[], None]) -> None:
    """Run each in a thread of its own, all starting together, and raise what any of them raises."""
    start = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        start.wait(60)
        try:
            work()
        except BaseException as error:  # raised below, where pytest sees it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_compare_and_set_from_many_threads_loses_no_update(tmp_path: Path) -> None:
    rounds = scaled(15, 300)
    conflicts: list[Conflict] = []
    with Engine.open(tmp_path, settings=BUSY) as engine:
        first = engine.put(HERE, "counter", data={"n": 0}, text="counter 0")

        def count(change: Callable[..., object]) -> None:
            done = 0
            while done < rounds:
                held = engine.read(first.id)
                assert isinstance(held.data, dict)
                number = int(str(held.data["n"])) + 1
                try:
                    change(data={"n": number}, text=f"counter {number}", if_version=held.version)
                except Conflict as conflict:
                    conflicts.append(conflict)
                    continue
                done += 1

        changes = [partial(engine.put, HERE, "counter"), partial(engine.edit, first.id)] * (THREADS // 2)
        at_once(*(partial(count, change) for change in changes))
        last = engine.read(first.id)
        assert conflicts
        assert last.data == {"n": THREADS * rounds}
        assert last.version == THREADS * rounds + 1
        assert [hit.record.id for hit in engine.search(Query(f"{THREADS * rounds}", mode="keyword"))] == [first.id]
        engine.settle()
        assert engine.check() == []


def test_many_threads_write_change_and_search_and_each_finds_its_own(tmp_path: Path) -> None:
    rounds = scaled(15, 300)
    with Engine.open(tmp_path, settings=BUSY) as engine:

        def work(me: int) -> None:
            choose = random.Random(me)
            scope = HERE / f"t{me}"

            def found(word: str) -> list[str]:
                return [hit.record.id for hit in engine.search(Query(word, scope=scope, mode="keyword", floor=0.0))]

            for number in range(rounds):
                name = f"t{me}n{number}"
                engine.write_many([Draft(scope=scope, id=name, text=f"one {name}"), Draft(scope=scope, text="filler")])
                assert found(name) == [name]
                if number % 3 == 0:
                    engine.edit(name, text=f"two {name}x")
                    assert found(name) == []
                    assert found(f"{name}x") == [name]
                if number % 5 == 0:
                    engine.delete(name)
                    assert found(name) == found(f"{name}x") == []
                engine.search(Query(f"filler {choose.randrange(rounds)}", scope=HERE))

        at_once(*(lambda me=me: work(me) for me in range(THREADS)))
        left = sum(number % 5 != 0 for number in range(rounds)) + rounds
        assert engine.scopes() == {HERE / f"t{me}": left for me in range(THREADS)}
        engine.settle()
        assert engine.check() == []


def forever(work: Callable[[], object]) -> None:
    """Do the work over and over."""
    while True:
        work()


def until_closed(work: Callable[[], object]) -> Callable[[], None]:
    """Do the work over and over, until the engine says that it is closed."""

    def run() -> None:
        with pytest.raises(Unavailable, match="closed"):
            forever(work)

    return run


@pytest.mark.parametrize("attempt", range(scaled(3, 100)))
def test_closing_an_engine_in_use_tells_each_thread_that_it_is_closed(tmp_path: Path, attempt: int) -> None:
    engine = Engine.open(tmp_path, settings=BUSY)
    numbers = itertools.count()
    acknowledged: list[str] = []

    def write() -> None:
        acknowledged.append(engine.write(HERE, text=f"number{next(numbers)}").text)

    def search() -> None:
        engine.search(Query(acknowledged[-1] if acknowledged else "nothing", scope=HERE))

    def close() -> None:
        wait_until(lambda: len(acknowledged) >= 20 * (attempt + 1), every=0.0)
        engine.close()
        engine.close()

    look: list[Callable[[], object]] = [lambda: engine.list(HERE), engine.stats, engine.settle, engine.check]
    at_once(close, *map(until_closed, [*[write] * 6, *[search] * 4, *look]))
    # realpath, which takes a descriptor that is closed meanwhile for what it is: gone.
    assert str(tmp_path / "memory.db") not in [os.path.realpath(link) for link in Path("/proc/self/fd").glob("*")]
    with Engine.open(tmp_path, settings=Settings(embedder="hashed", background=False)) as again:
        assert {record.text for record in again.list(HERE, limit=10_000)} >= set(acknowledged)
        again.settle()
        assert again.check() == []
