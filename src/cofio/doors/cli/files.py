"""How a command puts a file in place: whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from secrets import token_hex


def read(path: Path) -> bytes | None:
    """What the file holds; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def put(path: Path, content: bytes) -> None:
    """Make the file hold `content`, and its folders if need be; a crash leaves the old file or the new one.

    What a symlink points at is replaced, not the link, and a file that was there keeps its permissions.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".{token_hex(8)}.tmp")
    # Not a file of the tempfile module: those are for their owner alone, whatever the umask says.
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(opened, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename = str(target)  # a full disk names no file, and the temporary one means nothing to anybody
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
