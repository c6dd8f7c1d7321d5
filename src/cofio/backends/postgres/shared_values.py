"""What all processes on a store have in common: short texts by name, as rows."""

from __future__ import annotations

from psycopg import errors

from ...values.errors import Unavailable
from .database import Connection, Connections, FirstAnswer

STANDBY = "the server is a standby: it can be searched and read, not changed"
PATIENCE = 4.0  # seconds that a read waits for a connection: a request may wait for it
_OPENING = "SELECT true AS is_open"
_READ = "SELECT value FROM @shared WHERE name = $1"
_ADD = "INSERT INTO @shared (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING name"
_REPLACE = "UPDATE @shared SET value = $2 WHERE name = $1 AND value = $3 RETURNING name"


class PostgresSharedValues:
    """The values of one store."""

    def __init__(self, connections: Connections, *, read_only: bool) -> None:
        self._connections = connections
        self.read_only = read_only

    def read(self, name: str) -> str | None:
        """What stands under a name."""
        rows = self._connections.fetch_once(_READ, (name,), patience=PATIENCE)
        return str(rows[0][0]) if rows else None

    def replace(self, name: str, old: str | None, new: str) -> bool:
        """Put `new` in the place of `old`; False when something else stands there."""
        if self.read_only:
            raise Unavailable(STANDBY)

        def run(connection: Connection, _: FirstAnswer) -> bool:
            values = (name, new) if old is None else (name, new, old)
            cursor = self._connections.execute(connection, _ADD if old is None else _REPLACE, values)
            return bool(cursor.fetchall())

        return self._connections.transact(_OPENING, run)


def read_shared_value(connections: Connections, name: str) -> str | None:
    """Return what stands under a name in a store that is not opened for it; None also when there is no store."""
    with connections.connect() as connection:
        try:
            row = connections.execute(connection, _READ, (name,)).fetchone()
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            return None
        return None if row is None else str(row[0])
