"""What is looked at and then written is one step, also when several writers do so at the same moment."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from tests.waiting import PATIENCE

from cofio import Conflict, Draft, Engine, Json, Kind, Scope
from cofio.backends.interface import Backend
from cofio.checkpoints.checkpoints import Checkpoints
from cofio.config.address import StoreAddress
from cofio.values.changes import Put, Vacant

T = TypeVar("T")
DEMO = Scope("demo")
WRITERS, ROUNDS = 4, 25


def at_once(memory: Engine, reopen: Callable[..., Engine], act: Callable[[Engine, int, int], T]) -> list[list[T]]:
    """What writers with an engine each come to, who begin each round together; round by round."""
    engines = [memory, *(reopen() for _ in range(WRITERS - 1))]
    start = threading.Barrier(WRITERS)

    def work(writer: int) -> list[T]:
        done = []
        for number in range(ROUNDS):
            start.wait(PATIENCE)
            done.append(act(engines[writer], writer, number))
        return done

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(map(list, zip(*pool.map(work, range(WRITERS), timeout=PATIENCE), strict=True)))


def claim(engine: Engine, writer: int, number: int) -> bool:
    """Try to be the first below a path; whether one was. Each takes another key, so that no key is taken twice."""
    free = Vacant(scope=DEMO, kind=Kind.FILE, first=f"{number}/", past=f"{number}0")
    mine = Draft(scope=DEMO, kind=Kind.FILE, key=f"{number}/{writer}", text=f"of {writer}")
    try:
        engine.apply([free, Put(draft=mine, how="key")])
    except Conflict:
        return False
    return True


def test_of_threads_that_write_the_same_text_one_does(memory: Engine, reopen: Callable[..., Engine]) -> None:
    def write(engine: Engine, writer: int, number: int) -> tuple[str, bool]:
        record = engine.write(DEMO, text=f"the same {number}", author=str(writer), dedupe=True)
        return record.id, record.existed

    for each in at_once(memory, reopen, write):
        assert len({record_id for record_id, _ in each}) == 1
        assert [existed for _, existed in each].count(False) == 1
    assert memory.count() == ROUNDS
    assert memory.check() == []


def test_of_threads_that_write_the_same_texts_in_other_orders_none_waits_for_ever(
    memory: Engine, reopen: Callable[..., Engine]
) -> None:
    def write(engine: Engine, writer: int, number: int) -> set[str]:
        drafts = [Draft(scope=DEMO, text=f"the same {number} {each}") for each in range(10)]
        return {record.id for record in engine.write_many(drafts[:: 1 if writer % 2 else -1], dedupe=True)}

    for each in at_once(memory, reopen, write):
        assert each == [each[0]] * WRITERS
        assert len(each[0]) == 10
    assert memory.count() == 10 * ROUNDS


def test_of_threads_that_make_a_key_one_does_and_none_of_its_changes_is_lost(
    memory: Engine, reopen: Callable[..., Engine]
) -> None:
    def put(engine: Engine, writer: int, number: int) -> bool:
        try:
            engine.put(DEMO, f"k{number}", data=writer, if_version=0)
        except Conflict:
            return False
        return True

    won = at_once(memory, reopen, put)
    assert [sum(each) for each in won] == [1] * ROUNDS
    records = [memory.get(DEMO, f"k{number}") for number in range(ROUNDS)]
    assert [record and (record.data, record.version) for record in records] == [(each.index(True), 1) for each in won]


PROCESS = """
import json, sys
from cofio import Conflict, Engine, Settings
from tests.contract.test_two_writers import DEMO, ROUNDS, claim

with Engine.open(sys.argv[1], settings=Settings(background=False, embedder="none", sync="normal")) as engine:
    engine.count()
    print("ready", flush=True)
    sys.stdin.readline()
    won = [claim(engine, int(sys.argv[2]), number) for number in range(ROUNDS)]
    made = [engine.write(DEMO, text=f"the same {number}", dedupe=True) for number in range(ROUNDS)]
    print(json.dumps([won, [[record.id, record.existed] for record in made]]))
"""


@pytest.mark.usefixtures("process")
def test_of_processes_one_gets_what_is_vacant_and_one_writes_what_is_new(memory: Engine, store: StoreAddress) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, store.spell(), str(writer)], cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for writer in range(WRITERS)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * WRITERS
    for number in range(ROUNDS):
        assert sum(won[number] for won, _ in told) == 1
        made = [written[number] for _, written in told]
        assert len({record_id for record_id, _ in made}) == 1
        assert [existed for _, existed in made].count(False) == 1
    assert memory.count(kinds=[Kind.FILE]) == memory.count(kinds=[Kind.NOTE]) == ROUNDS
    assert memory.check() == []


def test_of_two_who_save_and_delete_in_one_thread_every_state_that_is_left_is_whole(
    open_backend: Callable[[], Backend],
) -> None:
    saving, deleting = Checkpoints(open_backend()), Checkpoints(open_backend())
    count = 80

    def state_of(number: int) -> dict[str, Json]:
        return {"messages": [f"turn {each}" for each in range(number)], "at": number}

    def save() -> None:
        for number in range(count):
            saving.save("library", "t", f"c{number:03}", state_of(number))

    def delete() -> None:
        for turn in range(3):
            for number in range(turn, count, 3):
                deleting.delete("library", "t", f"c{number:03}")
            saving.save("library", "t", f"d{turn}", state_of(turn))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(save), pool.submit(delete)]:
            done.result(PATIENCE)
    left = saving.list("library", "t", limit=None)
    assert {"d0", "d1", "d2"} <= {row.id for row in left}
    for checkpoints in (saving, Checkpoints(open_backend())):
        for row in left:
            found = checkpoints.load("library", "t", row.id)
            assert found is not None
            assert found.state == state_of(int(row.id[1:]))
    assert saving.check() == []
