"""Waiting for what other threads and processes do: always with a limit, so that a hang is a failure that says where."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# Longer than anything here takes on a busy machine, and shorter than the limit of a whole test.
PATIENCE = 60.0 if os.environ.get("COFIO_TORTURE") != "1" else 3600.0


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE, every: float = 0.01) -> None:
    """Return as soon as the condition holds; fail when it does not within the time."""
    wait_for(condition, bool, seconds, every)


def wait_for(
    read: Callable[[], T], is_right: Callable[[T], object], seconds: float = PATIENCE, every: float = 0.01
) -> T:
    """Return what is read as soon as it is right; fail when it is not within the time."""
    until = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        found = read()
        if is_right(found):
            return found
        now = time.monotonic()
        assert now < until, f"what the test waits for did not happen within {seconds:g} s; the last was {found!r}"
        time.sleep(max(every, now - began))  # at least half of the time is left to what is waited for


def join(*threads: threading.Thread, seconds: float = PATIENCE) -> None:
    """Wait for threads to end; fail when one of them does not within the time."""
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), f"{thread.name} did not end within {seconds:g} s"
