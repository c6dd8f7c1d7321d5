"""How a record is read from the columns of a row, in the order in which every backend selects them."""

from __future__ import annotations

import array
import json
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from ..values.records import Heading, Importance, Kind, Record, Scope, make_record
from ..values.times import from_micros

RecordColumns: TypeAlias = tuple[
    str, bytes, str, str | None, str, str, str, str, str,
    str, str, str | None, int | None, int, int, int | None, int,
]  # fmt: skip
"""Id, path of the scope, kind, key, title, text, data, tags, importance, author, source, parent, position, times of
creation, change and expiry, and version."""
HeadingColumns: TypeAlias = tuple[str, bytes, str, str | None, str, str, str, str, int]
"""Id, path of the scope, kind, key, title, tags, importance, author, and time of change."""

_kinds = {str(kind): kind for kind in Kind}
_importances = {str(each): each for each in Importance}
_decode_json = json.JSONDecoder().raw_decode  # what is stored has no space around it, which json.loads looks for


def decode_record(row: RecordColumns) -> Record:
    """The record of a row."""
    created = from_micros(row[13])
    return make_record((
        row[0], decode_scope(row[1]), _kinds[row[2]], row[3], row[4], row[5],
        None if row[6] == "null" else _decode_json(row[6])[0],
        decode_tags(row[7]), _importances[row[8]], row[9], row[10], row[11], row[12],
        created,
        created if row[14] == row[13] else from_micros(row[14]),
        None if row[15] is None else from_micros(row[15]),
        row[16],
    ))  # fmt: skip


def decode_headings(rows: Iterable[HeadingColumns]) -> list[Heading]:
    """The headings of rows."""
    make = tuple.__new__  # a third faster than to call Heading
    return [
        make(Heading, (
            record_id, decode_scope(path), _kinds[kind], key, title, decode_tags(tags), _importances[importance],
            author, from_micros(updated_at),
        ))
        for record_id, path, kind, key, title, tags, importance, author, updated_at in rows
    ]  # fmt: skip


@lru_cache(maxsize=10_000)
def decode_scope(path: bytes) -> Scope:
    """The scope with a stored path."""
    return Scope.from_path(path)


@lru_cache(maxsize=4096)  # the same few sets of tags come again and again
def decode_tags(stored: str) -> tuple[str, ...]:
    """A record's tags from their stored form."""
    return tuple(json.loads(stored))


def pack_vector(vector: Sequence[float]) -> bytes:
    """A given vector in its stored form: float32, little endian."""
    return _swap_bytes(array.array("f", vector)).tobytes()


def unpack_vector(data: bytes) -> tuple[float, ...]:
    """The given vector of a stored form."""
    return tuple(_swap_bytes(array.array("f", data)))


def _swap_bytes(numbers: array.array[float]) -> array.array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
