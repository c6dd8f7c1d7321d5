"""OpenCode's transcripts: rows of a SQLite database that all sessions share (as of 1.18).

A session has its folder and, if another has started it, a parent; a message has its role, and parts: texts, and tools
with their state. It is read without writing to it, while OpenCode may be at work on it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ...values.records import Json
from .line_reader import Position
from .transcript_messages import (
    SEVERAL_BREAKS,
    Fields,
    Origin,
    ReadCounts,
    TranscriptCall,
    TranscriptMessage,
    cut_middle,
    get_fields,
    get_text,
    parse_time,
)

_WAIT = 2.0  # seconds for another's lock
_FINAL = frozenset(("completed", "error"))
_PASSED = frozenset(
    {"reasoning", "step-start", "step-finish", "snapshot", "patch", "file", "agent", "retry", "compaction", "subtask"}
)
_LONGEST = 16 << 20  # characters of a row


def find_database() -> Path:
    """The database of all sessions."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(os.environ.get("OPENCODE_DATA_DIR") or Path(home, "opencode")) / "opencode.db"


def list_sessions(database: Path) -> list[tuple[str, int, int]]:
    """Each session's id, when it last changed, and how many characters its messages have.

    Raises:
        OSError: the database cannot be read, or is none of OpenCode's.
    """
    with closing(_open(database)) as rows:
        found = _query(
            rows,
            "SELECT session.id, session.time_updated, coalesce(sum(length(part.data)), 0) FROM session"
            " LEFT JOIN part ON part.session_id = session.id GROUP BY session.id ORDER BY session.time_created",
        )
    return [(str(each[0]), _to_int(each[1]), _to_int(each[2])) for each in found]


@dataclass(slots=True, kw_only=True)
class OpenCodeReading:
    """The messages of a session that has changed since it was last read; those that were read before come again."""

    database: Path
    session: str
    position: Position
    counts: ReadCounts = field(default_factory=ReadCounts)

    def read_chunks(self) -> Iterator[list[TranscriptMessage]]:
        """All messages at once, if there may be new ones.

        Raises:
            OSError: the database cannot be read.
        """
        with closing(_open(self.database)) as rows:
            about = _query(rows, "SELECT directory, parent_id, time_updated FROM session WHERE id = ?", self.session)
            newest = _query(
                rows,
                "SELECT max(time_updated), count(*) FROM part WHERE session_id = ?1"
                " UNION ALL SELECT max(time_updated), count(*) FROM message WHERE session_id = ?1",
                self.session,
            )
            mark = "-".join(str(value) for row in newest for value in row)
            if not about or mark == self.position.mark:
                return
            messages = _query(
                rows, "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", self.session
            )
            parts: dict[str, list[tuple[str, Fields]]] = {}
            for row in _query(
                rows,
                "SELECT message_id, id, data FROM part WHERE session_id = ? AND length(data) < ? ORDER BY id",
                self.session,
                _LONGEST,
            ):
                parts.setdefault(str(row[0]), []).append((str(row[1]), self._parse(row[2])))
        folder, parent, changed = about[0]
        origin = Origin(session=self.session, cwd=str(folder), is_sidechain=bool(parent))
        found: list[TranscriptMessage] = []
        for identity, data in messages:
            found += self._read_message(str(identity), self._parse(data), parts.get(str(identity), []), origin)
        self.position = Position(offset=_to_int(changed), mark=mark)
        yield found

    def _parse(self, data: object) -> Fields:
        self.counts.records += 1
        try:
            read = json.loads(data) if isinstance(data, str) else None
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            self.counts.unreadable += 1
            return {}
        return cast("dict[str, Json]", read)

    def _read_message(
        self, identity: str, data: Fields, parts: list[tuple[str, Fields]], origin: Origin
    ) -> Iterator[TranscriptMessage]:
        role, time = get_text(data, "role"), get_fields(data, "time")
        if role not in ("user", "assistant") or data.get("summary") is True:
            return
        if role == "assistant" and "completed" not in time and "error" not in data:
            return  # it is being written
        at = parse_time(time.get("created"))
        texts = [
            get_text(part, "text")
            for _, part in parts
            if part.get("type") == "text" and part.get("synthetic") is not True and part.get("ignored") is not True
        ]
        if text := SEVERAL_BREAKS.join(each for each in texts if each.strip()):
            yield TranscriptMessage(
                id=identity, role="user" if role == "user" else "assistant", text=text, at=at, origin=origin
            )
        for name, part in parts:
            kind, state = get_text(part, "type"), get_fields(part, "state")
            if kind == "tool" and get_text(state, "status") in _FINAL:
                call = get_text(part, "callID") or name
                when = parse_time(get_fields(state, "time").get("start")) or at
                asked = TranscriptCall(id=call, name=get_text(part, "tool") or "tool", arguments=state.get("input"))
                yield TranscriptMessage(id=f"{name}-c", role="assistant", calls=(asked,), at=when, origin=origin)
                result = get_text(state, "output") or get_text(state, "error")
                code = get_fields(state, "metadata").get("exit")
                yield TranscriptMessage(
                    id=f"{name}-r", role="tool", text=cut_middle(result), answers=call, at=when,
                    has_failed=get_text(state, "status") == "error" or (isinstance(code, int) and code != 0),
                    origin=origin,
                )  # fmt: skip
            elif kind not in _PASSED and kind not in ("text", "tool"):
                self.counts.unknown_types[kind or "no type"] += 1


def _open(database: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT)
    except (sqlite3.Error, ValueError) as error:
        raise OSError(f"{database} cannot be read: {error}") from error


def _query(rows: sqlite3.Connection, statement: str, *values: object) -> list[tuple[object, ...]]:
    try:
        return rows.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"this is no database of OpenCode's that is known: {error}") from error


def _to_int(value: object) -> int:
    return value if isinstance(value, int) else 0
