"""What the file system says of a store's files: may they be written, and are they still the ones that were opened?

SQLite keeps the file that it has opened, wherever it goes, and opens the log that belongs to it by its name. So a
program whose database was deleted, moved or replaced would go on writing where no other process reads, or into
another file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from ...system.safe_files import open_file
from ...values.errors import Unavailable

Access = Literal["write", "read", "immutable"]
"""How a database is opened: immutable, when no file can be made beside it and no other process has it open."""

GONE = "The memory was deleted, moved or replaced while it was open: start the program that serves it again"
FULL = "The disk is full: the memory can be searched and read, and nothing can be added until space is freed"
READ_ONLY = "The memory is read-only here: it can be searched and read, not changed"


def find_access(path: Path) -> Access:
    """How the database at a path can be opened.

    Raises:
        Unavailable: it can only be read, and its log has changes that cannot be read there.
    """
    if not path.exists() or (_may_write(path) and _may_write(path.parent)):
        return "write"
    log, shared = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if _may_write(path.parent) or (log.exists() and shared.exists()):
        return "read"
    if not is_log_empty(log):
        raise Unavailable(
            f"{path} is on a disk or in a folder that is read-only, and its newest changes are still in {log.name}:"
            " copy the folder to where it can be written, and open the copy"
        )
    return "immutable"


def _may_write(path: Path) -> bool:
    # Also root may not, if the disk is mounted read-only. Who we act as counts, where the system can say it.
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def is_log_empty(path: Path) -> bool:
    """Return whether a write-ahead log holds nothing: there is none, or its file is empty or begins with zeros."""
    try:
        with open(open_file(path, os.O_RDONLY), "rb", buffering=0) as file:
            return not any(file.read(4))
    except FileNotFoundError:
        return True
    except (OSError, Unavailable):  # what cannot be read may hold anything
        return False


def make_immutable_uri(path: Path) -> str:
    """Return the URI by which SQLite opens a file that does not change: without a log beside it, and without locks."""
    # A drive of Windows' needs the slash; its names of other machines need the two that they begin with besides.
    name = path.absolute().as_posix()
    return f"file://{'' if name.startswith('/') else '/'}{quote(name)}?immutable=1"


class OpenFiles:
    """The files that a program has opened by their paths, as they were then."""

    def __init__(self, paths: Iterable[Path] = (), *, unchanged: bool = False) -> None:
        """With `unchanged`, a file that was only written to counts as another, too."""
        self._unchanged = unchanged
        self._marks = tuple((str(path), self._mark(str(path))) for path in paths)

    def are_there(self) -> bool:
        """Whether each path still leads to the same file; a file that is open keeps its number to itself.

        Raises:
            OSError: the system cannot tell.
        """
        # A loop, for every read and write comes through here: it takes some two microseconds.
        for path, mark in self._marks:  # noqa: SIM110  # a generator would take half as long again
            if self._mark(path) != mark:
                return False
        return True

    def _mark(self, path: str) -> tuple[int, ...] | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if self._unchanged:
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return found.st_dev, found.st_ino
