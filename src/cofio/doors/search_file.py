"""How a process tells the pages of another of its searches: in a file beside the memory, while a page shows them.

The file is made by a server with such a page, which holds its lock, and removed with the last page. So a process that
searches sees with one look at a name that there is no such page. A server that was killed leaves a file that is
not locked: the next search removes it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..system.locks import try_lock
from ..system.safe_files import open_file
from ..values.errors import Unavailable
from .search_notes import encode_search

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..values.query import Page, Query

NAME = "searches.jsonl"
LARGEST = 65_536  # bytes; what comes on top is not noted
_HEAD = 1  # bytes at the beginning, which Windows locks against all
_log = logging.getLogger("cofio.page")


class SearchFile:
    """The file of the searches that other processes make on a memory."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME
        self._lock = threading.Lock()
        self._is_wanted = False
        self._descriptor: int | None = None
        self._problem = ""

    def exists(self) -> bool:
        """Whether a page may be open that shows searches."""
        return os.path.exists(self._path)

    def add(self, search: bytes) -> None:
        """Put down a search, if a page is open and there is room. What cannot be put down fails no search."""
        with suppress(OSError, Unavailable):
            opened = open_file(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                if try_lock(opened):
                    self._path.unlink()
                elif os.fstat(opened).st_size + len(search) < LARGEST:
                    os.write(opened, search + b"\n")
            finally:
                os.close(opened)

    def remove_stale(self) -> None:
        """Remove a file that a killed server left: what was searched for is not to stay."""
        with suppress(OSError, Unavailable):
            opened = open_file(self._path, os.O_WRONLY)
            try:
                if try_lock(opened):
                    self._path.unlink()
            finally:
                os.close(opened)

    def want(self) -> None:
        """Have `hold` make the file from now on."""
        with self._lock:
            self._is_wanted = True

    def hold(self) -> None:
        """Have the file be there and be held, by this process or another; that it cannot be is logged once."""
        with self._lock:
            if not self._is_wanted or self._is_held():
                return
            self._close()
            try:
                self._descriptor = self._open()
                self._problem = ""
            except (OSError, Unavailable) as error:
                if str(error) != self._problem:
                    _log.warning("searches of other processes cannot be shown: %s", error)
                self._problem = str(error)

    def release(self) -> None:
        """Remove the file, if it is this process that holds it."""
        with self._lock:
            self._is_wanted = False
            if self._is_held() and sys.platform != "win32":
                self._path.unlink(missing_ok=True)
            was_held = self._close()
            if was_held and sys.platform == "win32":  # where nothing is removed that is open
                with suppress(OSError):
                    self._path.unlink()

    def read(self, position: int) -> tuple[int, list[bytes]]:
        """The searches from a position of the file on, and the position after them."""
        try:
            opened = open_file(self._path, os.O_RDONLY)
        except (OSError, Unavailable):
            return 0, []
        with open(opened, "rb") as file:
            start = position if _HEAD <= position <= os.fstat(opened).st_size else _HEAD  # it was emptied since
            file.seek(start)
            content = file.read(LARGEST)
        whole = content[: content.rfind(b"\n") + 1]
        end = start + len(whole)
        self._make_room(end)
        return end, whole.splitlines()

    def _make_room(self, end: int) -> None:
        """Empty a file that this process holds and has read, before it is full."""
        with self._lock:
            if self._descriptor is not None and end > LARGEST // 2:
                os.ftruncate(self._descriptor, _HEAD)

    def _open(self) -> int | None:
        """Make the file, and lock it; None when another process has it, or has just removed it."""
        opened = open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if not try_lock(opened) or not os.path.samestat(os.fstat(opened), os.stat(self._path)):
                os.close(opened)
                return None
            if sys.platform != "win32":
                os.fchmod(opened, 0o600)
            os.ftruncate(opened, 0)
            os.write(opened, b"\n" * _HEAD)
        except BaseException:
            os.close(opened)
            raise
        return opened

    def _is_held(self) -> bool:
        """Whether this process holds the file, and that is still there."""
        if self._descriptor is None:
            return False
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        return False

    def _close(self) -> bool:
        """Close the file; whether it was held."""
        held, self._descriptor = self._descriptor, None
        if held is not None:
            os.close(held)
        return held is not None


def note_searches(home: Path, door: str, engine: Engine) -> None:
    """Have the searches of an engine told to the pages of other processes that show them, as those of a door."""
    engine.observe_search = partial(_note, SearchFile(home), door)


def _note(file: SearchFile, door: str, query: Query, page: Page) -> None:
    if file.exists():
        file.add(encode_search(query, page, door, datetime.now(UTC)))
