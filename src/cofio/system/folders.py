"""Folders that are held open, so that each step into one, and each file, is taken from it and follows no link.

Where the system opens no folders (Windows), a folder is held by its path. Then it is looked, with every step, whether
that is still the same folder; an exchange in the very moment after that look is not found out.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from ..values.errors import Invalid
from .disk import NOFOLLOW, SAFE_FLAGS, is_link, open_plain, replace, sync
from .windows_names import is_plain

_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)
_SWAP = 2  # two names change places: the flag has the same number on Linux and macOS


class OpenFolder(ABC):
    """A folder, until it is closed. A name is one of its entries, and leads nowhere else.

    Every method raises OSError as those of `os` do, with ELOOP or ENOTDIR where there is a link.
    """

    @abstractmethod
    def enter(self, name: str) -> OpenFolder:
        """Open a folder in it."""

    def enter_or_make(self, name: str, mode: int = 0o700) -> OpenFolder:
        """Open a folder in it, which is made if there is none."""
        try:
            return self.enter(name)
        except FileNotFoundError:
            with suppress(FileExistsError):
                self.make(name, mode)
            return self.enter(name)

    @abstractmethod
    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file in it, without waiting."""

    def read(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        """The content of a plain file, of which no more than `limit` and one byte are read, and its state before that.

        Raises:
            Invalid: it is a link, or something else than a plain file, which is not even opened.
        """
        found = self.stat(name)
        if is_link(found):  # its target could be exchanged while it is followed
            raise Invalid("file", "is a link, and none is followed")
        _check_plain(found)
        with open(self.open(name, os.O_RDONLY), "rb") as file:
            _check_plain(os.fstat(file.fileno()))
            return file.read(limit + 1), found

    @abstractmethod
    def stat(self, name: str) -> os.stat_result:
        """What stands under a name, be it a link."""

    @abstractmethod
    def make(self, name: str, mode: int = 0o700) -> None:
        """Make a folder in it."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file."""

    @abstractmethod
    def remove_folder(self, name: str) -> None:
        """Remove a folder that is empty."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Give an entry another name, which nothing should have."""

    @abstractmethod
    def replace(self, old: str, new: str) -> None:
        """Give a file another name, in place of a file that has it."""

    @abstractmethod
    def link(self, old: str, new: str) -> bool:
        """Give a file a second name; False where files have only one. Raises FileExistsError if the name is taken."""

    @abstractmethod
    def exchange(self, one: str, other: str) -> bool:
        """Have two names change places; False where that cannot be done."""

    @abstractmethod
    def list(self) -> tuple[list[str], list[str]]:
        """The names of the folders in it, and of everything else, as of links to folders; each sorted."""

    @abstractmethod
    def sync(self) -> None:
        """Have the disk hold the names in it."""

    @abstractmethod
    def close(self) -> None:
        """Close the folder."""


class DescriptorFolder(OpenFolder):
    """A folder by its descriptor: what it is called meanwhile does not matter."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` is of an open folder, and is closed with this."""
        self._descriptor = descriptor

    def enter(self, name: str) -> OpenFolder:
        return DescriptorFolder(os.open(name, os.O_RDONLY | _FOLDER | NOFOLLOW | SAFE_FLAGS, dir_fd=self._descriptor))

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(name, flags | NOFOLLOW | SAFE_FLAGS, mode, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def make(self, name: str, mode: int = 0o700) -> None:
        os.mkdir(name, mode, dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        os.rmdir(name, dir_fd=self._descriptor)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def replace(self, old: str, new: str) -> None:
        os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def link(self, old: str, new: str) -> bool:
        try:
            os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            return False
        return True

    def exchange(self, one: str, other: str) -> bool:
        import ctypes

        swap = _find_swap()
        if swap is None:
            return False
        if swap(self._descriptor, os.fsencode(one), self._descriptor, os.fsencode(other), _SWAP) == 0:
            return True
        number = ctypes.get_errno()
        if number in _UNABLE:
            return False
        raise OSError(number, os.strerror(number), other)

    def list(self) -> tuple[list[str], list[str]]:
        with os.scandir(self._descriptor) as entries:
            return _divide(entries)

    def sync(self) -> None:
        sync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class PathFolder(OpenFolder):
    """A folder by its path, for systems that open none."""

    def __init__(self, path: str | os.PathLike[str], *, follow: bool = False) -> None:
        """It may be a link if it is to `follow` one."""
        self._path = os.path.realpath(path) if follow else os.fspath(path)
        self._stat = os.lstat(self._path)
        if is_link(self._stat):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if not stat.S_ISDIR(self._stat.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)

    def _locate(self, name: str) -> str:
        """The path of an entry, once it is seen that it is one, and that this is the folder that was opened."""
        if not is_plain(name):  # `..\\x`, `C:x` and `a:b` lead elsewhere, and `nul` nowhere
            raise OSError(errno.EINVAL, "Not a name that this system takes", name)
        self._verify()
        return os.path.join(self._path, name)

    def _verify(self) -> None:
        found = os.lstat(self._path)
        if is_link(found) or not os.path.samestat(found, self._stat):
            raise OSError(errno.ELOOP, "The folder was exchanged meanwhile", self._path)

    def enter(self, name: str) -> OpenFolder:
        return PathFolder(self._locate(name))

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return open_plain(self._locate(name), flags, mode)

    def stat(self, name: str) -> os.stat_result:
        return os.lstat(self._locate(name))

    def make(self, name: str, mode: int = 0o700) -> None:
        os.mkdir(self._locate(name), mode)

    def remove(self, name: str) -> None:
        os.unlink(self._locate(name))

    def remove_folder(self, name: str) -> None:
        os.rmdir(self._locate(name))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._locate(old), self._locate(new))

    def replace(self, old: str, new: str) -> None:
        replace(self._locate(old), self._locate(new))

    def link(self, old: str, new: str) -> bool:
        try:
            os.link(self._locate(old), self._locate(new))
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            return False
        return True

    def exchange(self, one: str, other: str) -> bool:
        return False

    def list(self) -> tuple[list[str], list[str]]:
        self._verify()
        with os.scandir(self._path) as entries:
            return _divide(entries)

    def sync(self) -> None:
        """Nothing: the disk's journal keeps the names."""

    def close(self) -> None:
        """Nothing: it is not open."""


def open_folder(path: str | os.PathLike[str]) -> OpenFolder:
    """Hold a folder open, which may be a link that its owner has made.

    Raises:
        OSError: it is not there, or no folder, or may not be read.
    """
    if _OPENS_FOLDERS:
        return DescriptorFolder(os.open(path, os.O_RDONLY | _FOLDER | SAFE_FLAGS))
    return PathFolder(path, follow=True)


@contextmanager
def descend(root: OpenFolder, names: Sequence[str], *, make: int | None = None) -> Iterator[OpenFolder]:
    """Open the folder that the names lead to from `root`, which stays open; missing ones are made with the mode `make`.

    Raises:
        OSError: there is none, or a link is on the way.
    """
    at = root
    try:
        for name in names:
            below = at.enter(name) if make is None else at.enter_or_make(name, make)
            if at is not root:
                at.close()
            at = below
        yield at
    finally:
        if at is not root:
            at.close()


def walk(
    root: Path, unread: Callable[[OSError], None] | None = None
) -> Iterator[tuple[tuple[str, ...], list[str], list[str], OpenFolder]]:
    """Each folder at and under `root`: the names that lead to it, those of its folders and of all else, and itself.

    What is taken out of the list of folders is not entered. Those that cannot be read are told to `unread`.
    """
    above: list[_Level] = []
    entering: tuple[str, ...] | None = ()
    try:
        while entering is not None or above:
            if entering is not None:
                try:
                    opened = above[-1].folder.enter(entering[-1]) if entering else open_folder(root)
                    above.append(_Level(opened, entering, iter(())))
                    folders, others = opened.list()
                except OSError as error:
                    error.filename = str(root.joinpath(*entering))
                    if unread is not None:
                        unread(error)
                else:
                    yield entering, folders, others, opened
                    above[-1] = _Level(opened, entering, iter(folders))
            entering = None
            if above:
                name = next(above[-1].to_come, None)
                if name is None:
                    above.pop().folder.close()
                else:
                    entering = (*above[-1].names, name)
    finally:
        for level in above:
            level.folder.close()


class _Level(NamedTuple):
    """A folder on the way down, and what in it is yet to be entered."""

    folder: OpenFolder
    names: tuple[str, ...]
    to_come: Iterator[str]


def _check_plain(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Invalid("file", "is no plain file")


def _divide(entries: Iterable[os.DirEntry[str]]) -> tuple[list[str], list[str]]:
    folders: list[str] = []
    others: list[str] = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and sys.platform == "win32":  # where a junction counts as one
            is_folder = not is_link(entry.stat(follow_symlinks=False))
        (folders if is_folder else others).append(entry.name)
    return sorted(folders), sorted(others)


@cache
def _find_swap() -> Callable[..., int] | None:
    """The system's call by which two names change places; looked for when it is needed, since `ctypes` loads slowly."""
    import ctypes

    for name in ("renameat2", "renameatx_np"):
        try:
            found = getattr(ctypes.CDLL(None, use_errno=True), name)
        except (AttributeError, OSError, TypeError):  # no such call; Windows has no library without a name
            continue
        found.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        return cast("Callable[..., int]", found)
    return None


_FOLDER: int = getattr(os, "O_DIRECTORY", 0)
_OPENS_FOLDERS = bool(NOFOLLOW and _FOLDER) and {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
