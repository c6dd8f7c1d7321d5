"""Whether derived files are intact: each is read through once, not by every process that uses it."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ...system.disk import replace
from ...system.safe_files import open_file, read_file
from ...values.errors import Unavailable

LONGEST = 64 * 2**20  # bytes of the stored cache: what is longer was not written here
WORTH_STORING = 8 * 2**20  # bytes that take long to read through, so that it should not be done again
MOST_CACHED = 1000  # files in the cache, most of them long gone, before it is emptied of all but those asked for

Stamp = tuple[int, int]


class Soundness:
    """Caches which files are intact, by their size and time; a file that was touched is read again."""

    def __init__(self, cache_file: Path) -> None:
        self._cache_file = cache_file
        self._lock = threading.Lock()
        self._cached: dict[str, Stamp] | None = None

    def holds(self, files: Iterable[Path], intact: Callable[[Path], bool]) -> bool:
        """Whether all of the files are there and `intact`, which is called for those that are not cached."""
        with self._lock:
            cached = self._load() if self._cached is None else self._cached
            try:
                stamps = {file: _stamp(file) for file in files}
            except OSError:
                return False
            fresh = [file for file, stamp in stamps.items() if cached.get(file.name) != stamp]
            if not all(intact(file) for file in fresh):
                return False
            old = cached if len(cached) < MOST_CACHED else {}  # files come and go with every commit of an index
            self._cached = old | {file.name: stamp for file, stamp in stamps.items()}
            if sum(stamps[file][0] for file in fresh) >= WORTH_STORING:
                self._store(self._cached, {file.parent for file in stamps})
            return True

    def _load(self) -> dict[str, Stamp]:
        with suppress(OSError, Unavailable, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            stored = json.loads(read_file(self._cache_file, limit=LONGEST) or b"{}")
            return {name: (int(size), int(time)) for name, (size, time) in stored.items()}
        return {}

    def _store(self, cached: dict[str, Stamp], folders: Iterable[Path]) -> None:
        """Store the cache for other processes. They write this file too: what one of them loses is only read again."""
        there = {name for folder in folders for name in os.listdir(folder)}
        temporary = self._cache_file.with_suffix(".tmp")
        with suppress(OSError, Unavailable):
            with open(open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
                json.dump({name: stamp for name, stamp in cached.items() if name in there}, file)
            replace(temporary, self._cache_file)


def _stamp(file: Path) -> Stamp:
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(file))
    return found.st_size, found.st_mtime_ns
