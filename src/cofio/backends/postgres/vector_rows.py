"""Vectors as rows, with their token codes: the records that lack some, who has claimed them, and how all are stored."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from ...text.tokenizer import build_embed_text
from ...values.errors import Unavailable
from ...values.query import Bounds
from ...values.records import WITHOUT_VECTOR
from .conditions import Values, select_scopes, select_time, within
from .database import Connection, Connections

if TYPE_CHECKING:
    from ...values.changes import Vector

FindWriter: TypeAlias = "Callable[[], Connections]"
"""Gives connections on which something can be changed, where those at hand may lead to a standby."""
LEASE = "5 minutes"  # that a claim holds, if the process that has it ends without a word
_VECTOR_HEADER = 4  # bytes of the binary form before the numbers
_KINDS = "kind NOT IN ('{}')".format("', '".join(sorted(WITHOUT_VECTOR)))
_REGISTER = "INSERT INTO @embedder (name) VALUES ($1) ON CONFLICT (name) DO NOTHING"
_FIND = "SELECT no, dimensions, filled FROM @embedder WHERE name = $1"
# Those who wrote before the embedder was known may commit later: it is filled for good when all of them have ended.
_FILL = f"""
INSERT INTO @unembedded (scope, embedder, no, seq)
SELECT r.scope, $1, r.no, r.seq FROM @record r
WHERE {_KINDS} AND NOT EXISTS (SELECT FROM @vector v WHERE v.scope = r.scope AND v.embedder = $1 AND v.no = r.no)
ON CONFLICT (scope, no, embedder) DO NOTHING
"""
_NOTE_SINCE = "UPDATE @embedder SET since = pg_snapshot_xmax(pg_current_snapshot()) WHERE no = $1 AND since IS NULL"
_IS_SETTLED = "SELECT since <= pg_snapshot_xmin(pg_current_snapshot()) FROM @embedder WHERE no = $1"
_CLAIM = f"""
WITH free AS (
    SELECT scope, embedder, no FROM @unembedded WHERE embedder = $1 AND (until IS NULL OR until < now())
    ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED
),
mine AS (
    UPDATE @unembedded u SET claim = $3, until = now() + interval '{LEASE}' FROM free
    WHERE u.scope = free.scope AND u.embedder = free.embedder AND u.no = free.no RETURNING u.scope, u.no, u.seq
)
SELECT mine.scope, mine.no, r.text_seq, r.kind, r.title, r.text, r.tags, r.data
FROM mine LEFT JOIN @record r ON r.scope = mine.scope AND r.no = mine.no ORDER BY mine.seq
"""
_GIVE_UP = "UPDATE @unembedded SET claim = NULL, until = NULL WHERE embedder = $1 AND claim = $2"
# A record whose text is being changed is waited for, and then has another text_seq.
_STORE = """
INSERT INTO @vector AS v (scope, embedder, no, data, token_codes)
SELECT r.scope, $1, r.no, new.data::@@halfvec, new.codes
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[]) AS new (scope, no, text_seq, data, codes)
JOIN @record r ON r.scope = new.scope AND r.no = new.no AND r.text_seq = new.text_seq
ORDER BY r.scope, r.no FOR SHARE OF r
ON CONFLICT (scope, no, embedder) DO NOTHING
"""
_DONE = """
DELETE FROM @unembedded u USING unnest($2::bigint[], $3::bigint[]) AS done (scope, no)
WHERE u.embedder = $1 AND u.scope = done.scope AND u.no = done.no AND (
    EXISTS (SELECT FROM @vector v WHERE v.scope = u.scope AND v.embedder = u.embedder AND v.no = u.no)
    OR NOT EXISTS (SELECT FROM @record r WHERE r.scope = u.scope AND r.no = u.no)
)
"""
_DONE_TEXTLESS = """
DELETE FROM @unembedded u USING unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS done (scope, no, text_seq)
WHERE u.embedder = $1 AND u.scope = done.scope AND u.no = done.no AND u.claim = $5
AND NOT EXISTS (SELECT FROM @record r WHERE r.scope = u.scope AND r.no = u.no AND r.text_seq <> done.text_seq)
"""
_STORE_BY_ID = """
INSERT INTO @vector AS v (scope, embedder, no, data, token_codes)
SELECT i.scope, $1, i.no, new.data::@@halfvec, new.codes
FROM unnest($2::text[], $3::text[], $4::bytea[]) AS new (id, data, codes) JOIN @record_id i ON i.id = new.id
ON CONFLICT (scope, no, embedder) DO NOTHING
"""
_DONE_BY_ID = """
DELETE FROM @unembedded u USING @record_id i
WHERE i.id = ANY($2::text[]) AND u.embedder = $1 AND u.scope = i.scope AND u.no = i.no
"""
# One process at a time makes the codes that vectors lack: that is due once, when a store is older than codes are.
_CLAIM_UNCODED = f"""
WITH mine AS (
    UPDATE @embedder e SET coder = $2, coder_until = now() + interval '{LEASE}'
    WHERE e.name = $1 AND (e.coder IS NULL OR e.coder = $2 OR e.coder_until < now())
    AND EXISTS (SELECT FROM @vector v WHERE v.embedder = e.no AND v.token_codes IS NULL) RETURNING e.no
)
SELECT r.scope, r.no, r.text_seq, r.kind, r.title, r.text, r.tags, r.data, mine.no
FROM mine JOIN @vector v ON v.embedder = mine.no AND v.token_codes IS NULL
JOIN @record r ON r.scope = v.scope AND r.no = v.no LIMIT $3
"""
_GIVE_UP_UNCODED = "UPDATE @embedder SET coder = NULL, coder_until = NULL WHERE name = $1 AND coder = $2"
# A vector is always of the present text: of one that was changed meanwhile it is gone.
_STORE_CODES = """
UPDATE @vector v SET token_codes = new.codes
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) AS new (scope, no, text_seq, codes)
JOIN @record r ON r.scope = new.scope AND r.no = new.no AND r.text_seq = new.text_seq
WHERE v.embedder = $1 AND v.scope = r.scope AND v.no = r.no AND v.token_codes IS NULL
"""


class EmbedBatch:
    """Records that need a vector, which this process has claimed."""

    def __init__(
        self, connections: Connections, embedder: str, number: int, claim: str, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        self._connections = connections
        self._embedder = embedder
        self._number = number
        self._claim = claim
        texts = [(row[0], row[1], row[2], _get_text(row)) for row in rows]
        self._rows = [row for row in texts if row[3]]
        self._textless = [row for row in texts if not row[3]]
        self.texts = tuple(row[3] for row in self._rows)

    def store(self, vectors: Vector | None, codes: Sequence[bytes] | None = None) -> None:
        """Store the vectors, but not those of records whose text changed meanwhile."""
        number = self._number
        if vectors is not None:
            number = register(self._connections, self._embedder, vectors.shape[1])
        with self._connections.transaction() as connection:
            if vectors is not None:
                _store(self._connections, connection, number, self._rows, vectors, codes)
            # What has no text is seen to, unless it has one by now.
            done = ([row[0] for row in self._textless], [row[1] for row in self._textless])
            self._connections.execute(
                connection, _DONE_TEXTLESS, (number, *done, [row[2] or 0 for row in self._textless], self._claim)
            )

    def give_up(self) -> None:
        """Leave to others what was not stored."""
        with suppress(Unavailable):  # the lease ends by itself
            self._connections.fetch(_GIVE_UP, (self._number, self._claim))


@contextmanager
def claim(connections: Connections, embedder: str, limit: int) -> Iterator[EmbedBatch | None]:
    """Have up to `limit` records that need a vector to oneself."""
    number = fill(connections, embedder)
    token = secrets.token_hex(8)
    rows = connections.fetch(_CLAIM, (number, limit, token))
    if not rows:
        yield None
        return
    batch = EmbedBatch(connections, embedder, number, token, rows)
    try:
        yield batch
    finally:
        batch.give_up()


class CodeBatch:
    """Records whose vectors have no token codes, which this process has claimed."""

    def __init__(self, connections: Connections, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connections = connections
        self._number: int = rows[0][-1]
        texts = [(row[0], row[1], row[2], _get_text(row)) for row in rows]
        self._rows = [row for row in texts if row[3]]
        self._textless = [row for row in texts if not row[3]]
        self.texts = tuple(row[3] for row in self._rows)

    def store(self, codes: Sequence[bytes]) -> None:
        """Store the codes, but not those of records whose text changed meanwhile."""
        rows = [*self._rows, *self._textless]
        places = ([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
        self._connections.fetch(_STORE_CODES, (self._number, *places, [*codes, *(b"" for _ in self._textless)]))


@contextmanager
def claim_uncoded(connections: Connections, embedder: str, limit: int) -> Iterator[CodeBatch | None]:
    """Have up to `limit` records whose vectors have no token codes to oneself."""
    token = secrets.token_hex(8)
    rows = connections.fetch(_CLAIM_UNCODED, (embedder, token, limit))
    try:
        yield CodeBatch(connections, rows) if rows else None
    finally:
        if rows:
            with suppress(Unavailable):  # the lease ends by itself
                connections.fetch(_GIVE_UP_UNCODED, (embedder, token))


class UnembeddedRecords:
    """Records that a search is about to miss, for which it may make vectors itself."""

    def __init__(self, find_writer: FindWriter, embedder: str, rows: Sequence[tuple[int, int, int, str]]) -> None:
        self._find_writer = find_writer
        self._embedder = embedder
        self._rows = rows
        self.texts = tuple(row[3] for row in rows)

    def store(self, vectors: Vector, codes: Sequence[bytes] | None = None) -> bool:
        """Store the vectors of the first of the texts; whether they are stored."""
        connections = self._find_writer()
        try:
            ((number, dimensions, _),) = connections.fetch(_FIND, (self._embedder,))
            if dimensions not in (0, vectors.shape[1]):
                return False  # all others would have to be dropped, for which someone should not wait
            register(connections, self._embedder, vectors.shape[1])
            with connections.transaction() as connection:
                # Someone who writes may have locked a record: a search does not wait for it.
                connection.execute("SET LOCAL lock_timeout = '20ms'")
                connection.execute("SET LOCAL synchronous_commit = off")
                _store(connections, connection, number, self._rows[: len(vectors)], vectors, codes)
        except (Unavailable, ValueError):
            return False
        return True


def find_unembedded(
    connections: Connections,
    embedder: str,
    bounds: Bounds,
    clock: int,
    find_writer: FindWriter,
    *,
    limit: int,
    most: int,
) -> UnembeddedRecords | None:
    """Return up to `limit` records within bounds that have no vector of their present text.

    Their vectors are stored on connections from `find_writer`. `clock` is the time of this machine. Those that stand
    under no other come first, then the newest. None when there are none, or more than `most`.
    """
    values = Values(embedder, most + 1, limit)
    condition = within(bounds, select_time(clock, values), values, scope=False)
    statement = (
        "WITH missing AS MATERIALIZED ("
        " SELECT r.scope, r.no, r.text_seq, r.seq, r.parent IS NOT NULL AS stands_under, r.kind, r.title, r.text,"
        " r.tags, r.data FROM @unembedded u JOIN @record r ON r.scope = u.scope AND r.no = u.no"
        " WHERE u.embedder = (SELECT no FROM @embedder WHERE name = $1)"
        f" AND u.scope = ANY({select_scopes(bounds, values)}) AND {condition} LIMIT $2),"
        " embedder AS (SELECT coalesce(bool_or(filled), false) AS is_filled FROM @embedder WHERE name = $1)"
        " SELECT m.*, is_filled FROM embedder LEFT JOIN (SELECT scope, no, text_seq, kind, title, text, tags, data,"
        " (SELECT count(*) FROM missing) FROM missing ORDER BY stands_under, seq DESC LIMIT $3) AS m ON true"
    )
    rows = connections.fetch(statement, values.list, for_caller=True)
    if not rows[0][-1]:
        connections = find_writer()  # it has to be noted first what lacks a vector
        fill(connections, embedder)
        rows = connections.fetch(statement, values.list, for_caller=True)
    rows = [row[:-1] for row in rows if row[0] is not None]
    if not rows or rows[0][-1] > most:
        return None
    found = [(row[0], row[1], row[2], text) for row in rows if (text := _get_text(row[:-1]))]
    return UnembeddedRecords(find_writer, embedder, found) if found else None


def store_precomputed(
    connections: Connections,
    connection: Connection,
    name: str,
    vectors: Mapping[str, Vector],
    codes: Mapping[str, bytes],
) -> None:
    """Store vectors, all of one size, by the ids of their records, where a record has none of its present text.

    The records are locked by the transaction.
    """
    width = len(next(iter(vectors.values())))
    number, dimensions, _ = connections.execute(connection, _FIND, (name,)).fetchone() or (0, 0, False)
    if dimensions != width:
        number = _register(connections, connection, name, width)
    data = [encode_vector(vector) for vector in vectors.values()]
    connections.execute(connection, _STORE_BY_ID, (number, [*vectors], data, [codes.get(each) for each in vectors]))
    connections.execute(connection, _DONE_BY_ID, (number, [*vectors]))


def register(connections: Connections, name: str, width: int) -> int:
    """Return an embedder's number; it is added if it is new.

    Vectors of another width than before cannot be compared with those: then it starts afresh.
    """
    number, dimensions, _ = _find(connections, name)
    if dimensions == width:
        return number
    with connections.transaction() as connection:
        _register(connections, connection, name, width)
    return fill(connections, name)


def _register(connections: Connections, connection: Connection, name: str, width: int) -> int:
    """Note the width of an embedder's vectors, and drop those of another; its number. No other does so meanwhile."""
    while True:
        connections.execute(connection, _REGISTER, (name,))
        rows = connections.execute(connection, f"{_FIND} FOR UPDATE", (name,)).fetchall()
        if rows and rows[0][1] not in (0, width):
            _drop(connections, connection, [rows[0][0]])
        elif rows:
            number: int = rows[0][0]
            connections.execute(connection, "UPDATE @embedder SET dimensions = $2 WHERE no = $1", (number, width))
            return number


def fill(connections: Connections, name: str) -> int:
    """Return an embedder's number; if it is new, all records are noted that need a vector of it.

    On a standby, where nothing can be noted, an embedder that is new has the number 0.
    """
    if connections.read_only:
        return _find_filled(connections, name)
    number, _, is_filled = _find(connections, name)
    if not is_filled:
        connections.fetch(_NOTE_SINCE, (number,))
        ((is_settled,),) = connections.fetch(_IS_SETTLED, (number,)) or [(False,)]
        connections.fetch(_FILL, (number,))
        if is_settled:
            connections.fetch("UPDATE @embedder SET filled = true WHERE no = $1", (number,))
    return number


def _find_filled(connections: Connections, name: str) -> int:
    """Return the number of an embedder if all records are noted that need a vector of it, else 0."""
    found = connections.fetch(_FIND, (name,))
    return int(found[0][0]) if found and found[0][2] else 0


def drop_vectors(connections: Connections, embedders: Sequence[int]) -> None:
    """Drop the vectors of some embedders, which then are not known any more."""
    with connections.transaction() as connection:
        _drop(connections, connection, embedders)


def encode_vector(vector: Vector) -> str:
    """A vector as pgvector reads it, in half precision."""
    return "[" + ",".join(map(repr, vector.astype("<f2").astype("<f4").tolist())) + "]"


def decode_vector(data: bytes) -> Vector:
    """A vector from the binary form of pgvector's half precision."""
    import numpy as np

    return np.frombuffer(data, ">f2", offset=_VECTOR_HEADER).astype(np.float32)


def _drop(connections: Connections, connection: Connection, embedders: Sequence[int]) -> None:
    for table in ("@vector", "@unembedded"):
        connections.execute(connection, f"DELETE FROM {table} WHERE embedder = ANY($1::integer[])", ([*embedders],))
    connections.execute(connection, "DELETE FROM @embedder WHERE no = ANY($1::integer[])", ([*embedders],))


def _find(connections: Connections, name: str) -> tuple[int, int, bool]:
    found = connections.fetch(_FIND, (name,))
    if not found:
        connections.fetch(_REGISTER, (name,))
        found = connections.fetch(_FIND, (name,))
    number, dimensions, is_filled = found[0]
    return number, dimensions, is_filled


def _store(
    connections: Connections,
    connection: Connection,
    number: int,
    rows: Sequence[tuple[int, int, int, str]],
    vectors: Vector,
    codes: Sequence[bytes] | None,
) -> None:
    places = ([row[0] for row in rows], [row[1] for row in rows])
    data = [encode_vector(vector) for vector in vectors]
    values = [row[2] for row in rows], data, [None] * len(rows) if codes is None else [*codes]
    connections.execute(connection, _STORE, (number, *places, *values))
    connections.execute(connection, _DONE, (number, *places))


def _get_text(row: tuple[Any, ...]) -> str:
    """Return what a record's vector is made of; "" for one of a kind that has none."""
    kind, title, text, tags, data = row[3:8]
    if kind is None or kind in WITHOUT_VECTOR:  # None where the record is gone
        return ""
    return build_embed_text(title=title, text=text, tags=json.loads(tags), data=json.loads(data))
