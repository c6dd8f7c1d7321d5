"""Room in the file of the write-ahead log: a commit that need not make the file longer waits less for the disk.

Where a file grows, the file system has to note its new size and what it now consists of before an fdatasync returns.
What is only overwritten is simply written. So the file is made longer in advance, by zeros, in which SQLite finds no
end of a transaction and nothing to recover.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from ...system.disk import sync
from ...system.safe_files import open_file
from ...values.errors import Unavailable

if TYPE_CHECKING:
    from .database_files import OpenFiles

STEP = 2**18  # bytes: a file of a multiple of them has room; one that a commit made longer has another size
MORE = 2**20  # bytes that are added when the room is used up: about 25 small commits, of which the next waits for it
SPARE_DISK = 2**26  # bytes that have to be free on the disk besides


class LogReserve:
    """The room ahead of what a log holds. It may only be changed in a write transaction: then no one else writes.

    A log that cannot be given room is left as it is: SQLite makes it longer itself.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refused_size = 0
        """The size at which no room could be added; it is not tried again before the log has another."""

    def replenish(self, files: OpenFiles) -> None:
        """Make the last of the files, the log, longer if a commit has done so: then there was no room left."""
        if files.last_size % STEP and files.last_size != self._refused_size:
            self._extend(files, lambda size: (size + MORE) // STEP * STEP if size % STEP else size)

    def refill(self, files: OpenFiles) -> bool:
        """Give a log that was just emptied room for some commits; False when others were faster, or there is none."""
        return self._extend(files, lambda size: size or STEP)

    def _extend(self, files: OpenFiles, find_size: Callable[[int], int]) -> bool:
        """Add zeros to the file, up to the size that is found for its own; whether it is longer now."""
        try:
            with open(open_file(self._path, os.O_RDWR), "r+b", buffering=0) as file:
                found = os.fstat(file.fileno())
                size, wanted = found.st_size, find_size(found.st_size)
                if (found.st_dev, found.st_ino) != files.last_id or wanted == size:
                    return False  # another store's log is there now, on which we hold no lock
                if not size:
                    # Else a power cut could leave the log that was emptied, with zeros in its midst: the transactions
                    # before them would be taken for the last ones, and done again on a database that is ahead of them.
                    sync(file.fileno())
                import shutil  # not free, and few processes come here

                if shutil.disk_usage(self._path.parent).free >= SPARE_DISK and _append_zeros(file, size, wanted):
                    return True
                self._refused_size = size
        except (OSError, Unavailable):
            self._refused_size = files.last_size
        return False


def _append_zeros(file: FileIO, size: int, wanted: int) -> bool:
    """Make a file longer, or leave it as it was."""
    with suppress(OSError):
        file.seek(size)
        if file.write(bytes(wanted - size)) == wanted - size:
            return True
    file.truncate(size)
    return False


def is_log_empty(path: Path) -> bool:
    """Whether a log holds nothing: there is none, or its file is empty or begins with the zeros of a reserve."""
    try:
        with open(open_file(path, os.O_RDONLY), "rb", buffering=0) as file:
            return not any(file.read(4))
    except FileNotFoundError:
        return True
    except (OSError, Unavailable):  # what cannot be read may hold anything
        return False
