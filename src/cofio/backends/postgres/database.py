"""Connections to the database: a pool of them, statements in the store's own schema, and what its errors mean."""

from __future__ import annotations

import random
import re
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from ...values.errors import Invalid, Unavailable
from ..reach import get_reach
from .conditions import ALL_SCOPES, encode_reach

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]

DEFAULT_SCHEMA = "cofio"
POOL_SIZE = 16
PATIENCE = 30.0  # seconds that a caller waits for a connection, or for a server that restarts
TRIES = 30  # of a transaction that others are in the way of
LONGEST_PAUSE = 0.2  # seconds between two of them
MOST_STATEMENTS = 2000
MOST_SCOPES = 100_000
PUBLIC = "the database cannot be reached"
SET_REACH = "SELECT set_config('cofio.scopes', $1, true)"
MOST_PARTITIONS = 1024
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_NAME = re.compile(r"(?<![@\w])@([a-z]\w*)")
_OPERATOR = re.compile(r"<#>")
# What another transaction was in the way of: it is as if this one had not begun.
_TRY_AGAIN = (
    errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation, errors.NotNullViolation,
    errors.LockNotAvailable,
)  # fmt: skip
# The server is gone, or is about to be: a transaction that had not been told to commit is undone.
_LOST = (
    errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.ConnectionException,
    errors.ConnectionDoesNotExist, errors.ConnectionFailure, errors.IdleInTransactionSessionTimeout,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the database is, and which of its schemas holds the store."""

    conninfo: str
    schema: str
    partitions: int = 0
    """In how many parts the large tables are to be; 0 when the address does not say."""

    @classmethod
    def parse(cls, url: str) -> ServerAddress:
        """Read an address: PostgreSQL's own, and `schema` and `partitions` among its parameters.

        Raises:
            Invalid: it is no address of a database.
        """
        plain, schema = _take_parameter(url, "schema", DEFAULT_SCHEMA)
        plain, partitions = _take_parameter(plain, "partitions", "0")
        if partitions != "0" and not (_NUMBER.fullmatch(partitions) and 2 <= int(partitions) <= MOST_PARTITIONS):
            raise Invalid("store", f"partitions takes a number from 2 to {MOST_PARTITIONS:,}, not {partitions!r}")
        if not _NAME.fullmatch(schema):
            raise Invalid("store", f"{schema!r} is not the name of a schema: it takes letters, digits and _")
        try:
            known = conninfo_to_dict(plain)
        except psycopg.Error as error:
            # Without its words, in which the password may stand.
            raise Invalid("store", "is no address of a PostgreSQL database that can be read") from error
        own = {"application_name": "cofio", "connect_timeout": "10"}
        missing = {name: value for name, value in own.items() if name not in known}
        return cls(make_conninfo(plain, **missing), schema, int(partitions))


def _take_parameter(url: str, name: str, default: str) -> tuple[str, str]:
    """An address without one of its parameters, and the parameter's value.

    As text: whatever else is in the address is the database's own business.
    """
    pattern = re.compile(rf"([?&]){name}=([^&]*)(&|$)")
    found = pattern.search(url)
    return pattern.sub(lambda part: part[1] if part[3] else "", url), found[2] if found else default


class FirstAnswer:
    """What the first statement of a transaction answers; it is fetched with the next answer, or when it is needed."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._row: tuple[Any, ...] | None = None

    def fetch(self) -> tuple[Any, ...]:
        """Return its row."""
        if self._row is None:
            self._row = self._cursor.fetchone()
            assert self._row is not None
        return self._row


class Connections:
    """The connections that a process has to one store."""

    def __init__(self, address: ServerAddress, *, sync: str, size: int = POOL_SIZE) -> None:
        self.schema = address.schema
        self.partitions = address.partitions
        """In how many parts the large tables are to be; 0 when the address does not say."""
        self.row_security = False
        """Whether the database shows to a transaction only the scopes that it says it may see."""
        self._address = address
        self._sync = sync
        self._statements: dict[str, str] = {}
        self.vector_schema = "public"
        """The schema of the database that pgvector is in."""
        self.known_scopes: set[bytes] = set()
        """Paths that are likely to be in the table of scopes: a transaction that finds one missing runs again."""
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            address.conninfo,
            min_size=0,
            max_size=size,
            timeout=PATIENCE,
            max_idle=60.0,
            reconnect_timeout=PATIENCE,
            open=False,
            name="cofio",
            num_workers=2,
            kwargs={"autocommit": True, "cursor_factory": psycopg.RawCursor},
        )

    def open(self) -> None:
        """Begin to take connections."""
        self._pool.open()

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def write_sql(self, statement: str) -> str:
        """Return a statement with the names of the store's own tables, which it writes as @record, spelled out.

        @@ is before names of pgvector.
        """
        written = self._statements.get(statement)
        if written is None:
            written = _OWN_NAME.sub(lambda name: f'"{self.schema}".{name[1]}', statement)
            written = written.replace("@@", f'"{self.vector_schema}".')
            written = _OPERATOR.sub(f'OPERATOR("{self.vector_schema}".<#>)', written)
            if len(self._statements) >= MOST_STATEMENTS:  # filters make new ones without end
                self._statements.clear()
            self._statements[statement] = written
        return written

    def note_scope(self, path: bytes) -> None:
        """Note that a scope is about to be in the table of scopes."""
        if len(self.known_scopes) >= MOST_SCOPES:
            self.known_scopes.clear()
        self.known_scopes.add(path)

    @contextmanager
    def borrow(self) -> Iterator[Connection]:
        """Lend a connection with no transaction open.

        Raises:
            Unavailable: the server cannot be reached, or all connections are in use for long.
        """
        with translate_errors(self._address), self._lend() as connection:
            yield connection

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Lend a new connection, outside the pool: what is wrong with the address is told at once."""
        with (
            translate_errors(self._address),
            psycopg.connect(self._address.conninfo, autocommit=True, cursor_factory=psycopg.RawCursor) as connection,
        ):
            yield connection

    def execute(self, connection: Connection, statement: str, values: Sequence[object] = ()) -> Cursor:
        """Run a statement."""
        return connection.execute(self.write_sql(statement), values)

    def fetch(
        self, statement: str, values: Sequence[object] = (), *, for_caller: bool = False
    ) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own, and return its rows; it is tried again if the server is lost.

        It must be one that may run twice. It is the store's own business, and sees every scope, unless it is for the
        caller.
        """
        reach = encode_reach(get_reach()) if for_caller else ALL_SCOPES

        def run() -> list[tuple[Any, ...]]:
            with self._lend() as connection:
                if not self.row_security:
                    cursor = self.execute(connection, statement, values)
                else:
                    with connection.pipeline():
                        connection.execute("BEGIN")
                        connection.execute(SET_REACH, (reach,))
                        cursor = self.execute(connection, statement, values)
                        connection.execute("COMMIT")
                return cursor.fetchall() if cursor.description else []

        with translate_errors(self._address):
            return retry(run)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Lend a connection with a transaction for the store's own business, which sees every scope."""
        with self.borrow() as connection, connection.transaction():
            if self.row_security:
                connection.execute(SET_REACH, (ALL_SCOPES,))
            yield connection

    def transact(self, opening: str, work: Callable[[Connection, FirstAnswer], T]) -> T:
        """Return what `work` does in a transaction, which begins with the statement `opening`, and is then committed.

        It runs again where others were in the way, or the server was lost before the commit. The opening is given what
        the caller may see; its first column is the number of the transaction.
        """
        with translate_errors(self._address):
            return retry(lambda: self._run_once(opening, work))

    def _run_once(self, opening: str, work: Callable[[Connection, FirstAnswer], T]) -> T:
        number, result = "", list[T]()
        try:
            with self._lend() as connection, connection.pipeline():
                connection.execute("BEGIN")
                if self._sync != "full":  # a crash of the server may then lose the last changes
                    connection.execute("SET LOCAL synchronous_commit = off")
                opened = FirstAnswer(self.execute(connection, opening, (encode_reach(get_reach()),)))
                answer = work(connection, opened)
                number = opened.fetch()[0]
                result.append(answer)
                connection.execute("COMMIT")
        except errors.NotNullViolation:
            self.known_scopes.clear()  # one of them was not there: its transaction was undone
            raise
        except psycopg.OperationalError as error:
            self.known_scopes.clear()
            if not result or not is_lost(error) or not self._was_committed(number):
                raise
        return result[0]

    @contextmanager
    def snapshot(self, opening: str) -> Iterator[tuple[Connection, FirstAnswer]]:
        """Lend a connection on which all reads see one moment. It begins with the statement `opening`, which is given
        what the caller may see.
        """
        with translate_errors(self._address), self._lend() as connection, connection.pipeline():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection, FirstAnswer(self.execute(connection, opening, (encode_reach(get_reach()),)))
            connection.execute("COMMIT")

    def _was_committed(self, number: str) -> bool:
        until = time.monotonic() + PATIENCE
        while True:
            ((status,),) = retry(lambda: self._fetch_raw("SELECT pg_xact_status($1::xid8)", (number,)))
            if status in ("committed", "aborted"):
                return bool(status == "committed")
            if status is None or time.monotonic() > until:
                raise Unavailable(
                    "the connection was lost while a change was committed, and the server does not say whether it was:"
                    " read it before you try again",
                    public="it is not known whether the change was made: read it before you try again",
                )
            time.sleep(0.05)  # the server has yet to notice that the connection is gone

    def _fetch_raw(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lend() as connection:
            return self.execute(connection, statement, values).fetchall()

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        """Lend a connection of the pool, which has not been closed by the server while it lay idle.

        The pool has a check of its own, which waits longer and longer between two connections that fail it.
        """
        connection = self._pool.getconn()
        while connection.closed or _has_input(connection.fileno()):  # one that lies idle has nothing else to say
            connection.close()
            self._pool.putconn(connection)
            connection = self._pool.getconn()
        try:
            with connection:  # which undoes a transaction that is open, and leaves the connection open
                yield connection
        finally:
            self._pool.putconn(connection)


def _has_input(descriptor: int) -> bool:
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()  # select() knows no descriptor past 1024
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def retry(work: Callable[[], T]) -> T:
    """Return what `work` does, which runs again as long as others are in its way, or a lost server is not back."""
    until = time.monotonic() + PATIENCE
    tries = 0
    while True:
        try:
            return work()
        except _TRY_AGAIN:
            tries += 1
            if tries >= TRIES:
                raise
        except psycopg.OperationalError as error:
            if not is_lost(error) or time.monotonic() > until:
                raise
            tries += 1
        time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.001 * 2 ** min(tries, 10))))


def is_lost(error: psycopg.Error) -> bool:
    """Whether an error says that the connection is gone, and with it the transaction."""
    if isinstance(error, PoolTimeout | errors.QueryCanceled | errors.DiskFull | errors.InsufficientResources):
        return False
    return isinstance(error, _LOST) or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None)


@contextmanager
def translate_errors(address: ServerAddress) -> Iterator[None]:
    """Raise Unavailable for what the database or the way to it fails at, with what would help."""
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable(
            f"no connection to the database was free within {PATIENCE:g} seconds ({error}): it cannot be reached, or"
            " too many calls wait for it",
            public=PUBLIC,
        ) from error
    except errors.InsufficientPrivilege as error:
        said = str(error).strip().splitlines()[0]
        if "row-level security" in said:
            raise Unavailable(
                f"a change outside of the scopes of its caller was refused ({said})", public=PUBLIC
            ) from error
        raise Unavailable(
            f"the database does not let this user do that ({said}); as its owner run: GRANT ALL ON SCHEMA"
            f" {sql.Identifier(address.schema).as_string(None)}, and on all tables and sequences in it, to this user",
            public=PUBLIC,
        ) from error
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise Unavailable(
            f"the store's tables are gone from schema {address.schema}: put a backup of them back, or open it again to"
            " begin with an empty store",
            public=PUBLIC,
        ) from error
    except errors.UndefinedColumn as error:
        raise Unavailable(
            f"the tables in schema {address.schema} are those of another version of cofio: install the newest, and"
            " start again",
            public=PUBLIC,
        ) from error
    except psycopg.Error as error:
        lines = str(error).strip().splitlines()
        said = lines[0] if lines else type(error).__name__
        raise Unavailable(f"the database failed: {said}", public=PUBLIC) from error
