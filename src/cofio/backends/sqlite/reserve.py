"""Space on the disk that a server keeps in reserve: given up when the disk is full, so that deletes still pass."""

from __future__ import annotations

import os
from pathlib import Path

from ...system.disk import allocate, measure_free
from ...system.safe_files import open_file
from ...values.errors import Unavailable

RESERVE = "reserve"
RESERVE_BYTES = 8 * 2**20
MIN_FREE_BYTES = 4 * RESERVE_BYTES  # on the disk, for the file to be made


class Reserve:
    """A file in the store's folder that holds nothing but space. Any process may give it up, servers make it again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESERVE

    def make(self) -> None:
        """Make the file if it is not there, or not whole, and there is plenty of room. Failing to is no error."""
        try:
            if self._measure() >= RESERVE_BYTES or measure_free(self._path.parent) < MIN_FREE_BYTES:
                return
            file = open_file(self._path, os.O_CREAT | os.O_RDWR)
        except (OSError, Unavailable):
            return
        try:
            allocate(file, RESERVE_BYTES)
        except OSError:
            self.release()
        finally:
            os.close(file)

    def release(self, size: int = RESERVE_BYTES) -> bool:
        """Give up to `size` bytes back to the disk; return whether there were any."""
        try:
            there = self._measure()
            if there > size:
                with open(open_file(self._path, os.O_RDWR), "rb+") as file:
                    file.truncate(there - size)
            else:
                self._path.unlink()
        except (OSError, Unavailable):
            return False
        return there > 0

    def _measure(self) -> int:
        try:
            return self._path.lstat().st_size
        except FileNotFoundError:
            return 0
