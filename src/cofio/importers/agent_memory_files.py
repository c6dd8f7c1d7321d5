"""How the files of agent-memory-store are read: store.db, and the folders of its first versions.

Nothing is written to them, and no driver is loaded before there is something to read. A store.db that no program has
open is read without as much as a lock, so that no file appears beside it; one that is in use is read under locks, as of
one moment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..values.errors import Invalid, Unavailable

START = -(2**63)  # before every row
PAGE = 50  # rows that are read at a time
DIMENSIONS = 384
LONGEST_FILE = 8_000_000  # bytes; no chunk that could be kept is in a larger file
_CHUNK = ("id", "topic", "agent", "tags", "importance", "content", "created_at", "updated_at", "expires_at")
_STATE = ("key", "value", "updated_at")
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n(.*))?\Z", re.DOTALL | re.MULTILINE)

Raw: TypeAlias = str | bytes | None
"""A value as it was found: bytes from the database, which may be no text."""


class Position(NamedTuple):
    """Where an entry stands: in which of the four sources, and under what number or name in it."""

    source: int
    after: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk as it was found; nothing in it has been checked."""

    id: Raw
    topic: Raw
    agent: Raw
    tags: Raw | list[object]
    importance: Raw
    content: Raw
    created_at: Raw
    updated_at: Raw
    expires_at: Raw
    embedding: bytes | None = None
    fallback_time: datetime
    """The time to go by where it has none of its own: that of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """An entry of the session state as it was found, its value as JSON."""

    key: Raw
    value: Raw
    updated_at: Raw
    fallback_time: datetime


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is neither, and why."""

    name: str
    why: str


Entry: TypeAlias = Chunk | StateEntry | Unreadable


class AgentMemory:
    """The memory in a folder, or in a database that was named itself; close it after use."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            Invalid: the database is of some other program.
            Unavailable: it is damaged, locked, or may not be read.
        """
        self._folder = None if path.is_file() else path
        database = path if path.is_file() else path / "store.db"
        self.store = AgentMemoryDatabase(database) if database.exists() else None

    def close(self) -> None:
        """Close the database."""
        if self.store is not None:
            self.store.close()

    def count(self) -> int:
        """How many entries there are; 0 if damage keeps them from being counted."""
        try:
            rows = 0 if self.store is None else self.store.count("chunks") + self.store.count("state")
        except Unavailable:
            return 0
        return rows + sum(len(_list_files(self._folder, source)) for source in _LEGACY)

    def entries(self, start: Position, *, vectors: bool) -> Iterator[tuple[Position, Entry]]:
        """Each entry after `start`, in an order that stays; embeddings are read only if `vectors` are wanted."""
        if self.store is not None:
            for source, table in enumerate(("state", "chunks")):  # states first: agents ask for them first
                if source < start.source:
                    continue
                after = start.after if source == start.source and isinstance(start.after, int) else START
                for number, entry in self.store.entries(table, after, vectors=vectors):
                    yield Position(source, number), entry
        for source in _LEGACY:
            for file in _list_files(self._folder, source):
                position = Position(source, file.name)
                if source > start.source or (source == start.source and file.name > str(start.after)):
                    yield position, _read_legacy(file)


class AgentMemoryDatabase:
    """The database, opened so that it stays as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # beside the file itself stands its log, not beside a link to it
        self._open()

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def count(self, table: str) -> int:
        """How many rows a table has; one that is missing has none."""
        with _translate_errors(self.path):
            there = table in self._columns
            return int(self._connection.execute(f"SELECT count(*) FROM {table}").get) if there else 0

    def entries(self, table: str, after: int, *, vectors: bool) -> Iterator[tuple[int, Chunk | StateEntry]]:
        """The rows of a table after that number, a few at a time."""
        while rows := self._read_page(table, after, vectors):
            for row in rows:
                yield row[0], self._build_entry(table, row)
            after = rows[-1][0]

    def sample_chunks(self, count: int) -> list[Chunk]:
        """Some chunks that have an embedding, from all over the table."""
        with _translate_errors(self.path):
            if "embedding" not in self._columns.get("chunks", ()):
                return []
            last = int(self._connection.execute("SELECT ifnull(max(rowid), 0) FROM chunks").get)
            found: dict[int, Chunk] = {}
            for part in range(count):
                where = f"rowid > {last * part // count} AND {_HAS_VECTOR}"
                for row in self._read_rows("chunks", where, limit=1, vectors=True):
                    found[row[0]] = self._build_entry("chunks", row)  # type: ignore[assignment]  # of chunks
        return list(found.values())

    def _build_entry(self, table: str, row: Sequence[Any]) -> Chunk | StateEntry:
        if table == "chunks":
            return Chunk(
                **dict(zip(_CHUNK, row[1:-1], strict=True)), embedding=row[-1], fallback_time=self._changed
            )  # fmt: skip
        return StateEntry(**dict(zip(_STATE, row[1:], strict=True)), fallback_time=self._changed)

    def _read_page(self, table: str, after: int, vectors: bool) -> list[Any]:
        """Read the next rows; none of them was changed meanwhile."""
        if table not in self._columns:
            return []
        import apsw

        with _translate_errors(self.path):
            try:
                rows = self._read_rows(table, f"rowid > {after}", limit=PAGE, vectors=vectors)
            except apsw.Error:
                if not self._is_disturbed():
                    raise
            else:
                if not self._is_disturbed():
                    return rows
        # Someone has opened it since, who may write at any moment: from here on under locks.
        self.close()
        self._open()
        return self._read_page(table, after, vectors)

    def _read_rows(self, table: str, where: str, *, limit: int, vectors: bool) -> list[Any]:
        there = self._columns[table]
        # As bytes: one text that is not UTF-8 would otherwise end the whole read.
        names = _CHUNK if table == "chunks" else _STATE
        columns = [f"CAST({name} AS BLOB)" if name in there else "NULL" for name in names]
        if table == "chunks":
            columns.append(f"iif({_HAS_VECTOR}, embedding, NULL)" if vectors and "embedding" in there else "NULL")
        sql = f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE {where} ORDER BY rowid LIMIT {limit}"
        return self._connection.execute(sql).fetchall()

    def _open(self) -> None:
        import apsw

        with _translate_errors(self.path):
            self._unlocked = not self._in_use()
            self._before = self._read_signature()
            self._changed = datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
            uri = f"{self.path.as_uri()}?{'immutable=1' if self._unlocked else 'mode=ro'}"
            self._connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            try:
                self._connection.set_busy_timeout(10_000)
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.execute("PRAGMA trusted_schema = OFF; BEGIN").fetchall()
                self._columns = {
                    table: [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]
                    for (table,) in self._connection.execute(
                        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('chunks', 'state')"
                    )
                }
            except BaseException:
                self._connection.close()
                raise
        if not {"id", "topic", "content"} <= set(self._columns.get("chunks", ())):
            self._connection.close()
            raise Invalid("path", f"{self.path} is not of agent-memory-store; name the folder that holds its store.db")

    def _in_use(self) -> bool:
        """Whether a program has it open, or left it without closing it."""
        return any(self.path.with_name(self.path.name + end).exists() for end in ("-wal", "-journal"))

    def _read_signature(self) -> tuple[int, int, int]:
        now = self.path.stat()
        return now.st_ino, now.st_size, now.st_mtime_ns

    def _is_disturbed(self) -> bool:
        return self._unlocked and (self._in_use() or self._read_signature() != self._before)


_HAS_VECTOR = f"typeof(embedding) = 'blob' AND length(embedding) = {4 * DIMENSIONS}"
_LEGACY = {2: ("chunks", ".md"), 3: ("state", ".json")}


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn the database's errors into ours, with a sentence on what would help."""
    import apsw

    try:
        yield
    except apsw.NotADBError as error:
        raise Invalid("path", f"{path} is no database; name the folder that holds the store.db") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Unavailable(f"another program has locked {path}; stop it and try again") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, PermissionError) as error:
        raise Unavailable(f"{path} cannot be opened ({error}); copy its folder and import the copy") from error
    except apsw.Error as error:
        raise Unavailable(
            f"{path} is damaged ({error}); what was read before is in; for the rest, mend a copy of it"
            " with `sqlite3 store.db .recover` and import that"
        ) from error


def _list_files(folder: Path | None, source: int) -> list[Path]:
    """The files of a folder of the first versions, by name."""
    name, suffix = _LEGACY[source]
    if folder is None or not (folder / name).is_dir():
        return []
    return sorted(file for file in (folder / name).iterdir() if file.suffix == suffix and file.is_file())


def _read_legacy(file: Path) -> Entry:
    """What a file of the first versions holds."""
    name = f"{file.parent.name}/{file.name}"
    try:
        about = file.stat()
        if about.st_size > LONGEST_FILE:
            return Unreadable(name, f"is longer than {LONGEST_FILE:,} bytes")
        written = file.read_bytes().decode()
    except UnicodeDecodeError:
        return Unreadable(name, "is not UTF-8 text")
    except OSError as error:
        return Unreadable(name, f"cannot be read: {error.strerror}")
    changed = datetime.fromtimestamp(about.st_mtime, UTC)
    try:
        return _parse_markdown(file.stem, written, changed) if file.suffix == ".md" else _parse_json(written, changed)
    except Invalid as error:
        return Unreadable(name, error.problem)


def _parse_markdown(stem: str, written: str, changed: datetime) -> Chunk:
    import yaml

    front = _FRONT.match(written)
    fields: object = {}
    if front is not None:
        try:
            # Every value as the text that it is: a topic of 12:30 is no number, and no id loses its zeros.
            fields = yaml.load(front[1], Loader=yaml.BaseLoader) or {}  # noqa: S506  # makes texts, lists and dicts only
        except (yaml.YAMLError, RecursionError) as error:
            raise Invalid("file", f"its front matter is not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(fields, dict):
        raise Invalid("file", "its front matter has no names")
    tags = fields.get("tags")
    return Chunk(
        id=_get_text(fields, "id") or stem,
        topic=_get_text(fields, "topic") or "Untitled",
        agent=_get_text(fields, "agent") or "global",
        tags=tags if isinstance(tags, list) else _get_text(fields, "tags"),
        importance=_get_text(fields, "importance") or "medium",
        content=(written if front is None else front[2] or "").strip(),
        created_at=_get_text(fields, "updated"),
        updated_at=_get_text(fields, "updated"),
        expires_at=_get_text(fields, "expires"),
        fallback_time=changed,
    )


def _get_text(fields: dict[object, object], name: str) -> str | None:
    """A value that is a text, and not YAML's word for none."""
    value = fields.get(name)
    return value if isinstance(value, str) and value not in ("", "~", "null", "Null", "NULL") else None


def _parse_json(written: str, changed: datetime) -> StateEntry:
    try:
        read: object = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise Invalid("file", f"is not JSON ({error})") from None
    if not isinstance(read, dict) or not isinstance(read.get("key"), str) or "value" not in read:
        raise Invalid("file", 'is not JSON with a "key" and a "value"')
    updated = read.get("updated")
    return StateEntry(
        key=read["key"],
        value=json.dumps(read["value"]),
        updated_at=updated if isinstance(updated, str) else None,
        fallback_time=changed,
    )
