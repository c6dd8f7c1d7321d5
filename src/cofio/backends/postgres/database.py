"""Connections to the database: a pool of them, statements in the store's own schema, and transactions that run again.

A transaction leaves a mark in `commit_mark`. When the connection is lost at the commit, the mark says whether that was
made; and where it was not, it keeps it from being made later.
"""

from __future__ import annotations

import itertools
import logging
import random
import re
import secrets
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from ...values.errors import Invalid, Unavailable
from ..reach import get_reach
from .conditions import ALL_SCOPES, encode_reach
from .server_errors import OF_OTHER_SESSION, UNKNOWN, is_lost, is_passing, quote, translate_errors

_log = logging.getLogger("cofio.store")
T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]

DEFAULT_SCHEMA = "cofio"
POOL_SIZE = 8
PATIENCE = 30.0  # seconds that callers wait for a connection, or for a server that restarts or is replaced
TRIES = 30  # of a transaction that others are in the way of
LONGEST_PAUSE = 0.2  # seconds between two of them
CONNECT_WAIT = 0.5  # seconds after which a caller looks why the pool has no connection yet
PREPARE_AFTER = 5  # uses of a statement
ASK_PATIENCE = "1s"  # that one look for a mark waits for a transaction that is still open
MARKS_LAST = 3600  # seconds that the marks of transactions are there
MARK_CLOCK_LASTS = 600  # seconds in which this process dates marks itself
MARK_CLOCK_RESTS = 60  # seconds in which it does not, after a change that was to be made in one trip was refused
ASK_WITHIN = 1800  # seconds in which a mark can be asked for; the rest is for clocks that differ
MOST_STATEMENTS = 2000
MOST_SCOPES = 100_000
_POOL = "cofio"
MOST_PARTITIONS = 1024
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_NAME = re.compile(r"(?<![@\w])@([a-z]\w*)")
_OPERATOR = re.compile(r"<#>")
_DEFAULTS = {
    "application_name": "cofio", "connect_timeout": "10",
    # A connection whose other end is gone without a word is noticed within half a minute.
    "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000",
}  # fmt: skip
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"  # whatever the default of the user is
_NOW = "(extract(epoch FROM {}) * 1000000)::bigint"
# What a transaction may see is said first: see the policies of the schema.
_SET_REACH = "set_config('cofio.scopes', $1, true)"
_OPENING = f"""
WITH mark AS (INSERT INTO @commit_mark (at, token) VALUES ({_NOW.format("now()")}, $2) RETURNING at)
SELECT mark.at, pg_backend_pid(), {{sync}}, {_SET_REACH}, opening.* FROM mark, ({{opening}}) AS opening
"""
SET_REACH = f"SELECT {_SET_REACH}"
_OPENING_READ = f"SELECT {_SET_REACH}, opening.* FROM ({{opening}}) AS opening"
# A transaction whose client is gone without the server having heard of it would keep what it locked for hours. One that
# does not wait for its client is left alone, as it may be in the midst of its commit.
_END_LOST = f"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = $1::integer AND abs({_NOW.format("xact_start")} - $2::bigint) < 60000000 AND wait_event = 'ClientRead'
"""
# It waits for a transaction that is still open. What it finds is the mark; what it adds keeps the transaction from
# being committed after this.
_ASK = f"""
INSERT INTO @commit_mark AS m (at, token, is_void)
SELECT $1::bigint, $2::bigint, true WHERE $1::bigint > {_NOW.format("now()")} - {ASK_WITHIN * 1_000_000}
ON CONFLICT (at, token) DO UPDATE SET is_void = m.is_void RETURNING is_void
"""
_KEEP_ALIVE = (  # as the client does, see _DEFAULTS
    "SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '30000', false)"
)
_FORGET_MARKS = f"DELETE FROM @commit_mark WHERE at < {_NOW.format('now()')} - {MARKS_LAST * 1_000_000}"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the database is, and which of its schemas holds the store."""

    conninfo: str
    schema: str
    partitions: int = 0
    """In how many parts the large tables are to be; 0 when the address does not say."""

    @classmethod
    def parse(cls, url: str, **defaults: str) -> ServerAddress:
        """Read an address: PostgreSQL's own, and `schema` and `partitions` among its parameters.

        `defaults` are parameters that it has unless it says otherwise, before those that all have.

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
        own = {name: value for name, value in {**_DEFAULTS, **defaults}.items() if name not in known}
        return cls(make_conninfo(plain, **own, client_encoding="utf8"), schema, int(partitions))


def _take_parameter(url: str, name: str, default: str) -> tuple[str, str]:
    """An address without one of its parameters, and the parameter's value.

    As text: whatever else is in the address is the database's own business.
    """
    pattern = re.compile(rf"([?&]){name}=([^&]*)(&|$)")
    found = pattern.search(url)
    return pattern.sub(lambda part: part[1] if part[3] else "", url), found[2] if found else default


class FirstAnswer:
    """What the first statement of a transaction answers; it is fetched with the next answer, or when it is needed.

    The transaction begins when `begin` is called, at the latest when the answer is needed.
    """

    def __init__(self, send: Callable[[], Cursor], *, may_wait: bool = False) -> None:
        """`send` begins the transaction, and sends its first statement: at once, unless it `may_wait`."""
        self._send = send
        self._cursor: Cursor | None = None
        self._row: tuple[Any, ...] | None = None
        if not may_wait:
            self.begin()

    @property
    def has_begun(self) -> bool:
        """Whether the transaction has begun."""
        return self._cursor is not None

    def begin(self) -> Cursor:
        """Begin the transaction, if it has not begun yet."""
        if self._cursor is None:
            self._cursor = self._send()
        return self._cursor

    def fetch(self) -> tuple[Any, ...]:
        """Return its row."""
        if self._row is None:
            self._row = self.begin().fetchone()
            assert self._row is not None
        return self._row


@dataclass(frozen=True, slots=True)
class WholeChange:
    """A change that is one statement, and a transaction by itself: it takes one trip to the server.

    The values of the mark come after its own, and `{sync}` stands where it says whether it waits for the disk. It
    divides by zero where it must not be made in this way.
    """

    statement: str
    values: tuple[object, ...]


class PooledConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of the pool, which its log can be told by."""


class Connections:
    """The connections that a process has to one store."""

    def __init__(
        self, address: ServerAddress, *, sync: str, size: int = POOL_SIZE, patience: float | None = None
    ) -> None:
        """`size` is the most connections; `patience` is how many seconds callers wait for one, or for a lost server."""
        self.schema = address.schema
        self.conninfo = address.conninfo
        self.partitions = address.partitions
        """In how many parts the large tables are to be; 0 when the address does not say."""
        self.row_security = False
        """Whether the database shows to a transaction only the scopes that it says it may see."""
        self._address = address
        is_durable = sync == "full"  # else a crash of the server may lose the last changes
        self._sync = "NULL" if is_durable else "set_config('synchronous_commit', 'off', true)"
        self._statements: dict[str, str] = {}
        self.vector_schema = "public"
        """The schema of the database that pgvector is in."""
        self.newest_step = 0
        """The number of the last step of the schema that this version knows."""
        self.read_only = False
        """Whether they lead to a standby, where nothing can be changed."""
        self.has_iterative_scan = False
        """Whether pgvector, as it does from 0.8 on, goes on with a search of an index until enough was found."""
        self.embedders: dict[str, int] = {}
        """The numbers of embedders, as a search has last seen them."""
        self.known_scopes: set[bytes] = set()
        """Paths that are likely to be in the table of scopes: a transaction that finds one missing runs again."""
        self._prepare_after: int | None = PREPARE_AFTER
        self._outage = Outage()
        self._mark_clock = MarkClock()
        self._own_patience = patience
        self.size = size
        self._room = threading.BoundedSemaphore(size)
        self._pool: ConnectionPool[PooledConnection] = ConnectionPool(
            address.conninfo,
            min_size=0,
            max_size=size,
            max_idle=60.0,
            reconnect_timeout=0.0,  # who needs a connection tries again
            open=False,
            name=_POOL,
            num_workers=2,
            connection_class=PooledConnection,
            kwargs={"autocommit": True, "cursor_factory": psycopg.RawCursor},
            configure=self._configure,
        )

    @property
    def _patience(self) -> float:
        return PATIENCE if self._own_patience is None else self._own_patience

    def open(self) -> None:
        """Begin to take connections."""
        logging.getLogger("psycopg.pool").addFilter(_is_of_others)
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
        with translate_errors(self.schema), self._lend(patiently=True) as connection:
            yield connection

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Lend a new connection, outside the pool: what is wrong with the address is told at once."""
        with translate_errors(self.schema), self._connect() as connection:
            self._find_pooler(connection)
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
        with translate_errors(self.schema):
            return self._retry(lambda: self._fetch_once(statement, values, reach))

    def fetch_once(self, statement: str, values: Sequence[object] = (), *, patience: float) -> list[tuple[Any, ...]]:
        """Run one statement as `fetch` does, but once, on a connection that is there within `patience` seconds."""
        with translate_errors(self.schema), self._lend(patience=patience) as connection:
            return self.execute(connection, statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Lend a connection with a transaction for the store's own business, which sees every scope."""
        with self.borrow() as connection, connection.transaction():
            if self.row_security:
                connection.execute(SET_REACH, (ALL_SCOPES,))
            yield connection

    def transact(self, opening: str, work: Callable[[Connection, FirstAnswer], T]) -> T:
        """Return what `work` does in a transaction, which begins with the statement `opening`, and is then committed.

        It runs again where others were in the way, or the server was lost before the commit. The opening's columns come
        last in the first answer.
        """
        with translate_errors(self.schema):
            return self._retry(lambda: self._run_once(opening, lambda *given: (work(*given), None)))

    def change(self, opening: str, work: Callable[[Connection, FirstAnswer], tuple[T, WholeChange | None]]) -> T:
        """Return what `work` does in a transaction, as `transact` does, or does without one.

        The first time the transaction begins only when `work` needs it; if it needs none, it may return a change that
        is a whole transaction by itself.
        """
        tries = itertools.count()
        with translate_errors(self.schema):
            return self._retry(lambda: self._run_once(opening, work, may_wait=next(tries) == 0))

    def forget_marks(self) -> None:
        """Remove the marks of transactions that are too old to be asked for."""
        self.fetch(_FORGET_MARKS)

    def _run_once(
        self,
        opening: str,
        work: Callable[[Connection, FirstAnswer], tuple[T, WholeChange | None]],
        *,
        may_wait: bool = False,
    ) -> T:
        token, result = secrets.randbits(62), list[T]()
        at, session = 0, 0
        # Behind a pooler the session is not known, and under row security it must be told first what it may see.
        may_wait = may_wait and not self.row_security and self._prepare_after is not None
        may_wait = may_wait and self._mark_clock.is_set
        try:
            with self._lend() as connection, ExitStack() as stack:

                def begin() -> Cursor:
                    stack.enter_context(connection.pipeline())
                    connection.execute(_BEGIN)
                    statement = _OPENING.format(sync=self._sync, opening=opening)
                    return self.execute(connection, statement, (encode_reach(get_reach()), token))

                opened = FirstAnswer(begin, may_wait=may_wait)
                answer, whole = work(connection, opened)
                if whole is None:
                    at, session = opened.fetch()[:2]
                    self._mark_clock.set(at)
                    result.append(answer)
                    connection.execute("COMMIT")
                else:
                    at, session = self._mark_clock.read(), connection.info.backend_pid
                    result.append(answer)
                    self.execute(connection, whole.statement.format(sync=self._sync), (*whole.values, at, token))
        except (errors.DivisionByZero, errors.InsufficientPrivilege) as error:
            if not may_wait:
                raise
            # Not in one trip, then. If another process has turned row security on, none can be made so any more.
            if isinstance(error, errors.InsufficientPrivilege):
                self._mark_clock.rest()
            raise errors.SerializationFailure("the change cannot be made in one trip") from error
        except psycopg.Error as error:
            if may_wait and isinstance(error, errors.NotNullViolation):
                self._mark_clock.rest()
            if isinstance(error, errors.ReadOnlySqlTransaction):
                result.clear()  # a standby says so: there is no commit to ask for
            if is_lost(error) or isinstance(error, errors.NotNullViolation):
                self.known_scopes.clear()  # one of them may not be there: its transaction was undone
            if not result or not is_lost(error) or not self._was_committed(token, at, session):
                raise
        return result[0]

    @contextmanager
    def snapshot(self, opening: str) -> Iterator[tuple[Connection, FirstAnswer]]:
        """Lend a connection on which all reads see one moment. It begins with the statement `opening`."""
        with translate_errors(self.schema), self._lend(patiently=True) as connection, connection.pipeline():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            statement = _OPENING_READ.format(opening=opening)
            reach = encode_reach(get_reach())
            yield connection, FirstAnswer(lambda: self.execute(connection, statement, (reach,)))
            connection.execute("COMMIT")

    def _was_committed(self, token: int, at: int, session: int) -> bool:
        """Whether the transaction of a mark was committed; if not, it never will be."""

        def ask() -> list[tuple[Any, ...]]:
            with self._lend() as connection, connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{ASK_PATIENCE}'")
                connection.execute(_END_LOST, (session, at))
                return self.execute(connection, _ASK, (at, token)).fetchall()

        try:
            found = self._retry(ask)
        except psycopg.Error as error:
            raise Unavailable(
                f"the connection was lost while a change was committed, and the database does not say whether it was"
                f" ({quote(error)}): read it before you try again",
                public=UNKNOWN,
            ) from error
        if not found:
            raise Unavailable(
                "the connection was lost while a change was committed, and that is too long ago to ask whether it was:"
                " read it before you try again",
                public=UNKNOWN,
            )
        return not found[0][0]

    def _fetch_once(self, statement: str, values: Sequence[object], reach: str) -> list[tuple[Any, ...]]:
        with self._lend() as connection:
            if not self.row_security:
                cursor = self.execute(connection, statement, values)
            else:
                with connection.pipeline():
                    connection.execute(_BEGIN)
                    connection.execute(SET_REACH, (reach,))
                    cursor = self.execute(connection, statement, values)
                    connection.execute("COMMIT")
            return cursor.fetchall() if cursor.description else []

    def _retry(self, work: Callable[[], T]) -> T:
        """Return what `work` does, which runs again as long as others are in its way, or a lost server is not back."""
        began, tries = time.monotonic(), 0
        while True:
            try:
                result = work()
            except psycopg.Error as error:
                tries += 1
                is_late = time.monotonic() - began > self._patience
                if is_lost(error):
                    if self._outage.note() > self._patience or is_late:
                        self._outage.report(error)
                        raise
                elif not is_passing(error) or tries >= TRIES or is_late:
                    raise
            else:
                self._outage.end()
                return result
            time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.001 * 2 ** min(tries, 10))))

    @contextmanager
    def _lend(self, *, patiently: bool = False, patience: float | None = None) -> Iterator[Connection]:
        """Lend a connection of the pool; `patiently` is for one who cannot run again what it does with it.

        `patience` is how many seconds the caller waits for it, if not as long as others do.
        """
        connection = self._retry(self._take) if patiently else self._take(patience)
        try:
            with connection:  # which undoes a transaction that is open, and leaves the connection open
                yield connection
        except errors.ReadOnlySqlTransaction:
            connection.close()  # the next is perhaps one to a server that can be written to
            raise
        except OF_OTHER_SESSION:
            self._prepare_after = None
            connection.close()
            raise
        finally:
            self._pool.putconn(connection)
            self._room.release()

    def _take(self, patience: float | None = None) -> PooledConnection:
        """Take a connection out of the pool, which has not been closed by the server while it lay idle."""
        patience = self._patience if patience is None else patience
        if not self._room.acquire(timeout=patience):
            raise PoolTimeout(f"all were in use for {patience:g} seconds")
        try:
            connection = self._wait_for_connection(patience)
            while connection.closed or _has_input(connection.fileno()):  # one that lies idle has nothing else to say
                connection.close()
                self._pool.putconn(connection)
                connection = self._wait_for_connection(patience)
        except BaseException:
            self._room.release()
            raise
        connection.prepare_threshold = self._prepare_after
        return connection

    def _wait_for_connection(self, patience: float) -> PooledConnection:
        """Wait until the pool has made a connection; when it fails to, find out why. There is room for one."""
        until = time.monotonic() + patience
        failures = self._count_failures()
        while True:
            try:
                return self._pool.getconn(timeout=CONNECT_WAIT)
            except PoolTimeout:
                if self._count_failures() > failures:
                    self._connect().close()  # which raises what is wrong, unless it has passed
                if time.monotonic() > until:
                    raise

    def _count_failures(self) -> int:
        return self._pool.get_stats().get("connections_errors", 0)

    def _connect(self) -> Connection:
        connection = psycopg.connect(self._address.conninfo, autocommit=True, cursor_factory=psycopg.RawCursor)
        connection.prepare_threshold = None
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def _configure(self, connection: Connection) -> None:
        # Whatever the default of the user is; it is sent with the next BEGIN.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if connection.info.parameter_status("standard_conforming_strings") != "on":
            connection.execute("SET standard_conforming_strings = on")  # or lists of bytes arrive as others
        if self._prepare_after is not None:  # else the session is not this connection's alone
            connection.execute(_KEEP_ALIVE)

    def _find_pooler(self, connection: Connection) -> None:
        """See whether a pooler is in between, which may take each transaction to another session of the server.

        Many know nothing of prepared statements.
        """
        ((session,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
        if session != connection.info.backend_pid:
            self._prepare_after = None


class MarkClock:
    """The server's time, as far as it is needed to date a mark: as the last mark that it dated itself tells."""

    def __init__(self) -> None:
        self._ahead = 0
        self._until = 0.0
        self._rests_until = 0.0

    @property
    def is_set(self) -> bool:
        """Whether it was set not long ago, and is not at rest."""
        return self._rests_until < time.monotonic() < self._until

    def rest(self) -> None:
        """Be not set for a while."""
        self._rests_until = time.monotonic() + MARK_CLOCK_RESTS

    def set(self, at: int) -> None:
        """Set it to what the server has just said, in microseconds since 1970."""
        self._ahead = at - time.monotonic_ns() // 1000
        self._until = time.monotonic() + MARK_CLOCK_LASTS

    def read(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self._ahead + time.monotonic_ns() // 1000


class Outage:
    """How long a server has been away: all callers wait for it together, not each for itself in turn."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._noted = 0.0
        self._is_logged = False

    def note(self) -> float:
        """Note that the server is away, and return for how many seconds it has been."""
        now = time.monotonic()
        if self._began is None or now - self._noted > PATIENCE:  # no call has failed for long
            self._began = now
        self._noted = now
        return now - self._began

    def report(self, error: psycopg.Error) -> None:
        """Log why callers are told that it is away, once."""
        if not self._is_logged:
            self._is_logged = True
            _log.error("the database cannot be reached: %s", quote(error))

    def end(self) -> None:
        """Note that it is there."""
        self._began = None
        if self._is_logged:
            self._is_logged = False
            _log.warning("the database is there again")


def _is_of_others(record: logging.LogRecord) -> bool:
    """Whether a line of psycopg's log is not of this pool: what fails here is in the error that a caller gets."""
    args = record.args if isinstance(record.args, tuple) else ()
    return not any(arg == _POOL or isinstance(arg, PooledConnection) for arg in args)


def _has_input(descriptor: int) -> bool:
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()  # select() knows no descriptor past 1024
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
