"""Makes the files of agent-memory-store, as it makes them itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np

from cofio.embed.hashed import HashedEmbedder

SCHEMA = """
CREATE TABLE chunks (
  id TEXT PRIMARY KEY, topic TEXT NOT NULL, agent TEXT NOT NULL DEFAULT 'global', tags TEXT NOT NULL DEFAULT '[]',
  importance TEXT NOT NULL DEFAULT 'medium', content TEXT NOT NULL, embedding BLOB, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, expires_at TEXT
);
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE VIRTUAL TABLE chunks_fts USING fts5(
  id UNINDEXED, topic, tags, agent, content, content='chunks', content_rowid=rowid
);
"""
THEN = "2026-04-09T10:00:00.000Z"
Value = str | bytes | int | None


def vector(topic: str, content: str, tags: Sequence[str] = ()) -> bytes:
    """The embedding of a chunk, had it been made by the hashed embedder."""
    (made,) = HashedEmbedder().embed([f"{topic} {' '.join(tags)} {content[:800]}".strip()])
    return bytes(made.astype("<f4").tobytes())


class Peer:
    """A running agent-memory-store, as far as its files go."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = apsw.Connection(str(folder / "store.db"))
        self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
        if not self._connection.execute("SELECT 1 FROM sqlite_schema").get:
            self._connection.execute(SCHEMA)

    def write(
        self, topic: Value = "Topic", content: Value = "content", *, id: Value = "", tags: Sequence[str] = (),
        raw_tags: Value = "", agent: Value = "global", importance: Value = "medium", embedding: Value = None,
        created: Value = THEN, updated: Value = THEN, expires: Value = None,
    ) -> str:  # fmt: skip
        """Keep a chunk, in place of the one with its id; the id."""
        known = hashlib.sha1(f"{topic!r}{content!r}".encode()).hexdigest()[:10] if id == "" else id
        self._connection.execute(
            "INSERT OR REPLACE INTO chunks (id, topic, agent, tags, importance, content, embedding, created_at,"
            " updated_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                known, topic, agent, json.dumps(list(tags)) if raw_tags == "" else raw_tags, importance, content,
                embedding, created, updated, expires,
            ),
        )  # fmt: skip
        return str(known)

    def many(self, count: int, *, start: int = 0, embedded: bool = False) -> None:
        """Keep many chunks, in one transaction."""
        with self._connection:
            for number in range(start, start + count):
                topic, content = f"Topic {number}", f"what is known of t{number * 7919}"
                embedding = vector(topic, content) if embedded else None
                self.write(topic, content, id=f"{number:010x}", embedding=embedding)

    def set(self, key: Value, value: object, *, updated: Value = THEN, raw: Value = "") -> None:
        """Keep a state."""
        self._connection.execute(
            "INSERT OR REPLACE INTO state (key, value, updated_at) VALUES (?, ?, ?)",
            (key, json.dumps(value) if raw == "" else raw, updated),
        )

    def execute(self, sql: str) -> None:
        """Run any SQL."""
        self._connection.execute(sql).fetchall()

    def stop(self) -> None:
        """Close the database, which leaves no log."""
        self._connection.close()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder with its bytes; but for the shared memory of SQLite's locks, which readers use."""
    return {
        str(file.relative_to(folder)): b"" if file.name.endswith("-shm") else file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def turned(blob: bytes) -> bytes:
    """Another vector of the same length."""
    return np.roll(np.frombuffer(blob, "<f4"), 7).tobytes()
