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
from ...values.times import from_micros
from ..interface import Backend, Identity, ReplicaState, Trouble
from ..record_columns import decode_record, unpack_vector
from ..record_interface import Snapshot, Transaction
from ..spool import spool
from ..store_copy import Loader, StorePart
from ..upkeep_interface import CodeBatch, EmbedBatch, Maintenance, Task, Upkeep
from .conditions import Values, within
from .database import Connection, Connections, FirstAnswer, ServerAddress, WholeChange
from .dump import GIVEN, dump, fetch_pages, page_records
from .migrations import Server, find_store, prepare
from .record_rows import COLUMNS, OPEN_SNAPSHOT, OPEN_TRANSACTION, PostgresRecords, PostgresTransaction
from .replica import Replica
from .searcher import PostgresSearcher, open_searcher
from .shared_values import STANDBY, PostgresSharedValues, read_shared_value
from .store_loader import check_whole, open_loader
from .upkeep import PostgresUpkeep
from .vector_rows import claim, claim_uncoded

T = TypeVar("T")
VERIFY_PATIENCE = 2.0  # seconds that the server has to answer who asks only whether it is there
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
            # As a number: how a time is written depends on the DateStyle and TimeZone of the user.
            ((server,),) = self._connections.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            after = datetime.now(UTC)
            self._ahead = from_micros(server) - (before + (after - before) / 2)
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
        pool_size: int = 8,
        row_security: bool = False,
        clock: Callable[[], datetime] | None = None,
        read_url: str = "",
        replica_lag: float = 5.0,
    ) -> None:
        """`name` is what people may see of the address; `copy_to_folder` makes a store in a folder of this one.

        `read_url` is that of a standby, to which reads may go as long as it is at most `replica_lag` seconds behind.
        With `row_security` the database holds each transaction to what its caller may see, from now on.
        """
        self._name = name
        self._copy_to_folder = copy_to_folder
        self._connections = Connections(ServerAddress.parse(url), sync=sync, size=pool_size)
        self._connections.open()
        try:
            self._server: Server = prepare(self._connections, row_security=row_security)
            check_whole(self._connections, name)
            self._connections.read_only = self.read_only
            self._replica = self._open_replica(read_url, replica_lag) if read_url else None
        except BaseException:
            self._connections.close()
            raise
        self._clock = clock or ServerClock(self._connections)
        self._upkeep = PostgresUpkeep(self._connections, self._clock)
        self.shared_values = PostgresSharedValues(self._connections, read_only=self.read_only)
        """What all processes on the store have in common."""

    def _open_replica(self, url: str, most_lag: float) -> Replica | None:
        if self.read_only:
            return None  # this is one itself
        ((store,),) = self._connections.fetch("SELECT store FROM @state")
        return Replica(url, self._connections, store=store, most_lag=most_lag)

    @staticmethod
    def find_store(url: str) -> str | None:
        """What tells the store at an address from all others; None when there is none."""
        return find_store(Connections(ServerAddress.parse(url), sync="full", size=1))

    @staticmethod
    def read_shared(url: str, name: str) -> str | None:
        """Return what the processes on the store at an address have in common under a name."""
        return read_shared_value(Connections(ServerAddress.parse(url), sync="full", size=1), name)

    @staticmethod
    def open_loader(url: str, name: str, store: str) -> AbstractContextManager[Loader]:
        """A copy of the store with this id, to be made at an address, of which people may see `name`."""
        return open_loader(url, name, store)

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

    @property
    def replica(self) -> ReplicaState | None:
        """How the standby is getting on that reads may go to."""
        return None if self._replica is None else self._replica.describe()

    def run_on_replica(self, work: Callable[[], T]) -> T:
        """What `work` returns, whose reads may be answered by the standby."""
        return work() if self._replica is None else self._replica.run(work)

    @property
    def _reads(self) -> Connections:
        """The connections that the reads of this thread take."""
        return (self._replica and self._replica.connections) or self._connections

    def _note_write(self) -> None:
        if self._replica is not None:
            self._replica.note_write()

    def verify(self) -> None:
        """Verify that the store is there, and is one that this version may use."""
        for (needs,) in self._connections.fetch_once("SELECT needs FROM @state", patience=VERIFY_PATIENCE):
            self._server.check_needs(needs)

    def find_trouble(self) -> Trouble | None:
        """Return None: a server that cannot be used fails `verify`."""
        return None

    def identity(self) -> Identity:
        """Which store this is, and how far it has come."""
        sql = "SELECT store, (SELECT coalesce(sum(changes), 0)::bigint FROM @moment) FROM @state"
        ((store, position),) = self._connections.fetch(sql)
        return Identity(store, position)

    # Reading and writing records.

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Open a snapshot that includes every write acknowledged before it."""
        reads = self._reads
        with reads.snapshot(OPEN_SNAPSHOT) as (connection, opening):
            yield PostgresRecords(reads, connection, opening, self._clock())

    def transact(self, work: Callable[[Transaction], T], *, frees_space: bool = False) -> T:
        """What `work` returns, run in a transaction; again when others are in its way."""
        if self.read_only:
            raise Unavailable(STANDBY)
        if self._replica is not None:
            self._replica.leave()  # what a change relies on is read where it is changed

        def run(connection: Connection, opening: FirstAnswer) -> tuple[T, WholeChange | None]:
            transaction = PostgresTransaction(self._connections, connection, opening, self._clock())
            result = work(transaction)
            whole = transaction.finish()
            if whole is None:
                self._server.check_needs(opening.fetch()[-3])
            return result, whole

        try:
            return self._connections.change(OPEN_TRANSACTION, run)
        finally:
            self._note_write()

    def search(self, bounds: Bounds) -> AbstractContextManager[PostgresSearcher]:
        """A search within bounds."""
        return open_searcher(self._reads, bounds, self._clock, self._find_writer)

    def _find_writer(self) -> Connections:
        """Return connections on which something can be changed; what this thread reads next shows it."""
        if self._replica is not None:
            self._replica.leave()
        self._note_write()
        return self._connections

    def export(self, bounds: Bounds) -> Iterator[Record]:
        """Every record within bounds, oldest change first.

        They are spooled first: a slow consumer must not keep a transaction open, for which the server keeps old rows.
        """
        for row, given in spool(partial(self._read_export, bounds, self._clock()), None):
            record = decode_record(row)
            yield replace(record, given={part: unpack_vector(data) for part, data in given}) if given else record

    def _read_export(self, bounds: Bounds, now: datetime) -> Generator[tuple[Any, Any]]:
        """The rows of the records within bounds, each with the vectors that were given with it."""
        reads = self._reads
        with reads.snapshot(OPEN_SNAPSHOT) as (connection, opening):
            records = PostgresRecords(reads, connection, opening, now)
            values = Values(0)
            condition = within(bounds, records.at, values)
            statement = page_records(f"{COLUMNS}, {GIVEN}", condition)
            for _, *columns, parts, vectors in fetch_pages(reads, connection, statement, *values.list[1:]):
                yield tuple(columns), list(zip(parts or (), vectors or (), strict=True))

    def dump(self) -> Generator[StorePart]:
        """All that the store holds, as of one moment."""
        return dump(self._connections)

    # Derived work.

    @contextmanager
    def claim(self, embedder: str, limit: int) -> Iterator[EmbedBatch | None]:
        """Have up to `limit` records that need a vector of an embedder to oneself, for the block."""
        try:
            with claim(self._connections, embedder, limit) as batch:
                yield batch
        finally:
            self._note_write()

    @contextmanager
    def claim_uncoded(self, embedder: str, limit: int) -> Iterator[CodeBatch | None]:
        """Have up to `limit` records whose vectors have no token codes to oneself, for the block."""
        try:
            with claim_uncoded(self._connections, embedder, limit) as batch:
                yield batch
        finally:
            self._note_write()

    def upkeep(self, task: Task) -> Upkeep:
        """Do a piece of the background work."""
        if self.read_only:
            raise Unavailable(STANDBY)
        try:
            return self._upkeep.run(task)
        finally:
            self._note_write()

    def rebuild(self, embedder: str | None, progress: Progress | None = None, *, vectors: bool = False) -> None:
        """Rebuild everything derived."""
        self._upkeep.rebuild(embedder, progress, vectors=vectors)
        self._note_write()

    def close(self) -> None:
        """Close the connections."""
        if self._replica is not None:
            self._replica.close()
        self._connections.close()
