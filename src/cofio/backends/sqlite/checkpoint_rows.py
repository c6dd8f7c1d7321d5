"""Checkpoints as rows: threads, the chains that their states are kept in, and what is pending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import apsw

from ..checkpoint_interface import CheckpointRow, Link, PendingWrite
from .database import fetch
from .store_time import SLACK, correct_time

_ROW = "checkpoint.no, name, ns, id, parent, created_at, expires_at, metadata"
_FROM = "FROM checkpoint CROSS JOIN thread ON thread.no = checkpoint.thread"
_LINK = "checkpoint.no, id, base, depth, place, body"
_CHAIN = (
    f"WITH RECURSIVE chain (no, id, base, depth, place, body) AS (SELECT {_LINK} FROM checkpoint WHERE no = ?"
    " UNION ALL SELECT c.no, c.id, c.base, c.depth, c.place, c.body"
    " FROM chain CROSS JOIN checkpoint AS c ON c.no = chain.base) SELECT * FROM chain"
)
_STANDING = (
    "SELECT no, (SELECT no FROM checkpoint WHERE thread = thread_.no AND id = ?),"
    " (SELECT thread = thread_.no FROM checkpoint WHERE no = ?)"
    " FROM thread AS thread_ WHERE space = ? AND name = ? AND ns = ?"
)
_PENDING = "task, at, path, channel, type, value"
# ?1 is the time. The store's own (`store_time.steady`) is read only for what may have expired.
_TIME = f"max(?1, (SELECT iif(updated <= ?1 + {SLACK}, updated, 0) FROM state))"
_ALIVE = f"(expires_at IS NULL OR expires_at > {_TIME})"
AT_ONCE = 500  # values bound to one statement
MERGED_PAGES = 500  # of the words' pages that are written anew in one transaction
_TOMBSTONE = 1 << 53  # FTS5 keeps what says that a row was deleted at ids from here on, in checkpoint_word_data


class Rows:
    """The checkpoints within the transaction that is open on a connection."""

    def __init__(self, connection: apsw.Connection, now: int) -> None:
        self._connection = connection
        self._now = now

    # Reading.

    def thread(self, space: str, name: str, ns: str, *, make: bool = False) -> int | None:
        """The number of a thread, which is made if asked to."""
        where = "SELECT no FROM thread WHERE space = ? AND name = ? AND ns = ?"
        found: int | None = self._connection.execute(where, (space, name, ns)).get
        if found is None and make:
            self._connection.execute("INSERT INTO thread (space, name, ns) VALUES (?, ?, ?)", (space, name, ns))
            return self._connection.last_insert_rowid()
        return found

    def row(self, thread: int, id: str) -> CheckpointRow | None:
        """The checkpoint with this id."""
        return self._one(f"SELECT {_ROW} {_FROM} WHERE thread = ?2 AND id = ?3 AND {_ALIVE}", thread, id)

    def number(self, thread: int, id: str) -> int | None:
        """The number of the checkpoint with this id, even if it has expired."""
        found: int | None = self._connection.execute(
            "SELECT no FROM checkpoint WHERE thread = ? AND id = ?", (thread, id)
        ).get
        return found

    def standing(
        self, space: str, name: str, ns: str, id: str, base: int | None
    ) -> tuple[int | None, int | None, bool]:
        """What a save has to know, in one look."""
        row = self._connection.execute(_STANDING, (id, base, space, name, ns)).fetchone()
        return (row[0], row[1], bool(row[2])) if row else (None, None, False)

    def measured(self, space: str, name: str | None) -> tuple[int, int, int]:
        """How many checkpoints there are, how many are whole states, and the bytes of their bodies."""
        sql = f"SELECT count(*), ifnull(sum(base IS NULL), 0), ifnull(sum(length(body)), 0) {_FROM}"
        where = f"WHERE space = ?2 AND {_ALIVE} AND (?3 IS NULL OR name = ?3)"
        found = self._connection.execute(f"{sql} {where}", (self._now, space, name)).get
        return cast(tuple[int, int, int], found)

    def newest(self, thread: int, *, by_id: bool) -> CheckpointRow | None:
        """The checkpoint that was saved last, or the one with the highest id."""
        order = "id" if by_id else "checkpoint.no"
        return self._one(f"SELECT {_ROW} {_FROM} WHERE thread = ?2 AND {_ALIVE} ORDER BY {order} DESC LIMIT 1", thread)

    def listed(
        self, space: str, name: str | None, ns: str | None, *, by_id: bool, before: str | None
    ) -> Iterator[CheckpointRow]:
        """Checkpoints, newest first."""
        thread = None if name is None or ns is None else self.thread(space, name, ns)
        if name is not None and ns is not None and thread is None:
            return
        tests = [_ALIVE]
        values: list[Any] = [self._now]
        asked = (("space =", space), ("name =", name), ("ns =", ns)) if thread is None else (("thread =", thread),)
        for column, value in (*asked, ("id <", before)):
            if value is not None:
                values.append(value)
                tests.append(f"{column} ?{len(values)}")
        order = "id DESC, checkpoint.no DESC" if by_id else "checkpoint.no DESC"
        if thread is not None and by_id:
            order = "id DESC"  # as the index has them: no two of a thread have the same
        # From the thread's side when it is named, else from the checkpoints', which are in order already.
        by_name = name is not None and thread is None
        source = "FROM thread CROSS JOIN checkpoint ON checkpoint.thread = thread.no" if by_name else _FROM
        sql = f"SELECT {_ROW} {source} WHERE {' AND '.join(tests)} ORDER BY {order}"
        for row in self._connection.execute(sql, values):
            yield CheckpointRow._make(row)

    def names(self, space: str) -> Iterator[tuple[str, str]]:
        """Each thread that has checkpoints, with its part, the one saved to last first."""
        newest = f"(SELECT max(c.no) FROM checkpoint AS c WHERE c.thread = thread.no AND {_ALIVE})"
        sql = (
            f"SELECT name, ns, {newest} AS newest FROM thread WHERE space = ?2 AND newest NOTNULL ORDER BY newest DESC"
        )
        for name, ns, _ in self._connection.execute(sql, (self._now, space)):
            yield name, ns

    def chain(self, no: int) -> list[Link]:
        """A checkpoint and all that it is made of, itself first and the whole state last."""
        return [Link._make(row) for row in self._connection.execute(_CHAIN, (no,))]

    def built_on(self, thread: int, nos: Sequence[int]) -> list[Link]:
        """The checkpoints whose bodies are changes of these."""
        wanted = set(nos)
        sql = "SELECT no, base FROM checkpoint WHERE thread = ? AND base NOTNULL ORDER BY no"
        built = [no for no, base in fetch(self._connection, sql, (thread,)) if base in wanted]
        link = f"SELECT {_LINK} FROM checkpoint WHERE no = ?"
        return [Link._make(self._connection.execute(link, (no,)).get) for no in built]

    def expired(self, before: int, limit: int) -> list[tuple[int, int, str]]:
        """Some of the checkpoints that expired before then."""
        sql = "SELECT thread, no, id FROM checkpoint WHERE expires_at <= ? LIMIT ?"
        return fetch(self._connection, sql, (before, limit))

    def pending(self, thread: int, id: str) -> list[PendingWrite]:
        """What was written after a checkpoint, in the order of the tasks' paths, tasks and places."""
        sql = f"SELECT {_PENDING} FROM pending WHERE thread = ? AND id = ? ORDER BY path, task, at"
        return [PendingWrite._make(row) for row in self._connection.execute(sql, (thread, id))]

    # Changing.

    def insert(
        self, thread: int, id: str, parent: str | None, base: tuple[int | None, int, int], *,
        created_at: int, expires_at: int | None, metadata: str, body: bytes,
    ) -> int:  # fmt: skip
        """Add a checkpoint with its base, depth and place; its number."""
        self._connection.execute(
            "INSERT INTO checkpoint"
            " (no, thread, id, parent, base, depth, place, created_at, expires_at, metadata, body)"
            " VALUES (1 + max((SELECT no FROM checkpoint_gone), ifnull((SELECT max(no) FROM checkpoint), 0)),"
            " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (thread, id, parent, *base, created_at, expires_at, metadata, body),
        )
        if expires_at is not None:  # a clock that is set back must not bring it to life again
            if self._connection.execute("SELECT updated > ? FROM state", (self._now + SLACK,)).get:
                correct_time(self._connection, self._now)
            self._connection.execute("UPDATE state SET updated = ?1 WHERE updated < ?1", (created_at,))
        return self._connection.last_insert_rowid()

    def rebase(self, no: int, base: int | None, depth: int, body: bytes) -> None:
        """Write a checkpoint's state as a change of another."""
        sql = "UPDATE checkpoint SET base = ?, depth = ?, body = ? WHERE no = ?"
        self._connection.execute(sql, (base, depth, body, no))

    def remove(self, nos: Sequence[int]) -> None:
        """Delete checkpoints."""
        if nos:
            highest = max(nos)
            self._connection.execute("UPDATE checkpoint_gone SET no = ? WHERE no < ?", (highest, highest))
        for some in _batches(nos):
            marks = _marks(some)
            self._connection.execute(f"DELETE FROM checkpoint_word WHERE rowid IN ({marks})", some)
            self._connection.execute(f"DELETE FROM checkpoint WHERE no IN ({marks})", some)

    def tidy(self, thread: int) -> None:
        """Forget a thread that has no checkpoints left, with what was pending there."""
        if not self._connection.execute("SELECT 1 FROM checkpoint WHERE thread = ? LIMIT 1", (thread,)).get:
            self._connection.execute("DELETE FROM pending WHERE thread = ?", (thread,))
            self._connection.execute("DELETE FROM thread WHERE no = ?", (thread,))

    def forget(self, space: str, name: str) -> int:
        """Delete a thread with all its parts, and what is pending; how many checkpoints there were."""
        count = 0
        for (thread,) in fetch(self._connection, "SELECT no FROM thread WHERE space = ? AND name = ?", (space, name)):
            nos = [no for (no,) in fetch(self._connection, "SELECT no FROM checkpoint WHERE thread = ?", (thread,))]
            count += len(nos)
            self.remove(nos)
            self.tidy(thread)
        return count

    def copy(self, space: str, name: str, target: str) -> int:
        """Add to `target` a copy of every checkpoint of the thread, and of what is pending; how many."""
        count = 0
        for thread, ns in fetch(
            self._connection, "SELECT no, ns FROM thread WHERE space = ? AND name = ?", (space, name)
        ):
            copied = self.thread(space, target, ns, make=True)
            assert copied is not None
            numbers: dict[int | None, int | None] = {None: None}
            for no, which, parent, base, depth, place, made, expires, metadata, body in fetch(
                self._connection,
                "SELECT no, id, parent, base, depth, place, created_at, expires_at, metadata, body FROM checkpoint"
                " WHERE thread = ? ORDER BY no",
                (thread,),
            ):
                numbers[no] = self.insert(
                    copied, which, parent, (numbers[base], depth, place), created_at=made,
                    expires_at=expires, metadata=metadata, body=body,
                )  # fmt: skip
                count += 1
            self._connection.execute(
                f"INSERT INTO pending (thread, id, {_PENDING}) SELECT ?, id, {_PENDING} FROM pending WHERE thread = ?",
                (copied, thread),
            )
        return count

    def write(self, thread: int, id: str, writes: Sequence[tuple[PendingWrite, bool]]) -> None:
        """Keep what a task wrote; what is at its place already stays, unless its write says otherwise."""
        for each, replaces in writes:
            self._connection.execute(
                f"INSERT OR {'REPLACE' if replaces else 'IGNORE'} INTO pending (thread, id, {_PENDING})"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (thread, id, *each),
            )

    def drop_pending(self, thread: int, ids: Sequence[str]) -> None:
        """Forget what was written after these checkpoints."""
        for each in ids:
            self._connection.execute("DELETE FROM pending WHERE thread = ? AND id = ?", (thread, each))

    # Searching.

    def space(self, thread: int) -> str:
        """The space that a thread is in."""
        return str(self._connection.execute("SELECT space FROM thread WHERE no = ?", (thread,)).get)

    def unsought(self, space: str, limit: int) -> tuple[list[tuple[Link, str]], int]:
        """The next checkpoints whose words were not taken in, each with its metadata, and how far one then is."""
        upto = int(self._connection.execute("SELECT upto FROM checkpoint_sought WHERE space = ?", (space,)).get or 0)
        rows = fetch(
            self._connection,
            f"SELECT {_LINK}, metadata {_FROM} WHERE checkpoint.no > ? AND space = ? ORDER BY checkpoint.no LIMIT ?",
            (upto, space, limit),
        )
        return [(Link._make(row[:-1]), row[-1]) for row in rows], rows[-1][0] if rows else upto

    def take_in(self, space: str, words: Sequence[tuple[int, str]], upto: int | None) -> None:
        """Keep the words of checkpoints, in place of those they had, in a space that is searched."""
        searched = self._connection.execute("SELECT 1 FROM checkpoint_sought WHERE space = ?", (space,)).get
        if upto is None and not searched:
            return
        for no, text in words:
            self._connection.execute("INSERT OR REPLACE INTO checkpoint_word (rowid, words) VALUES (?, ?)", (no, text))
        if upto is not None:
            self._connection.execute(
                "INSERT INTO checkpoint_sought (space, upto) VALUES (?, ?)"
                " ON CONFLICT (space) DO UPDATE SET upto = max(upto, excluded.upto)",
                (space, upto),
            )

    def bringing(self, space: str, word: str) -> list[tuple[int, int]]:
        """Of each thread that has come to hold the word its number, and that of the first checkpoint that did."""
        return fetch(
            self._connection,
            "SELECT thread.no, min(checkpoint.no) FROM checkpoint_word"
            " CROSS JOIN checkpoint ON checkpoint.no = checkpoint_word.rowid"
            " CROSS JOIN thread ON thread.no = checkpoint.thread"
            f" WHERE checkpoint_word MATCH ?2 AND space = ?3 AND {_ALIVE} GROUP BY thread.no",
            (self._now, '"' + word.replace('"', '""') + '"', space),
        )

    def numbered(self, no: int) -> CheckpointRow | None:
        """The checkpoint with this number."""
        return self._one(f"SELECT {_ROW} {_FROM} WHERE checkpoint.no = ?2 AND {_ALIVE}", no)

    def every(self) -> Iterator[CheckpointRow]:
        """Every checkpoint of every space, also what has expired, in the order of their numbers."""
        for row in self._connection.execute(f"SELECT {_ROW} {_FROM} ORDER BY checkpoint.no"):
            yield CheckpointRow._make(row)

    def _one(self, sql: str, *values: Any) -> CheckpointRow | None:
        row = self._connection.execute(sql, (self._now, *values)).fetchone()
        return None if row is None else CheckpointRow._make(row)


def deleted_words(connection: apsw.Connection) -> bool:
    """Whether the words of deleted checkpoints are still in the pages of `checkpoint_word`."""
    return bool(connection.execute("SELECT 1 FROM checkpoint_word_data WHERE id >= ? LIMIT 1", (_TOMBSTONE,)).get)


def merge_words(connection: apsw.Connection) -> None:
    """Write some of the pages of `checkpoint_word` anew, without deleted words. A negative number merges all of it."""
    sql = "INSERT INTO checkpoint_word (checkpoint_word, rank) VALUES ('merge', ?)"
    connection.execute(sql, (-MERGED_PAGES,))


def _batches(values: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
