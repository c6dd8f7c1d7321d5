"""How the tables of a store are changed, step by step, while others read and write them.

A step never waits long for a lock, behind which all who come later would have to wait: it gives up and tries again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from psycopg import errors, sql

from ...values.errors import Unavailable
from .conditions import ALL_SCOPES
from .database import SET_REACH, Connection, Connections
from .schema_steps import Index, Step

PATIENCE = 300.0  # seconds that a step waits for those who have its tables, and a process for one that makes the steps
LOCK_TIMEOUT = "1s"  # that others wait behind a step which waits for a lock itself
LONGEST_PAUSE = 1.0  # seconds between two tries, in which they go on
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('cofio schema ' || $1, 0))"
_IN_THE_WAY = """
SELECT pid, application_name, date_trunc('second', now() - xact_start)::text FROM pg_stat_activity
WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND application_name <> $1
ORDER BY xact_start LIMIT 1
"""
_GUARD = "cofio schema"
"""What the connection calls itself that holds the lock: no step waits for it."""


class FoundTables(NamedTuple):
    """What a store says of its tables."""

    schema: int
    """The last step that was made."""
    needs: int
    """The last step that a version has to know."""
    store: str
    """What tells the store from all others."""


def read_state(connections: Connections, connection: Connection) -> FoundTables | None:
    """What the store says of its tables; None when there is no store."""
    # Not by to_regclass, which may answer from before another process has made it.
    there = connection.execute(
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relname = 'state'",
        (connections.schema,),
    )
    if not there.fetchall():
        return None
    found = connections.execute(connection, "SELECT schema, needs, store FROM @state").fetchone()
    return None if found is None else FoundTables._make(found)


def count_partitions(connections: Connections, connection: Connection) -> int:
    """In how many parts the large tables of the store are; 0 when they are not partitioned."""
    row = connection.execute(
        "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'record'",
        (connections.schema,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def make_steps(connections: Connections, connection: Connection, steps: list[Step]) -> None:
    """Make each step that was not made yet; others who begin meanwhile wait, and then find it done."""
    with _take_turn(connections):
        found = read_state(connections, connection)
        made = 0 if found is None else found.schema
        partitions = connections.partitions if found is None else count_partitions(connections, connection)
        for step in steps:
            if step.number <= made:
                continue
            if step.is_concurrent:
                for index in step.list_indexes():
                    _build(connections, connection, index)
            retry_change(connection, partial(_make, connections, connection, step, partitions))


@contextmanager
def _take_turn(connections: Connections) -> Iterator[None]:
    """Be the only process that makes steps, for the block.

    The lock is that of a transaction on a connection of its own: it ends with the process, also behind a pooler, and
    such a transaction has no snapshot, for which an index that is built would have to wait.
    """
    until = time.monotonic() + PATIENCE
    with connections.connect() as guard:
        guard.execute(f"SET application_name = '{_GUARD}'")
        while True:
            guard.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            row = guard.execute(_LOCK, (connections.schema,)).fetchone()
            assert row is not None
            if row[0]:
                # After the lock: the next statement ends what the last one has seen, which it would else go on seeing.
                guard.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                break
            guard.execute("ROLLBACK")
            if time.monotonic() > until:
                raise Unavailable(
                    f"another process has been at the tables of schema {connections.schema} for {PATIENCE / 60:g}"
                    " minutes: start again when it is done"
                )
            time.sleep(random.uniform(0.02, 0.2))
        yield


def _make(connections: Connections, connection: Connection, step: Step, partitions: int) -> None:
    """Make a step, or take down that a concurrent one was made, in one transaction."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        connection.execute(SET_REACH, (ALL_SCOPES,))
        found = read_state(connections, connection)
        if found is None:
            known = connection.execute("SELECT FROM pg_namespace WHERE nspname = $1", (connections.schema,))
            if not known.fetchall():
                _make_schema(connection, sql.Identifier(connections.schema).as_string(connection))
        elif found.schema >= step.number:
            return
        if not step.is_concurrent:
            # All in one trip: there are dozens, and the server may be far away.
            connection.execute(";\n".join(map(connections.write_sql, step.list_statements(partitions))))
        connections.execute(
            connection,
            "INSERT INTO @state AS s (schema, needs) VALUES ($1, $2) ON CONFLICT (one) DO UPDATE"
            " SET schema = excluded.schema, needs = greatest(s.needs, excluded.needs)",
            (step.number, 0 if step.is_compatible else step.number),
        )


def _build(connections: Connections, connection: Connection, index: Index) -> None:
    """Build an index while others read and write; one that was left half built is dropped first."""
    parts = [
        name
        for (name,) in connection.execute(
            "SELECT p.relname FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid"
            " JOIN pg_class c ON c.oid = i.inhparent JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = $1 AND c.relname = $2 ORDER BY p.oid",
            (connections.schema, index.table),
        )
    ]
    if not parts:
        retry_change(connection, partial(_build_one, connections, connection, index))
        return
    # Of a partitioned table, an index is made of those of its partitions.
    if _is_valid(connections, connection, index.name) is None:
        statement = index.write_statement(is_concurrent=False)
        retry_change(connection, partial(change_table, connections, connection, statement))
    for number, part in enumerate(parts):
        own = index._replace(name=f"{index.name}_{number}", table=part)
        retry_change(connection, partial(_build_one, connections, connection, own))
        statement = f"ALTER INDEX @{index.name} ATTACH PARTITION @{own.name}"
        retry_change(connection, partial(change_table, connections, connection, statement))


def change_table(connections: Connections, connection: Connection, statement: str) -> None:
    """Run a statement that needs a table for itself, but does not wait for it for long."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        connections.execute(connection, statement)


def _build_one(connections: Connections, connection: Connection, index: Index) -> None:
    is_valid = _is_valid(connections, connection, index.name)
    if is_valid:
        return
    if is_valid is False:
        connections.execute(connection, f"DROP INDEX CONCURRENTLY @{index.name}")
    connections.execute(connection, index.write_statement())


def _is_valid(connections: Connections, connection: Connection, index: str) -> bool | None:
    """Whether an index is whole; None when there is none."""
    row = connection.execute(
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
        (connections.schema, index),
    ).fetchone()
    return None if row is None else bool(row[0])


def retry_change(connection: Connection, work: Callable[[], None]) -> None:
    """Do a piece of work, and again as long as others have what it needs.

    Raises:
        Unavailable: they have it for too long, or this user may not change the tables.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            work()
            return
        except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
            if time.monotonic() > until:
                row = connection.execute(_IN_THE_WAY, (_GUARD,)).fetchone()
                who = f" of process {row[0]} ({row[1]}), open for {row[2]}" if row else ""
                raise Unavailable(
                    f"the store's tables could not be changed for {PATIENCE / 60:g} minutes, because of another"
                    f" transaction{who}: start again when it has ended, or end it by pg_terminate_backend"
                ) from error
        except errors.InsufficientPrivilege as error:
            said = str(error).strip().splitlines()[0]
            raise Unavailable(
                f"this user may not make or change the store's tables ({said}): open the store once, with this version,"
                " as their owner"
            ) from error
        time.sleep(random.uniform(0.1, LONGEST_PAUSE))


def _make_schema(connection: Connection, schema: str) -> None:
    try:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    except errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise Unavailable(
            f"this user may not make a schema in the database; as its owner run: CREATE SCHEMA {schema} AUTHORIZATION"
            f" {sql.Identifier(user).as_string(connection)}"
        ) from error
