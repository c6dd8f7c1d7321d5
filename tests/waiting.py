"""Waiting for what other threads and processes do: always with a limit, so that a hang is a failure that says where."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

# Longer than anything here takes on a busy machine, and shorter than the limit of a whole test.
PATIENCE = 60.0 if os.environ.get("COFIO_TORTURE") != "1" else 3600.0


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE, every: float = 0.01) -> None:
    """Return as soon as the condition holds; fail when it does not within the time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"what the test waits for did not happen within {seconds:g} s"
        time.sleep(every)


def join(*threads: threading.Thread, seconds: float = PATIENCE) -> None:
    """Wait for threads to end; fail when one of them does not within the time."""
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), f"{thread.name} did not end within {seconds:g} s"
