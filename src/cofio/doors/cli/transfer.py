"""The commands that copy a memory, write its records as lines, and take in such lines or another product's memory."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, TextIO, cast

from ...config.address import StoreAddress
from ...config.suggestions import suggest
from ...engine.opening import copy_store, resolve_store
from ...system.atomic_files import replace_path
from ...text.jsonl import read_line, write_line
from ...values.errors import Invalid, Unavailable
from ...values.records import Draft, check_text
from . import vault_commands
from .context import MAX_PATH, open_memory, settle
from .parser import report_misuse
from .terminal import Bar, choose_output, make_printable_json, note, render_count, render_record_count

if TYPE_CHECKING:
    from ...engine.engine import Engine

PRODUCT = "agent-memory-store"
BATCH = 500  # records that are restored in one transaction
LONGEST_LINE = 64_000_000  # bytes; a record at all its limits is far shorter


def backup(args: Namespace) -> int:
    """Copy the memory."""
    from ..store_checks import note_backup

    check_text("target", args.target, MAX_PATH, empty=False)
    with open_memory(args) as engine, Bar("copy") as bar:
        target = engine.backup(Path(args.target).expanduser(), bar)
        is_writable = not engine.read_only
    if is_writable:
        note_backup(resolve_store(args.store).home, target.absolute(), datetime.now(UTC))
    choose_output(as_json=args.json).print_done(f"copied the memory to {target}", backup=str(target))
    return 0


def copy(args: Namespace) -> int:
    """Copy a memory to another address."""
    source, target = StoreAddress.parse(args.source), StoreAddress.parse(args.target)
    is_begun = False
    with Bar("copy") as bar:

        def report(stage: str, done: int, total: int) -> None:
            nonlocal is_begun
            is_begun = True
            bar(stage, done, total)

        try:
            copied = copy_store(source, target, report)
        except (Unavailable, KeyboardInterrupt):
            if is_begun:
                note("what was copied stays, and the same copy again does the rest")
            raise
    choose_output(as_json=args.json).print_done(
        f"copied {copied} to {target}", copied=str(target), records=copied.records, vectors=copied.vectors,
        checkpoints=copied.checkpoints,
    )  # fmt: skip
    return 0


def export(args: Namespace) -> int:
    """Write the records as lines."""
    aside = args.file != "-" or not sys.stdout.isatty()  # else the bar would stand among the lines
    with open_memory(args) as engine, open_target(args.file) as file:
        count, total = 0, engine.count(args.scope)
        line = make_printable_json if args.file == "-" else str
        with Bar("exporting", expect=total) if aside else nullcontext() as bar:
            for record in engine.export(args.scope):
                file.write(line(write_line(record)) + "\n")
                count += 1
                if bar is not None and count % 100 == 0:
                    bar("exporting", count, total)
    if args.file != "-":
        choose_output(as_json=args.json).print_done(
            f"exported {render_record_count(count)} to {args.file}", exported=count, file=args.file
        )
    return 0


def import_records(args: Namespace) -> int:
    """Put exported records back, then embed them, which is slow and may be left for later or stopped."""
    if args.file == PRODUCT:
        return _import_product(args)
    if args.file == vault_commands.EVEROS:
        return vault_commands.import_everos(args)
    if args.path is not None:
        products = f"{PRODUCT} and {vault_commands.EVEROS} are"
        return report_misuse(args, f"{args.file} is not a product whose memory can be taken over; {products}")

    if not Path(args.file).exists() and (suggestion := suggest(args.file, (PRODUCT, vault_commands.EVEROS))):
        return report_misuse(args, f"there is no file {args.file}; did you mean {suggestion}?")

    def skip(number: int, fault: Invalid) -> None:
        note(f"line {number} passed over: {str(fault).removeprefix('line: ')}")

    with open_source(args.file) as source, open_memory(args, make=True) as engine:
        intake = Intake(engine, source)
        try:
            with Bar("importing", expect=source.size) as bar:
                intake.run(bar, skip if args.skip_bad else None)
        except Invalid as error:
            so_far = f"{render_record_count(intake.read)} before it went in" if intake.read else "nothing went in"
            raise Invalid(error.field, f"{error.problem}; {so_far}; mend it, or pass it over with --skip-bad") from None
        except KeyboardInterrupt:
            note(f"stopped after {render_record_count(intake.read)}, which stay; the same import again does the rest")
            raise
        present = intake.read - intake.new
        message = f"imported {render_record_count(intake.new)}"
        message += (
            f"; {render_record_count(present)} {'was' if present == 1 else 'were'} here already, as new or newer"
            if present
            else ""
        )
        message += f"; {intake.bad:,} bad {'line' if intake.bad == 1 else 'lines'} passed over" if intake.bad else ""
        choose_output(as_json=args.json).print_done(message, imported=intake.new, kept=present, skipped=intake.bad)
        _embed(args, engine)
    return 0


def _embed(args: Namespace, engine: Engine) -> None:
    """Index what was imported and, unless it is left for later, embed it."""
    sys.stdout.flush()
    try:
        settle(engine, limit=0 if args.no_vectors else None)
    except KeyboardInterrupt:
        note("stopped; every record is in and found by its words, and `cofio reindex` embeds the rest")
        raise


def _import_product(args: Namespace) -> int:
    """Take over the memory of agent-memory-store, which stays as it is."""
    from ...importers.agent_memory_store import has_memory, take

    path = Path(args.path or os.environ.get("AGENT_STORE_PATH") or f"./.{PRODUCT}").expanduser()
    if not has_memory(path):
        raise Unavailable(f"there is no memory of {PRODUCT} in {path}: name the folder that holds its store.db")
    with open_memory(args, make=True) as engine:
        try:
            with Bar("taking over") as bar:
                result = take(engine, path, progress=bar)
        except KeyboardInterrupt:
            note("stopped; what is in stays, and the same import again does the rest")
            raise
        for what, why in result.changed:
            note(f"{what}: {why}")
        for what, why in result.refused:
            note(f"{what} refused: {why}")
        if result.vectors_left:
            note(f"its vectors are not kept: {result.vectors_left}")
        present = result.chunks + result.states - result.new
        counts = f"{render_count(result.chunks, 'chunk')} and {render_count(result.states, 'state')}"
        message = f"imported {render_record_count(result.new)} from {path} ({counts})"
        message += (
            f"; {render_record_count(present)} {'was' if present == 1 else 'were'} here already, as new or newer"
            if present
            else ""
        )
        message += f"; {render_count(result.expired, 'chunk')} had expired" if result.expired else ""
        message += f"; {result.masked:,} with a secret masked" if result.masked else ""
        message += f"; {len(result.refused):,} refused" if result.refused else ""
        choose_output(as_json=args.json).print_done(
            message, imported=result.new, kept=present, chunks=result.chunks, states=result.states,
            vectors=result.vectors, expired=result.expired, masked=result.masked, changed=len(result.changed),
            refused=len(result.refused),
        )  # fmt: skip
        _embed(args, engine)
    return 1 if result.refused else 0


@contextmanager
def open_target(name: str) -> Iterator[TextIO]:
    """Where an export goes: `-` is stdout; a file takes its name only once it is whole and on the disk.

    It is readable by its owner alone. What is no plain file, as a named pipe, is written to as it is.
    """
    if name == "-":
        yield sys.stdout
        return
    target = Path(name).expanduser().resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as special, _wrap_text(special, target.suffix) as text:
            yield text
        return
    with replace_path(target) as file, _wrap_text(file, target.suffix) as text:
        yield text


@contextmanager
def _wrap_text(file: IO[bytes], suffix: str) -> Iterator[TextIO]:
    """Text that becomes bytes of `file`, which stays open."""
    # No name and no time inside: the same records make the same file.
    archive = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if suffix == ".gz" else None
    text = io.TextIOWrapper(cast(BinaryIO, archive or file), encoding="utf-8", newline="\n")
    try:
        yield text
    finally:
        text.detach()
        if archive is not None:
            archive.close()


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

    def read_drafts(self) -> Iterator[tuple[int, Draft | Invalid]]:
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
                yield number, _parse_draft(line)


def _parse_draft(line: bytes) -> Draft | Invalid:
    try:
        return read_line(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Invalid("line", "is not UTF-8 text")
    except Invalid as error:
        return error


@contextmanager
def open_source(name: str) -> Iterator[Source]:
    """The export in a file, which `.gz` says is compressed; `-` is stdin."""
    if name == "-":
        yield Source("stdin", 0, sys.stdin.buffer, sys.stdin.buffer)
        return
    path = Path(name).expanduser()
    with path.open("rb") as raw:
        size = path.stat().st_size if path.is_file() else 0
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=raw) as lines:
                yield Source(name, size, raw, cast(IO[bytes], lines))
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
        for number, draft in self._source.read_drafts():
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
