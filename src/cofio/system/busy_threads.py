"""How many threads of a program are at work for its callers; one that waits for an answer from elsewhere is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class BusyThreads:
    """Counts the threads that are at work for callers."""

    def __init__(self, report: Callable[[int], None]) -> None:
        """`report` is told the number whenever it changes, by one thread at a time."""
        self._report = report
        self._lock = threading.Lock()
        self._count = 0

    @contextmanager
    def work(self) -> Iterator[None]:
        """Count the present thread meanwhile."""
        _thread.counted_by = self
        self._add(1)
        try:
            yield
        finally:
            _thread.counted_by = None
            self._add(-1)

    def _add(self, change: int) -> None:
        with self._lock:
            self._count += change
            self._report(self._count)

    @contextmanager
    def _pause(self) -> Iterator[None]:
        _thread.counted_by = None
        self._add(-1)
        try:
            yield
        finally:
            _thread.counted_by = self
            self._add(1)


class _Thread(threading.local):
    """What a thread knows of itself."""

    counted_by: BusyThreads | None = None


_thread = _Thread()


@contextmanager
def wait_elsewhere() -> Iterator[None]:
    """Do not count the present thread meanwhile, if it is counted: it waits for a model, say, or another process."""
    if _thread.counted_by is None:
        yield
        return
    with _thread.counted_by._pause():
        yield
