"""How records leave a memory as a file of lines, and come back from one."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, TextIO, cast

from ...system.atomic_files import replace_path
from ...text.jsonl import read_line
from ...values.errors import Invalid
from ...values.records import Draft

if TYPE_CHECKING:
    from ...engine.engine import Engine

BATCH = 500  # records that are restored in one transaction
LONGEST_LINE = 64_000_000  # bytes; a record at all its limits is far shorter


@contextmanager
def written(name: str) -> Iterator[TextIO]:
    """Where an export goes: `-` is stdout; a file takes its name only once it is whole and on the disk.

    It is readable by its owner alone. What is no plain file, as a named pipe, is written to as it is.
    """
    if name == "-":
        yield sys.stdout
        return
    target = Path(name).expanduser().resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as special, _text(special, target.suffix) as text:
            yield text
        return
    with replace_path(target) as file, _text(file, target.suffix) as text:
        yield text


@contextmanager
def _text(file: IO[bytes], suffix: str) -> Iterator[TextIO]:
    """Text that becomes bytes of `file`, which stays open."""
    # No name and no time inside: the same records make the same file.
    packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if suffix == ".gz" else None
    text = io.TextIOWrapper(cast(BinaryIO, packed or file), encoding="utf-8", newline="\n")
    try:
        yield text
    finally:
        text.detach()
        if packed is not None:
            packed.close()


@dataclass(frozen=True, slots=True)
class Source:
    """An export that is being read: its name for messages, its size in bytes, 0 if unknown."""

    name: str
    size: int
    _raw: IO[bytes]
    _lines: IO[bytes]

    @property
    def position(self) -> int:
        """How many of its bytes have been read; only of a file whose size is known."""
        return self._raw.tell()

    def drafts(self) -> Iterator[tuple[int, Draft | Invalid]]:
        """Each line that is not empty, by its number: the draft that it holds, or what is wrong with it."""
        number = 0
        while True:
            number += 1
            try:
                line = self._lines.readline(LONGEST_LINE)
                rest = line
                while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                    rest = self._lines.readline(LONGEST_LINE)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                yield number, Invalid("line", f"cannot be unpacked ({error}); the file is cut off or damaged")
                return
            if not line:
                return
            if rest is not line:
                yield number, Invalid("line", "is longer than any record")
            elif line.strip():
                yield number, _draft(line)


def _draft(line: bytes) -> Draft | Invalid:
    try:
        return read_line(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Invalid("line", "is not UTF-8 text")
    except Invalid as error:
        return error


@contextmanager
def opened(name: str) -> Iterator[Source]:
    """The export in a file, which `.gz` says is compressed; `-` is stdin."""
    if name == "-":
        yield Source("stdin", 0, sys.stdin.buffer, sys.stdin.buffer)
        return
    path = Path(name).expanduser()
    with path.open("rb") as raw:
        size = path.stat().st_size if path.is_file() else 0
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield Source(name, size, raw, cast(IO[bytes], unpacked))
        else:
            yield Source(name, size, raw, raw)


class Intake:
    """Takes an export into a memory, a transaction for each batch, and counts."""

    def __init__(self, engine: Engine, source: Source) -> None:
        self._engine = engine
        self._source = source
        self._batch: list[Draft] = []
        self.read = 0
        """How many records are in, or were there before."""
        self.new = 0
        """How many of them were new, or newer than here."""
        self.bad = 0
        """How many lines were no records."""

    def run(self, progress: Callable[[str, int, int], None], skip: Callable[[int, Invalid], None] | None) -> None:
        """Take in every record; `skip` is told of each line that is none.

        Raises:
            Invalid: a line is no record, and there is no `skip`; what came before it is in.
        """
        for number, draft in self._source.drafts():
            if isinstance(draft, Draft):
                self._batch.append(draft)
                if len(self._batch) == BATCH:
                    self._flush()
                    if self._source.size:
                        progress("importing", self._source.position, self._source.size)
            elif skip is not None:
                self.bad += 1
                skip(number, draft)
            else:
                self._flush()
                raise Invalid(f"{self._source.name}, line {number}", str(draft).removeprefix("line: "))
        self._flush()

    def _flush(self) -> None:
        self.new += self._engine.restore(self._batch)
        self.read += len(self._batch)
        self._batch.clear()
