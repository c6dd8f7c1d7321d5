"""How records are stored and changed: rows, keys, versions, duplicates and tags."""

from __future__ import annotations

import array
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import apsw

from ...text.tokenizer import embed_text, record_words
from ...values.changes import Change, Delete, Drop, Edit, Extend, Put, Vacant
from ...values.errors import Conflict, Invalid, NotFound
from ...values.records import (
    NOT_SEARCHABLE,
    Draft,
    Heading,
    Importance,
    Kind,
    Record,
    Scope,
    Similar,
    encode_json,
    new_id,
)
from .conditions import EPOCH, micros
from .database import fetch, raise_schema

_PATH = "(SELECT path FROM scope WHERE scope.no = record.scope)"
HEADING = f"id, {_PATH}, kind, key, title, tags, importance, author, updated_at"
COLUMNS = (
    f"id, {_PATH}, kind, key, title, text, data, tags, importance, "
    "author, source, parent, position, created_at, updated_at, expires_at, version"
)
JSON_COLUMNS = COLUMNS.replace(_PATH, f"hex({_PATH})")  # JSON has no bytes
Row: TypeAlias = tuple[
    str, bytes, str, str | None, str, str, str, str, str,
    str, str, str | None, int | None, int, int, int | None, int,
]  # fmt: skip

HeadingRow: TypeAlias = tuple[str, bytes, str, str | None, str, str, str, str, int]

_EDITABLE = frozenset(each.name for each in fields(Draft)) - {
    "id", "kind", "created_at", "updated_at", "version", "given",
}  # fmt: skip
SLACK = 300_000_000  # microseconds: a clock that is set back by more than these five minutes had been wrong
SINCE = {Kind.DOCUMENT: 4, Kind.TOPIC: 4}
"""The schema that kinds came with which not every program knows that can open a store: the first record raises it."""
_kinds = {str(kind): kind for kind in Kind}
_importances = {str(each): each for each in Importance}


def moment(value: int) -> datetime:
    """A time from its stored form."""
    return EPOCH + timedelta(microseconds=value)


def record_of(row: Row) -> Record:
    """The record of a row of COLUMNS."""
    created = moment(row[13])
    return Record(
        id=row[0],
        scope=_scope(row[1]),
        kind=_kinds[row[2]],
        key=row[3],
        title=row[4],
        text=row[5],
        data=None if row[6] == "null" else json.loads(row[6]),
        tags=tags_of(row[7]),
        importance=_importances[row[8]],
        author=row[9],
        source=row[10],
        parent=row[11],
        position=row[12],
        created_at=created,
        updated_at=created if row[14] == row[13] else moment(row[14]),
        expires_at=None if row[15] is None else moment(row[15]),
        version=row[16],
    )


def heading_of(row: HeadingRow) -> Heading:
    """The heading of a row of HEADING."""
    return Heading(
        row[0], _scope(row[1]), _kinds[row[2]], row[3], row[4], tags_of(row[5]), _importances[row[6]], row[7],
        moment(row[8]),
    )  # fmt: skip


@lru_cache(maxsize=10_000)
def _scope(path: bytes) -> Scope:
    return Scope.from_path(path)


@lru_cache(maxsize=4096)  # the same few sets of tags come again and again
def tags_of(stored: str) -> tuple[str, ...]:
    """A record's tags from their stored form."""
    return tuple(json.loads(stored))


def _packed(vector: Sequence[float]) -> bytes:
    """A vector in its stored form: float32, little endian."""
    return _swapped(array.array("f", vector)).tobytes()


def given_with(connection: apsw.Connection, record_id: str) -> dict[str, tuple[float, ...]]:
    """The vectors that were given with a record, by the part of it that each is of."""
    sql = "SELECT part, data FROM given WHERE no = (SELECT no FROM record WHERE id = ?) ORDER BY part"
    return {part: tuple(_swapped(array.array("f", data))) for part, data in fetch(connection, sql, (record_id,))}


def _swapped(numbers: array.array[float]) -> array.array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def digest(draft: Draft) -> bytes:
    """Equal for texts that are the same but for white space at the ends and between words.

    What has no text is told by its title and data; the line end before them keeps it apart from any text.
    """
    body = " ".join(draft.text.split())
    return text_digest(body or f"\n{' '.join(draft.title.split())}\n{encode_json(draft.data)}", plain=True)


def text_digest(text: str, *, plain: bool = False) -> bytes:
    """The digest of a record with this text; `plain` when there is no white space in it to be evened out."""
    body = text if plain else " ".join(text.split())
    return hashlib.blake2b(body.encode(), digest_size=16).digest()


def steady(now: int, updated: int) -> int:
    """The store's time: a clock that was set back by some minutes does not take the store back with it, so nothing that
    has expired comes to life again. When it was set back by more, it had been wrong, and what it said is forgotten.
    """
    return updated if now < updated <= now + SLACK else now


def correct_time(connection: apsw.Connection, now: int) -> None:
    """Take back the store's time, and what was measured by it, when a clock that was ahead has been put right."""
    connection.execute("UPDATE state SET updated = ?1, indexed_at = min(indexed_at, ?1)", (now,))
    connection.execute("UPDATE embedder SET seen_at = min(seen_at, ?)", (now,))


class Prepared(NamedTuple):
    """What is worked out of a draft before the store is locked: how many words it is found by, the digest of its
    text, and its tags and data as JSON.
    """

    length: int
    digest: bytes
    tags: str
    data: str


def prepare(draft: Draft) -> Prepared:
    """Take a draft's text apart."""
    found_by = []
    if draft.kind not in NOT_SEARCHABLE:
        found_by = record_words(
            title=draft.title, text=draft.text, tags=draft.tags, author=draft.author, key=draft.key, data=draft.data
        )
    return Prepared(
        len(found_by),
        digest(draft),
        encode_json(list(draft.tags)) if draft.tags else "[]",
        encode_json(draft.data),
    )


class Changing:
    """One transaction's changes, in order, against the connection that it is open on."""

    def __init__(
        self, connection: apsw.Connection, now: datetime, prepared: Mapping[int, Prepared] | None = None
    ) -> None:
        self._connection = connection
        self._do = connection.execute
        self._seq, self._records, self._words, self._updated = self._do(
            "SELECT seq, records, words, updated FROM state"
        ).get
        self._at = steady(micros(now), self._updated)
        self._scope_nos: dict[Scope, int] = {}
        self._prepared = prepared or {}
        self._raised = False

    def apply(self, changes: Sequence[Change]) -> list[Record | int]:
        """Make the changes and keep the counters."""
        answers: list[Record | int] = []
        for change in changes:
            if isinstance(change, Put):
                answers.append(self._put(change))
            elif isinstance(change, Edit):
                answers.append(self._edit(change))
            elif isinstance(change, Delete):
                answers.append(self._delete(change))
            elif isinstance(change, Vacant):
                answers.append(self._vacant(change))
            elif isinstance(change, Extend):
                answers.append(self._extend(change))
            else:
                answers.append(self._drop(change))
        if self._at < self._updated:
            correct_time(self._connection, self._at)
        self._keep_counters(self._at)
        return answers

    def purge(self, before: int) -> int:
        """Remove what expired before then."""
        purged = self._remove("SELECT no, words FROM record WHERE expires_at <= ?", before)
        self._keep_counters(max(self._updated, self._at))
        return purged

    def _keep_counters(self, updated: int) -> None:
        self._do(
            "UPDATE state SET seq = ?, records = ?, words = ?, updated = ?",
            (self._seq, self._records, self._words, updated),
        )

    def _put(self, put: Put) -> Record:
        draft = put.draft
        if put.how == "restore":
            return self._restore(draft)
        scope = self._scope_no(draft.scope)
        if put.dedupe and draft.key is None:  # what has a key is known by it, not by its text
            found = self._same(draft, scope)
            if found is not None:
                return replace(found, existed=True)
        if draft.key is not None:
            old = self._holder(draft, scope)
            if put.if_version is not None and put.if_version != (old.version if old else 0):
                raise Conflict(draft.key, expected=put.if_version, found=old.version if old else 0)
            if old is not None:
                if put.how == "new":
                    raise Conflict(draft.key, expected=0, found=old.version)
                return self._replace(old, draft, again=True)
        same = self._same(draft, scope) if put.same else None
        record = self._insert(draft, scope, version=1)
        if same is not None:
            return replace(record, similar=(Similar(id=same.id, title=same.title, likeness=1.0),))
        return record

    def _same(self, draft: Draft, scope: int) -> Record | None:
        """The oldest live record of the scope and kind with the same text."""
        row = self._do(
            f"SELECT {COLUMNS} FROM record WHERE digest = ? AND scope = ? AND kind = ?"
            " AND (expires_at IS NULL OR expires_at > ?) ORDER BY no LIMIT 1",
            (digest(draft), scope, draft.kind, self._at),
        ).get
        return None if row is None else record_of(row)

    def _holder(self, draft: Draft, scope: int) -> Record | None:
        """The live record that has the draft's key; one that has expired makes room."""
        row = self._do(
            f"SELECT {COLUMNS} FROM record WHERE scope = ? AND kind = ? AND key = ?", (scope, draft.kind, draft.key)
        ).get
        if row is None:
            return None
        found = record_of(row)
        if found.expires_at is not None and micros(found.expires_at) <= self._at:
            self._forget(found.id)
            return None
        return found

    def _restore(self, draft: Draft) -> Record:
        """Put back a record as it was exported, unless the store has it as new or newer."""
        assert draft.version is not None
        assert draft.updated_at is not None
        row = self._do(f"SELECT {COLUMNS} FROM record WHERE id = ?", (draft.id,)).get
        scope = self._scope_no(draft.scope)
        if row is not None:
            found = record_of(row)
            if (found.version, found.updated_at) >= (draft.version, draft.updated_at):
                return replace(found, existed=True)
        if draft.key is not None:
            holder = self._holder(draft, scope)
            if holder is not None and holder.id != draft.id:
                if holder.updated_at >= draft.updated_at:
                    return replace(holder, existed=True)
                self._forget(holder.id)
        if row is not None:
            self._forget(found.id)
        return self._insert(draft, scope, version=draft.version)

    def _insert(self, draft: Draft, scope: int, *, version: int) -> Record:
        if draft.id is not None and self._do("SELECT 1 FROM record WHERE id = ?", (draft.id,)).get:
            # One that has expired makes room.
            expired = "SELECT no, words FROM record WHERE id = ? AND expires_at <= ?"
            if not self._remove(expired, draft.id, self._at):
                raise Conflict(draft.id)
        self._seq += 1
        no = self._seq
        created = self._at if draft.created_at is None else micros(draft.created_at)
        updated = self._at if draft.updated_at is None else micros(draft.updated_at)
        record_id = draft.id or new_id(self._at)
        self._store(no, no, record_id, scope, draft, created=created, updated=updated, version=version)
        self._give(no, draft)
        self._records += 1
        return _record(draft, record_id, created, updated, version)

    def _edit(self, edit: Edit) -> Record:
        for name in edit.fields:
            if name not in _EDITABLE:
                raise Invalid(name, f"cannot be changed; an edit takes {', '.join(sorted(_EDITABLE))}")
        old = self._live(edit.id, edit.if_version)
        draft = Draft(**{name: getattr(old, name) for name in _EDITABLE} | {"kind": old.kind} | dict(edit.fields))
        if draft.key is not None and (draft.key, draft.scope) != (old.key, old.scope):
            taken = self._holder(draft, self._scope_no(draft.scope))
            if taken is not None:
                raise Conflict(draft.key, expected=0, found=taken.version)
        return self._replace(old, draft)

    def _replace(self, old: Record, draft: Draft, *, again: bool = False) -> Record:
        """Give the record `old` the draft's content, one version up, under its own id and time of creation.

        The vectors that were given with it stay as long as it says the same, and it was not put `again`.
        """
        self._seq += 1
        no, text_seq, words, scope_before = self._do(
            "SELECT no, text_seq, words, scope FROM record WHERE id = ?", (old.id,)
        ).get
        self._words -= words
        scope = self._scope_no(draft.scope)
        same = _embedded(old) == _embedded(draft)
        text_seq = text_seq if same else self._seq
        updated = self._at if draft.updated_at is None else micros(draft.updated_at)
        created = micros(old.created_at)
        self._untag(no, old.tags)
        self._store(
            no, text_seq, old.id, scope, draft, created=created, updated=updated, version=old.version + 1, again=True
        )
        if scope != scope_before and same:
            self._revector(no)
        if again or not same:
            self._do("DELETE FROM given WHERE no = ?", (no,))
            self._give(no, draft)
        return _record(draft, old.id, created, updated, old.version + 1)

    def _store(
        self, no: int, text_seq: int, record_id: str, scope: int, draft: Draft, *,
        created: int, updated: int, version: int, again: bool = False,
    ) -> None:  # fmt: skip
        """Write a record's row and tags."""
        if draft.kind in SINCE and not self._raised:
            raise_schema(self._connection, SINCE[draft.kind])
            self._raised = True
        ready = self._prepared.get(id(draft)) or prepare(draft)
        self._words += ready.length
        self._do(
            f"INSERT {'OR REPLACE ' if again else ''}INTO record VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                no, record_id, scope, draft.kind.value, draft.key, self._seq, text_seq, ready.length,
                ready.digest, draft.parent, draft.position, draft.author, created, updated,
                None if draft.expires_at is None else micros(draft.expires_at), version,
                draft.importance.value, draft.source, ready.tags, draft.title, ready.data, draft.text,
            ),
        )  # fmt: skip
        for tag in {tag.casefold() for tag in draft.tags}:
            self._do("INSERT INTO tag (tag, no) VALUES (?, ?)", (tag, no))

    def _give(self, no: int, draft: Draft) -> None:
        """Keep the vectors that came with a draft."""
        for part, vector in (draft.given or {}).items():
            self._do("INSERT INTO given VALUES (?, ?, ?, ?)", (no, part, len(vector), _packed(vector)))

    def _delete(self, delete: Delete) -> int:
        self._live(delete.id, delete.if_version)
        return self._forget(delete.id)

    def _vacant(self, vacant: Vacant) -> int:
        held = self._do(
            "SELECT key, version FROM record WHERE scope = ? AND kind = ? AND key >= ? AND key < ?"
            " AND (expires_at IS NULL OR expires_at > ?) LIMIT 1",
            (self._scope_no(vacant.scope), vacant.kind, vacant.first, vacant.past, self._at),
        ).get
        if held is not None:
            raise Conflict(held[0], expected=0, found=held[1])
        return 0

    def _extend(self, extend: Extend) -> int:
        until = None if extend.expires_at is None else micros(extend.expires_at)
        self._do(
            "UPDATE record SET expires_at = ? WHERE id = ? AND (expires_at IS NULL OR expires_at > ?)",
            (until, extend.id, self._at),
        )
        return 0

    def _drop(self, drop: Drop) -> int:
        under = (drop.scope.path, drop.scope.path + b"\xff")
        dropped = self._remove(
            "SELECT no, words FROM record WHERE scope IN (SELECT no FROM scope WHERE path >= ? AND path < ?)", *under
        )
        self._do("DELETE FROM scope WHERE path >= ? AND path < ?", under)
        self._scope_nos.clear()
        return dropped

    def _forget(self, record_id: str) -> int:
        return self._remove("SELECT no, words FROM record WHERE id = ?", record_id)

    def _remove(self, which: str, *values: str | bytes | int) -> int:
        """Remove the records that `which` names, and everything made from them."""
        doomed: list[tuple[int, int]] = fetch(self._connection, which, values)
        for no, words in doomed:
            self._seq += 1
            tags = self._do("SELECT tags FROM record WHERE no = ?", (no,)).get
            self._untag(no, json.loads(tags))
            self._do("DELETE FROM given WHERE no = ?", (no,))
            self._do("DELETE FROM record WHERE no = ?", (no,))
            for (embedder,) in fetch(self._connection, "SELECT no FROM embedder"):
                self._do("DELETE FROM vector WHERE embedder = ? AND no = ?", (embedder, no))
            self._do("INSERT INTO gone (seq, no) VALUES (?, ?)", (self._seq, no))
            self._words -= words
            self._records -= 1
        return len(doomed)

    def _untag(self, no: int, tags: Sequence[str]) -> None:
        for tag in {tag.casefold() for tag in tags}:
            self._do("DELETE FROM tag WHERE tag = ? AND no = ?", (tag, no))

    def _revector(self, no: int) -> None:
        """Number a moved record's vectors anew: the codes hold the scope, so they must be coded again."""
        for (embedder,) in fetch(self._connection, "SELECT embedder FROM vector WHERE no = ?", (no,)):
            self._do("UPDATE embedder SET vseq = vseq + 1 WHERE no = ?", (embedder,))
            self._do(
                "UPDATE vector SET vseq = (SELECT vseq FROM embedder WHERE no = ?1) WHERE embedder = ?1 AND no = ?2",
                (embedder, no),
            )

    def _live(self, record_id: str, if_version: int | None) -> Record:
        row = self._do(f"SELECT {COLUMNS} FROM record WHERE id = ?", (record_id,)).get
        found = None if row is None else record_of(row)
        if found is None or (found.expires_at is not None and micros(found.expires_at) <= self._at):
            raise NotFound(record_id)
        if if_version is not None and if_version != found.version:
            raise Conflict(record_id, expected=if_version, found=found.version)
        return found

    def _scope_no(self, scope: Scope) -> int:
        no = self._scope_nos.get(scope)
        if no is None:
            row = self._do("SELECT no FROM scope WHERE path = ?", (scope.path,)).get
            if row is None:
                row = self._do("INSERT INTO scope (path) VALUES (?) RETURNING no", (scope.path,)).get
            no = self._scope_nos[scope] = int(row)
        return no


def _embedded(of: Record | Draft) -> str:
    return embed_text(title=of.title, text=of.text, tags=of.tags, data=of.data)


def _record(draft: Draft, record_id: str, created: int, updated: int, version: int) -> Record:
    """The record that storing `draft` made."""
    expires = None if draft.expires_at is None else moment(micros(draft.expires_at))
    return Record(
        id=record_id, scope=draft.scope, kind=draft.kind, key=draft.key, title=draft.title, text=draft.text,
        data=None if draft.data is None else json.loads(encode_json(draft.data)), tags=draft.tags,
        importance=draft.importance, author=draft.author, source=draft.source, parent=draft.parent,
        position=draft.position, created_at=moment(created), updated_at=moment(updated), expires_at=expires,
        version=version,
    )  # fmt: skip
