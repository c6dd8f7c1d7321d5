"""How a write waits for another process's write lock: for how long, and what is said of it meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, join, wait_for

from cofio import Engine, Scope, Settings, Unavailable
from cofio.backends.interface import Trouble
from cofio.backends.sqlite.lock_holder import LockHolder, find_lock_holder
from cofio.http.errors import describe_failure

QUIET = Settings(embedder="none", background=False, sync="normal")
HERE = Scope("here")
HOLD = """
import apsw, sys
connection = apsw.Connection(sys.argv[2])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
Hold = Callable[[], "subprocess.Popen[str]"]

pytestmark = [
    pytest.mark.usefixtures("process"),
    pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who holds a lock"),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A memory with one record."""
    with Engine.open(tmp_path / "store", settings=QUIET) as engine:
        engine.write(HERE, text="walrus")
    return tmp_path / "store"


@pytest.fixture
def hold(store: Path, tmp_path: Path) -> Iterator[Hold]:
    """Starts a process called `cofio serve` that holds the write lock until its stdin is closed."""
    script = tmp_path / "cofio"
    script.write_text(HOLD)
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-u", str(script), "serve", str(store / "memory.db")]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.communicate(timeout=PATIENCE)


def list_own_locks() -> list[list[str]]:
    """The locks that this process holds, without their numbers."""
    lines = Path("/proc/locks").read_text().splitlines()
    return sorted(words[1:] for words in map(str.split, lines) if words[4] == str(os.getpid()))


def write_into(engine: Engine, errors: list[Unavailable]) -> threading.Thread:
    """Write in a thread of its own; what it raises is added to the errors."""

    def write() -> None:
        try:
            engine.write(HERE, text="narwhal")
        except Unavailable as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_the_holder_is_found_and_the_locks_of_this_process_stay(store: Path, hold: Hold) -> None:
    with Engine.open(store, settings=QUIET) as engine, engine._backend.snapshot():
        assert find_lock_holder(store / "memory.db") is None
        before = list_own_locks()
        holder = hold()
        assert find_lock_holder(store / "memory.db") == LockHolder(holder.pid, "cofio serve", is_stopped=False)
        assert before
        assert list_own_locks() == before
    assert find_lock_holder(store / "nothing.db") is None


def test_all_writers_of_a_process_give_up_together_and_are_told_who_holds_the_lock(store: Path, hold: Hold) -> None:
    holder, errors = hold(), list[Unavailable]()
    with Engine.open(store, settings=QUIET, lock_seconds=2.0) as engine:
        join(*[write_into(engine, errors) for _ in range(4)])
        assert len(errors) == 4
        assert len({*map(id, errors)}) == 1
        sentence = f"another process (PID {holder.pid}, `cofio serve`) has held the write lock for 2 s; try again"
        assert (errors[0].public, errors[0].trouble) == (sentence, "locked")
        assert str(errors[0]) == f"{store / 'memory.db'}: {sentence}"
        assert [record.text for record in engine.list()] == ["walrus"]
    answer = describe_failure(errors[0])
    assert (answer.status, str(answer), answer.headers) == (503, sentence, {"Retry-After": "1"})


def test_a_long_wait_is_a_trouble_until_a_write_passes(store: Path, hold: Hold) -> None:
    with Engine.open(store, settings=QUIET) as engine:
        engine.write(HERE, text="beluga")
        assert engine.find_trouble() is None
        holder, errors = hold(), list[Unavailable]()
        writer = write_into(engine, errors)
        trouble = wait_for(engine.find_trouble, bool)
        assert isinstance(trouble, Trouble)
        assert trouble.kind == "locked"
        assert trouble.reason.startswith(f"another process (PID {holder.pid}, `cofio serve`) has held the write lock")
        holder.communicate(timeout=PATIENCE)
        join(writer)
        assert (errors, engine.find_trouble()) == ([], None)


def test_a_command_that_waits_says_for_whom_and_then_writes(store: Path, hold: Hold) -> None:
    holder = hold()
    command = [sys.executable, "-m", "cofio", "add", "narwhal", "--store", str(store)]
    environ = os.environ | {"COFIO_EMBEDDER": "none"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stderr is not None
        said = writer.stderr.readline()
        assert said == f"cofio: waiting for another process (PID {holder.pid}, `cofio serve`), which is writing\n"
        holder.communicate(timeout=PATIENCE)
        _, rest = writer.communicate(timeout=PATIENCE)
    assert (writer.returncode, rest) == (0, "")
