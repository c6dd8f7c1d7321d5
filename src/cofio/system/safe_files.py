"""How a memory's own files are opened: never through a link, and never something else than a file or a folder.

A folder that came with somebody's repository can hold links to anywhere; what is written or removed behind one is not
the memory's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..values.errors import Unavailable
from .disk import SAFE_FLAGS, is_link, open_plain


def check_entries(folder: Path, *, files: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
    """See to it that what stands under these names of `folder`, if anything does, is what it should be.

    Raises:
        Unavailable: one of them is a link, or is not a plain file or not a folder.
    """
    for names, is_right, meant in ((files, stat.S_ISREG, "plain file"), (folders, stat.S_ISDIR, "folder")):
        for name in names:
            try:
                found = os.lstat(folder / name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if is_link(found):
                raise _make_link_error(folder / name)
            if not is_right(found.st_mode):
                raise _make_type_error(folder / name, meant)


def open_file(path: Path, flags: int, *, follow: bool = False) -> int:
    """A descriptor of a plain file, which is opened without waiting and, unless it is to `follow`, not through a link.

    Raises:
        Unavailable: it is a link, or no plain file.
        OSError: it cannot be opened.
    """
    try:
        opened = os.open(path, flags | SAFE_FLAGS, 0o600) if follow else open_plain(path, flags)
    except OSError as error:
        if not follow and error.errno in (errno.ELOOP, errno.EMLINK) and os.path.lexists(path):
            raise _make_link_error(path) from error
        if error.errno in (errno.ENXIO, errno.EISDIR):  # a pipe without a reader, a socket, a folder
            raise _make_type_error(path, "plain file") from error
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _make_type_error(path, "plain file")
    return opened


def read_file(path: Path, *, limit: int, follow: bool = False) -> bytes | None:
    """What a plain file holds; None when there is none.

    Raises:
        Unavailable: it is a link, or no plain file, or longer than `limit` bytes.
        OSError: it cannot be read.
    """
    try:
        opened = open_file(path, os.O_RDONLY, follow=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(opened, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Unavailable(f"{path} is longer than {limit:,} bytes")
    return content


def _make_link_error(path: Path) -> Unavailable:
    return Unavailable(
        f"{path} is a link; a memory's own files must not be links: remove it, or give the folder that it leads to"
        " with --store"
    )


def _make_type_error(path: Path, meant: str) -> Unavailable:
    return Unavailable(f"{path} is not a {meant}, as a memory has it there: move it away")
