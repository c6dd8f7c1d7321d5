"""What the errors of the database mean: which of them pass, which say that the server is away, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors, sql
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from ...values.errors import Unavailable

PUBLIC = "the database cannot be reached"
UNKNOWN = "it is not known whether the change was made: read it before you try again"
# What another transaction was in the way of: it is as if this one had not begun.
_PASSING = (
    errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation, errors.NotNullViolation,
    errors.LockNotAvailable,
)  # fmt: skip
# A pooler gave this connection another session of the server than the one in which a statement was prepared.
OF_OTHER_SESSION = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
# The session is over, or is on a server that became a standby. A transaction that was not told to commit is undone.
_LOST = {
    "57P01", "57P02", "57P03", "57P05",  # the server is shut down, has crashed, is starting, or found it idle
    "25P03", "25P04",  # a transaction was idle, or open, for longer than the server allows
    "25006",  # it can only be read
}  # fmt: skip
_HELP = {
    "25006": "it can only be read: it is a standby, or default_transaction_read_only is on for this user or database",
    "3D000": "there is no such database: put a backup of it back",
    "53100": "its disk is full: free some space on its server",
    "53300": "it has no connection left: raise max_connections, set COFIO_POOL_SIZE lower, or put a pooler before it",
    "55P03": "a lock was not free within the lock_timeout of this user: raise it, or try again",
    "57014": "a statement was cut off: raise the statement_timeout of this user, or try again",
    "57P04": "it was dropped: put a backup of it back",
}
"""What would help, by the error's code."""


def is_lost(error: psycopg.Error) -> bool:
    """Whether an error says that the connection is gone or of no use, and with it the transaction."""
    if isinstance(error, PoolTimeout | PoolClosed | TooManyRequests):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _LOST or error.sqlstate.startswith("08") or isinstance(error, OF_OTHER_SESSION)


def is_passing(error: psycopg.Error) -> bool:
    """Whether an error says that others were in the way of a transaction, which may run again at once."""
    return isinstance(error, _PASSING)


@contextmanager
def translate_errors(schema: str) -> Iterator[None]:
    """Raise Unavailable for what the database or the way to it fails at, with what would help."""
    try:
        yield
    except psycopg.Error as error:
        raise Unavailable(_explain(error, schema), public=PUBLIC if is_lost(error) else None) from error


def quote(error: psycopg.Error) -> str:
    """What an error says, in one line."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _explain(error: psycopg.Error, schema: str) -> str:
    said = quote(error)
    match error:
        case PoolTimeout():
            return (
                f"no connection to the database was free in time ({said}): too many calls wait for one; set"
                " COFIO_POOL_SIZE higher if the server has more to give"
            )
        case errors.InsufficientPrivilege() if "row-level security" in said:
            return f"a change outside of the scopes of its caller was refused ({said})"
        case errors.InsufficientPrivilege():
            return (
                f"the database does not let this user do that ({said}); as its owner run: GRANT ALL ON SCHEMA"
                f" {sql.Identifier(schema).as_string(None)}, and on all tables and sequences in it, to this user"
            )
        case errors.UndefinedTable() | errors.InvalidSchemaName():
            return (
                f"the store's tables are gone from schema {schema}: put a backup of them back, or open it again to"
                " begin with an empty store"
            )
        case errors.UndefinedColumn():
            return (
                f"the tables in schema {schema} are those of another version of cofio ({said}): install the newest, and"
                " start again"
            )
    help_ = _HELP.get(error.sqlstate or "")
    return f"the database failed: {help_} ({said})" if help_ else f"the database failed: {said}"
