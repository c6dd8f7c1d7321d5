"""The durable list of changes that the files have yet to follow.

A change is listed before it is made, and marked when it is: so a call pays for two small writes that wait for no disk
and for no one who writes files. What a process leaves behind that is killed, the next one to follow reads here. A power
cut may cost the list; after one, the vault is looked through as a whole.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from ..conversations.mirror import VisibleRecord
from ..system.processes import is_running
from ..values.records import Kind, Scope
from .journal import open_database
from .layout import STATE

NAME = "changes.db"
_MADE = 0  # in place of the process that is making a change: it is made
_TABLE = (
    "CREATE TABLE IF NOT EXISTS change (no INTEGER PRIMARY KEY AUTOINCREMENT, process INT NOT NULL, seen TEXT NOT NULL)"
)


class ListedChange(NamedTuple):
    """A change that the files have not followed, as far as is known: its number, and what of it can be seen."""

    number: int
    process: int
    visible: list[VisibleRecord]


class ChangeList:
    """The changes of one memory that its files have yet to follow, shared by all processes."""

    def __init__(self, vault: Path) -> None:
        """The list beside a vault's journal, made if need be."""
        self._path = vault / STATE / NAME
        self._lock = threading.Lock()
        self._active: set[int] = set()
        """The changes that threads of this process are making."""
        self.was_lost = False
        """Whether there was a list that could not be read: then all files have to be looked at."""
        try:
            self._open()
        except (apsw.NotADBError, apsw.CorruptError):
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(f"{NAME}{suffix}").unlink(missing_ok=True)
            self._open()
            self.was_lost = True

    def _open(self) -> None:
        self._database = open_database(self._path)
        try:
            self._database.execute(_TABLE).fetchall()
            # Those of a process that had this one's number before, and ended: in a container numbers come again.
            self._database.execute("UPDATE change SET process = ? WHERE process = ?", (_MADE, os.getpid())).fetchall()
        except apsw.Error:
            self._database.close()  # what is open cannot be removed on Windows
            raise

    def close(self) -> None:
        """Close the list."""
        with self._lock:
            self._database.close()

    def begin(self, visible: Iterable[VisibleRecord]) -> int:
        """List a change that is about to be made; its number."""
        with self._lock:
            number = int(
                self._database.execute(
                    "INSERT INTO change (process, seen) VALUES (?, ?) RETURNING no", (os.getpid(), _encode(visible))
                ).get
            )
            self._active.add(number)
            return number

    def finish(self, number: int, visible: Iterable[VisibleRecord]) -> None:
        """Mark a change as made; also if another process took this one for dead and has struck it off."""
        with self._lock:
            self._active.discard(number)
            self._database.execute(
                "INSERT INTO change VALUES (?1, ?2, ?3) ON CONFLICT (no) DO UPDATE SET process = ?2",
                (number, _MADE, _encode(visible)),
            ).fetchall()

    def abandon(self, number: int) -> None:
        """Mark a change as made of which it is not known whether it was: the files then show what there is."""
        with self._lock:
            self._active.discard(number)
            self._database.execute("UPDATE change SET process = ? WHERE no = ?", (_MADE, number)).fetchall()

    def remove(self, numbers: Iterable[int]) -> None:
        """Strike changes off the list: the files have followed, or nothing was changed."""
        with self._lock:
            numbers = [*numbers]
            self._active.difference_update(numbers)
            self._database.execute(
                "DELETE FROM change WHERE no IN (SELECT value FROM json_each(?))", (json.dumps(numbers),)
            ).fetchall()

    def list_all(self) -> list[ListedChange]:
        """Return every change of the list, the first one first."""
        with self._lock:
            rows: list[Any] = self._database.execute("SELECT no, process, seen FROM change ORDER BY no").fetchall()
        return [ListedChange(number, process, _decode(seen)) for number, process, seen in rows]

    def is_over(self, change: ListedChange) -> bool:
        """Whether no one is making the change any more: it is made, or was cut off."""
        if change.process == os.getpid():
            return change.number not in self._active
        return change.process == _MADE or not is_running(change.process)


def _encode(visible: Iterable[VisibleRecord]) -> str:
    return json.dumps([(each.scope.names, each.kind, each.key) for each in visible])


def _decode(seen: str) -> list[VisibleRecord]:
    listed: Sequence[tuple[list[str], str | None, str]] = json.loads(seen)
    return [VisibleRecord(Scope(*names), Kind(kind) if kind else None, key) for names, kind, key in listed]
