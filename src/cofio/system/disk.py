"""How files reach the disk, take the place of others, and are opened: plain ones only, and through no link."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from pathlib import Path

_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.3)
"""Seconds to wait, between tries, for a program that has a file open: a virus scanner, an indexer, a reader of ours."""
_JUNCTION = 0xA0000003  # how Windows marks one
_INODE = 2**63 - 1  # numbers of files are longer than what SQLite keeps, on some disks

# What is missing on a system is nothing to ask for there: Windows knows no waiting for a file, and no terminal to take.
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""Makes `os.open` refuse a link; 0 where it does not know how."""
SAFE_FLAGS: int = (
    getattr(os, "O_NONBLOCK", 0)  # a pipe in the file's place is not waited for
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)  # else Windows writes each line break as two characters
)
"""How every file of ours is opened."""


def open_plain(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a file without waiting, and through no link.

    Raises:
        OSError: ELOOP for a link; it cannot be opened; or, where only its path can tell, EISDIR for what is no file.
    """
    if NOFOLLOW:
        return os.open(path, flags | SAFE_FLAGS | NOFOLLOW, mode)
    try:
        before = os.lstat(path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        try:
            return os.open(path, flags | SAFE_FLAGS | os.O_EXCL, mode)
        except FileExistsError:  # another process has just made it, or a link
            if flags & os.O_EXCL:
                raise
            before = os.lstat(path)
    if is_link(before):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    if not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EISDIR, "Not a plain file", os.fspath(path))
    opened = os.open(path, flags & ~os.O_TRUNC | SAFE_FLAGS, mode)
    if not os.path.samestat(before, os.fstat(opened)):  # exchanged in between, perhaps for a link
        os.close(opened)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    if flags & os.O_TRUNC:
        os.ftruncate(opened, 0)
    return opened


def is_link(found: os.stat_result) -> bool:
    """Whether that is a link, as Windows' junctions are too, of which Python speaks as folders."""
    return stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == _JUNCTION


def leads_elsewhere(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a link; False when there is nothing, or it cannot be looked at."""
    try:
        return is_link(os.lstat(path))
    except OSError:
        return False


def read_file_number(found: os.stat_result) -> int:
    """What tells a file from the others of its disk."""
    return found.st_ino & _INODE


def sync(descriptor: int) -> None:
    """Have the disk hold what was written to an open file."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync leaves it to the drive when it writes it
            return
        except OSError:  # a file system that does not know it
            pass
    os.fsync(descriptor)


def measure_free(folder: Path) -> int:
    """Return the bytes that are free on the disk of a folder."""
    import shutil  # not free, and few processes come here

    return shutil.disk_usage(folder).free


def allocate(descriptor: int, size: int) -> None:
    """Have the disk set aside room for an open file of this size.

    Raises:
        OSError: there is not room enough.
    """
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, size)
    else:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(bytes(size))


def sync_path(path: str | os.PathLike[str]) -> None:
    """Have the disk hold a file, or the names in a folder."""
    if sys.platform == "win32":
        if os.path.isdir(path):  # cannot be opened, and the disk's journal keeps the names
            return
        opened = os.open(path, os.O_RDWR)  # only what may be written can be forced
    else:
        opened = os.open(path, os.O_RDONLY)
    try:
        sync(opened)
    finally:
        os.close(opened)


def find_sync_pragmas() -> str:
    """What SQLite has to be told so that a commit that is synced is on the disk."""
    return "PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;" if sys.platform == "darwin" else ""


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Give a file its name, in place of one that has it. On Windows that fails while anybody has the other open."""
    if sys.platform == "win32":
        for pause in _PAUSES:
            try:
                os.replace(source, target)
                return
            except PermissionError:
                time.sleep(pause)
    os.replace(source, target)


def remove_unused(path: Path) -> None:
    """Remove a file if it is there. On Windows one that somebody still reads stays, until it is tried again."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        if sys.platform != "win32":
            raise


def keeps_open_files() -> bool:
    """Whether a file cannot be removed while anybody has it open, as on Windows."""
    return sys.platform == "win32"


def make_alias(file: Path, alias: Path) -> None:
    """Have a file's content under another name for a while: by a link or, where a user may make none, in a copy."""
    try:
        alias.symlink_to(file.absolute())
    except OSError:
        if sys.platform != "win32":
            raise
        import shutil  # not free, and few processes come here

        shutil.copyfile(file, alias)


def has_permissions() -> bool:
    """Whether a file's mode says who may read it. On Windows it is the folder's access list, which is inherited."""
    return sys.platform != "win32"


def set_mode(descriptor: int, mode: int) -> None:
    """Set who may read and write an open file, where its mode says so."""
    if sys.platform != "win32":
        os.fchmod(descriptor, mode)
