"""The tables of a store: made by the first process that opens it, and brought up to date by the first that is newer."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

import psycopg
from psycopg import errors, sql

from ...values.errors import Unavailable
from .database import Connection, Connections

OLDEST_SERVER = 150000
OLDEST_VECTOR = (0, 7)
ITERATIVE_SCAN = (0, 8)  # the pgvector from which on an index is used
_STEP = re.compile(r"(\d{4})_\w+\.sql")
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('cofio schema ' || $1, 0))"


class Server(NamedTuple):
    """What is known of the server that a store is on."""

    version: int
    vector_version: str
    is_standby: bool
    """Whether it follows another, and can only be read."""


def prepare(connections: Connections) -> Server:
    """See to it that the server can hold a store and that its tables are there, as this version knows them.

    Raises:
        Unavailable: it cannot, and the message says which statement would help; or a newer cofio has made the tables.
    """
    with connections.connect() as connection:
        server = _examine(connections, connection)
        found = _read_version(connections, connection)
        newest = max(number for number, _ in _list_steps())
        if found is not None and found > newest:
            raise Unavailable(
                f"the store in schema {connections.schema} was written by a newer cofio (its schema is {found}, this"
                f" version knows {newest}): install the newer one"
            )
        if found == newest:
            return server
        if server.is_standby:
            raise Unavailable("the server is a standby, which can only be read, and has no store: open its primary")
        _migrate(connections, connection)
        return server


def exists(connections: Connections) -> bool:
    """Whether there is a store."""
    with connections.connect() as connection:
        return _read_version(connections, connection) is not None


def _examine(connections: Connections, connection: Connection) -> Server:
    row = connection.execute(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),"
        " pg_is_in_recovery(), current_database()"
    ).fetchone()
    assert row is not None
    version, encoding, is_standby, database = row
    if version < OLDEST_SERVER:
        raise Unavailable(f"PostgreSQL {OLDEST_SERVER // 10000} or later is needed; the server has {version // 10000}")
    if encoding != "UTF8":
        raise Unavailable(
            f"the database {database} is encoded in {encoding}; make one with: CREATE DATABASE cofio ENCODING 'UTF8'"
            " TEMPLATE template0"
        )
    found = _find_extension(connection)
    if found is None and not is_standby:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFile) as error:
            said = str(error).strip().splitlines()[0]
            raise Unavailable(
                f"the database {database} has no pgvector ({said}); install it on the server, and then run as a"
                " superuser: CREATE EXTENSION vector"
            ) from error
        except errors.UniqueViolation:
            pass  # another process makes it at this moment
        found = _find_extension(connection)
    if found is None:
        raise Unavailable(f"the database {database} has no pgvector; run as a superuser: CREATE EXTENSION vector")
    vector_version, connections.vector_schema = found
    if tuple(map(int, vector_version.split(".")[:2])) < OLDEST_VECTOR:
        raise Unavailable(
            f"pgvector {vector_version} is too old, 0.7 or later is needed; run as a superuser: ALTER EXTENSION vector"
            " UPDATE"
        )
    connections.has_iterative_scan = tuple(map(int, vector_version.split(".")[:2])) >= ITERATIVE_SCAN
    return Server(version, vector_version, is_standby)


def _find_extension(connection: Connection) -> tuple[str, str] | None:
    return connection.execute(
        "SELECT e.extversion, n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
        " WHERE e.extname = 'vector'"
    ).fetchone()


def _read_version(connections: Connections, connection: Connection) -> int | None:
    """The schema that the store has; None when there is no store."""
    # Not by to_regclass, which may answer from before another process has made it.
    there = connection.execute(
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relname = 'state'",
        (connections.schema,),
    )
    if not there.fetchall():
        return None
    found = connections.execute(connection, "SELECT schema FROM @state").fetchone()
    return None if found is None else int(found[0])


def _migrate(connections: Connections, connection: Connection) -> None:
    """Make each step that was not made yet; others who begin meanwhile wait, and then find it done."""
    schema = sql.Identifier(connections.schema).as_string(connection)
    with connection.transaction():
        connection.execute(_LOCK, (connections.schema,))
        found = _read_version(connections, connection)
        if found is None:
            known = connection.execute("SELECT FROM pg_namespace WHERE nspname = $1", (connections.schema,))
            if not known.fetchall():
                _make_schema(connection, schema)
        for number, script in _list_steps():
            if number > (found or 0):
                for statement in _split(script):
                    connections.execute(connection, statement)
                connections.execute(
                    connection,
                    "INSERT INTO @state (schema) VALUES ($1) ON CONFLICT (one) DO UPDATE SET schema = excluded.schema",
                    (number,),
                )


def _make_schema(connection: Connection, schema: str) -> None:
    try:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    except errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise Unavailable(
            f"this user may not make a schema in the database; as its owner run: CREATE SCHEMA {schema} AUTHORIZATION"
            f" {psycopg.sql.Identifier(user).as_string(connection)}"
        ) from error


def _list_steps() -> list[tuple[int, str]]:
    """The scripts, by their numbers."""
    folder = files("cofio.backends").joinpath("schema", "postgres")
    found = [(match[1], file) for file in folder.iterdir() if (match := _STEP.fullmatch(file.name))]
    return sorted((int(number), file.read_text(encoding="utf-8")) for number, file in found)


def _split(script: str) -> list[str]:
    """The statements of a script, without comments. None of them holds a semicolon."""
    plain = re.sub(r"--[^\n]*", "", script)
    return [statement for part in plain.split(";") if (statement := part.strip())]
