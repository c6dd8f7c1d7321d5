"""Locks between processes. The system releases one when the process that holds it ends, however it ends.

On Unix it is `flock`, as it was before there was a library under it: versions of cofio that have the same store open
keep out of each other's way. Windows has no advisory locks: there, a byte of the file is locked against all.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL = 0.02  # seconds between two tries


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False when another process has it."""
    from filelock import lock_descriptor  # which most commands do without

    return lock_descriptor(descriptor, blocking=False)


@contextmanager
def lock_folder(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a folder, in which nothing appears for that; False when another process has it, and it is not to `wait`.

    Raises:
        OSError: it cannot be opened.
    """
    from filelock import lock_descriptor

    opened = _open_lock(folder)
    try:
        yield lock_descriptor(opened, blocking=wait, poll_interval=_POLL)
    finally:
        os.close(opened)


def _open_lock(folder: Path) -> int:
    if sys.platform != "win32":
        return os.open(folder, os.O_RDONLY)
    import tempfile

    # A folder cannot be opened there. A file stands for it, in the folder that the user has for temporary ones.
    name = hashlib.sha256(os.fsencode(os.path.normcase(os.path.realpath(folder)))).hexdigest()[:32]
    return os.open(os.path.join(tempfile.gettempdir(), f"cofio-{name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
