"""A capture that is killed at any moment loses nothing, and stores nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .made import Step, run, say, use, user, write_transcript

pytestmark = pytest.mark.usefixtures("process")

TIMES = 400 if os.environ.get("COFIO_TORTURE") == "1" else 16
SCRIPT: list[Step] = [
    user("Let's use npm here. I prefer short answers."),
    run("npm test", "boom", failed=True),
    use("Edit", file_path="hull.js"),
    run("npm test", "1 passed"),
    use("TodoWrite", todos=[{"content": "paint the hull", "status": "pending"}]),
    say("Done, but for the paint."),
    user("no, use pnpm instead of npm"),
    say("With pnpm it is."),
]


@pytest.mark.requirement("capture.killed")
def test_a_killed_capture_loses_nothing_and_repeats_nothing(home: Path, boats: Path, tmp_path: Path) -> None:
    path = write_transcript("claude-code", home, SCRIPT, boats)
    script = Path(__file__).with_name("crashing.py")
    command = [sys.executable, str(script), str(tmp_path), str(path), str(TIMES)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "COFIO_SYNC": "normal"}
    )
    assert done.returncode == 0, done.stderr
    whole, *rest = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rest) == TIMES
    assert sum(died for died, _ in rest) >= 0.9 * TIMES  # a warm process takes fewer lines
    assert [tags for *_, tags, _ in whole if tags == ["correction"]] == [["correction"]]
    for _, records in rest:
        assert records == whole
