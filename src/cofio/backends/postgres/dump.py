"""All that a store holds, part by part, from one snapshot of the database."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

from ..checkpoint_interface import PendingWrite, StoredCheckpoint, ThreadKey
from ..record_columns import decode_record, unpack_vector
from ..record_interface import ChangeNumbers
from ..store_copy import StoredPending, StoredRecord, StorePart
from .database import Connection, Connections
from .record_rows import COLUMNS, OPEN_SNAPSHOT
from .vector_rows import decode_vector

PAGE = 500  # rows that are fetched at once
PAGE_BYTES = 8_000_000  # after which a page ends with fewer, so that it takes little memory whatever it holds
GIVEN = """
(SELECT array_agg(g.part ORDER BY g.part) FROM @given g WHERE g.scope = r.scope AND g.no = r.no),
(SELECT array_agg(g.data ORDER BY g.part) FROM @given g WHERE g.scope = r.scope AND g.no = r.no)
"""
_VECTORS = """
(SELECT array_agg(e.name ORDER BY e.no) FROM @vector v JOIN @embedder e ON e.no = v.embedder
 WHERE v.scope = r.scope AND v.no = r.no),
(SELECT array_agg(@@halfvec_send(v.data) ORDER BY e.no) FROM @vector v JOIN @embedder e ON e.no = v.embedder
 WHERE v.scope = r.scope AND v.no = r.no),
(SELECT array_agg(v.token_codes ORDER BY e.no) FROM @vector v JOIN @embedder e ON e.no = v.embedder
 WHERE v.scope = r.scope AND v.no = r.no)
"""
# The lengths are known without reading what is long.
_CUT = f"""
SELECT {{columns}} FROM (
    SELECT r.*, sum({{size}}) OVER (ORDER BY {{order}} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT * FROM {{source}} ORDER BY {{order}} LIMIT {PAGE}) AS r
) AS r{{join}} WHERE coalesce(r.before, 0) < {PAGE_BYTES} ORDER BY {{order}}
"""
_THREAD = " JOIN @thread t ON t.no = r.thread"
_CHECKPOINTS = _CUT.format(
    columns="r.no, t.space, t.name, t.ns, r.id, r.parent, r.base, r.depth, r.place, r.created_at, r.expires_at,"
    " r.metadata, r.body",
    size="octet_length(r.body) + octet_length(r.metadata)",
    source="@checkpoint r WHERE r.no > $1",
    order="r.no",
    join=_THREAD,
)
_PENDING = _CUT.format(
    columns="r.thread, r.digest, t.space, t.name, t.ns, r.id, r.task, r.at, r.path, r.channel, r.type, r.value",
    size="octet_length(r.value)",
    source="@pending r WHERE (r.thread, r.digest) > ($1, $2)",
    order="r.thread, r.digest",
    join=_THREAD,
)


def page_records(columns: str, condition: str) -> str:
    """The statement that fetches a page of the records of which a condition holds, after the change $1."""
    return _CUT.format(
        columns=f"r.seq, {columns}",
        size="octet_length(r.text) + octet_length(r.data)",
        source=f"@record r WHERE {condition} AND r.seq > $1",
        order="r.seq",
        join="",
    )


def dump(connections: Connections) -> Generator[StorePart]:
    """All that the store holds now."""
    with connections.snapshot(OPEN_SNAPSHOT) as (connection, _):
        yield from _dump_records(connections, connection)
        for row, space, name, ns, *rest in fetch_pages(connections, connection, _CHECKPOINTS):
            yield StoredCheckpoint(ThreadKey(space, name, ns), row, *rest)
        for _, _, space, name, ns, which, *write in fetch_pages(connections, connection, _PENDING, first=(0, b"")):
            yield StoredPending(ThreadKey(space, name, ns), which, PendingWrite._make(write))


def _dump_records(connections: Connections, connection: Connection) -> Iterator[StoredRecord]:
    statement = page_records(f"r.no, r.text_seq, {COLUMNS}, {GIVEN}, {_VECTORS}", "true")
    for last, first, restated, *columns, parts, given, embedders, vectors, codes in fetch_pages(
        connections, connection, statement
    ):
        record = decode_record(tuple(columns))
        if parts:
            record = replace(record, given={part: unpack_vector(data) for part, data in zip(parts, given, strict=True)})
        found = zip(embedders or (), vectors or (), strict=True)
        made = {name: decode_vector(data) for name, data in found}
        by_embedder = zip(embedders or (), codes or (), strict=True)
        coded = {name: code for name, code in by_embedder if code is not None}
        yield StoredRecord(record, made, coded, ChangeNumbers(first, last, restated))


def fetch_pages(
    connections: Connections,
    connection: Connection,
    statement: str,
    *values: object,
    first: tuple[object, ...] = (0,),
) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement, a page at a time: each time those whose first columns come after those of the last."""
    after = first
    while rows := connections.execute(connection, statement, (*after, *values)).fetchall():
        yield from rows
        after = rows[-1][: len(first)]
