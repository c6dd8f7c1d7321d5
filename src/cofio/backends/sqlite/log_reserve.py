"""Room in the file of the write-ahead log: a commit that need not make the file longer waits less for the disk.

Where a file grows, the file system has to note its new size and what it now consists of before an fdatasync returns.
What is only overwritten is simply written. So the file is made longer in advance, by zeros, in which SQLite finds no
end of a transaction and nothing to recover.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ...system.safe_files import open_file
from ...values.errors import Unavailable

STEP = (
    2**18
)  # bytes: a file of a multiple of them has been given room, and one that a commit made longer has another size
MORE = (
    2**20
)  # bytes that are added when the room is used up: about 25 small commits, of which the next one waits for it
SPARE_DISK = 2**26  # bytes that have to be free on the disk besides


class LogReserve:
    """The room ahead of what a log holds. It may only be changed in a write transaction: then no one else writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refused_size = 0
        """The size at which the disk had no room for more; it is not asked again before the log has another."""

    def replenish(self, size: int) -> None:
        """Make the file longer if a commit has done so, after which it had that size: then there was no room left."""
        if size % STEP == 0 or size == self._refused_size:
            return
        with suppress(FileNotFoundError):  # which is found out, and said, after the commit
            size = os.stat(self._path).st_size  # others may have written since
            if size % STEP:
                self._extend(size, (size + MORE) // STEP * STEP)

    def refill(self) -> bool:
        """Give the file of a log that was just emptied room for some commits; False when others were faster."""
        return os.stat(self._path).st_size == 0 and self._extend(0, STEP)

    def _extend(self, size: int, wanted: int) -> bool:
        """Add zeros to the file, unless the disk is nearly full."""
        if shutil.disk_usage(self._path.parent).free < SPARE_DISK:
            self._refused_size = size
            return False
        with open(open_file(self._path, os.O_RDWR), "r+b", buffering=0) as file:
            try:
                file.seek(size)
                written = file.write(bytes(wanted - size))
            except OSError:
                written = 0
            if written != wanted - size:
                file.truncate(size)
                self._refused_size = size
        return written == wanted - size


def is_log_empty(path: Path) -> bool:
    """Whether a log holds nothing: there is none, or its file is empty or begins with the zeros of a reserve."""
    try:
        with open(open_file(path, os.O_RDONLY), "rb", buffering=0) as file:
            return not any(file.read(4))
    except FileNotFoundError:
        return True
    except (OSError, Unavailable):  # what cannot be read may hold anything
        return False
