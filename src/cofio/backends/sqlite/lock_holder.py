"""Find the process that holds the write lock of a database, where the system tells.

The file that is locked is never opened here: closing it would drop every lock that this process has on it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

WRITE_LOCK_BYTE = 120  # of the -shm file: SQLite's WAL_WRITE_LOCK
_LOCKS = Path("/proc/locks")


class LockHolder(NamedTuple):
    """A process that holds a lock."""

    process: int
    command: str
    """Its program, with the subcommand if that is cofio; "" if unknown."""
    is_stopped: bool
    """Whether it was stopped by a signal or a debugger."""


def find_lock_holder(database: Path) -> LockHolder | None:
    """Return the process that holds the write lock of a database; None when none does, or the system does not tell."""
    if sys.platform != "linux":
        return None
    try:
        found = os.stat(f"{database}-shm")
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        words = line.split()  # 1: POSIX ADVISORY WRITE 4711 fe:00:2482411 120 120
        if len(words) == 8 and (words[1], words[3], words[5]) == ("POSIX", "WRITE", file):
            first, last = int(words[6]), float("inf") if words[7] == "EOF" else int(words[7])
            process = int(words[4])  # not positive in another container
            if first <= WRITE_LOCK_BYTE <= last and process > 0:
                return LockHolder(process, _describe_command(process), _read_stat(process)[:1] in ("T", "t"))
    return None


def describe_holder(holder: LockHolder | None) -> str:
    """Name a holder in a sentence, without a path: clients elsewhere may read it."""
    if holder is None:
        return "another process"
    who = "this process" if holder.process == os.getpid() else "another process"
    return f"{who} (PID {holder.process}{f', `{holder.command}`' if holder.command else ''})"


def _describe_command(process: int) -> str:
    words = _read_command(process)
    if words == ["cofio"]:  # perhaps a process of a server, whose parent has the command
        parent = _read_command(_read_parent(process))
        words = parent if parent[:1] == words else words
    return " ".join(words[:2] if words[:1] == ["cofio"] else words[:1])


def _read_command(process: int) -> list[str]:
    """Read the name of a process's program, and its first argument if that is a plain word."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    if os.path.basename(words[0]).startswith("python"):
        script = next((at for at, word in enumerate(words) if at and (word in ("-m", "-c") or word[:1] != "-")), 0)
        if words[script] == "-m":
            words = [words[script + 1].partition(".")[0], *words[script + 2 :]]
        elif words[script] != "-c":
            words = words[script:]
    words[0] = os.path.basename(words[0])
    return words[:2] if words[1:2] and words[1].isalpha() else words[:1]


def _read_parent(process: int) -> int:
    return int((_read_stat(process).split() or ["", "0"])[1])


def _read_stat(process: int) -> str:
    """Read the state of a process and what follows it; "" if there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].lstrip()
    except OSError:
        return ""
