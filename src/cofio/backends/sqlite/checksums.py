"""Whether derived files are as they were written: each is read through once, not by every process that uses it."""

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

LONGEST = 64 * 2**20  # bytes of the record: what is longer was not written here
WORTH_KEEPING = 8 * 2**20  # bytes that take so long to read through that it should not be done again
MOST_KNOWN = 1000  # files, most of them long gone, before what is known of others than those asked for is forgotten

Stamp = tuple[int, int]


class Soundness:
    """Knows which files have been found sound, by their size and time; a file that was touched is read again."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._known: dict[str, Stamp] | None = None

    def holds(self, files: Iterable[Path], intact: Callable[[Path], bool]) -> bool:
        """Whether all of the files are there and `intact`, which is asked of those that are not known to be."""
        with self._lock:
            known = self._read() if self._known is None else self._known
            try:
                stamps = {file: _stamp(file) for file in files}
            except OSError:
                return False
            fresh = [file for file, stamp in stamps.items() if known.get(file.name) != stamp]
            if not all(intact(file) for file in fresh):
                return False
            kept = known if len(known) < MOST_KNOWN else {}  # files come and go with every commit of an index
            self._known = kept | {file.name: stamp for file, stamp in stamps.items()}
            if sum(stamps[file][0] for file in fresh) >= WORTH_KEEPING:
                self._keep(self._known, {file.parent for file in stamps})
            return True

    def _read(self) -> dict[str, Stamp]:
        with suppress(OSError, Unavailable, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            record = json.loads(read_file(self._record, limit=LONGEST) or b"{}")
            return {name: (int(size), int(time)) for name, (size, time) in record.items()}
        return {}

    def _keep(self, known: dict[str, Stamp], folders: Iterable[Path]) -> None:
        """Tell other processes. They write this file too: what one of them loses is no more than read again."""
        there = {name for folder in folders for name in os.listdir(folder)}
        temporary = self._record.with_suffix(".tmp")
        with suppress(OSError, Unavailable):
            with open(open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
                json.dump({name: stamp for name, stamp in known.items() if name in there}, file)
            replace(temporary, self._record)


def _stamp(file: Path) -> Stamp:
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(file))
    return found.st_size, found.st_mtime_ns
