"""What git keeps of a folder, as its index says: no program is run, so it matters neither whether there is one nor
whose the repository is.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..system.safe_files import read_file
from ..values.errors import Unavailable

_LONGEST = 1 << 28  # bytes of an index
_POINTER = 1 << 16  # bytes of a .git file, which names a folder
_HEADER, _STATUS = 12, 40  # bytes before the entries, and of an entry before its hash
_EXTENDED = 0x4000  # the flag of an entry with two more bytes of flags
_HASHES = (("sha1", 20), ("sha256", 32))


class _Unclear(ValueError):
    """This is no index that we understand."""


def is_tracked(folder: Path, names: Iterable[str]) -> bool | None:
    """Whether the repository whose `.git` is in `folder` keeps any of these paths in it, or anything under one.

    Capitals do not matter: to some disks they do not. None when it cannot be told.
    """
    wanted = tuple(f"{_fold(name)}/" for name in names)
    try:
        index = read_file(find_git_folder(folder) / "index", limit=_LONGEST, follow=True)
        for name in () if index is None else _read_names(index):
            if f"{_fold(os.fsdecode(name))}/".startswith(wanted):
                return True
    except (OSError, ValueError, IndexError, Unavailable):
        return None
    return False


def _fold(name: str) -> str:
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


def find_git_folder(folder: Path) -> Path:
    """The folder of the repository's own files; in a worktree or a submodule, `.git` is a file that names it."""
    git = folder / ".git"
    if git.is_dir():
        return git
    pointer = (read_file(git, limit=_POINTER, follow=True) or b"").removesuffix(b"\n").removesuffix(b"\r")
    if not pointer.startswith(b"gitdir: "):
        raise _Unclear
    git_folder = folder / os.fsdecode(pointer.removeprefix(b"gitdir: "))
    if not (git_folder / "HEAD").exists():  # such as a worktree whose repository was moved
        raise _Unclear
    return git_folder


def _read_names(index: bytes) -> Iterator[bytes]:
    """The paths in an index of version 2, 3 or 4 (gitformat-index)."""
    version, count = int.from_bytes(index[4:8]), int.from_bytes(index[8:_HEADER])
    if index[:4] != b"DIRC" or version not in (2, 3, 4):
        raise _Unclear
    length = _find_hash_length(index)
    at, name = _HEADER, b""
    for _ in range(count):
        start, at = at, at + _STATUS + length
        at += 4 if index[at] << 8 & _EXTENDED else 2
        prefix = 0
        if version == 4:  # only what differs from the name before
            stripped, at = _read_number(index, at)
            prefix = len(name) - stripped
        end = index.index(b"\0", at)
        if prefix < 0 or (end == at and not prefix):  # a name of nothing: the rest of it is in another file
            raise _Unclear
        name = name[:prefix] + index[at:end]
        yield name
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
    while at < len(index) - length:
        if not index[at : at + 1].isupper():  # an extension without which the entries do not say all
            raise _Unclear
        at += 8 + int.from_bytes(index[at + 4 : at + 8])
    if at != len(index) - length:
        raise _Unclear


def _find_hash_length(index: bytes) -> int:
    """How long the repository's hashes are: the index ends in one of what stands before it, or in as many zeros."""
    for kind, length in _HASHES:
        if hashlib.new(kind, memoryview(index)[:-length], usedforsecurity=False).digest() == index[-length:]:
            return length
    if index.endswith(bytes(20)) and not index.endswith(bytes(32)):
        return 20
    raise _Unclear


def _read_number(index: bytes, at: int) -> tuple[int, int]:
    """A number of git's variable width, and where it ends."""
    number = index[at] & 127
    while index[at] & 128:
        at += 1
        number = (number + 1 << 7) + (index[at] & 127)
    return number, at + 1
