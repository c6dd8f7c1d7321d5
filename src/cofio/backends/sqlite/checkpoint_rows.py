"""Checkpoints as rows: threads, the chains that their states are kept in, and what is pending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import apsw

from ..checkpoint_interface import CheckpointRow, Link, NewCheckpoint, PendingWrite, StoredCheckpoint, ThreadKey
from ..store_time import SLACK
from .database import correct_time, fetch, read_generation

_ROW = "checkpoint.no, space, name, ns, id, parent, created_at, expires_at, metadata, base, length(body)"
_FROM = "FROM checkpoint CROSS JOIN thread ON thread.no = checkpoint.thread"
_ALIVE = "(expires_at IS NULL OR expires_at > ?1)"  # ?1 is the store's time
_IN_THREAD = (
    "SELECT thread, no, id, parent, created_at, expires_at, metadata, base, length(body) FROM checkpoint"
    " WHERE thread = (SELECT no FROM thread WHERE space = ?2 AND name = ?3 AND ns = ?4)"
    f" AND {_ALIVE}"
)
_FIND = f"{_IN_THREAD} AND id = ?5"
_FIND_HIGHEST = f"{_IN_THREAD} ORDER BY id DESC LIMIT 1"
_FIND_NEWEST = f"{_IN_THREAD} ORDER BY no DESC LIMIT 1"
_LINK = "checkpoint.no, id, base, depth, place, metadata, body"
_ONE_LINK = f"SELECT {_LINK} FROM checkpoint WHERE no = ?"
_CHAIN = (
    f"WITH RECURSIVE chain AS (SELECT {_LINK} FROM checkpoint WHERE no = ?"
    " UNION ALL SELECT c.no, c.id, c.base, c.depth, c.place, c.metadata, c.body"
    " FROM chain CROSS JOIN checkpoint AS c ON c.no = chain.base) SELECT * FROM chain"
)
_FOR_SAVE = (
    "SELECT no, (SELECT no FROM checkpoint WHERE thread = thread_.no AND id = ?),"
    " (SELECT thread = thread_.no FROM checkpoint WHERE no = ?)"
    " FROM thread AS thread_ WHERE space = ? AND name = ? AND ns = ?"
)
_NEXT_ROW = "1 + max((SELECT no FROM checkpoint_gone), ifnull((SELECT max(no) FROM checkpoint), 0))"
_COLUMNS = "no, thread, id, parent, base, depth, place, created_at, expires_at, metadata, body"
_VALUES = f"INSERT INTO checkpoint ({_COLUMNS}) VALUES ({{}}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT, _LOAD = _VALUES.format(_NEXT_ROW), _VALUES.format("?")
_APPEND = (
    f"INSERT INTO checkpoint ({_COLUMNS})"
    f" SELECT {_NEXT_ROW}, thread_.no, ?4, ?5, ?6, ?7, ?8, ?9, NULL, ?10, ?11 FROM thread AS thread_"
    " WHERE space = ?1 AND name = ?2 AND ns = ?3"
    " AND (?6 IS NULL OR (SELECT thread = thread_.no FROM checkpoint WHERE no = ?6))"
    " ON CONFLICT DO NOTHING"
)
_ORDER = attrgetter("path", "task", "at")
_PENDING = "task, at, path, channel, type, value"
AT_ONCE = 500  # values bound to one statement
MERGED_PAGES = 500  # of the words' pages that are rewritten in one transaction
_TOMBSTONE = 1 << 53  # FTS5 keeps what says that a row was deleted at ids from here on, in checkpoint_word_data


class SqliteCheckpoints:
    """The checkpoints within the transaction that is open on a connection."""

    def __init__(self, connection: apsw.Connection, now: int) -> None:
        """`now` is the store's time."""
        self._connection = connection
        self._now = now
        self._threads: dict[ThreadKey, int] = {}

    # Reading.

    @property
    def generation(self) -> int:
        """Another number after the database was put back."""
        return read_generation(self._connection)

    def find(self, thread: ThreadKey, id: str | None, *, by_id: bool = False) -> CheckpointRow | None:
        """The checkpoint with this id, the newest, or the one of the highest id."""
        if id is not None:
            found = self._connection.execute(_FIND, (self._now, *thread, id)).fetchone()
        else:
            found = self._connection.execute(_FIND_HIGHEST if by_id else _FIND_NEWEST, (self._now, *thread)).fetchone()
        if found is None:
            return None
        self._threads[thread], row, *rest = found
        return CheckpointRow(row, *thread, *rest)

    def find_for_save(self, thread: ThreadKey, id: str, base: int | None) -> tuple[int | None, bool]:
        """What a save has to know, in one statement."""
        row = self._connection.execute(_FOR_SAVE, (id, base, *thread)).fetchone()
        if row is None:
            return None, False
        self._threads[thread] = row[0]
        return row[1], bool(row[2])

    def list_rows(
        self,
        space: str | None = None,
        name: str | None = None,
        ns: str | None = None,
        *,
        by_id: bool = False,
        before: str | None = None,
        upto: str | None = None,
        newest: bool = True,
        expired: bool = False,
        expired_by: int | None = None,
    ) -> Iterator[CheckpointRow]:
        """Checkpoints in the order of their saves or by their ids."""
        thread = None
        if space is not None and name is not None and ns is not None:
            thread = self._find_thread(ThreadKey(space, name, ns))
            if thread is None:
                return
        tests = ["?1"] if expired or expired_by is not None else [_ALIVE]
        values: list[Any] = [self._now]
        asked = (("space =", space), ("name =", name), ("ns =", ns)) if thread is None else (("thread =", thread),)
        for column, value in (*asked, ("id <", before), ("id <=", upto), ("expires_at <=", expired_by)):
            if value is not None:
                values.append(value)
                tests.append(f"{column} ?{len(values)}")
        way = "DESC" if newest else "ASC"
        order = f"id {way}, checkpoint.no {way}" if by_id else f"checkpoint.no {way}"
        if thread is not None and by_id:
            order = f"id {way}"  # as the index has them: no two of a thread have the same
        if expired_by is not None:
            order = "expires_at"  # by their own index: most never expire
        # From the thread's side when it is named, else from the checkpoints', which are in order already.
        by_name = name is not None and thread is None
        source = "FROM thread CROSS JOIN checkpoint ON checkpoint.thread = thread.no" if by_name else _FROM
        sql = f"SELECT {_ROW} {source} WHERE {' AND '.join(tests)} ORDER BY {order}"
        for row in self._connection.execute(sql, values):
            yield CheckpointRow._make(row)

    def threads(self, space: str) -> Iterator[ThreadKey]:
        """Each thread and part that has checkpoints, the one saved to last first."""
        newest = f"(SELECT max(c.no) FROM checkpoint AS c WHERE c.thread = thread.no AND {_ALIVE})"
        sql = (
            f"SELECT name, ns, {newest} AS newest FROM thread WHERE space = ?2 AND newest NOTNULL ORDER BY newest DESC"
        )
        for name, ns, _ in self._connection.execute(sql, (self._now, space)):
            yield ThreadKey(space, name, ns)

    def link(self, row: int) -> Link | None:
        """A checkpoint as part of a chain."""
        found = self._connection.execute(_ONE_LINK, (row,)).fetchone()
        return None if found is None else Link._make(found)

    def chain(self, row: int) -> list[Link]:
        """A checkpoint and all that it is made of, itself first and the whole state last."""
        return [Link._make(each) for each in self._connection.execute(_CHAIN, (row,))]

    def children(self, thread: ThreadKey, rows: Sequence[int]) -> list[Link]:
        """The checkpoints of the thread whose bodies are changes of these."""
        wanted = set(rows)
        sql = "SELECT no, base FROM checkpoint WHERE thread = ? AND base NOTNULL ORDER BY no"
        children = [row for row, base in fetch(self._connection, sql, (self._find_thread(thread),)) if base in wanted]
        return [Link._make(self._connection.execute(_ONE_LINK, (row,)).get) for row in children]

    def list_pending(self, thread: ThreadKey, id: str) -> list[PendingWrite]:
        """What was written after a checkpoint, in the order of the tasks' paths, the tasks, and their writes."""
        sql = f"SELECT {_PENDING} FROM pending WHERE thread = ? AND id = ?"
        rows = fetch(self._connection, sql, (self._find_thread(thread), id))
        # Few or none: sorted here in a fraction of the time that SQLite takes to make ready for it.
        return sorted(map(PendingWrite._make, rows), key=_ORDER) if rows else []

    # Changing.

    def append(self, thread: ThreadKey, new: NewCheckpoint) -> CheckpointRow | None:
        """Add a checkpoint in one statement."""
        if new.ttl is not None:
            return None
        name, parent, base, depth, position, _, metadata, body = new
        self._connection.execute(_APPEND, (*thread, name, parent, base, depth, position, self._now, metadata, body))
        if not self._connection.changes():
            return None
        row = self._connection.last_insert_rowid()
        return CheckpointRow(row, *thread, name, parent, self._now, None, metadata, base, len(body))

    def insert(self, thread: ThreadKey, new: NewCheckpoint) -> CheckpointRow:
        """Add a checkpoint to a thread, which is made if need be."""
        expires_at = None if new.ttl is None else self._now + new.ttl
        row = self._insert(
            self._make_thread(thread), new.id, new.parent, new.base, new.depth, new.position, self._now, expires_at,
            new.metadata, new.body,
        )  # fmt: skip
        return CheckpointRow(
            row, *thread, new.id, new.parent, self._now, expires_at, new.metadata, new.base, len(new.body)
        )

    def _insert(self, *values: Any) -> int:
        self._connection.execute(_INSERT, values)
        row = self._connection.last_insert_rowid()
        created_at, expires_at = values[6:8]
        if expires_at is not None:  # a clock that is set back must not bring it to life again
            if self._connection.execute("SELECT updated > ? FROM state", (self._now + SLACK,)).get:
                correct_time(self._connection, self._now)
            self._connection.execute("UPDATE state SET updated = ?1 WHERE updated < ?1", (created_at,))
        return row

    def restore(self, stored: StoredCheckpoint) -> int:
        """Add a checkpoint as it was stored elsewhere."""
        thread, _, *rest = stored
        return self._insert(self._make_thread(thread), *rest)

    def load(self, stored: StoredCheckpoint) -> None:
        """Add a checkpoint of another store to its copy, under the same number."""
        thread, row, *rest = stored
        self._connection.execute(_LOAD, (row, self._make_thread(thread), *rest))

    def rebase(self, row: int, base: int | None, depth: int, body: bytes) -> None:
        """Store a checkpoint's state as a change of another."""
        sql = "UPDATE checkpoint SET base = ?, depth = ?, body = ? WHERE no = ?"
        self._connection.execute(sql, (base, depth, body, row))

    def delete(self, rows: Sequence[int]) -> None:
        """Delete checkpoints; what is pending after them stays."""
        if rows:
            self._connection.execute("UPDATE checkpoint_gone SET no = ?1 WHERE no < ?1", (max(rows),))
        for some in _batches(rows):
            marks = _marks(some)
            self._connection.execute(f"DELETE FROM checkpoint_word WHERE rowid IN ({marks})", some)
            self._connection.execute(f"DELETE FROM checkpoint WHERE no IN ({marks})", some)

    def prune(self, space: str, name: str, ns: str | None = None, ids: Sequence[str] = ()) -> None:
        """Delete what is pending after these checkpoints, and all of the thread if it has no checkpoints left."""
        for part in self._list_parts(space, name) if ns is None else [ns]:
            thread = ThreadKey(space, name, part)
            number = self._find_thread(thread)
            for each in ids:
                self._connection.execute("DELETE FROM pending WHERE thread = ? AND id = ?", (number, each))
            if not self._connection.execute("SELECT 1 FROM checkpoint WHERE thread = ? LIMIT 1", (number,)).get:
                self._connection.execute("DELETE FROM pending WHERE thread = ?", (number,))
                self._connection.execute("DELETE FROM thread WHERE no = ?", (number,))
                self._threads.pop(thread, None)

    def copy(self, space: str, name: str, target: str) -> None:
        """Add to `target` a copy of every checkpoint of the thread, and of what is pending."""
        for ns in self._list_parts(space, name):
            source, copy = (
                self._find_thread(ThreadKey(space, name, ns)),
                self._make_thread(ThreadKey(space, target, ns)),
            )
            rows: dict[int | None, int | None] = {None: None}
            for row, which, parent, base, *rest in fetch(
                self._connection,
                "SELECT no, id, parent, base, depth, place, created_at, expires_at, metadata, body FROM checkpoint"
                " WHERE thread = ? ORDER BY no",
                (source,),
            ):
                rows[row] = self._insert(copy, which, parent, rows[base], *rest)
            self._connection.execute(
                f"INSERT INTO pending (thread, id, {_PENDING}) SELECT ?, id, {_PENDING} FROM pending WHERE thread = ?",
                (copy, source),
            )

    def write_pending(self, thread: ThreadKey, id: str, writes: Sequence[tuple[PendingWrite, bool]]) -> None:
        """Store what a task wrote; a write that is there already stays, unless the new one says that it replaces it."""
        number = self._make_thread(thread)
        for each, replaces in writes:
            self._connection.execute(
                f"INSERT OR {'REPLACE' if replaces else 'IGNORE'} INTO pending (thread, id, {_PENDING})"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (number, id, *each),
            )

    # Searching.

    def list_unindexed(self, space: str, limit: int) -> list[Link]:
        """The oldest checkpoints of a space whose words were not indexed yet."""
        upto = self._connection.execute("SELECT upto FROM checkpoint_sought WHERE space = ?", (space,)).get or 0
        rows = fetch(
            self._connection,
            f"SELECT {_LINK} {_FROM} WHERE checkpoint.no > ? AND space = ? ORDER BY checkpoint.no LIMIT ?",
            (upto, space, limit),
        )
        return [Link._make(row) for row in rows]

    def index_words(self, space: str, words: Sequence[tuple[int, str]], *, rebased: bool = False) -> None:
        """Store the words of checkpoints by their rows."""
        if rebased and not self._connection.execute("SELECT 1 FROM checkpoint_sought WHERE space = ?", (space,)).get:
            return
        for each in words:
            self._connection.execute("INSERT OR REPLACE INTO checkpoint_word (rowid, words) VALUES (?, ?)", each)
        if not rebased:
            self._connection.execute(
                "INSERT INTO checkpoint_sought (space, upto) VALUES (?, ?)"
                " ON CONFLICT (space) DO UPDATE SET upto = max(upto, excluded.upto)",
                (space, max(row for row, _ in words)),
            )

    def first_mentions(self, space: str, word: str) -> list[tuple[int, CheckpointRow]]:
        """For each thread that holds the word: the first checkpoint that did."""
        rows = self._connection.execute(
            # Beside min(), SQLite takes the other columns from the row that has the least.
            f"SELECT thread.no, min(checkpoint.no), {_ROW} FROM checkpoint_word"
            " CROSS JOIN checkpoint ON checkpoint.no = checkpoint_word.rowid"
            " CROSS JOIN thread ON thread.no = checkpoint.thread"
            f" WHERE checkpoint_word MATCH ?2 AND space = ?3 AND {_ALIVE} GROUP BY thread.no",
            (self._now, '"' + word.replace('"', '""') + '"', space),
        )
        return [(row[0], CheckpointRow._make(row[2:])) for row in rows]

    def _find_thread(self, thread: ThreadKey) -> int | None:
        number = self._threads.get(thread)
        if number is None:
            sql = "SELECT no FROM thread WHERE space = ? AND name = ? AND ns = ?"
            number = self._connection.execute(sql, thread).get
            if number is not None:
                self._threads[thread] = number
        return number

    def _make_thread(self, thread: ThreadKey) -> int:
        number = self._find_thread(thread)
        if number is None:
            self._connection.execute("INSERT INTO thread (space, name, ns) VALUES (?, ?, ?)", thread)
            number = self._threads[thread] = self._connection.last_insert_rowid()
        return number

    def _list_parts(self, space: str, name: str) -> list[str]:
        sql = "SELECT ns FROM thread WHERE space = ? AND name = ?"
        return [ns for (ns,) in fetch(self._connection, sql, (space, name))]


def deleted_words(connection: apsw.Connection) -> bool:
    """Whether the words of deleted checkpoints are still in the pages of `checkpoint_word`."""
    return bool(connection.execute("SELECT 1 FROM checkpoint_word_data WHERE id >= ? LIMIT 1", (_TOMBSTONE,)).get)


def merge_words(connection: apsw.Connection) -> None:
    """Rewrite some of the pages of `checkpoint_word` without deleted words. A negative number merges all of it."""
    sql = "INSERT INTO checkpoint_word (checkpoint_word, rank) VALUES ('merge', ?)"
    connection.execute(sql, (-MERGED_PAGES,))


def _batches(values: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
