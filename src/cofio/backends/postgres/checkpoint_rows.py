"""Checkpoints as rows: threads, the chains that their states are kept in, and what is pending.

A thread's row is locked by the transaction that changes it, so that two saves come one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from psycopg import errors

from ..checkpoint_interface import CheckpointRow, Link, NewCheckpoint, PendingWrite, StoredCheckpoint, ThreadKey
from ..store_time import SLACK
from .conditions import digest
from .database import Connection, Connections, Cursor
from .record_rows import CORRECT_TIME, NOTE_MOMENT, number_term

_ROW = (
    "c.no, t.space, t.name, t.ns, c.id, c.parent, c.created_at, c.expires_at, c.metadata, c.base, octet_length(c.body)"
)
_FROM = "FROM @checkpoint c JOIN @thread t ON t.no = c.thread"
_ALIVE = "(c.expires_at IS NULL OR c.expires_at > $1::bigint)"  # $1 is the store's time
_IN_THREAD = (
    "SELECT c.no, c.id, c.parent, c.created_at, c.expires_at, c.metadata, c.base, octet_length(c.body)"
    f" FROM @checkpoint c WHERE c.thread = (SELECT no FROM @thread WHERE digest = $2) AND {_ALIVE}"
)
_FIND = f"{_IN_THREAD} AND c.id_digest = $3"
_FIND_HIGHEST = f"{_IN_THREAD} ORDER BY left(c.id, 200) DESC, c.id DESC LIMIT 1"
_FIND_NEWEST = f"{_IN_THREAD} ORDER BY c.no DESC LIMIT 1"
_LINK = "c.no, c.id, c.base, c.depth, c.place, c.metadata, c.body"
_ONE_LINK = f"SELECT {_LINK} FROM @checkpoint c WHERE c.no = $1"
_CHAIN = (
    f"WITH RECURSIVE chain AS (SELECT {_LINK}, 0 AS step FROM @checkpoint c WHERE c.no = $1"
    f" UNION ALL SELECT {_LINK}, chain.step + 1 FROM chain JOIN @checkpoint c ON c.no = chain.base)"
    " SELECT no, id, base, depth, place, metadata, body FROM chain ORDER BY step"
)
_FOR_SAVE = (
    "SELECT (SELECT c.no FROM @checkpoint c WHERE c.thread = t.no AND c.id_digest = $2),"
    " (SELECT c.thread = t.no FROM @checkpoint c WHERE c.no = $3::bigint)"
    " FROM @thread t WHERE t.digest = $1"
)
# A statement of its own: the next one then sees all that was committed while this one waited.
_LOCK_THREAD = "SELECT no FROM @thread WHERE digest = $1 FOR UPDATE"
_MAKE_THREAD = (
    "INSERT INTO @thread AS t (digest, space, name, ns) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (digest) DO UPDATE SET ns = t.ns RETURNING no"  # which locks it
)
_COLUMNS = "thread, no, id, id_digest, parent, base, depth, place, created_at, expires_at, metadata, body"
_INSERT = (
    f"INSERT INTO @checkpoint ({_COLUMNS}) VALUES"
    " ($1, nextval('@save'), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING no"
)
_APPEND = (
    "WITH thread AS MATERIALIZED (SELECT no FROM @thread WHERE digest = $1)"
    f" INSERT INTO @checkpoint ({_COLUMNS})"
    " SELECT thread.no, nextval('@save'), $2, $3, $4, $5::bigint, $6, $7, $8, NULL, $9, $10 FROM thread"
    " WHERE ($5::bigint IS NULL OR (SELECT c.thread = thread.no FROM @checkpoint c WHERE c.no = $5::bigint))"
    " ON CONFLICT (thread, id_digest) DO NOTHING RETURNING no"
)
_ORDER = attrgetter("path", "task", "at")
_PENDING = "task, at, path, channel, type, value"
_WRITE_PENDING = (
    f"INSERT INTO @pending AS p (thread, digest, id, {_PENDING}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
)
_REPLACE_PENDING = (
    f"{_WRITE_PENDING} ON CONFLICT (thread, digest) DO UPDATE SET path = excluded.path, channel = excluded.channel,"
    " type = excluded.type, value = excluded.value"
)
_BY_NAME = "left(t.space, 100) = left({space}, 100) AND left(t.name, 200) = left({name}, 200)"


class PostgresCheckpoints:
    """The checkpoints within the transaction that is open on a connection."""

    def __init__(self, connections: Connections, connection: Connection, now: int, generation: int) -> None:
        """`now` is the store's time."""
        self.generation = generation
        """Another number after an older copy replaced the store."""
        self._children: set[int] = set()
        """Changes of what is to be deleted that the caller knows of; one that stays so is damaged."""
        self._connections = connections
        self._connection = connection
        self._now = now

    # Reading.

    def find(self, thread: ThreadKey, id: str | None, *, by_id: bool = False) -> CheckpointRow | None:
        """The checkpoint with this id, the newest, or the one of the highest id."""
        if id is not None:
            rows = self._fetch(_FIND, self._now, _digest(thread), digest(id))
        else:
            rows = self._fetch(_FIND_HIGHEST if by_id else _FIND_NEWEST, self._now, _digest(thread))
        if not rows:
            return None
        row, *rest = rows[0]
        return CheckpointRow(row, *thread, *rest)

    def find_for_save(self, thread: ThreadKey, id: str, base: int | None) -> tuple[int | None, bool]:
        """What a save has to know, in one statement."""
        self._run(_LOCK_THREAD, _digest(thread))
        rows = self._fetch(_FOR_SAVE, _digest(thread), digest(id), base)
        return (rows[0][0], bool(rows[0][1])) if rows else (None, False)

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
        values: list[object] = [self._now]
        tests = ["$1::bigint IS NOT NULL"] if expired or expired_by is not None else [_ALIVE]
        asked = (
            ("t.space =", space), ("t.name =", name), ("t.ns =", ns), ("c.id <", before), ("c.id <=", upto),
            ("c.expires_at <=", expired_by),
        )  # fmt: skip
        for column, value in asked:
            if value is not None:
                values.append(value)
                tests.append(f"{column} ${len(values)}")
        if space is not None and name is not None:
            tests.append(_BY_NAME.format(space="$2", name="$3"))
        way = "DESC" if newest else "ASC"
        order = f"c.id {way}, c.no {way}" if by_id else f"c.no {way}"
        if expired_by is not None:
            order = "c.expires_at"
        rows = self._fetch(f"SELECT {_ROW} {_FROM} WHERE {' AND '.join(tests)} ORDER BY {order}", *values)
        yield from map(CheckpointRow._make, rows)

    def threads(self, space: str) -> Iterator[ThreadKey]:
        """Each thread and part that has checkpoints, the one saved to last first."""
        rows = self._fetch(
            f"SELECT t.name, t.ns, max(c.no) AS newest {_FROM} WHERE t.space = $2 AND {_ALIVE}"
            " GROUP BY t.no ORDER BY newest DESC",
            self._now, space,
        )  # fmt: skip
        for name, ns, _ in rows:
            yield ThreadKey(space, name, ns)

    def link(self, row: int) -> Link | None:
        """A checkpoint as part of a chain."""
        rows = self._fetch(_ONE_LINK, row)
        return Link._make(rows[0]) if rows else None

    def chain(self, row: int) -> list[Link]:
        """A checkpoint and all that it is made of, itself first and the whole state last."""
        return [Link._make(each) for each in self._fetch(_CHAIN, row)]

    def children(self, thread: ThreadKey, rows: Sequence[int]) -> list[Link]:
        """The checkpoints of the thread whose bodies are changes of these."""
        self._run(_LOCK_THREAD, _digest(thread))
        found = self._fetch(
            f"SELECT {_LINK} FROM @checkpoint c WHERE c.thread = (SELECT no FROM @thread WHERE digest = $1)"
            " AND c.base = ANY($2::bigint[]) ORDER BY c.no",
            _digest(thread), [*rows],
        )  # fmt: skip
        self._children.update(row[0] for row in found)
        return [Link._make(row) for row in found]

    def list_pending(self, thread: ThreadKey, id: str) -> list[PendingWrite]:
        """What was written after a checkpoint, in the order of the tasks' paths, the tasks, and their writes."""
        sql = f"SELECT {_PENDING} FROM @pending WHERE thread = (SELECT no FROM @thread WHERE digest = $1) AND id = $2"
        rows = self._fetch(sql, _digest(thread), id)
        return sorted(map(PendingWrite._make, rows), key=_ORDER)

    # Changing.

    def append(self, thread: ThreadKey, new: NewCheckpoint) -> CheckpointRow | None:
        """Add a checkpoint in one statement."""
        if new.ttl is not None:
            return None
        name, parent, base, depth, position, _, metadata, body = new
        self._run(_LOCK_THREAD, _digest(thread))
        rows = self._fetch(
            _APPEND, _digest(thread), name, digest(name), parent, base, depth, position, self._now, metadata, body
        )
        if not rows:
            return None
        return CheckpointRow(rows[0][0], *thread, name, parent, self._now, None, metadata, base, len(body))

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

    def _insert(self, thread: int, id: str, parent: str | None, base: int | None, *rest: Any) -> int:
        ((row,),) = self._fetch(_INSERT, thread, id, digest(id), parent, base, *rest)
        created_at, expires_at = rest[2:4]
        if expires_at is not None:  # a clock that is set back must not bring it to life again
            self._correct_time()
            self._run(NOTE_MOMENT, created_at, 0)
        return int(row)

    def _correct_time(self) -> None:
        """Set back the store's time when a clock that was ahead has been corrected."""
        self._run(f"{CORRECT_TIME} AND at > $1 + {SLACK}", self._now)

    def restore(self, stored: StoredCheckpoint) -> int:
        """Add a checkpoint as it was stored elsewhere."""
        thread, _, which, parent, base, *rest = stored
        return self._insert(self._make_thread(thread), which, parent, base, *rest)

    def rebase(self, row: int, base: int | None, depth: int, body: bytes) -> None:
        """Store a checkpoint's state as a change of another."""
        self._run("UPDATE @checkpoint SET base = $1, depth = $2, body = $3 WHERE no = $4", base, depth, body, row)

    def delete(self, rows: Sequence[int]) -> None:
        """Delete checkpoints; what is pending after them stays."""
        if rows:
            self._run(
                "SELECT FROM @thread WHERE no IN (SELECT thread FROM @checkpoint WHERE no = ANY($1::bigint[]))"
                " ORDER BY no FOR UPDATE",
                [*rows],
            )
            if self._fetch(
                "SELECT FROM @checkpoint WHERE base = ANY($1::bigint[]) AND NOT no = ANY($2::bigint[]) LIMIT 1",
                [*rows],
                [*rows, *self._children],
            ):
                raise errors.SerializationFailure("a change of one of these checkpoints was saved meanwhile")
            self._run(
                "WITH gone AS (DELETE FROM @checkpoint WHERE no = ANY($1::bigint[]) RETURNING thread, no)"
                " DELETE FROM @checkpoint_word w USING gone WHERE w.thread = gone.thread AND w.no = gone.no",
                [*rows],
            )

    def prune(self, space: str, name: str, ns: str | None = None, ids: Sequence[str] = ()) -> None:
        """Delete what is pending after these checkpoints, and all of the thread if it has no checkpoints left."""
        for part in self._list_parts(space, name) if ns is None else [ns]:
            number = self._lock_thread(ThreadKey(space, name, part))
            if ids:
                self._run("DELETE FROM @pending WHERE thread = $1 AND id = ANY($2::text[])", number, [*ids])
            if not self._fetch("SELECT 1 FROM @checkpoint WHERE thread = $1 LIMIT 1", number):
                self._run("DELETE FROM @pending WHERE thread = $1", number)
                self._run("DELETE FROM @thread WHERE no = $1", number)

    def copy(self, space: str, name: str, target: str) -> None:
        """Add to `target` a copy of every checkpoint of the thread, and of what is pending."""
        for ns in self._list_parts(space, name):
            source = self._lock_thread(ThreadKey(space, name, ns))
            copy = self._make_thread(ThreadKey(space, target, ns))
            rows: dict[int | None, int | None] = {None: None}
            for row, which, parent, base, *rest in self._fetch(
                "SELECT no, id, parent, base, depth, place, created_at, expires_at, metadata, body FROM @checkpoint"
                " WHERE thread = $1 ORDER BY no",
                source,
            ):
                rows[row] = self._insert(copy, which, parent, rows[base], *rest)
            self._run(
                f"INSERT INTO @pending (thread, digest, id, {_PENDING}) SELECT $1, digest, id, {_PENDING} FROM @pending"
                " WHERE thread = $2",
                copy, source,
            )  # fmt: skip

    def write_pending(self, thread: ThreadKey, id: str, writes: Sequence[tuple[PendingWrite, bool]]) -> None:
        """Store what a task wrote; a write that is there already stays, unless the new one says that it replaces it."""
        number = self._make_thread(thread)
        for each, replaces in writes:
            sql = _REPLACE_PENDING if replaces else f"{_WRITE_PENDING} ON CONFLICT (thread, digest) DO NOTHING"
            self._run(sql, number, digest(id, each.task, str(each.at)), id, *each)

    # Searching.

    def list_unindexed(self, space: str, limit: int) -> list[Link]:
        """The oldest checkpoints of a space whose words were not indexed yet."""
        rows = self._fetch(
            f"SELECT {_LINK} {_FROM} WHERE NOT c.is_indexed AND t.space = $1 ORDER BY c.no LIMIT $2", space, limit
        )
        return [Link._make(row) for row in rows]

    def index_words(self, space: str, words: Sequence[tuple[int, str]], *, rebased: bool = False) -> None:
        """Store the words of checkpoints by their rows."""
        for row, text in words:
            terms = sorted({number_term(word) for word in text.split()})
            self._run(
                "WITH old AS (DELETE FROM @checkpoint_word w USING @checkpoint c"
                " WHERE c.no = $1 AND w.thread = c.thread AND w.no = c.no AND NOT w.term = ANY($2::bigint[]))"
                " INSERT INTO @checkpoint_word (thread, no, term) SELECT c.thread, c.no, term FROM @checkpoint c,"
                f" unnest($2::bigint[]) AS term WHERE c.no = $1{' AND c.is_indexed' if rebased else ''}"
                " ON CONFLICT DO NOTHING",
                row, terms,
            )  # fmt: skip
        if not rebased:
            self._run(
                "UPDATE @checkpoint SET is_indexed = true WHERE no = ANY($1::bigint[])", [row for row, _ in words]
            )

    def first_mentions(self, space: str, word: str) -> list[tuple[int, CheckpointRow]]:
        """For each thread that holds the word: the first checkpoint that did."""
        rows = self._fetch(
            f"SELECT DISTINCT ON (t.no) t.no, {_ROW} FROM @checkpoint_word w"
            " JOIN @checkpoint c ON c.thread = w.thread AND c.no = w.no JOIN @thread t ON t.no = c.thread"
            f" WHERE w.term = $2 AND t.space = $3 AND {_ALIVE} ORDER BY t.no, c.no",
            self._now, number_term(word), space,
        )  # fmt: skip
        return [(row[0], CheckpointRow._make(row[1:])) for row in rows]

    def _lock_thread(self, thread: ThreadKey) -> int | None:
        rows = self._fetch(_LOCK_THREAD, _digest(thread))
        return rows[0][0] if rows else None

    def _make_thread(self, thread: ThreadKey) -> int:
        return int(self._fetch(_MAKE_THREAD, _digest(thread), *thread)[0][0])

    def _list_parts(self, space: str, name: str) -> list[str]:
        by_name = _BY_NAME.format(space="$1", name="$2")
        rows = self._fetch(f"SELECT t.ns FROM @thread t WHERE t.space = $1 AND t.name = $2 AND {by_name}", space, name)
        return [ns for (ns,) in rows]

    def _run(self, sql: str, *values: object) -> Cursor:
        return self._connections.execute(self._connection, sql, values)

    def _fetch(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._run(sql, *values).fetchall()


def _digest(thread: ThreadKey) -> bytes:
    return digest(*thread)
