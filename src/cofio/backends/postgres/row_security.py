"""Row-level security: whether the database holds each transaction to the scopes that it says it may see.

The policies are there from the first step on. The setting turns them on, for every process that uses the store.
"""

from __future__ import annotations

from psycopg import sql

from ...values.errors import Unavailable
from .database import Connection, Connections

# The partitions of a table, too: with no policy of their own, they show their rows through the table alone.
_TABLES = """
SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = coalesce(pg_partition_root(c.oid), c.oid))
ORDER BY c.relname
"""
_ROLE = "SELECT current_user, r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user"


def is_on(connections: Connections, connection: Connection) -> bool:
    """Whether some table of the store is under it: then all transactions have to say what they may see."""
    return any(secured for _, secured in connection.execute(_TABLES, (connections.schema,)))


def list_unsecured(connections: Connections, connection: Connection) -> list[str]:
    """The tables that are to be under row security, and are not."""
    return [name for name, secured in connection.execute(_TABLES, (connections.schema,)) if not secured]


def write_statement(connections: Connections, connection: Connection, table: str) -> str:
    """The statement that puts a table under row security, for its owner, too."""
    name = sql.Identifier(connections.schema, table).as_string(connection)
    return f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"


def check_role(connection: Connection) -> None:
    """See to it that this user is bound by row security.

    Raises:
        Unavailable: it is not.
    """
    row = connection.execute(_ROLE).fetchone()
    assert row is not None
    user, is_free = row
    if is_free:
        raise Unavailable(
            f"row_security is on, and the database's user {user} is a superuser or has BYPASSRLS, whom it does not"
            " bind: use another, made by: CREATE ROLE cofio LOGIN NOSUPERUSER NOBYPASSRLS"
        )
