"""What the vault knows of itself: the hash of each entry as it was last written, and which writes are under way.

It is derived, and can be thrown away: what the files say then counts as written by us where it is what we would write,
and as a person's version of it, to be kept beside, where it is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from ..conversations.mirror import VisibleRecord
from ..system.processes import read_boot_id
from ..values.records import Kind, Scope
from .layout import STATE
from .writer import Stamp

VERSION = "2"  # of what is rendered and known: another is looked through once
OPEN_TRIES = 100
PATIENCE = 30_000  # milliseconds that another process may hold the vault
JournalError = apsw.Error
"""What its database raises when it cannot be used."""
UNKNOWN = Stamp(0, 0, 0)
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS file (
    no INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, inode INT NOT NULL, changed INT NOT NULL, size INT NOT NULL,
    entries INT NOT NULL, latest INT NOT NULL, forced INT NOT NULL
);
CREATE TABLE IF NOT EXISTS entry (
    file INT NOT NULL, id TEXT NOT NULL, hash BLOB NOT NULL, at INT NOT NULL, PRIMARY KEY (file, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending (no INTEGER PRIMARY KEY, process INT NOT NULL, seen TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS folder (home TEXT PRIMARY KEY, path TEXT NOT NULL, folded TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS folder_folded ON folder (folded);
CREATE TABLE IF NOT EXISTS fault (path TEXT PRIMARY KEY, said TEXT NOT NULL) WITHOUT ROWID;
"""
_FILE = "SELECT no, inode, changed, size, entries, latest FROM file WHERE path = ?"
_LEFT = (
    "INSERT INTO file (no, path, inode, changed, size, entries, latest, forced) VALUES (?, ?, ?, ?, ?, ?, ?, 0)"
    " ON CONFLICT (no) DO UPDATE SET inode = excluded.inode, changed = excluded.changed, size = excluded.size,"
    " entries = excluded.entries, latest = excluded.latest, forced = 0"
)


class WrittenEntry(NamedTuple):
    """An entry as it was last written: its hash, and the time that it tells, in milliseconds."""

    hash: bytes
    at: int


class Extent(NamedTuple):
    """How many entries a file has, and the latest time that they tell."""

    entries: int
    latest: int


NOTHING = Extent(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """What is known of a file: how we left it, what it holds, and the entries that were asked for."""

    path: str
    row: int | None = None
    stamp: Stamp | None = None
    extent: Extent = NOTHING
    entries: Mapping[str, WrittenEntry] = field(default_factory=dict)


def open_database(path: Path) -> apsw.Connection:
    """Open a database of the vault's own, made if need be, whose readers do not wait for a writer."""
    for attempt in range(OPEN_TRIES):
        database = apsw.Connection(str(path))
        database.set_busy_timeout(PATIENCE)
        try:
            database.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = normal").fetchall()
        except apsw.BusyError:  # another process opens it for the first time, too: SQLite does not wait for that
            database.close()
            if attempt == OPEN_TRIES - 1:
                raise
            time.sleep(0.05)
        except apsw.Error:
            database.close()
            raise
        else:
            os.chmod(path, 0o600)
            return database
    raise AssertionError("unreachable")


class Journal:
    """What a vault knows of its files, shared by the processes that write it. Its lock is the lock of the vault."""

    def __init__(self, vault: Path) -> None:
        folder = vault / STATE
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError), (folder / ".gitignore").open("xb") as file:
            file.write(b"*\n")
        self._path = folder / "state.db"
        self._lock = threading.RLock()
        try:
            self._open()
        except (apsw.NotADBError, apsw.CorruptError):
            for name in ("state.db", "state.db-wal", "state.db-shm"):
                (folder / name).unlink(missing_ok=True)
            self._open()

    def _open(self) -> None:
        self._database = open_database(self._path)
        try:
            with self.lock():
                self._database.execute(_TABLES)
                self._forget_lost_files()
        except apsw.Error:
            self._database.close()  # what is open cannot be removed on Windows
            raise

    def _forget_lost_files(self) -> None:
        """After a power cut, a file may be older than what is known of it: then that is no longer known."""
        boot = read_boot_id()
        if not boot or self.get_about("boot") != boot:  # where the system does not tell, there may have been one
            self._database.execute("DELETE FROM entry WHERE file IN (SELECT no FROM file WHERE NOT forced)")
            self._database.execute("DELETE FROM file WHERE NOT forced")
            self.set_about(boot=boot, complete="")
        if self.get_about("version") != VERSION:
            self.set_about(version=VERSION, complete="")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the vault: no other thread or process writes it meanwhile. What is stored within is one transaction."""
        with self._lock:
            if self._database.in_transaction:
                yield
                return
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    # Entries and files.

    def read_file(self, path: str, ids: Sequence[str] | None = None) -> JournalFile:
        """What is known of a file, with all of its entries or some of them."""
        found = self._fetch_all(_FILE, [path])
        if not found:
            return JournalFile(path=path)
        row, inode, changed, size, entries, latest = found[0]
        query, values = "SELECT id, hash, at FROM entry WHERE file = ?", [row]
        if ids is not None and len(ids) <= 100:
            query += f" AND id IN ({', '.join('?' * len(ids))})"
            values += ids
        written = {each: WrittenEntry(*rest) for each, *rest in self._fetch_all(query, values)}
        return JournalFile(
            path=path, row=row, stamp=Stamp(inode, changed, size), extent=Extent(entries, latest), entries=written
        )

    def store_file(
        self, file: JournalFile, written: Mapping[str, WrittenEntry | None], stamp: Stamp, extent: Extent | None = None
    ) -> None:
        """Take down a file as we left it: its entries that were written, None for those that are not there any more."""
        row = file.row
        if row is None:
            ((row,),) = self._fetch_all("SELECT ifnull(max(no), 0) + 1 FROM file", [])
        present = [(row, each, *entry) for each, entry in written.items() if entry is not None]
        removed = [(row, each) for each, entry in written.items() if entry is None and each in file.entries]
        if present:
            self._run_many("REPLACE INTO entry VALUES (?, ?, ?, ?)", present)
        if removed:
            self._run_many("DELETE FROM entry WHERE file = ? AND id = ?", removed)
        if extent is None:
            counts = "SELECT count(*), ifnull(max(at), 0) FROM entry WHERE file = ?"
            extent = Extent(*self._fetch_all(counts, [row])[0])
        self._run(_LEFT, (row, file.path, *stamp, *extent))

    def drop(self, file: JournalFile) -> None:
        """Know nothing of a file any more."""
        if file.row is not None:
            self._run("DELETE FROM entry WHERE file = ?", (file.row,))
            self._run("DELETE FROM file WHERE no = ?", (file.row,))

    def move(self, old: str, new: str) -> None:
        """A file has another path."""
        self._run("UPDATE file SET path = ? WHERE path = ?", (new, old))

    def count_entries(self, prefix: str = "") -> int:
        """How many entries there are under a path."""
        ((count,),) = self._fetch_all(
            "SELECT ifnull(sum(entries), 0) FROM file WHERE path >= ? AND path < ?", _make_range(prefix)
        )
        return int(count)

    def list_files(self, prefix: str = "") -> dict[str, Stamp]:
        """The files under a path that have entries, each as we left it."""
        found = self._fetch_all(
            "SELECT path, inode, changed, size FROM file WHERE path >= ? AND path < ?", _make_range(prefix)
        )
        return {path: Stamp(*stamp) for path, *stamp in found}

    def list_unforced(self) -> dict[str, Stamp]:
        """The files that a power cut could still take."""
        found = self._fetch_all("SELECT path, inode, changed, size FROM file WHERE NOT forced", [])
        return {path: Stamp(*stamp) for path, *stamp in found}

    def mark_forced(self, path: str, stamp: Stamp) -> None:
        """The disk holds a file as it was left."""
        self._run(
            "UPDATE file SET forced = 1 WHERE path = ? AND inode = ? AND changed = ? AND size = ?", (path, *stamp)
        )

    def list_entries(self) -> Iterator[tuple[str, str]]:
        """Every entry that is known, as its file's path and its id."""
        yield from self._fetch_all("SELECT path, id FROM entry JOIN file ON file.no = entry.file", [])

    def forget(self) -> None:
        """Know nothing of any file."""
        self._run("DELETE FROM entry")
        self._run("DELETE FROM file")
        self._run("DELETE FROM fault")
        self.set_about(complete="")

    # The names of folders.

    def find_folder(self, home: str) -> str | None:
        """The path of an owner's folder; None when it has none yet."""
        found = self._fetch_all("SELECT path FROM folder WHERE home = ?", [home])
        return str(found[0][0]) if found else None

    def is_free(self, path: str) -> bool:
        """Whether no folder has this path, nor one that differs from it in capitals alone."""
        return not self._fetch_all("SELECT 1 FROM folder WHERE folded = ? LIMIT 1", [path.casefold()])

    def register(self, home: str, path: str) -> None:
        """Keep the path of an owner's folder, which it has from now on."""
        self._run("INSERT OR IGNORE INTO folder VALUES (?, ?, ?)", (home, path, path.casefold()))

    def unregister(self, home: str) -> None:
        """Forget the folders of an app, a project or an owner, and of all under it."""
        self._run("DELETE FROM folder WHERE home = ? OR (home >= ? AND home < ?)", (home, f"{home}\0", f"{home}\1"))

    # What is under way, and what went wrong.

    @property
    def turn(self) -> int:
        """How often any process has followed the database."""
        return int(self.get_about("turn") or 0)

    def count_turn(self) -> None:
        """Count that once more."""
        self._run("INSERT INTO about VALUES ('turn', '1') ON CONFLICT (name) DO UPDATE SET value = value + 1")

    def begin(self, visible: Iterable[VisibleRecord]) -> int:
        """Take down what is about to change; the number that ends it."""
        payload = json.dumps([(each.scope.names, each.kind, each.key) for each in visible])
        ((number,),) = self._fetch_all(
            "INSERT INTO pending (process, seen) VALUES (?, ?) RETURNING no", (os.getpid(), payload)
        )
        return int(number)

    def end(self, number: int) -> None:
        """What was under way is done."""
        self._run("DELETE FROM pending WHERE no = ?", (number,))

    def list_pending(self) -> list[tuple[int, int, list[VisibleRecord]]]:
        """What is under way, or was when a process ended: its number, the process, and what of it can be seen."""
        rows = self._fetch_all("SELECT no, process, seen FROM pending ORDER BY no", [])
        return [
            (
                row,
                process,
                [VisibleRecord(Scope(*names), kind and Kind(kind), key) for names, kind, key in json.loads(visible)],
            )
            for row, process, visible in rows
        ]

    def set_fault(self, path: str, problem: str = "") -> None:
        """Keep why a file could not be written, or that it could."""
        if problem:
            self._run("REPLACE INTO fault VALUES (?, ?)", (path, problem))
        else:
            self._run("DELETE FROM fault WHERE path = ?", (path,))

    def list_faults(self) -> dict[str, str]:
        """Why files could not be written."""
        return dict(self._fetch_all("SELECT path, said FROM fault", []))

    def get_about(self, name: str) -> str:
        """Something about the vault as a whole; empty when nothing is known."""
        found = self._fetch_all("SELECT value FROM about WHERE name = ?", [name])
        return str(found[0][0]) if found else ""

    def read_about(self) -> dict[str, str]:
        """All that is known about the vault as a whole, as of one moment."""
        return dict(self._fetch_all("SELECT name, value FROM about", []))

    def set_about(self, **values: str) -> None:
        """Keep something about the vault as a whole."""
        for name, value in values.items():
            self._run("REPLACE INTO about VALUES (?, ?)", (name, value))

    def _fetch_all(self, query: str, values: Sequence[apsw.SQLiteValue]) -> list[Any]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def _run(self, query: str, values: Sequence[apsw.SQLiteValue] = ()) -> None:
        with self._lock:
            self._database.execute(query, values)

    def _run_many(self, query: str, rows: Sequence[Sequence[apsw.SQLiteValue]]) -> None:
        with self._lock:
            self._database.executemany(query, rows)


def digest(text: str) -> bytes:
    """The hash that an entry is known by."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def _make_range(prefix: str) -> tuple[str, str]:
    """The paths under a folder, as a range of texts; no name begins with the last character there is."""
    return (f"{prefix}/", f"{prefix}0") if prefix else ("", "\U0010ffff")
