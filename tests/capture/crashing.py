"""Captures that are killed. Run as a script with a folder: a fork for each of some lines of code to die at.

It prints a line of JSON for each: whether the child died, and what the next capture found in the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from cofio import Engine, Settings
from cofio.capture import capture_transcript
from cofio.values.records import Kind

SETTINGS = Settings(background=False, embedder="none", sync="normal")
WATCHED = ("/cofio/capture/", "/cofio/conversations/", "/cofio/engine/", "/cofio/backends/sqlite/database.py")


def trace_lines(work: Callable[[], None], fatal: int = 0) -> int:
    """How many lines the work takes; this process is killed at the line of the fatal number."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not any(name in frame.f_code.co_filename for name in WATCHED):
            return None
        count += event == "line"
        if 0 < fatal <= count:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    work()
    sys.settrace(None)
    return count


def capture(store: Path, transcript: Path) -> None:
    """Capture a transcript as a hook does."""
    with Engine.open(store, settings=SETTINGS) as engine:
        capture_transcript(engine, "claude-code", transcript)


def list_records(store: Path) -> list[list[object]]:
    """What is stored, but for cofio's own notes, and for ids that are random."""
    with Engine.open(store, settings=SETTINGS) as engine:
        return sorted(
            [each.kind.value, str(each.scope), each.text, each.title, [*each.tags],
             "" if each.kind is Kind.PROFILE else each.created_at.isoformat()]  # a profile's is that of its writing
            for each in engine.export()
            if each.kind is not Kind.LEDGER
        )  # fmt: skip


def main() -> None:
    """Kill captures at so many lines, evenly spread."""
    folder, transcript, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    total = trace_lines(lambda: capture(folder / "whole", transcript))
    print(json.dumps(list_records(folder / "whole")), flush=True)
    for number in range(times):
        store, fatal = folder / f"store-{number}", 1 + total * number // times
        child = os.fork()
        if child == 0:
            trace_lines(partial(capture, store, transcript), fatal)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        died = os.WIFSIGNALED(status)
        capture(store, transcript)
        capture(store, transcript)
        print(json.dumps([died, list_records(store)]), flush=True)


if __name__ == "__main__":
    main()
