"""A short log of the hooks that ran: what each took and added, for `cofio hooks status`; no word of what was said."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ...system.disk import open_plain
from ...system.user_folders import find_data_folder

FILE, OLD_FILE = "hooks.jsonl", "hooks.old.jsonl"
LONGEST = 256 * 1024  # bytes of the file, after which it becomes the old one
_LONGEST_NOTE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One run of a hook."""

    at: float
    """When it began, in seconds since 1970."""
    client: str
    event: str
    repository: str = ""
    outcome: str
    """added, nothing, captured, off, late or failed."""
    milliseconds: int
    tokens: int = 0
    """What it put into the context."""
    records: int = 0
    """How many memories it showed, or messages it captured."""
    note: str = ""
    """Why nothing came of it, where that is not as it should be."""


def append_run(run: HookRun) -> None:
    """Add a run to the log, if it can be written: a hook has no one to complain to."""
    folder = find_data_folder()
    if folder is None:
        return
    entry = asdict(run) | {"note": run.note[:_LONGEST_NOTE]}
    line = json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _append(folder / FILE, line):
            os.replace(folder / FILE, folder / OLD_FILE)
            _append(folder / FILE, line)


def _append(file: Path, line: bytes) -> bool:
    """Add a line to the file, in one piece, since several hooks may run at once; False if the file is full."""
    descriptor = open_plain(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        if os.fstat(descriptor).st_size + len(line) > LONGEST:
            return False
        os.write(descriptor, line)
        return True
    finally:
        os.close(descriptor)


def read_runs() -> list[HookRun]:
    """The runs in the log, oldest first; lines that are torn or of another version are passed over.

    Raises:
        OSError: the log is there and cannot be read.
    """
    folder = find_data_folder()
    return [] if folder is None else [*_read(folder / OLD_FILE), *_read(folder / FILE)]


def _read(file: Path) -> Iterator[HookRun]:
    try:
        with file.open("rb") as lines:
            content = lines.read(2 * LONGEST)
    except FileNotFoundError:
        return
    names = {each.name for each in fields(HookRun)}
    for line in content.splitlines():
        with suppress(ValueError, TypeError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("at"), int | float):
                yield HookRun(**{name: value for name, value in entry.items() if name in names})
