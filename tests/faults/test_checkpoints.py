"""A process that saves and deletes checkpoints may be killed at any moment: each state it acknowledged is there."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

from cofio import Engine, Settings

from .scale import scaled

KILLS = scaled(4, 300)
QUIET = Settings(embedder="none", background=False)
WRITER = """
import sys
from cofio import Engine, Settings
from tests.faults.test_checkpoints import state

engine = Engine.open(sys.argv[1], settings=Settings(embedder="none", background=False))
first = int(sys.argv[2])
for turn in range(first, first + 10_000):
    print("will", "save", turn, flush=True)
    engine.checkpoints.save("library", "t", str(turn), state(turn))
    print("did", "save", turn, flush=True)
    if turn % 3 == 0 and turn >= 8:
        print("will", "delete", turn - 8, flush=True)
        engine.checkpoints.delete("library", "t", str(turn - 8))
        print("did", "delete", turn - 8, flush=True)
"""


def state(turn: int) -> dict[str, Any]:
    """The state after so many turns, the same in every process."""
    return {
        "messages": [{"role": "user", "content": f"turn {at} " + "of a long conversation " * 5} for at in range(turn)]
    }


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    chance = random.Random(3)
    kept: set[int] = set()
    turn = 0
    for _ in range(KILLS):
        doubtful = set[int]()
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "store"), str(turn)],
            cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert writer.stdout is not None
        lines = []
        for _ in range(chance.randint(20, 60)):
            lines.append(writer.stdout.readline())
        writer.kill()
        lines += writer.stdout.read().splitlines()
        writer.wait(PATIENCE)
        writer.stdout.close()
        for line in lines:
            if len(line.split()) < 3:
                continue  # cut off in the middle
            tense, verb, number = line.split()
            if tense == "will":
                doubtful.add(int(number))
            else:
                doubtful.discard(int(number))
                kept.add(int(number)) if verb == "save" else kept.discard(int(number))
        assert len(doubtful) <= 1
        with Engine.open(tmp_path / "store", settings=QUIET) as engine:
            found = {int(each.id) for each in engine.checkpoints.list("library", "t", limit=None)}
            assert found | doubtful == kept | doubtful
            for there in found:
                loaded = engine.checkpoints.load("library", "t", str(there))
                assert loaded is not None
                assert loaded.state == state(there)
            assert engine.check() == []
            kept = found
        turn = max(kept, default=-1) + 1
    assert turn > KILLS
