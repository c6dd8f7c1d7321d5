"""A copy of another store, made part by part in a schema that no process uses until it is whole."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from ...values.errors import Invalid, Unavailable
from ...values.progress import Progress
from ...values.records import encode_json
from ...values.times import to_micros
from .. import rules
from ..checkpoint_interface import StoredCheckpoint
from ..interface import Identity
from ..record_columns import pack_vector
from ..store_copy import StoredPending, StoredRecord, StorePart, group_codes, group_vectors
from .conditions import digest
from .database import Connection, Connections, FirstAnswer, ServerAddress
from .dump import dump
from .migrations import prepare
from .record_rows import OPEN_TRANSACTION, PostgresTransaction, encode_record
from .vector_rows import store_precomputed

_HELD = (
    "SELECT copy, (SELECT coalesce(sum(changes), 0) FROM @moment) > 0 OR EXISTS (SELECT FROM @checkpoint)"
    " OR EXISTS (SELECT FROM @record), store FROM @state FOR UPDATE"
)
_MAKE_SCOPES = """
INSERT INTO @scope (digest, path) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (digest) DO NOTHING
"""
# Lists within a list have to be of one length: those of words and tags come as text.
_STORE_RECORDS = """
WITH new AS MATERIALIZED (
    SELECT s.no AS scope, n.* FROM unnest(
        $1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bytea[],
        $9::integer[], $10::text[], $11::bytea[], $12::text[], $13::bigint[], $14::text[], $15::bigint[],
        $16::bigint[], $17::bigint[], $18::bigint[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[],
        $24::text[], $25::text[], $26::text[], $27::text[]
    ) AS n (
        scope_digest, no, seq, text_seq, id, kind, key, key_digest, words, terms, digest, parent, position, author,
        created_at, updated_at, expires_at, version, importance, source, tags, folded, title, data, fields, text, counts
    ) JOIN @scope s ON s.digest = n.scope_digest
),
record AS (
    INSERT INTO @record
        (scope, no, id, kind, key, key_digest, seq, text_seq, words, terms, digest, parent, position, author,
         created_at, updated_at, expires_at, version, importance, source, tags, folded, title, data, fields, text)
    SELECT scope, no, id, kind, key, key_digest, seq, text_seq, words, terms::bigint[], digest, parent, position,
           author, created_at, updated_at, expires_at, version, importance, source, tags,
           ARRAY(SELECT jsonb_array_elements_text(folded::jsonb)), title, data, fields::jsonb, text FROM new
),
id AS (INSERT INTO @record_id (id, scope, no) SELECT id, scope, no FROM new)
INSERT INTO @posting (scope, term, no, words, count)
SELECT new.scope, w.term, new.no, new.words, w.count
FROM new, unnest(new.terms::bigint[], new.counts::smallint[]) AS w (term, count)
"""
_STORE_GIVEN = """
INSERT INTO @given (scope, no, place, part, dims, data)
SELECT i.scope, i.no, n.place, n.part, n.dims, n.data
FROM unnest($1::text[], $2::integer[], $3::text[], $4::integer[], $5::bytea[]) AS n (id, place, part, dims, data)
JOIN @record_id i ON i.id = n.id
"""
_MAKE_THREADS = """
INSERT INTO @thread (digest, space, name, ns) SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[])
ON CONFLICT (digest) DO NOTHING
"""
_STORE_CHECKPOINTS = """
INSERT INTO @checkpoint
    (thread, no, id, id_digest, parent, base, depth, place, created_at, expires_at, metadata, body)
SELECT t.no, n.no, n.id, n.id_digest, n.parent, n.base, n.depth, n.place, n.created_at, n.expires_at, n.metadata, n.body
FROM unnest(
    $1::bytea[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::bigint[], $7::integer[], $8::integer[],
    $9::bigint[], $10::bigint[], $11::text[], $12::bytea[]
) AS n (thread, no, id, id_digest, parent, base, depth, place, created_at, expires_at, metadata, body)
JOIN @thread t ON t.digest = n.thread
"""
_STORE_PENDING = """
INSERT INTO @pending (thread, digest, id, task, at, path, channel, type, value)
SELECT t.no, n.digest, n.id, n.task, n.at, n.path, n.channel, n.type, n.value
FROM unnest(
    $1::bytea[], $2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bytea[]
) AS n (thread, digest, id, task, at, path, channel, type, value)
JOIN @thread t ON t.digest = n.thread
"""
_COUNT_SCOPES = "INSERT INTO @scope_size SELECT scope, 0, count(*), sum(words) FROM @record GROUP BY scope"
_SET_NUMBERS = [
    "SELECT setval('@change', greatest(1, $1::bigint, (SELECT max(greatest(no, seq)) FROM @record)))",
    "SELECT setval('@save', greatest(1, $1::bigint, (SELECT max(no) FROM @checkpoint)))",
]
_FOLDED = 17  # that of the columns of `encode_record` that holds a list
_TABLES = ("record", "record_id", "posting", "vector", "given", "checkpoint")


def check_whole(connections: Connections, name: str) -> None:
    """See to it that a store is not a copy that is being made, or that was never finished.

    Raises:
        Unavailable: it is one.
    """
    ((mark,),) = connections.fetch("SELECT copy FROM @state")
    if mark is not None:
        raise Unavailable(
            f"the memory in {name} is a copy that is being made, or was not finished: run `cofio copy` again, or remove"
            f' it with: DROP SCHEMA "{connections.schema}" CASCADE'
        )


@contextmanager
def open_loader(url: str, name: str, store: str) -> Iterator[PostgresLoader]:
    """A copy of the store with this id, in a schema that is empty, or that holds what is there of such a copy.

    `name` is what people may see of the address.

    Raises:
        Invalid: the schema holds a memory, or an unfinished copy of another.
    """
    connections = Connections(ServerAddress.parse(url), sync="full")
    connections.open()
    try:
        prepare(connections)
        mark = f"{store} {secrets.token_hex(8)}"
        connections.transact(OPEN_TRANSACTION, lambda connection, _: _begin(connections, connection, name, mark))
        yield PostgresLoader(connections, mark)
    finally:
        connections.close()


def _begin(connections: Connections, connection: Connection, name: str, mark: str) -> None:
    """Note whose copy it is, and begin without what is pending."""
    ((copy, is_used, held),) = connections.execute(connection, _HELD).fetchall()
    store = mark.partition(" ")[0]
    if copy is None and is_used:
        same = ", the same one or a copy of it that was finished" if held == store else ""
        raise Invalid("target", f"{name} holds a memory{same}; name one that is empty or does not exist")
    if copy is not None and copy.partition(" ")[0] != store:
        raise Invalid(
            "target",
            f"{name} holds an unfinished copy of another memory; name another, or remove it with: DROP SCHEMA"
            f' "{connections.schema}" CASCADE',
        )
    connections.execute(connection, "UPDATE @state SET copy = $1", (mark,))
    connections.execute(connection, "DELETE FROM @pending")


class PostgresLoader:
    """A copy that is being made."""

    def __init__(self, connections: Connections, mark: str) -> None:
        """`mark` says in the database that this process makes the copy."""
        self._connections = connections
        self._mark = mark

    def dump(self) -> Generator[StorePart]:
        """All that was copied so far."""
        return dump(self._connections)

    def load(self, parts: Sequence[StorePart], obsolete: Sequence[StorePart]) -> None:
        """Remove what is obsolete, and store the parts."""
        rows = _encode_parts(parts)

        def load(connection: Connection, opening: FirstAnswer) -> None:
            self._require_mark(connection)
            self._remove(connection, opening, obsolete)
            for statement, columns in rows:
                self._connections.execute(connection, statement, columns)
            codes = group_codes(parts)
            for embedder, by_id in group_vectors(parts).items():
                store_precomputed(self._connections, connection, embedder, by_id, codes[embedder])

        self._connections.transact(OPEN_TRANSACTION, load)

    def _require_mark(self, connection: Connection) -> None:
        """Have the copy to oneself until the commit."""
        sql = "UPDATE @state SET copy = copy WHERE copy = $1 RETURNING true"
        if not self._connections.execute(connection, sql, (self._mark,)).fetchall():
            raise Unavailable("another process has begun to copy into the same place: this one ends here")

    def _remove(self, connection: Connection, opening: FirstAnswer, obsolete: Sequence[StorePart]) -> None:
        transaction = PostgresTransaction(self._connections, connection, opening, datetime.now(UTC))
        for part in obsolete:
            if isinstance(part, StoredRecord):
                transaction.delete(part.record.id)
        rows = [part.row for part in obsolete if isinstance(part, StoredCheckpoint)]
        if rows:
            self._connections.execute(connection, "DELETE FROM @checkpoint WHERE no = ANY($1::bigint[])", (rows,))

    def finish(self, identity: Identity, updated: str, progress: Progress | None) -> None:
        """Make it a store that every process can open."""
        at = to_micros(datetime.fromisoformat(updated)) if updated else 0

        def finish(connection: Connection, _: FirstAnswer) -> None:
            self._require_mark(connection)
            execute = self._connections.execute
            execute(connection, "DELETE FROM @scope_size")
            execute(connection, _COUNT_SCOPES)
            execute(connection, "DELETE FROM @moment")
            # In a slot that no writer has.
            execute(connection, "INSERT INTO @moment VALUES (-1, $1, $2)", (at, identity.position))
            for statement in _SET_NUMBERS:
                execute(connection, statement, (identity.position,))
            execute(connection, "UPDATE @state SET store = $1, copy = NULL", (identity.store,))

        for number, table in enumerate(_TABLES):  # without it, the first searches would be planned as if it were empty
            if progress:
                progress("index", number, len(_TABLES))
            self._connections.fetch(f"VACUUM (ANALYZE) @{table}")
        self._connections.transact(OPEN_TRANSACTION, finish)


def _encode_parts(parts: Sequence[StorePart]) -> list[tuple[str, Sequence[object]]]:
    """The statements that store the parts but for their vectors, each with its values."""
    records = [part for part in parts if isinstance(part, StoredRecord)]
    checkpoints = [part for part in parts if isinstance(part, StoredCheckpoint)]
    pending = [part for part in parts if isinstance(part, StoredPending)]
    paths = {part.record.scope.path for part in records}
    threads = {part.thread for part in checkpoints} | {part.thread for part in pending}
    given = [
        (part.record.id, place, name, len(vector), pack_vector(vector))
        for part in records
        for place, (name, vector) in enumerate((part.record.given or {}).items(), 1)
    ]
    found: list[tuple[str, Sequence[Sequence[object]]]] = [
        (_MAKE_SCOPES, [(digest(path), path) for path in sorted(paths)]),
        (_STORE_RECORDS, [_encode_record(part) for part in records]),
        (_STORE_GIVEN, given),
        (_MAKE_THREADS, [(digest(*thread), *thread) for thread in sorted(threads)]),
        (_STORE_CHECKPOINTS, [_encode_checkpoint(part) for part in checkpoints]),
        (_STORE_PENDING, [_encode_pending(part) for part in pending]),
    ]
    return [(statement, list(map(list, zip(*rows, strict=True)))) for statement, rows in found if rows]


def _encode_record(part: StoredRecord) -> tuple[object, ...]:
    record, _, _, numbers = part
    columns = [*encode_record(record, rules.prepare_text(record))]
    columns[_FOLDED] = encode_json(columns[_FOLDED])
    return digest(record.scope.path), *numbers, *columns


def _encode_checkpoint(part: StoredCheckpoint) -> tuple[object, ...]:
    thread, row, which, *rest = part
    return digest(*thread), row, which, digest(which), *rest


def _encode_pending(part: StoredPending) -> tuple[object, ...]:
    thread, which, write = part
    return digest(*thread), digest(which, write.task, str(write.at)), which, *write
