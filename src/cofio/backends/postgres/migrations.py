"""Whether a server can hold a store, and the store's tables: made by the first process that opens it, and brought up to
date by the first that is newer.
"""

from __future__ import annotations

from functools import partial
from importlib.resources.abc import Traversable
from typing import NamedTuple

from psycopg import errors

from ...values.errors import Invalid, Unavailable
from . import row_security as security
from .database import Connection, Connections
from .schema_changes import change_table, count_partitions, make_steps, read_state, retry_change
from .schema_steps import list_steps

OLDEST_SERVER = 150000
OLDEST_VECTOR = (0, 7)
ITERATIVE_SCAN = (0, 8)  # the pgvector from which on an index is used


class Server(NamedTuple):
    """What is known of the server that a store is on."""

    version: int
    vector_version: str
    is_standby: bool
    """Whether it follows another, and can only be read."""
    newest: int = 0
    """The number of the last step that this version knows."""

    def check_needs(self, needs: int) -> None:
        """Raise Unavailable if the store needs a version that knows this step, and this one does not."""
        if needs > self.newest:
            raise Unavailable(
                f"the store was brought up to date by a newer cofio (it needs schema {needs}, this version knows"
                f" {self.newest}): install the newer one, and start again"
            )


def prepare(connections: Connections, *, row_security: bool = False, folder: Traversable | None = None) -> Server:
    """See to it that the server can hold a store and that its tables are there, as this version knows them.

    `folder` holds the steps, if they are not cofio's own.

    Raises:
        Unavailable: it cannot, and the message says which statement would help; or a newer cofio has made the tables.
        Invalid: the address asks for another number of partitions than the store has.
    """
    steps = list_steps(folder)
    with connections.connect() as connection:
        server = _examine(connections, connection)._replace(newest=steps[-1].number)
        found = read_state(connections, connection)
        if found is None or found.schema < server.newest:
            if server.is_standby:
                there = "has no store" if found is None else "has a store that is to be brought up to date"
                raise Unavailable(f"the server is a standby, which can only be read, and {there}: open its primary")
            make_steps(connections, connection, steps)
            found = read_state(connections, connection)
        assert found is not None
        server.check_needs(found.needs)
        _check_partitions(connections, connection)
        if row_security:
            security.check_role(connection)
            for table in [] if server.is_standby else security.list_unsecured(connections, connection):
                statement = security.write_statement(connections, connection, table)
                retry_change(connection, partial(change_table, connections, connection, statement))
        connections.row_security = security.is_on(connections, connection)
        connections.newest_step = server.newest
        return server


def find_store(connections: Connections) -> str | None:
    """What tells the store from all others; None when there is none."""
    with connections.connect() as connection:
        found = read_state(connections, connection)
        return None if found is None else found.store


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


def _check_partitions(connections: Connections, connection: Connection) -> None:
    found = count_partitions(connections, connection)
    if connections.partitions not in (0, found):
        has = f"has {found} partitions" if found else "has no partitions"
        raise Invalid(
            "store", f"it {has}, not {connections.partitions}, which cannot be changed: leave `partitions` out of the"
            " address, or `cofio copy` the memory to another schema with them",
        )  # fmt: skip
