"""The backend on PostgreSQL as a whole: what each door's read and write becomes in the parts beside this file."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, TypeVar

from ...values.errors import Unavailable
from ...values.progress import Progress
from ...values.query import Bounds
from ...values.records import Record
from ..interface import Backend, Identity
from ..record_columns import decode_record, unpack_vector
from ..record_interface import Snapshot, Transaction
from ..spool import spool
from ..store_copy import StorePart
from ..upkeep_interface import EmbedBatch, Maintenance, Task, Upkeep
from .conditions import Values, within
from .database import Connection, Connections, FirstAnswer, ServerAddress
from .dump import dump, fetch_in_order
from .migrations import Server, exists, prepare
from .record_rows import COLUMNS, OPEN_SNAPSHOT, OPEN_TRANSACTION, PostgresRecords, PostgresTransaction
from .searcher import PostgresSearcher, open_searcher
from .upkeep import PostgresUpkeep
from .vector_rows import claim

T = TypeVar("T")
SYNC_CLOCK_EVERY = 60.0  # seconds between two looks at the server's clock


class ServerClock:
    """The time of the server, from this machine's clock and how far it is off: all machines have the same."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._ahead = timedelta()
        self._read_at = -SYNC_CLOCK_EVERY

    def __call__(self) -> datetime:
        """Return the time."""
        if time.monotonic() - self._read_at >= SYNC_CLOCK_EVERY:
            self._read_at = time.monotonic()
            before = datetime.now(UTC)
            ((server,),) = self._connections.fetch("SELECT clock_timestamp()")
            after = datetime.now(UTC)
            self._ahead = server.astimezone(UTC) - (before + (after - before) / 2)
        return datetime.now(UTC) + self._ahead


class PostgresBackend:
    """A store in a schema of a database."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        copy_to_folder: Callable[[Backend, str, Progress | None], None],
        sync: str = "full",
        row_security: bool = False,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`name` is what people may see of the address; `copy_to_folder` makes a store in a folder of this one.

        With `row_security` the database holds each transaction to what its caller may see, from now on.
        """
        self._name = name
        self._copy_to_folder = copy_to_folder
        self._connections = Connections(ServerAddress.parse(url), sync=sync)
        self._connections.open()
        try:
            self._server: Server = prepare(self._connections, row_security=row_security)
        except BaseException:
            self._connections.close()
            raise
        self._clock = clock or ServerClock(self._connections)
        self._upkeep = PostgresUpkeep(self._connections, self._clock)

    @staticmethod
    def exists(url: str) -> bool:
        """Whether there is a store at an address."""
        connections = Connections(ServerAddress.parse(url), sync="full", size=1)
        connections.open()
        try:
            return exists(connections)
        finally:
            connections.close()

    @cached_property
    def maintenance(self) -> Maintenance:
        """What people ask of the store as a whole."""
        from .maintenance import PostgresMaintenance

        return PostgresMaintenance(
            self._name, self._connections, self._server, self._clock, self._upkeep.count_waiting,
            partial(self._copy_to_folder, self),
        )  # fmt: skip

    @property
    def read_only(self) -> bool:
        """Whether it can be read and not be changed."""
        return self._server.is_standby

    def verify(self) -> None:
        """Verify that the store is there, and is one that this version may use."""
        for (needs,) in self._connections.fetch("SELECT needs FROM @state"):
            self._server.check_needs(needs)

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""
        sql = "SELECT store, (SELECT coalesce(sum(changes), 0)::bigint FROM @moment) FROM @state"
        ((store, position),) = self._connections.fetch(sql)
        return Identity(store, position)

    # Reading and writing records.

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Open a snapshot that includes every write acknowledged before it."""
        with self._connections.snapshot(OPEN_SNAPSHOT) as (connection, opening):
            yield PostgresRecords(self._connections, connection, opening, self._clock())

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """What `work` returns, run in a transaction; again when others are in its way."""
        if self.read_only:
            raise Unavailable("the server is a standby: it can be searched and read, not changed")

        def run(connection: Connection, opening: FirstAnswer) -> T:
            transaction = PostgresTransaction(self._connections, connection, opening, self._clock())
            result = work(transaction)
            transaction.finish()
            self._server.check_needs(opening.fetch()[1])
            return result

        return self._connections.transact(OPEN_TRANSACTION, run)

    def search(self, bounds: Bounds) -> AbstractContextManager[PostgresSearcher]:
        """A search within bounds."""
        return open_searcher(self._connections, bounds, self._clock)

    def export(self, bounds: Bounds) -> Iterator[Record]:
        """Every record within bounds, oldest change first.

        They are spooled first: a slow consumer must not keep a transaction open, for which the server keeps old rows.
        """
        for row, given in spool(partial(self._read_export, bounds, self._clock()), None):
            record = decode_record(row)
            yield replace(record, given={part: unpack_vector(data) for part, data in given}) if given else record

    def _read_export(self, bounds: Bounds, now: datetime) -> Generator[tuple[Any, Any]]:
        """The rows of the records within bounds, each with the vectors that were given with it."""
        with self._connections.snapshot(OPEN_SNAPSHOT) as (connection, opening):
            records = PostgresRecords(self._connections, connection, opening, now)
            values = Values(0, 0)
            condition = within(bounds, records.at, values)
            given = (
                "(SELECT array_agg(g.part ORDER BY g.part) FROM @given g WHERE g.scope = r.scope AND g.no = r.no),"
                " (SELECT array_agg(g.data ORDER BY g.part) FROM @given g WHERE g.scope = r.scope AND g.no = r.no)"
            )
            statement = (
                f"SELECT r.seq, {COLUMNS}, {given} FROM @record r WHERE {condition} AND r.seq > $1"
                " ORDER BY r.seq LIMIT $2"
            )
            for _, *columns, parts, vectors in fetch_in_order(
                self._connections, connection, statement, *values.list[2:]
            ):
                yield tuple(columns), list(zip(parts or (), vectors or (), strict=True))

    def dump(self) -> Iterator[StorePart]:
        """All that the store holds, as of one moment."""
        with self._connections.snapshot(OPEN_SNAPSHOT) as (connection, opening):
            at = PostgresRecords(self._connections, connection, opening, self._clock()).at
            yield from dump(self._connections, connection, at)

    # Derived work.

    def claim(self, embedder: str, limit: int) -> AbstractContextManager[EmbedBatch | None]:
        """Have up to `limit` records that need a vector of an embedder to oneself, for the block."""
        return claim(self._connections, embedder, limit)

    def upkeep(self, task: Task) -> Upkeep:
        """Do a piece of the background work."""
        return self._upkeep.run(task)

    def rebuild(self, embedder: str | None, progress: Progress | None = None, *, vectors: bool = False) -> None:
        """Rebuild everything derived."""
        self._upkeep.rebuild(embedder, progress, vectors=vectors)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()
