"""Checkpoints in a table of PostgreSQL (the extra `postgresql`)."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from heapq import nlargest
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from ...config.installation import install_command
from ...values.errors import CofioError, Invalid, Unavailable
from ...values.json_values import is_same_json
from ...values.records import check_int
from ..checkpointer import CheckpointerCapabilities
from ..concurrency import in_thread
from .document_checkpointer import Clock, Document, DocumentCheckpointer, Heading, decode, encode, refuse_target, score

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise ImportError(f"the checkpointer postgresql needs its driver: {install_command('postgresql')}") from error

__all__ = ["PostgreSQLCheckpointer"]

P = ParamSpec("P")
T = TypeVar("T")

_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,62}")
_SAID = re.compile(
    "connection refused|timeout expired|authentication failed|no password supplied|no pg_hba.conf entry|resolve host"
    "|does not exist|too many clients|too many connections|SSL|certificate|starting up|shutting down|closed",
    re.IGNORECASE,
)
_ESCAPES = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})

# Ids are of any length and the entries of an index are not: so the key is made of digests. The state is JSON as text,
# which alone keeps every number and every character as they were saved.
_TABLE = """
CREATE TABLE {table} (
    thread_key bytea NOT NULL,
    checkpoint_key bytea NOT NULL,
    thread_id text NOT NULL,
    checkpoint_id text NOT NULL,
    turn bigint GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    state text NOT NULL,
    metadata json NOT NULL,
    PRIMARY KEY (thread_key, checkpoint_key)
);
CREATE UNIQUE INDEX ON {table} (turn);
CREATE INDEX ON {table} (thread_key, turn DESC);
CREATE INDEX ON {table} USING gin ((metadata::jsonb) jsonb_path_ops);
"""

_LIVE = "(expires_at IS NULL OR expires_at > clock_timestamp())"
_HEAD = "thread_id, checkpoint_id, created_at, metadata::text, turn"


class PostgreSQLCheckpointer(DocumentCheckpointer):
    """Keeps checkpoints in a table, which it makes when it is not there; every call is one transaction.

    Metadata has an index. `search` goes through the table: the server finds the checkpoints that hold the words, and
    they are counted here.

    Args:
        host: The server, when there is no `dsn`; likewise the next four.
        dsn: A connection string or URL, in place of the others.
        table_name: The table; letters, digits and `_`.
        schema_name: The schema of the table, which is made too.
        ttl_seconds: How long a checkpoint lives; without it, for good.
        options: Anything else that `psycopg.connect` takes, such as `sslmode`.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 5432,
        database: str = "cofio",
        user: str = "postgres",
        password: str = "",
        dsn: str | None = None,
        *,
        table_name: str = "cofio_checkpoints",
        schema_name: str = "public",
        ttl_seconds: int | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(clock=clock)
        self.table_name = _identifier("table_name", table_name)
        self.schema_name = _identifier("schema_name", schema_name)
        if ttl_seconds is not None:
            check_int("ttl_seconds", ttl_seconds, 1, 2**31)
        self.ttl_seconds = ttl_seconds
        self._table = f'"{schema_name}"."{table_name}"'
        place = {"host": host, "port": port, "dbname": database, "user": user}
        if password:
            place["password"] = password
        if dsn:
            _check_dsn(dsn)
        self._conninfo = dsn or ""
        self._options = options if dsn is not None else {**place, **options}
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._ready = False
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities.all_but()

    async def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        await in_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    async def _cross(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await super()._cross(call, *args, **kwargs)
        except psycopg.Error as error:
            raise self._translate_errors(error) from None  # its text may have a part of the connection string

    def _translate_errors(self, error: psycopg.Error) -> CofioError:
        """Say what to check. What the server says has no secret; what the driver says of a connection may have."""
        said = error.diag.message_primary or ""
        if isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith("54"):
            return Invalid("checkpoint", f"PostgreSQL cannot hold it: {said or type(error).__name__}")
        known = _SAID.search(str(error))
        problem = said or (known[0] if known else type(error).__name__)
        return Unavailable(
            f"the checkpoints in PostgreSQL, table {self._table}, cannot be reached: {problem}; check host, port, "
            "database, user and password, that the server runs, and that the user may use the table"
        )

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            return psycopg.connect(self._conninfo, autocommit=True, **self._options)
        except psycopg.ProgrammingError:
            given = ", ".join(sorted(self._options))
            raise Invalid("options", f"psycopg does not take one of them ({given}), or not its value") from None

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
        """Have the connection to oneself for one transaction; a connection that was lost is made again."""
        with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            with self._connection.transaction(), self._connection.cursor() as cursor:
                if not self._ready:
                    self._prepare(cursor)
                yield cursor
            self._ready = True

    def _prepare(self, cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
        # Of two that make the same table at once, one would fail, also with IF NOT EXISTS.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", ["cofio " + self._table])
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [self._table])
        if cursor.fetchone() == (True,):
            return  # also for a user who may write to the table, but not make one
        if self.schema_name != "public":
            cursor.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema_name}"')
        cursor.execute(_TABLE.format(table=self._table))

    def _put(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any], *, fresh: bool) -> None:
        kept, about = encode(state), encode(metadata)
        with self._transaction() as cursor:
            self._insert(cursor, thread, id, kept, about)

    def _insert(self, cursor: psycopg.Cursor[tuple[Any, ...]], thread: str, id: str, state: str, metadata: str) -> None:
        cursor.execute(
            f"INSERT INTO {self._table} AS old"
            " (thread_key, checkpoint_key, thread_id, checkpoint_id, created_at, expires_at, state, metadata)"
            " VALUES (%s, %s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s), %s, %s)"
            " ON CONFLICT (thread_key, checkpoint_key) DO UPDATE SET turn = DEFAULT, created_at = excluded.created_at,"
            " expires_at = excluded.expires_at, state = excluded.state, metadata = excluded.metadata",
            [_key(thread), _key(id), thread, id, self._now(), self.ttl_seconds, state, metadata],
        )

    def _rows(self, columns: str, where: str, values: list[Any], limit: int) -> list[tuple[Any, ...]]:
        with self._transaction() as cursor:
            cursor.execute(
                f"SELECT {columns} FROM {self._table} WHERE {_LIVE} AND {where} ORDER BY turn DESC LIMIT %s",
                [*values, limit],
            )
            return cursor.fetchall()

    @contextmanager
    def _stream_rows(self, columns: str, where: str, values: list[Any]) -> Iterator[Iterable[tuple[Any, ...]]]:
        """Have rows come as they are asked for, newest first: all of them might be more than there is room for."""
        with self._transaction() as cursor, cursor.connection.cursor("cofio") as rows:
            rows.execute(f"SELECT {columns} FROM {self._table} WHERE {_LIVE} AND {where} ORDER BY turn DESC", values)
            yield rows

    def _get(self, thread: str, id: str | None) -> Document | None:
        where, values = _one(thread, id)
        rows = self._rows(f"{_HEAD}, state", where, values, 1)
        return _document(rows[0]) if rows else None

    def _has(self, thread: str, id: str | None) -> bool:
        where, values = _one(thread, id)
        return bool(self._rows("1", where, values, 1))

    def _ids(self, thread: str, limit: int) -> list[str]:
        return [row[0] for row in self._rows("checkpoint_id", "thread_key = %s", [_key(thread)], limit)]

    def _headings(self, thread: str | None, limit: int) -> Iterator[Heading]:
        where, values = ("true", []) if thread is None else ("thread_key = %s", [_key(thread)])
        return map(_heading, self._rows(_HEAD, where, values, limit))

    def _remove(self, thread: str, id: str | None) -> bool:
        where, values = _one(thread, id)
        return self._delete(f"{where} AND {_LIVE}", values) > 0

    def _expunge(self, heading: Heading) -> bool:
        return self._delete("turn = %s", [heading.turn]) > 0

    def _delete_older(self, than: datetime) -> int:
        self._delete(f"NOT {_LIVE}", [])  # gone for its readers already
        return self._delete("created_at < %s", [than])

    def _delete(self, where: str, values: list[Any]) -> int:
        with self._transaction() as cursor:
            return cursor.execute(f"DELETE FROM {self._table} WHERE {where}", values).rowcount

    def _threads(self) -> list[str]:
        with self._transaction() as cursor:
            cursor.execute(
                f"SELECT min(thread_id) FROM {self._table} WHERE {_LIVE} GROUP BY thread_key ORDER BY max(turn) DESC"
            )
            return [row[0] for row in cursor.fetchall()]

    def _copy(self, source: str, target: str) -> bool:
        with self._transaction() as cursor:
            cursor.execute(
                f"SELECT checkpoint_id, state, metadata::text FROM {self._table} WHERE {_LIVE} AND thread_key = %s"
                " ORDER BY turn",
                [_key(source)],
            )
            rows = cursor.fetchall()
            cursor.execute(f"SELECT 1 FROM {self._table} WHERE {_LIVE} AND thread_key = %s LIMIT 1", [_key(target)])
            if cursor.fetchone():
                raise refuse_target(target)
            for name, state, metadata in rows:
                self._insert(cursor, target, name, state, metadata)
        return bool(rows)

    def _find_matching(self, key: str, value: Any, limit: int) -> list[Heading]:
        # The index finds what contains the value; whether it is the very same, we look ourselves.
        where = "metadata::jsonb @> %s::jsonb"
        with self._stream_rows(_HEAD, where, [encode({key: value})]) as rows:
            found = (each for each in map(_heading, rows) if is_same_json(each.metadata.get(key), value))
            return list(islice(found, limit))

    def _search(self, words: list[str], limit: int) -> list[dict[str, Any]]:
        if not words:
            return []
        # In some locales the server knows the case of ASCII letters only, and in none that ß is ss: such words are
        # looked for here.
        asked = [word for word in words if word.isascii() and "ss" not in word]
        likes = " AND ".join(["(state ILIKE %s OR metadata::text ILIKE %s)"] * len(asked)) or "true"
        values = [f"%{word.translate(_ESCAPES)}%" for word in asked for _ in range(2)]
        with self._stream_rows(f"{_HEAD}, state", likes, values) as rows:
            scored = ((score(each, words), each) for each in map(_document, rows))
            best = nlargest(limit, (pair for pair in scored if pair[0]), key=lambda pair: (pair[0], pair[1].turn))
        return [{**each.plain(), "score": float(points)} for points, each in best]

    def __repr__(self) -> str:
        return f"PostgreSQLCheckpointer(table={self._table})"


def _identifier(field: str, name: str) -> str:
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"Invalid {field}: {name!r}. Must start with a letter or underscore and contain only "
            "alphanumeric characters and underscores (max 63 chars)."
        )
    return name


def _check_dsn(dsn: object) -> None:
    """Raise ValueError, without showing it, for what is no connection string."""
    try:
        ports = str(conninfo_to_dict(str(dsn)).get("port", "")).split(",")
    except psycopg.ProgrammingError:
        ports = ["none"]
    if not isinstance(dsn, str) or any(port and not (port.isascii() and port.isdigit()) for port in ports):
        raise ValueError(
            "dsn: expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with / ? # and @ in a password "
            "percent-encoded, or host=… port=… dbname=… user=… password=…"
        )


def _key(id: str) -> bytes:
    return hashlib.sha256(id.encode()).digest()


def _one(thread: str, id: str | None) -> tuple[str, list[Any]]:
    if id is None:
        return "thread_key = %s", [_key(thread)]
    return "thread_key = %s AND checkpoint_key = %s", [_key(thread), _key(id)]


def _heading(row: tuple[Any, ...]) -> Heading:
    thread, name, created_at, metadata, turn = row[:5]
    return Heading(thread=thread, id=name, created_at=created_at, metadata=decode(metadata), turn=turn)


def _document(row: tuple[Any, ...]) -> Document:
    thread, name, created_at, metadata, turn, state = row
    return Document(
        thread=thread, id=name, created_at=created_at, metadata=decode(metadata), turn=turn, state=decode(state)
    )
