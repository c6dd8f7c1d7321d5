"""How a command puts a file in place: whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...system.atomic_files import replace_path
from ...system.disk import set_mode
from ...values.errors import Invalid


def read(path: Path) -> bytes | None:
    """What the file holds; None if there is none.

    Raises:
        Invalid: There is something else than a file, or a link that leads nowhere.
    """
    return None if _find_mode(path) is None else path.read_bytes()


def put(path: Path, content: bytes | str, *, mode: int | None = None) -> None:
    """Make the file hold `content`, and its folders if need be; a crash leaves the old file or the new one.

    What a symlink points at is replaced, not the link. A file that was there keeps its permissions; a new one gets
    `mode`, less what the umask takes away, or what new files get here.

    Raises:
        Invalid: There is something else than a file, or a link that leads nowhere.
    """
    old_mode = _find_mode(path)
    initial_mode = next((each for each in (old_mode, mode) if each is not None), 0o666)
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with replace_path(target, mode=initial_mode) as file:
        if old_mode is not None:
            set_mode(file.fileno(), old_mode)
        file.write(content.encode() if isinstance(content, str) else content)


def _find_mode(path: Path) -> int | None:
    """The permissions of a file; None if there is none, and one could be made."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        for each in (path, *path.parents):
            if each.is_symlink() and not each.exists():
                raise Invalid(str(each), f"is a link to {os.readlink(each)}, where there is nothing") from None
        return None
    if not stat.S_ISREG(mode):
        # Opening a pipe would wait for its writer.
        raise Invalid(str(path), f"is {'a folder' if stat.S_ISDIR(mode) else 'something else'}, not a file")
    return stat.S_IMODE(mode)
