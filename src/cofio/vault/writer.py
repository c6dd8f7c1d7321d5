"""The vault's files on disk: each is replaced whole, and no step into a folder follows a link.

A file is not forced to the disk before the call that wrote it returns: the database is the truth, and what a power cut
takes is written again. (`Vault.settle` forces them later: what is missing after that is a person's doing.)
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..system.atomic_files import create_temporary, is_temporary, name_new
from ..system.disk import read_file_number, sync
from ..system.folders import OpenFolder, open_folder, walk
from ..values.errors import Invalid
from .layout import STATE, Parts

LARGEST = 67_108_864  # bytes of a file that are read


class Stamp(NamedTuple):
    """What tells one state of a file from another without reading it."""

    inode: int
    changed: int
    size: int


class FileContent(NamedTuple):
    """A file's bytes, and its stamp as they were read."""

    content: bytes
    stamp: Stamp


class FileChanged(Exception):
    """A file has changed since it was read."""


class Tree:
    """The files under a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open = threading.local()

    @contextmanager
    def hold_open(self) -> Iterator[None]:
        """Keep the folders open that are stepped into meanwhile: several files beside each other are to be seen to."""
        folders: dict[Parts, OpenFolder] = {}
        self._open.folders = folders
        try:
            yield
        finally:
            self._open.folders = None
            for opened in folders.values():
                opened.close()

    def read(self, path: Parts) -> FileContent | None:
        """What a file holds; None when there is none.

        Raises:
            Invalid: it is no plain file, or stands behind a link, or is too long.
        """
        try:
            with self._enter(path[:-1]) as parent:
                opened = parent.open(path[-1], os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Invalid("file", f"cannot be read: {error.strerror}") from error
        try:
            before = os.fstat(opened)
            if not stat.S_ISREG(before.st_mode):
                raise Invalid("file", "is no plain file")
            if before.st_size > LARGEST:
                raise Invalid("file", f"is longer than {LARGEST:,} bytes")
            content = os.read(opened, before.st_size + 1)
            while len(content) != before.st_size:
                before = os.fstat(opened)  # it is being written, and will be looked at again
                os.lseek(opened, 0, os.SEEK_SET)
                content = os.read(opened, min(before.st_size, LARGEST) + 1)
            return FileContent(content, _make_stamp(before))
        finally:
            os.close(opened)

    def write(self, path: Parts, content: Sequence[bytes | memoryview], before: Stamp | None) -> Stamp:
        """Write a file of these parts over the one that had the stamp `before`, or over none.

        Raises:
            FileChanged: another has written there meanwhile.
            OSError: it cannot be written.
        """
        with self._enter(path[:-1], make=True) as parent:
            with create_temporary(parent, durable=False) as temporary:
                temporary.file.writelines(content)
            stamp = _make_stamp(parent.stat(temporary.name))  # Windows keeps the time of a file that is closed
            try:
                _publish(parent, temporary.name, path[-1], before)
            except BaseException:
                there = _read_stamp(parent, temporary.name)
                if there is not None and there in (stamp, before):  # else it is somebody's newest
                    parent.remove(temporary.name)
                raise
            with suppress(FileNotFoundError):
                parent.remove(temporary.name)
        return stamp

    def remove(self, path: Parts) -> None:
        """Take a file away, and the folders above it that are empty then."""
        with suppress(FileNotFoundError), self._enter(path[:-1]) as parent:
            parent.remove(path[-1])
        for depth in range(len(path) - 1, 0, -1):
            try:
                with self._enter(path[: depth - 1]) as parent:
                    parent.remove_folder(path[depth - 1])
            except OSError:  # not empty, or gone
                return

    def rename(self, old: Parts, new: Parts) -> bool:
        """Give a folder another name beside its own; whether it could."""
        with self._enter(old[:-1]) as parent:
            if _read_stamp(parent, new[-1]) is not None or _read_stamp(parent, old[-1]) is None:
                return False
            parent.rename(old[-1], new[-1])
        return True

    def read_stamp(self, path: Parts) -> Stamp | None:
        """A file's stamp; None when it is not there."""
        try:
            with self._enter(path[:-1]) as parent:
                return _read_stamp(parent, path[-1])
        except OSError:
            return None

    def force(self, path: Parts) -> None:
        """Have the disk hold a file as it is, and its name."""
        with self._enter(path[:-1]) as parent:
            opened = parent.open(path[-1], os.O_RDWR)  # Windows forces nothing that is only read
            try:
                sync(opened)
            finally:
                os.close(opened)
            parent.sync()

    def walk(self) -> Iterator[tuple[Parts, Stamp]]:
        """Every Markdown file, with its stamp, in order; what links lead to is not looked at."""
        if not self.folder.is_dir():
            return
        root = self.folder.resolve()  # the vault itself may be a link
        for below, folders, names, opened in walk(root):
            folders[:] = [each for each in folders if below or each not in (STATE, ".git", ".obsidian")]
            for name in names:
                there = _read_stamp(opened, name) if name.endswith(".md") else None
                if there is not None:
                    yield (*below, name), there

    def tidy(self, before: int) -> None:
        """Remove the temporary files that a crash left, last changed before that time, in nanoseconds since 1970."""
        if not self.folder.is_dir():
            return
        for _, _, names, opened in walk(self.folder.resolve()):
            for name in names:
                if is_temporary(name):
                    there = _read_stamp(opened, name)
                    if there is not None and there.changed < before:
                        with suppress(FileNotFoundError):
                            opened.remove(name)

    @contextmanager
    def _enter(self, names: Parts, *, make: bool = False) -> Iterator[OpenFolder]:
        """The open folder that the names lead to. The vault itself may be a link that its owner has made."""
        folders: dict[Parts, OpenFolder] | None = getattr(self._open, "folders", None)
        if folders is not None:
            yield self._open_parts(names, folders, make)
            return
        opened: dict[Parts, OpenFolder] = {}
        try:
            yield self._open_parts(names, opened, make)
        finally:
            for each in opened.values():
                each.close()

    def _open_parts(self, names: Parts, folders: dict[Parts, OpenFolder], make: bool) -> OpenFolder:
        if names in folders:
            return folders[names]
        if not names:
            if make and not self.folder.is_dir():
                self.folder.mkdir(mode=0o700, exist_ok=True)  # and not the store's: one that is gone stays so
            folders[names] = open_folder(self.folder)
            return folders[names]
        above = self._open_parts(names[:-1], folders, make)
        folders[names] = above.enter_or_make(names[-1]) if make else above.enter(names[-1])
        return folders[names]


def _publish(parent: OpenFolder, temporary: str, name: str, before: Stamp | None) -> None:
    """Give a temporary file its name, over the file that has the stamp `before`, or over none.

    The two are exchanged: what was there is looked at once it is out of the way, so that nothing an editor saves at
    that very moment is lost. (It is also cheaper: ext4 writes out a file at once that is renamed over another.)
    """
    if before is None:
        try:
            name_new(parent, temporary, name)
        except FileExistsError:
            raise FileChanged from None
        return
    if not _exchange(parent, temporary, name):
        if _read_stamp(parent, name) != before:
            raise FileChanged
        parent.replace(temporary, name)
    elif _read_stamp(parent, temporary) != before:
        _exchange(parent, temporary, name)
        raise FileChanged


def _exchange(parent: OpenFolder, one: str, other: str) -> bool:
    """Exchange two names; return False where that cannot be done."""
    try:
        return parent.exchange(one, other)
    except FileNotFoundError:
        raise FileChanged from None


def _read_stamp(parent: OpenFolder, name: str) -> Stamp | None:
    try:
        return _make_stamp(parent.stat(name))
    except FileNotFoundError:
        return None


def _make_stamp(found: os.stat_result) -> Stamp:
    return Stamp(read_file_number(found), found.st_mtime_ns, found.st_size)
