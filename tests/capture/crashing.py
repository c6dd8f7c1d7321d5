"""Captures that are killed. Run as a script with a folder: a fork for each of some lines of code to die at.

It prints a line of JSON for each: whether the child died, and what the next capture found in the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from cofio import Engine, Settings
from cofio.capture import capture_transcript
from cofio.values.records import Kind, Record

SETTINGS = Settings(background=False, embedder="none", sync="normal")
WATCHED = ("/cofio/capture/", "/cofio/conversations/", "/cofio/engine/", "/cofio/backends/sqlite/database.py")


def kill_at(line: int) -> Callable[[FrameType, str, Any], Any]:
    """A tracer that kills this process at the line of this number."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not any(name in frame.f_code.co_filename for name in WATCHED):
            return None
        if event == "line":
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def count_lines(work: Callable[[], None]) -> int:
    """How many lines the work takes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not any(name in frame.f_code.co_filename for name in WATCHED):
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    work()
    sys.settrace(None)
    return count


def capture(store: Path, transcript: Path) -> None:
    """Capture a transcript as a hook does."""
    with Engine.open(store, settings=SETTINGS) as engine:
        capture_transcript(engine, "claude-code", transcript)


def find_time(record: Record) -> str:
    """When it was said; a profile is of the time of its writing."""
    return "" if record.kind is Kind.PROFILE else record.created_at.isoformat()


def list_records(store: Path) -> list[list[object]]:
    """What is stored, but for cofio's own notes, and for ids that are random."""
    with Engine.open(store, settings=SETTINGS) as engine:
        return sorted(
            [each.kind.value, str(each.scope), each.text, each.title, [*each.tags], find_time(each)]
            for each in engine.export()
            if each.kind is not Kind.LEDGER
        )


def main() -> None:
    """Kill captures at so many lines, evenly spread."""
    folder, transcript, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    total = count_lines(lambda: capture(folder / "whole", transcript))
    print(json.dumps(list_records(folder / "whole")), flush=True)
    for number in range(times):
        store = folder / f"store-{number}"
        child = os.fork()
        if child == 0:
            sys.settrace(kill_at(1 + total * number // times))
            capture(store, transcript)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        died = os.WIFSIGNALED(status)
        capture(store, transcript)
        capture(store, transcript)
        print(json.dumps([died, list_records(store)]), flush=True)


if __name__ == "__main__":
    main()
