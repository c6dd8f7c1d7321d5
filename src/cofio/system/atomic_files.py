"""Files that are written under a temporary name, and take their own once they are whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .disk import sync
from .folders import OpenFolder, open_folder

TEMPORARY = ".tmp"
"""How the names of unfinished files end."""
_TEMPORARY_NAME = re.compile(r"\.[0-9a-f]{12}" + re.escape(TEMPORARY))


class TemporaryFile(NamedTuple):
    """A file that is being written, and its temporary name."""

    name: str
    file: BinaryIO


def is_temporary(name: str) -> bool:
    """Whether a file has the name of an unfinished one, as a crash can leave it behind."""
    return _TEMPORARY_NAME.fullmatch(name) is not None


@contextmanager
def create_temporary(folder: OpenFolder, *, mode: int = 0o600, durable: bool = True) -> Iterator[TemporaryFile]:
    """Write a file under a temporary name, which the caller then replaces; after an exception there is no such file.

    The file is closed at the end, because Windows renames nothing that is open, and on the disk if it is `durable`.
    """
    name = f".{os.urandom(6).hex()}{TEMPORARY}"  # `secrets` would load what a short process need not pay for
    file = open(name, "xb", opener=lambda name, flags: folder.open(name, flags, mode))  # noqa: SIM115 - closed below
    try:
        yield TemporaryFile(name, file)
        file.flush()
        if durable:
            sync(file.fileno())
        file.close()
    except BaseException:
        with suppress(OSError):  # a full disk fails again, for what is left to write
            file.close()
        with suppress(FileNotFoundError):
            folder.remove(name)
        raise


@contextmanager
def replace_file(folder: OpenFolder, name: str, *, mode: int = 0o600, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file of an open folder, which replaces the one of that name when it is whole.

    A crash leaves the old file or the new one, and an exception the old one. A new file gets `mode`, less what the
    umask takes away.
    """
    with create_temporary(folder, mode=mode, durable=durable) as temporary:
        yield temporary.file
    try:
        folder.replace(temporary.name, name)
    except BaseException:
        with suppress(FileNotFoundError):
            folder.remove(temporary.name)
        raise
    if durable:
        folder.sync()


def name_new(folder: OpenFolder, temporary: str, name: str) -> None:
    """Give a temporary file a name that nothing has.

    Raises:
        FileExistsError: something has it; the temporary file is still there.
    """
    if folder.link(temporary, name):
        folder.remove(temporary)
    else:  # a file system without hard links
        folder.rename(temporary, name)


@contextmanager
def replace_path(path: Path, *, mode: int = 0o600, durable: bool = True) -> Iterator[BinaryIO]:
    """Write the file at a path as `replace_file` does. What fails names that path, and not the temporary file."""
    try:
        with (
            closing(open_folder(path.parent)) as folder,
            replace_file(folder, path.name, mode=mode, durable=durable) as file,
        ):
            yield file
    except OSError as error:
        if error.filename is None or _is_own_name(error.filename, path):  # a full disk names no file
            error.filename = str(path)
        raise


def _is_own_name(named: object, path: Path) -> bool:
    """Whether an error names what was used on the way to `path`, and not a file of the caller's own."""
    return isinstance(named, str) and (is_temporary(Path(named).name) or named in (path.name, str(path.parent)))
