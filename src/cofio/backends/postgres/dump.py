"""All that a store holds, part by part, from one snapshot of the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..checkpoint_interface import PendingWrite, StoredCheckpoint, ThreadKey
from ..record_columns import decode_record, unpack_vector
from ..store_copy import StoredPending, StoredRecord, StorePart
from .conditions import LIVE
from .database import Connection, Connections
from .record_rows import COLUMNS

AT_ONCE = 500
_LISTS = """
(SELECT array_agg(g.part ORDER BY g.part) FROM @given g WHERE g.scope = r.scope AND g.no = r.no),
(SELECT array_agg(g.data ORDER BY g.part) FROM @given g WHERE g.scope = r.scope AND g.no = r.no),
(SELECT array_agg(e.name ORDER BY e.no) FROM @vector v JOIN @embedder e ON e.no = v.embedder
 WHERE v.scope = r.scope AND v.no = r.no),
(SELECT array_agg(v.data::text ORDER BY e.no) FROM @vector v JOIN @embedder e ON e.no = v.embedder
 WHERE v.scope = r.scope AND v.no = r.no)
"""


def dump(connections: Connections, connection: Connection, at: int) -> Iterator[StorePart]:
    """All that the snapshot on a connection holds, at the store's time `at`."""
    import numpy as np  # a command that only reads does without

    for _, *columns, parts, given, embedders, vectors in fetch_in_order(
        connections, connection,
        f"SELECT r.seq, {COLUMNS}, {_LISTS} FROM @record r WHERE {LIVE.format('$3::bigint')} AND r.seq > $1"
        " ORDER BY r.seq LIMIT $2",
        at,
    ):  # fmt: skip
        record = decode_record(tuple(columns))
        if parts:
            record = replace(record, given={part: unpack_vector(data) for part, data in zip(parts, given, strict=True)})
        found = zip(embedders or (), vectors or (), strict=True)
        yield StoredRecord(record, {name: np.fromstring(data[1:-1], np.float32, sep=",") for name, data in found})
    for row, space, name, ns, *rest in fetch_in_order(
        connections, connection,
        "SELECT c.no, t.space, t.name, t.ns, c.id, c.parent, c.base, c.depth, c.place, c.created_at, c.expires_at,"
        " c.metadata, c.body FROM @checkpoint c JOIN @thread t ON t.no = c.thread WHERE c.no > $1"
        " ORDER BY c.no LIMIT $2",
    ):  # fmt: skip
        yield StoredCheckpoint(ThreadKey(space, name, ns), row, *rest)
    for space, name, ns, which, *write in connections.execute(
        connection,
        "SELECT t.space, t.name, t.ns, p.id, p.task, p.at, p.path, p.channel, p.type, p.value FROM @pending p"
        " JOIN @thread t ON t.no = p.thread",
    ):
        yield StoredPending(ThreadKey(space, name, ns), which, PendingWrite._make(write))


def fetch_in_order(
    connections: Connections, connection: Connection, statement: str, *values: object
) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement, some at a time: each time those whose first column is greater than the last."""
    after = 0
    while rows := connections.execute(connection, statement, (after, AT_ONCE, *values)).fetchall():
        yield from rows
        after = rows[-1][0]
