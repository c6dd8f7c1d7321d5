"""A graph whose process is killed with SIGKILL goes on in the next one, and does nothing twice that was done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.library.langgraph import CofioSaver

from ...waiting import wait_until
from .saving import QUIET, config_of

pytestmark = pytest.mark.usefixtures("process")

PROGRAM = Path(__file__).with_name("crashing.py")
STEPS = [f"step{number}" for number in range(12)]
LONG = 120


def start(folder: Path, kind: str, stop: str = "") -> subprocess.Popen[str]:
    arguments = [sys.executable, str(PROGRAM), str(folder / "store"), str(folder / "marks"), kind, stop]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)


def kill_when(running: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    """Kill a process that is running, as soon as something is so."""
    wait_until(lambda: ready() or running.poll() is not None)
    assert running.poll() is None, running.stderr and running.stderr.read()
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=LONG)
    assert running.returncode == -signal.SIGKILL


def finish(running: subprocess.Popen[str]) -> None:
    _, errors = running.communicate(timeout=LONG)
    assert running.returncode == 0, errors


def marks(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().split() if path.exists() else []


def done(folder: Path) -> tuple[list[str], list[str]]:
    """What the state says was done, and the messages."""
    with CofioSaver.open(folder / "store", settings=QUIET) as saver:
        found = saver.get(config_of())
        assert found is not None
        values = found["channel_values"]
        return values["done"], [message.text for message in values["messages"]]


@pytest.mark.requirement("langgraph.saver.crash")
@pytest.mark.parametrize("stop", ["step0 before", "step11 after"])
def test_a_killed_graph_goes_on_after_its_last_step(tmp_path: Path, stop: str) -> None:
    step, _, when = stop.partition(" ")
    kill_when(start(tmp_path, "chain", stop), (tmp_path / "marks.halted").exists)
    before = marks(tmp_path)
    assert before == STEPS[: STEPS.index(step) + (when == "after")]
    finish(start(tmp_path, "chain"))
    again = [step] if when == "after" else []  # its work was done, and it had not yet returned
    assert marks(tmp_path) == [*before, *again, *STEPS[len(before) :]]
    assert done(tmp_path) == (STEPS, ["begin", *STEPS])


@pytest.mark.requirement("langgraph.saver.crash")
def test_a_graph_that_is_killed_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    for stop in ("step2 before", "step3 after", "step4 after", "step9 before"):
        (tmp_path / "marks.halted").unlink(missing_ok=True)
        kill_when(start(tmp_path, "chain", stop), (tmp_path / "marks.halted").exists)
    finish(start(tmp_path, "chain"))
    assert [step for step in STEPS if marks(tmp_path).count(step) != 1] == ["step3", "step4"]
    assert done(tmp_path) == (STEPS, ["begin", *STEPS])


@pytest.mark.requirement("langgraph.saver.crash")
@pytest.mark.parametrize("count", [6])
def test_a_graph_may_be_killed_at_any_moment(tmp_path: Path, count: int) -> None:
    kill_when(start(tmp_path, "chain"), lambda: len(marks(tmp_path)) >= count)
    finish(start(tmp_path, "chain"))
    counts = [marks(tmp_path).count(step) for step in STEPS]
    assert sorted(counts) in ([1] * 12, [1] * 11 + [2])  # at most the one that was running
    assert done(tmp_path) == (STEPS, ["begin", *STEPS])


@pytest.mark.requirement("langgraph.saver.crash")
def test_steps_beside_the_one_that_was_killed_are_not_done_again(tmp_path: Path) -> None:
    kill_when(start(tmp_path, "sides", "slow"), (tmp_path / "marks.halted").exists)
    assert sorted(marks(tmp_path)) == ["left", "right"]
    finish(start(tmp_path, "sides"))
    assert marks(tmp_path)[2:] == ["slow", "last"]
    assert sorted(done(tmp_path)[0]) == ["last", "left", "right", "slow"]
