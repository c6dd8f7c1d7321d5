"""Write transactions that stay open as long as a test wants, by the store's own code, each on its own connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from cofio.backends import rules
from cofio.backends.postgres.database import Connection, Connections, FirstAnswer, ServerAddress
from cofio.backends.postgres.record_rows import OPEN_TRANSACTION, PostgresTransaction
from cofio.config.address import StoreAddress
from cofio.values.changes import Change

LOCK_TIMEOUT = "5s"  # who waits for another that does not end gets an error


class OpenWrite:
    """A write transaction that has not been committed."""

    def __init__(self, connections: Connections, connection: Connection) -> None:
        connection.execute("BEGIN")
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        opening = FirstAnswer(lambda: connections.execute(connection, OPEN_TRANSACTION))
        self._connection = connection
        self.rows = PostgresTransaction(connections, connection, opening, datetime.now(UTC))

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes, and all that goes with them but the commit."""
        rules.apply(self.rows, changes, rules.prepare(changes))
        self.rows.finish()

    def commit(self) -> None:
        """Commit."""
        self._connection.execute("COMMIT")


@contextmanager
def open_writes(store: StoreAddress, most: int) -> Iterator[Callable[[], OpenWrite]]:
    """Give what begins a write transaction; what was not committed is undone at the end."""
    connections = Connections(ServerAddress.parse(store.spell()), sync="normal", size=most)
    connections.open()
    with ExitStack() as stack:
        stack.callback(connections.close)
        yield lambda: OpenWrite(connections, stack.enter_context(connections.borrow()))
