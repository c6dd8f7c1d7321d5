"""What cofio is measured beside, in the same run: the physical floor, FTS5 as agent-memory-store queries it, numpy."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from cofio import Draft


class RawDisk:
    """The floor of any durable write: 4 KiB appended to a file, and fdatasync."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "raw", os.O_RDWR | os.O_CREAT)
        self._page = os.urandom(4096)
        self._at = 0

    def write(self) -> None:
        """One durable write."""
        os.pwrite(self._file, self._page, self._at)
        os.fdatasync(self._file)
        self._at += len(self._page)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Fts5:
    """agent-memory-store's keyword search: its tables, its query (`tok OR tok`, bm25, join, limit)."""

    def __init__(self, folder: Path, records: Sequence[Draft]) -> None:
        self._db = apsw.Connection(str(folder / "fts5.db"))
        self._db.execute(
            "PRAGMA journal_mode = WAL;"
            "CREATE TABLE chunks (id TEXT PRIMARY KEY, topic TEXT, agent TEXT, tags TEXT, content TEXT);"
            "CREATE VIRTUAL TABLE chunks_fts USING fts5"
            " (id UNINDEXED, topic, tags, agent, content, content = 'chunks', content_rowid = 'rowid')"
        ).fetchall()
        with self._db:
            self._db.executemany(
                "INSERT INTO chunks (id, topic, agent, tags, content) VALUES (?, ?, ?, ?, ?)",
                ((str(n), d.title, d.author, " ".join(d.tags), d.text) for n, d in enumerate(records)),
            )
            self._db.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")

    def search(self, question: str, limit: int) -> list[tuple[Any, ...]]:
        """The best chunks for a question."""
        tokens = [token for token in re.sub(r'[*^:(){}\[\]"]', " ", question).split() if len(token) >= 2]
        return list(
            self._db.execute(
                "SELECT c.*, bm25(chunks_fts) AS score FROM chunks_fts f JOIN chunks c ON c.rowid = f.rowid"
                " WHERE chunks_fts MATCH ? ORDER BY score LIMIT ?",
                (" OR ".join(f'"{token}"' for token in tokens), limit),
            )
        )

    def rank(self, question: str, limit: int) -> list[tuple[int, float]]:
        """The numbers of the best records for a question, each with its score: the more the better."""
        return [(int(row[0]), -float(row[-1])) for row in self.search(question, limit)]

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()


class BruteForce:
    """Exact cosine over every vector, with numpy."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def nearest(self, vector: NDArray[np.float32], limit: int) -> list[int]:
        """The rows of the nearest vectors, best first."""
        scores = self._vectors @ vector
        best = np.argpartition(-scores, limit)[:limit]
        return [int(row) for row in best[np.argsort(-scores[best])]]
