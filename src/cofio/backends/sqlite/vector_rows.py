"""Vectors as rows, with the codes of their tokens: the records that lack some, and how they are stored and dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import apsw

from ...text.tokenizer import build_embed_text
from ...values.query import Bounds
from ...values.records import WITHOUT_VECTOR
from ..store_time import compute_store_time
from .conditions import EMBEDDED, changed_within, within
from .database import Database, fetch, raise_schema, read_generation, retry_while_busy, write_derived
from .word_index import IndexState

if TYPE_CHECKING:
    from ...values.changes import Vector

PATIENCE = 0.02  # seconds that a search waits for other writers, to store the vectors that it made
RECENT = 500  # changes that a search looks through for what has no vector yet
_TEXT_ROW = (
    "SELECT record.no, record.text_seq, seq, kind, title, text, tags, record.data FROM record"
    " LEFT JOIN vector ON vector.embedder = ? AND vector.no = record.no"
)
CODES_SCHEMA = 5  # that token codes came with; the first that are stored raise a store to it
_INSERT = (  # unless there is one of the present text
    "INSERT OR REPLACE INTO vector (embedder, no, vseq, text_seq, data)"
    " SELECT :embedder, record.no, :vseq, record.text_seq, :data FROM record"
    " LEFT JOIN vector ON vector.embedder = :embedder AND vector.no = record.no"
    " WHERE {which} AND vector.text_seq IS NOT record.text_seq"
)
_INSERT_CODED = _INSERT.replace("data)", "data, token_codes)").replace(":data", ":data, :codes")
_SAME_TEXT = "record.no = :row AND record.text_seq = :text_seq"
_TextRow = tuple[int, int, int, str, str, str, str, str]


class SqliteEmbedBatch:
    """The next records that need a vector, oldest change first: of what changed up to then, all others have one."""

    def __init__(
        self, database: Database, embedder: str, number: int, rows: Sequence[tuple[int, int, str]], upto: int
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._number = number
        """The embedder's number, 0 for a new one: it changes when its vectors are dropped."""
        self._rows = [row for row in rows if row[2]]
        self._upto = upto
        self.texts = tuple(text for _, _, text in self._rows)

    def store(self, vectors: Vector | None, codes: Sequence[bytes] | None = None) -> None:
        """Store the vectors, but not those of records whose text changed meanwhile."""
        data = [] if vectors is None else [row.tobytes() for row in vectors.astype("<f2")]
        width = 0 if vectors is None else vectors.shape[1]

        def store(connection: apsw.Connection) -> None:
            if codes:
                raise_schema(connection, CODES_SCHEMA)
            number, vseq, updated = _register(connection, self._embedder, width)
            vseq = _insert(connection, number, vseq, self._rows, data, codes)
            connection.execute(
                "UPDATE embedder SET vseq = ?, seen_seq = max(seen_seq, ?), seen_at = ? WHERE no = ?",
                (vseq, self._upto if self._number in (0, number) else 0, updated, number),
            )

        self._database.write(store)


def fetch_batch(database: Database, embedder: str, limit: int) -> SqliteEmbedBatch | None:
    """Return up to `limit` records that need a vector; None when all have one."""
    with database.snapshot() as connection:
        number, seen = _read_embedder(connection, embedder)
        newest = IndexState.read(connection).seq
        if seen >= newest:
            return None
        rows: list[_TextRow] = fetch(
            connection,
            f"{_TEXT_ROW} WHERE seq > ? AND vector.text_seq IS NOT record.text_seq ORDER BY seq LIMIT ?",
            (number, seen, limit),
        )
    upto = rows[-1][2] if len(rows) == limit else newest
    return SqliteEmbedBatch(database, embedder, number, [(row[0], row[1], _text(row)) for row in rows], upto)


def has_token_codes(connection: apsw.Connection) -> bool:
    """Whether vectors have a column for the codes of their tokens, which comes with the first of them."""
    return int(connection.pragma("user_version")) >= CODES_SCHEMA


class SqliteCodeBatch:
    """The next records whose vectors have no token codes."""

    def __init__(self, database: Database, number: int, rows: Sequence[tuple[int, int, str]]) -> None:
        self._database = database
        self._number = number
        self._rows = [row for row in rows if row[2]]
        self._textless = [row for row in rows if not row[2]]
        self.texts = tuple(text for _, _, text in self._rows)

    def store(self, codes: Sequence[bytes]) -> None:
        """Store the codes, but not those of records whose text changed meanwhile."""
        new = [(row, text_seq, code) for (row, text_seq, _), code in zip(self._rows, codes, strict=True)]
        new += [(row, text_seq, b"") for row, text_seq, _ in self._textless]

        def store(connection: apsw.Connection) -> None:
            raise_schema(connection, CODES_SCHEMA)
            for row, text_seq, code in new:
                connection.execute(
                    "UPDATE vector SET token_codes = ? WHERE embedder = ? AND no = ? AND text_seq = ?",
                    (code, self._number, row, text_seq),
                )

        self._database.write(store)


def fetch_uncoded(database: Database, embedder: str, limit: int) -> SqliteCodeBatch | None:
    """Return up to `limit` records whose vectors have no token codes; None when all have some."""
    with database.snapshot() as connection:
        number, _ = _read_embedder(connection, embedder)
        source, condition = "vector", "1"
        if has_token_codes(connection):  # SQLite would else walk through all vectors of the embedder
            source, condition = "vector INDEXED BY vector_uncoded", "token_codes IS NULL"
        rows: list[_TextRow] = fetch(
            connection,
            "SELECT record.no, record.text_seq, seq, kind, title, text, tags, record.data"
            f" FROM {source} CROSS JOIN record ON record.no = vector.no AND record.text_seq = vector.text_seq"
            f" WHERE embedder = ? AND {condition} LIMIT ?",
            (number, limit),
        )
    return SqliteCodeBatch(database, number, [(row[0], row[1], _text(row)) for row in rows]) if rows else None


class SqliteUnembedded:
    """Records that a search is about to miss, for which it may make vectors itself."""

    def __init__(self, connection: apsw.Connection, embedder: str, rows: Sequence[tuple[int, int, str]]) -> None:
        self._connection = connection
        self._embedder = embedder
        self._rows = rows
        self.texts = tuple(text for _, _, text in rows)

    def store(self, vectors: Vector, codes: Sequence[bytes] | None = None) -> bool:
        """Store the vectors of the first of the texts, unless others write just now; whether they are stored."""
        data = [row.tobytes() for row in vectors.astype("<f2")]
        try:
            with write_derived(self._connection, PATIENCE):
                dimensions = self._connection.execute(
                    "SELECT dimensions FROM embedder WHERE name = ?", (self._embedder,)
                ).get
                if dimensions not in (None, 0, vectors.shape[1]):
                    return False  # all others would have to be dropped, for which someone should not wait
                number, vseq, _ = _register(self._connection, self._embedder, vectors.shape[1])
                if not has_token_codes(self._connection):
                    codes = None  # they are made later: to raise the schema of a large store would take too long here
                vseq = _insert(self._connection, number, vseq, self._rows, data, codes)
                self._connection.execute("UPDATE embedder SET vseq = ? WHERE no = ?", (vseq, number))
        except apsw.Error:  # another process writes much, or the disk fails: the search says what it missed
            return False
        return True


class EmbeddedChanges:
    """Up to which change every record has its vector, as far as this process has looked; by the embedder's number.

    The database says so only for what the background work has seen to, and searches make vectors as well.
    """

    def __init__(self) -> None:
        self._upto: dict[tuple[int, int], int] = {}

    def find(self, generation: int, embedder: int, seen: int, newest: int) -> int:
        """Return the change, where this generation of the database says `seen`; `newest` is the last that there is."""
        upto = self._upto.get((generation, embedder), 0)
        return max(seen, upto) if upto <= newest else seen  # else the database was put back

    def note(self, generation: int, embedder: int, upto: int) -> None:
        """Note that all that changed up to then has its vector."""
        self._upto[generation, embedder] = upto


def find_unembedded(
    connection: apsw.Connection,
    embedder: str,
    bounds: Bounds,
    now: int,
    *,
    limit: int,
    most: int,
    embedded: EmbeddedChanges,
) -> SqliteUnembedded | None:
    """Return up to `limit` records within bounds that changed lately and have no vector of their present text.

    Those that stand under no other come first, then the newest. None when there are none, or more than `most`.
    """
    sql = "SELECT seq, updated, ifnull(embedder.no, 0), ifnull(seen_seq, 0) FROM state LEFT JOIN embedder ON name = ?"
    changed, updated, number, seen = retry_while_busy(lambda: connection.execute(sql, (embedder,)).get)
    generation = read_generation(connection)
    upto = embedded.find(generation, number, seen, changed)
    if upto >= changed:
        return None
    recent = changed_within(bounds, upto)
    condition = within(bounds, compute_store_time(now, updated), by_row=True)
    missing, first, changed = connection.execute(
        f"SELECT json_group_array(no ORDER BY parent IS NOT NULL, seq DESC) FILTER (WHERE {condition.sql}), min(seq),"
        " (SELECT seq FROM state)"
        f" FROM (SELECT no AS recent FROM record WHERE {recent.sql} ORDER BY seq DESC LIMIT ?)"
        " CROSS JOIN record ON record.no = recent"
        " WHERE (SELECT text_seq FROM vector WHERE vector.embedder = ? AND vector.no = record.no)"
        f" IS NOT record.text_seq AND {EMBEDDED}",
        (*condition.values, *recent.values, RECENT, number),
    ).get
    if number and not bounds.exact and changed - upto < RECENT:  # else some may not have been looked at
        embedded.note(generation, number, changed if first is None else min(changed, first - 1))
    numbers = json.loads(missing)
    if not 0 < len(numbers) <= most:
        return None
    found: list[_TextRow] = fetch(
        connection,
        "SELECT no, text_seq, seq, kind, title, text, tags, data FROM json_each(?) CROSS JOIN record ON no = value",
        (json.dumps(numbers[:limit]),),
    )
    rows = [(row[0], row[1], text) for row in found if (text := _text(row))]
    return SqliteUnembedded(connection, embedder, rows) if rows else None


def count_waiting(connection: apsw.Connection, embedder: str) -> int:
    """Count the records that have no vector of their present text, of those that get one."""
    return int(
        connection.execute(
            "SELECT count(*) FROM record LEFT JOIN vector ON vector.no = record.no"
            " AND vector.embedder = (SELECT no FROM embedder WHERE name = ?1)"
            " WHERE seq > ifnull((SELECT seen_seq FROM embedder WHERE name = ?1), 0)"
            f" AND vector.text_seq IS NOT record.text_seq AND {EMBEDDED}",
            (embedder,),
        ).get
    )


def read_vectors(connection: apsw.Connection, embedder: str, record_ids: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors of records' present texts by their ids, as far as there are some."""
    import numpy as np

    rows: list[tuple[str, bytes]] = fetch(
        connection,
        "SELECT record.id, vector.data FROM json_each(?) CROSS JOIN record ON record.id = value CROSS JOIN vector"
        " ON vector.embedder = ? AND vector.no = record.no AND vector.text_seq = record.text_seq",
        (json.dumps(list(record_ids)), _read_embedder(connection, embedder)[0]),
    )
    return {record_id: np.frombuffer(data, "<f2").astype(np.float32) for record_id, data in rows}


def store_precomputed(
    connection: apsw.Connection, name: str, vectors: Mapping[str, Vector], codes: Mapping[str, bytes]
) -> None:
    """Store vectors, all of one size, by the ids of their records, where a record has none of its present text."""
    if codes:
        raise_schema(connection, CODES_SCHEMA)
    number, vseq, _ = _register(connection, name, len(next(iter(vectors.values()))))
    for record_id, vector in vectors.items():
        vseq += 1
        values = {"embedder": number, "vseq": vseq, "data": vector.astype("<f2").tobytes(), "id": record_id}
        if (code := codes.get(record_id)) is None:
            connection.execute(_INSERT.format(which="id = :id"), values)
        else:
            connection.execute(_INSERT_CODED.format(which="id = :id"), {**values, "codes": code})
    connection.execute("UPDATE embedder SET vseq = ? WHERE no = ?", (vseq, number))


def drop_vectors(connection: apsw.Connection, where: str, *values: str | int) -> None:
    """Drop the vectors of some embedders. Their numbers are never used again, so no process mistakes new for old."""
    for (number,) in fetch(connection, f"SELECT no FROM embedder WHERE {where}", values):
        for table in ("segment", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE embedder = ?", (number,))
        connection.execute("DELETE FROM embedder WHERE no = ?", (number,))


def _insert(
    connection: apsw.Connection,
    embedder: int,
    vseq: int,
    rows: Sequence[tuple[int, int, str]],
    data: Sequence[bytes],
    codes: Sequence[bytes] | None,
) -> int:
    """Store vectors of the first of the rows, unless the text has changed or another was faster; the last's number."""
    sql = (_INSERT if codes is None else _INSERT_CODED).format(which=_SAME_TEXT)
    for at, (vector, (row, text_seq, _)) in enumerate(zip(data, rows, strict=False)):
        vseq += 1
        values = {"embedder": embedder, "vseq": vseq, "data": vector, "row": row, "text_seq": text_seq}
        connection.execute(sql, values if codes is None else {**values, "codes": codes[at]})
    return vseq


def _text(row: _TextRow) -> str:
    """Return what a record's vector is made of; "" for one of a kind that has none."""
    _, _, _, kind, title, text, tags, data = row
    if kind in WITHOUT_VECTOR:
        return ""
    return build_embed_text(title=title, text=text, tags=json.loads(tags), data=json.loads(data))


def _read_embedder(connection: apsw.Connection, name: str) -> tuple[int, int]:
    """Return an embedder's number, and the change up to which every record has its vector."""
    return connection.execute("SELECT no, seen_seq FROM embedder WHERE name = ?", (name,)).get or (0, 0)


def _register(connection: apsw.Connection, name: str, width: int) -> tuple[int, int, int]:
    """Return an embedder's number, its newest vector's order, and the store's time; it is added if it is new.

    Vectors of another width than before cannot be compared with those: then it starts afresh.
    """
    drop_vectors(connection, "name = ? AND ? NOT IN (0, dimensions) AND dimensions <> 0", name, width)
    connection.execute("INSERT OR IGNORE INTO embedder (name) VALUES (?)", (name,))
    if width:
        connection.execute("UPDATE embedder SET dimensions = ? WHERE name = ? AND dimensions = 0", (width, name))
    number, vseq = connection.execute("SELECT no, vseq FROM embedder WHERE name = ?", (name,)).get
    return number, vseq, connection.execute("SELECT updated FROM state").get
