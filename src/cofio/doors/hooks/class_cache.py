"""Keeps the compiled methods of dataclasses from one hook to the next, as Python keeps compiled modules.

Python writes the methods of a dataclass as text, and compiles that each time a process starts: a fifth of the time that
a hook took. What was compiled is kept by its text in the user's folder of caches. Without that file, or if it is of
another version, damaged, or one that others may write, all is compiled as usual.
"""

from __future__ import annotations

import dataclasses
import marshal
import os
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from types import CodeType

from ... import __version__
from ...system.disk import open_plain, set_mode
from ...system.user_folders import find_cache_folder

_MADE_BY = f"{__version__} {sys.version}"
_CHECK_BYTES = 4
_OTHERS_MAY_WRITE = 0o022


class ClassCache:
    """The compiled methods of the dataclasses of this process, by their text."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._codes = _load(file) if file is not None else {}
        self._is_complete = True

    def install(self) -> None:
        """Let all dataclasses from now on be made with what is kept."""
        # The name that `dataclasses` calls, which is otherwise the built-in one.
        vars(dataclasses)["exec"] = self._execute

    def save(self) -> None:
        """Keep what had to be compiled, if there was anything and it can be kept."""
        if self._is_complete or self._file is None or sys.dont_write_bytecode:
            return
        content = marshal.dumps((_MADE_BY, dict(self._codes)))
        # In its place: who reads half of it sees that by the check, and a process that is killed leaves no second file.
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(open_plain(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                set_mode(file.fileno(), 0o600)
                file.write(zlib.crc32(content).to_bytes(_CHECK_BYTES, "little") + content)

    def _execute(self, text: str, *names: dict[str, object]) -> None:
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = compile(text, "<string>", "exec")
            self._is_complete = False
        exec(code, *names)  # noqa: S102  # as `dataclasses` would, with a text of its own


def find_cache_file() -> Path | None:
    """Where the compiled methods are kept; None for a user without a home."""
    folder = find_cache_folder()
    return None if folder is None else folder / f"hook-classes-{sys.implementation.cache_tag}"


def _load(file: Path) -> dict[str, CodeType]:
    try:
        with open(open_plain(file, os.O_RDONLY), "rb") as stored:
            found = os.fstat(stored.fileno())
            if sys.platform != "win32" and (found.st_uid != os.getuid() or found.st_mode & _OTHERS_MAY_WRITE):
                return {}
            content = stored.read()
        if zlib.crc32(content[_CHECK_BYTES:]) != int.from_bytes(content[:_CHECK_BYTES], "little"):
            return {}
        made_by, codes = marshal.loads(content[_CHECK_BYTES:])  # noqa: S302  # no one but this user has written it
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    return codes if made_by == _MADE_BY else {}
