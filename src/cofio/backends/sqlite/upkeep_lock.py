"""The lock that one process at a time does a store's derived work under."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...system.locks import try_lock
from ...system.processes import run_after_fork
from ...system.safe_files import open_file
from ...values.errors import Unavailable
from .database import Database, translate_errors

_open_handles: set[int] = set()


def _close_handles() -> None:
    """Close a forked child's copies of its parent's locks, which would otherwise last as long as the child does."""
    for handle in _open_handles:
        os.close(handle)
    _open_handles.clear()


run_after_fork(_close_handles)


class UpkeepLock:
    """A lock on a file in the store's folder: the kernel releases it when the process dies, however it dies."""

    def __init__(self, folder: Path, database: Database, *, on_release: Callable[[], None]) -> None:
        self._folder = folder
        self._database = database
        self._on_release = on_release

    @contextmanager
    def try_acquire(self) -> Iterator[bool]:
        """Hold the lock for the block; False when another process holds it, or the store is read-only."""
        if self._database.read_only:
            yield False
            return
        self._database.verify()  # else this would be the lock of another store, or a file where there is none any more
        with translate_errors(self._folder):
            handle = open_file(self._folder / "lease", os.O_CREAT | os.O_RDWR)
        _open_handles.add(handle)
        try:
            if not try_lock(handle):
                yield False
                return
            try:
                yield True
            finally:
                self._on_release()
        finally:
            _open_handles.discard(handle)
            os.close(handle)

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold the lock for the block, after waiting for another process to finish its piece of work."""
        self._database.check_writable()
        for _ in range(600):
            with self.try_acquire() as locked:
                if locked:
                    yield
                    return
            time.sleep(0.1)
        raise Unavailable("another process is indexing this store and does not let go; try again later")
