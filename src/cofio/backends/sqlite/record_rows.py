"""Records as rows: how they are read within one snapshot, and written within one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import apsw

from ...values.query import Bounds, Window
from ...values.records import Kind, Record, Scope
from ...values.times import from_micros, to_micros
from ..record_columns import decode_headings, decode_record, decode_scope, decode_tags, pack_vector, unpack_vector
from ..record_interface import ChangeNumbers, GivenVectors, Headings, PreparedText, Records
from ..store_time import compute_store_time
from .conditions import names_rows, within
from .counts import CountCache
from .database import correct_time, fetch, raise_schema

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .checkpoint_rows import SqliteCheckpoints

_PATH = "(SELECT path FROM scope WHERE scope.no = record.scope)"
HEADING = f"id, {_PATH}, kind, key, title, tags, importance, author, updated_at"
COLUMNS = (
    f"id, {_PATH}, kind, key, title, text, data, tags, importance, "
    "author, source, parent, position, created_at, updated_at, expires_at, version"
)
JSON_COLUMNS = COLUMNS.replace(_PATH, f"hex({_PATH})")  # JSON has no bytes
_IN_SCOPE = "scope = (SELECT no FROM scope WHERE path = ?)"
_SCOPES_UNDER = "SELECT path FROM scope WHERE path >= ? AND path < ? LIMIT 2"
_LIVE = "(expires_at IS NULL OR expires_at > ?)"
_INSERT = f"INSERT INTO record VALUES ({','.join('?' * 22)})"
_PLACE = "scope, key, parent, position, author, expires_at"  # what most changes leave as it was, and indexes are over
_HAS_GIVEN = "EXISTS (SELECT 1 FROM given WHERE given.no = record.no)"
_FOR_UPDATE = f"SELECT no, text_seq, words, tags, {_HAS_GIVEN}, {_PLACE} FROM record WHERE id = ?"
_FOR_DELETE = f"SELECT no, words, tags, {_HAS_GIVEN} FROM record"
_CONTENT = (
    "seq = ?, text_seq = ?, words = ?, digest = ?, updated_at = ?, version = ?, importance = ?, source = ?, tags = ?,"
    " title = ?, data = ?, text = ?"
)
_UPDATE = f"UPDATE record SET {_CONTENT} WHERE no = ?"
_UPDATE_ALL = f"UPDATE record SET {_CONTENT}, ({_PLACE}) = (?, ?, ?, ?, ?, ?) WHERE no = ?"
_BY_ID = f"SELECT {COLUMNS} FROM record WHERE id = ?"
_BY_IDS = f"SELECT {COLUMNS} FROM record WHERE id IN (SELECT value FROM json_each(?))"
FEW_IDS = 3  # which one statement each is as quick for
_BY_KEY = f"SELECT {COLUMNS} FROM record WHERE {_IN_SCOPE} AND kind = ? AND key = ?"
_BY_ROW = f"SELECT {COLUMNS} FROM record WHERE no = ?"
_WITH_DIGEST = f"SELECT no FROM record WHERE digest = ? AND {_IN_SCOPE} AND kind = ? AND {_LIVE}"
_STATE = "SELECT seq, records, words, updated FROM state"
_ORDERS = {
    "changed": "seq {0}",
    "created": "created_at {0}, seq {0}",
    "written": "created_at {0}, no {0}",
    "expires": "expires_at IS NULL {0}, expires_at {0}, no {0}",
}
# Rounded down, also before 1970: % has the sign of what it divides.
_STEP_BEGIN = "created_at - (created_at % ? + ?) % ?"
SINCE = {Kind.DOCUMENT: 4, Kind.TOPIC: 4}
"""The schema that kinds came with which not every program knows that can open a store: the first record raises it."""


@cache
def _find_checkpoints() -> type[SqliteCheckpoints]:
    from .checkpoint_rows import SqliteCheckpoints  # many programs need none

    return SqliteCheckpoints


@cache
def _make_tag_insert(count: int) -> str:
    """The statement that adds this number of tags to a record, which is 64 at most."""
    return f"INSERT INTO tag (tag, no) VALUES {', '.join(['(?, ?)'] * count)}"


def read_given(connection: apsw.Connection, record_id: str) -> dict[str, tuple[float, ...]]:
    """The vectors that were given with a record, by the part of it that each is of."""
    sql = "SELECT part, data FROM given WHERE no = (SELECT no FROM record WHERE id = ?) ORDER BY part"
    return {part: unpack_vector(data) for part, data in fetch(connection, sql, (record_id,))}


class RecordRows:
    """The records in the transaction that is open on a connection."""

    def __init__(
        self, connection: apsw.Connection, now: datetime, updated: int, counts: CountCache | None = None
    ) -> None:
        """`updated` is the time of the store's newest change, by which the clock is made steady.

        `counts` are for a snapshot: what a transaction counts is not there for others yet.
        """
        self._connection = connection
        self._counts = counts
        self._do = connection.execute
        self._at = compute_store_time(to_micros(now), updated)
        self.now = from_micros(self._at)

    @property
    def checkpoints(self) -> SqliteCheckpoints:
        """The checkpoints."""
        return _find_checkpoints()(self._connection, self._at)

    def by_id(self, record_id: str) -> Record | None:
        """The record with this id, even if it has expired."""
        return self._one(_BY_ID, record_id)

    def by_ids(self, record_ids: Sequence[str]) -> dict[str, Record]:
        """The records with these ids, by them, even if they have expired."""
        if len(record_ids) < FEW_IDS:
            found = [record for each in record_ids if (record := self.by_id(each)) is not None]
        else:
            found = [decode_record(row) for row in fetch(self._connection, _BY_IDS, (json.dumps([*record_ids]),))]
        return {record.id: record for record in found}

    def by_key(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key, even if it has expired."""
        return self._one(_BY_KEY, scope.path, kind, key)

    def by_digest(self, scope: Scope, kind: Kind, digest: bytes) -> Record | None:
        """The oldest record of the scope and kind with this digest that has not expired."""
        # There is none, nearly always: the rest, and its ORDER BY, would take six times as long.
        rows = fetch(self._connection, _WITH_DIGEST, (digest, scope.path, kind, self._at))
        return self._one(_BY_ROW, min(rows)[0]) if rows else None

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The ids that begin so, in their order."""
        rows = self._do(
            f"SELECT id FROM record WHERE id >= ? AND {_LIVE} ORDER BY id LIMIT ?", (prefix, self._at, limit)
        )
        return list(takewhile(lambda found: found.startswith(prefix), (row[0] for row in rows)))

    def adjacent_ids(self, record_id: str) -> tuple[str, str]:
        """The ids next before and next after this one in their order, also of what has expired; "" for none."""
        before, after = self._do(
            "SELECT (SELECT max(id) FROM record WHERE id < ?1), (SELECT min(id) FROM record WHERE id > ?1)",
            (record_id,),
        ).get
        return before or "", after or ""

    def list(self, bounds: Bounds, window: Window) -> Records:
        """Records within bounds that have not expired."""
        return list(map(decode_record, self._select(COLUMNS, bounds, window)))

    def headings(self, bounds: Bounds, window: Window) -> Headings:
        """The same without their texts, which are not read."""
        return decode_headings(self._select(HEADING, bounds, window))

    def count(self, bounds: Bounds) -> int:
        """How many records within bounds have not expired."""
        if self._counts is not None:
            return self._counts.count(self._connection, bounds, self._at)
        condition = within(bounds, self._at, by_row=False)
        return int(self._do(f"SELECT count(*) FROM record WHERE {condition.sql}", condition.values).get)

    def count_by_time(self, bounds: Bounds, step: int) -> Sequence[tuple[int, str, int]]:
        """How many records within bounds were created in each step of this many microseconds, by kind."""
        condition = within(bounds, self._at, by_row=False)
        return fetch(
            self._connection,
            f"SELECT {_STEP_BEGIN} AS begin, kind, count(*) FROM record WHERE {condition.sql}"
            " GROUP BY begin, kind ORDER BY begin, kind",
            (step, step, step, *condition.values),
        )

    def scopes(self, under: Scope, kinds: Sequence[Kind] = ()) -> Sequence[tuple[Scope, int]]:
        """Each scope that holds records, of these kinds if any are named, with their number."""
        among = f" AND kind IN ({','.join('?' * len(kinds))})" if kinds else ""
        rows = self._do(
            "SELECT path, count(*) FROM record JOIN scope ON scope.no = record.scope WHERE path >= ? AND path < ?"
            f" AND {_LIVE}{among} GROUP BY path ORDER BY path",
            (under.path, under.path + b"\xff", self._at, *kinds),
        )
        return [(Scope.from_path(path), count) for path, count in rows]

    def given_vectors(self, record_id: str) -> GivenVectors:
        """The vectors that were given with a record."""
        return read_given(self._connection, record_id)

    def made_vectors(self, embedder: str, record_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors that an embedder made of the present texts of records, by their ids."""
        from .vector_rows import read_vectors  # which needs this module, and numpy

        return read_vectors(self._connection, embedder, record_ids)

    def _one(self, sql: str, *values: str | bytes | int) -> Record | None:
        row = self._do(sql, values).get
        return None if row is None else decode_record(row)

    def _select(self, columns: str, bounds: Bounds, window: Window) -> Sequence[Any]:
        condition = within(self._narrow(bounds), self._at, by_row=names_rows(bounds.filter))
        order = _ORDERS[window.order].format("DESC" if window.newest else "ASC")
        return fetch(
            self._connection,
            f"SELECT {columns} FROM record WHERE {condition.sql} ORDER BY {order} LIMIT ? OFFSET ?",
            (*condition.values, window.limit, window.offset),
        )

    def _narrow(self, bounds: Bounds) -> Bounds:
        """The bounds of the one scope that there is within these, if there is only one: its records are in order."""
        if bounds.exact or bounds.filter is not None or not bounds.scope.names:
            return bounds  # with a filter, SQLite would walk through the scope to find a few
        path = bounds.scope.path
        found = fetch(self._connection, _SCOPES_UNDER, (path, path + b"\xff"))
        return replace(bounds, scope=decode_scope(found[0][0]), exact=True) if len(found) == 1 else bounds


class RecordTransaction(RecordRows):
    """The records in a write transaction; `finish` ends it with the counters that go with the changes."""

    def __init__(self, connection: apsw.Connection, now: datetime) -> None:
        self._seq, self._records, self._words, self._updated = connection.execute(_STATE).get
        super().__init__(connection, now, self._updated)
        self._scope_rows: dict[Scope, int] = {}
        self._raised = False
        self._changed = False

    def finish(self) -> None:
        """Write the counters, and the store's time, if records were changed."""
        if not self._changed:
            return
        if self._at < self._updated:
            correct_time(self._connection, self._at)
        self._write_counters(self._at)

    @property
    def size(self) -> tuple[int, int]:
        """The number of the newest change, and how many words all records have."""
        return self._seq, self._words

    def purge(self, before: int) -> int:
        """Delete what expired before then."""
        purged = self._remove("expires_at <= ?", before)
        self._write_counters(max(self._updated, self._at))
        return purged

    def _write_counters(self, updated: int) -> None:
        self._do(
            "UPDATE state SET seq = ?, records = ?, words = ?, updated = ?",
            (self._seq, self._records, self._words, updated),
        )

    def first_key(self, scope: Scope, kind: Kind, first: str, past: str) -> tuple[str, int] | None:
        """The lowest key from `first` up to, and without, `past` that has not expired, and its record's version."""
        found: tuple[str, int] | None = self._do(
            f"SELECT key, version FROM record WHERE {_IN_SCOPE} AND kind = ? AND key >= ? AND key < ? AND {_LIVE}"
            " ORDER BY key LIMIT 1",
            (scope.path, kind, first, past, self._at),
        ).get
        return found

    def insert(self, record: Record, text: PreparedText, given: GivenVectors) -> None:
        """Add a record."""
        self._seq += 1
        self._insert(record, text, given, ChangeNumbers(self._seq, self._seq, self._seq))

    def restore(self, record: Record, text: PreparedText, given: GivenVectors, numbers: ChangeNumbers) -> None:
        """Add a record with the numbers that its changes have in the store that it comes from."""
        self._seq = max(self._seq, *numbers)
        self._insert(record, text, given, numbers)

    def _insert(self, record: Record, text: PreparedText, given: GivenVectors, numbers: ChangeNumbers) -> None:
        self._records += 1
        row = numbers.first
        scope = self._scope_row(record.scope)
        self._prepare_change(record)
        self._words += text.words
        self._do(
            _INSERT,
            (
                row, record.id, scope, record.kind, record.key, numbers.last, numbers.restated, text.words,
                text.digest, record.parent, record.position, record.author, self._to_micros(record.created_at),
                self._to_micros(record.updated_at), None if record.expires_at is None else to_micros(record.expires_at),
                record.version, record.importance, record.source, text.tags, record.title, text.data, record.text,
            ),
        )  # fmt: skip
        self._store_tags(row, record.tags)
        self._store_given(row, given)

    def update(self, record: Record, text: PreparedText, given: GivenVectors | None, *, restated: bool) -> None:
        """Write a record in place of the one with its id."""
        self._seq += 1
        row, text_seq, words, tags, has_given, *place = self._do(_FOR_UPDATE, (record.id,)).get
        scope = self._scope_row(record.scope)
        expires_at = None if record.expires_at is None else to_micros(record.expires_at)
        new_place = [scope, record.key, record.parent, record.position, record.author, expires_at]
        self._prepare_change(record)
        self._words += text.words - words
        self._do(
            _UPDATE if place == new_place else _UPDATE_ALL,
            (
                self._seq, self._seq if restated else text_seq, text.words, text.digest,
                self._to_micros(record.updated_at), record.version, record.importance, record.source, text.tags,
                record.title, text.data, record.text, *(() if place == new_place else new_place), row,
            ),
        )  # fmt: skip
        if tags != text.tags:
            self._delete_tags(row, decode_tags(tags))
            self._store_tags(row, record.tags)
        if scope != place[0] and not restated:
            self._renumber_vectors(row)
        if restated and not record.kind.has_vector:  # an older program may have made some, which nothing replaces
            self._delete_vectors(row, fetch(self._connection, "SELECT no FROM embedder"))
        if given is not None:
            if has_given:
                self._do("DELETE FROM given WHERE no = ?", (row,))
            self._store_given(row, given)

    def delete(self, record_id: str) -> int:
        """Delete a record, with everything derived from it."""
        return self._remove("id = ?", record_id)

    def drop_scope(self, scope: Scope) -> int:
        """Delete the records of a scope and all under it."""
        under = (scope.path, scope.path + b"\xff")
        dropped = self._remove("scope IN (SELECT no FROM scope WHERE path >= ? AND path < ?)", *under)
        self._do("DELETE FROM scope WHERE path >= ? AND path < ?", under)
        self._scope_rows.clear()
        return dropped

    def set_expiry(self, record_id: str, expires_at: datetime | None) -> None:
        """Let a record expire at this time, or never, unless it has expired already."""
        self._changed = True
        self._do(
            f"UPDATE record SET expires_at = ? WHERE id = ? AND {_LIVE}",
            # Never before now: who counts looks only at what expires later than the last count.
            (None if expires_at is None else max(to_micros(expires_at), self._at + 1), record_id, self._at),
        )

    def store_vectors(self, embedder: str, vectors: Mapping[str, Vector], codes: Mapping[str, bytes]) -> None:
        """Store vectors, by the ids of their records, where a record has none of its present text."""
        from .vector_rows import store_precomputed  # which needs this module, and numpy

        store_precomputed(self._connection, embedder, vectors, codes)

    def _prepare_change(self, record: Record) -> None:
        """Note that a record is about to be stored, and raise the schema if it is the first of its kind."""
        self._changed = True
        if record.kind in SINCE and not self._raised:
            raise_schema(self._connection, SINCE[record.kind])
            self._raised = True

    def _store_tags(self, row: int, tags: Sequence[str]) -> None:
        if tags:
            folded = {tag.casefold() for tag in tags}
            self._do(_make_tag_insert(len(folded)), [each for tag in folded for each in (tag, row)])

    def _to_micros(self, moment: datetime) -> int:
        return self._at if moment is self.now else to_micros(moment)  # as it is for most

    def _store_given(self, row: int, given: GivenVectors) -> None:
        for part, vector in given.items():
            self._do("INSERT INTO given VALUES (?, ?, ?, ?)", (row, part, len(vector), pack_vector(vector)))

    def _remove(self, which: str, *values: str | bytes | int) -> int:
        """Delete the records of which `which` holds, and everything derived from them."""
        self._changed = True
        rows: Sequence[tuple[int, int, str, int]] = fetch(self._connection, f"{_FOR_DELETE} WHERE {which}", values)
        embedders = fetch(self._connection, "SELECT no FROM embedder") if rows else ()
        for row, words, tags, has_given in rows:
            self._seq += 1
            self._delete_tags(row, decode_tags(tags))
            if has_given:
                self._do("DELETE FROM given WHERE no = ?", (row,))
            self._do("DELETE FROM record WHERE no = ?", (row,))
            self._delete_vectors(row, embedders)
            self._do("INSERT INTO gone (seq, no) VALUES (?, ?)", (self._seq, row))
            self._words -= words
            self._records -= 1
        return len(rows)

    def _delete_vectors(self, row: int, embedders: Sequence[tuple[int]]) -> None:
        for (embedder,) in embedders:
            self._do("DELETE FROM vector WHERE embedder = ? AND no = ?", (embedder, row))

    def _delete_tags(self, row: int, tags: Sequence[str]) -> None:
        for tag in {tag.casefold() for tag in tags}:
            self._do("DELETE FROM tag WHERE tag = ? AND no = ?", (tag, row))

    def _renumber_vectors(self, row: int) -> None:
        """Renumber a moved record's vectors: the codes hold the scope, so they must be coded again."""
        # By the embedder, too: vectors are in the order of both, and all of them would be walked through.
        for embedder, vseq in fetch(
            self._connection,
            "SELECT no, vseq FROM embedder WHERE EXISTS"
            " (SELECT 1 FROM vector WHERE vector.embedder = embedder.no AND vector.no = ?)",
            (row,),
        ):
            self._do("UPDATE embedder SET vseq = ? WHERE no = ?", (vseq + 1, embedder))
            self._do("UPDATE vector SET vseq = ? WHERE embedder = ? AND no = ?", (vseq + 1, embedder, row))

    def _scope_row(self, scope: Scope) -> int:
        row = self._scope_rows.get(scope)
        if row is None:
            found = self._do("SELECT no FROM scope WHERE path = ?", (scope.path,)).get
            if found is None:
                found = self._do("INSERT INTO scope (path) VALUES (?) RETURNING no", (scope.path,)).get
            row = self._scope_rows[scope] = int(found)
        return row
