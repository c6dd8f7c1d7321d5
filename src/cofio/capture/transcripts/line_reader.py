"""Reading a transcript of JSON lines from where it was last read, while its client may be writing to it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from ...system.safe_files import open_file
from ...values.records import Json
from .transcript_messages import Fields, ReadCounts

LONGEST = 16 << 20  # bytes of a line
_MARKED = 512  # bytes at the start, and before the position, by which a file is known again
_CHUNK = 1 << 20
_WHOLE = 64 << 20  # bytes of a file that is one record


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a transcript was read."""

    offset: int = 0
    mark: str = ""
    """A digest of bytes before the offset: a file without them was rewritten, and is read from its beginning."""
    state: dict[str, Json] = field(default_factory=dict)
    """What the parser must know to go on."""


class LineReader:
    """The records of a file after a position: the file that was opened, whatever comes to its path meanwhile."""

    def __init__(self, path: Path, position: Position, *, is_whole: bool = False) -> None:
        """Open a file, whose records are its lines or, if it `is_whole`, of which all is one record.

        Raises:
            OSError, Unavailable: it cannot be opened, or is no plain file.
        """
        self._file: IO[bytes] = os.fdopen(open_file(path, os.O_RDONLY, follow=True), "rb")
        self.size = os.fstat(self._file.fileno()).st_size
        """How long it was when it was opened."""
        self._is_whole = is_whole
        self.is_new = position.offset == 0 or not self._is_known(position)
        """Whether it is read from its beginning."""
        self.offset = 0 if self.is_new else position.offset
        """Where the next record begins."""

    def __enter__(self) -> LineReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_records(self, counts: ReadCounts) -> Iterator[Fields]:
        """Each record; `offset` is where it ends. A last line that is not finished is left for the next time."""
        self._file.seek(self.offset)
        if self._is_whole:
            yield from self._read_whole(counts)
            return
        while line := self._file.readline(LONGEST + 1):
            if len(line) > LONGEST and not line.endswith(b"\n"):
                if not self._skip_line():
                    counts.torn += 1
                    return
                counts.unreadable += 1
                self.offset = self._file.tell()
                continue
            record = _parse(line) if line.strip() else {}
            if record is None and not line.endswith(b"\n"):
                counts.torn += 1
                return
            self.offset += len(line)
            if record is None:
                counts.unreadable += 1
            elif record:
                counts.records += 1
                yield record

    def _read_whole(self, counts: ReadCounts) -> Iterator[Fields]:
        """The one record of the file, unless it was read before."""
        content = self._file.read(_WHOLE + 1)
        if not content:
            return
        record = _parse(content) if len(content) <= _WHOLE else None
        if record is None:
            counts.torn += 1  # as it is while its client writes it
            return
        self.offset += len(content)
        counts.records += 1
        yield record

    def mark(self) -> str:
        """The mark of what was read so far."""
        return self._digest(self.offset)

    def _skip_line(self) -> bool:
        """Go to the end of a line that is too long; whether it has one."""
        while chunk := self._file.readline(_CHUNK):
            if chunk.endswith(b"\n"):
                return True
        return False

    def _is_known(self, position: Position) -> bool:
        if position.offset > self.size or (self._is_whole and position.offset != self.size):
            return False
        return self._digest(position.offset) == position.mark

    def _digest(self, offset: int) -> str:
        here = self._file.tell()
        self._file.seek(0)
        head = self._file.read(min(_MARKED, offset))
        self._file.seek(max(0, offset - _MARKED))
        tail = self._file.read(min(_MARKED, offset))
        self._file.seek(here)
        return hashlib.blake2b(head + b"\0" + tail, digest_size=12).hexdigest()


def _parse(line: bytes) -> Fields | None:
    """The object that a line holds; None if it holds none."""
    try:
        read = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Json]", read) if isinstance(read, dict) else None
