"""How a record is written as a line of JSON and read back, without loss."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import cast

from ..values.errors import Invalid
from ..values.records import Draft, Importance, Json, Kind, Record, Scope, member

_TIMES = ("created_at", "updated_at", "expires_at")
_FIELDS = frozenset(
    [
        "id",
        "scope",
        "kind",
        "key",
        "title",
        "text",
        "data",
        "tags",
        "importance",
        "author",
        "source",
        "parent",
        "position",
        "version",
        "given",
    ]
) | set(_TIMES)
_BREAKS = re.compile("[\x85\u2028\u2029]")
_REQUIRED = ("id", "scope", "kind", "created_at", "updated_at", "version")


def to_json(record: Record) -> dict[str, Json]:
    """The record as JSON values: every field, times as ISO 8601 in UTC, and vectors if any came with it."""
    fields: dict[str, Json] = {
        "id": record.id,
        "scope": list(record.scope.names),
        "kind": record.kind.value,
        "key": record.key,
        "title": record.title,
        "text": record.text,
        "data": record.data,
        "tags": list(record.tags),
        "importance": record.importance.value,
        "author": record.author,
        "source": record.source,
        "parent": record.parent,
        "position": record.position,
        "created_at": record.created_at.isoformat(),
        "updated_at": record.updated_at.isoformat(),
        "expires_at": record.expires_at.isoformat() if record.expires_at else None,
        "version": record.version,
    }
    if record.given:
        fields["given"] = {part: list(vector) for part, vector in record.given.items()}
    return fields


def write_line(record: Record) -> str:
    """The record as one line of JSON, without the line's end."""
    return dump_line(to_json(record), separators=(",", ":"))


def dump_line(value: object, *, separators: tuple[str, str] = (", ", ": ")) -> str:
    """The value as one line of JSON, without the line's end; no rule for splitting lines cuts it apart."""
    return escape_breaks(json.dumps(value, ensure_ascii=False, separators=separators))


def escape_breaks(line: str) -> str:
    """JSON that says the same, without what JSON takes for letters and many readers take for the end of a line."""
    return line if line.isascii() else _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def read_line(line: str) -> Draft:
    """The draft that restores the record of an exported line; raises Invalid for anything else."""
    try:
        fields: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid("line", f"is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise Invalid("line", "is not a JSON object")
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise Invalid(sorted(unknown)[0], "is not a field of a record")
    for name in _REQUIRED:
        if fields.get(name) is None:
            raise Invalid(name, "is missing; each line of an export has it")
    given = dict(fields)
    given["scope"] = _parse_scope(given["scope"])
    given["kind"] = member(Kind, "kind", given["kind"])
    if "importance" in given:
        given["importance"] = member(Importance, "importance", given["importance"])
    if isinstance(given.get("tags"), list):
        given["tags"] = tuple(given["tags"])
    for name in _TIMES:
        given[name] = _parse_time(name, given.get(name))
    return Draft(**given)


def _parse_scope(value: object) -> Scope:
    if not isinstance(value, list):
        raise Invalid("scope", "expected a list of names")
    return Scope(*cast(list[str], value))


def _parse_time(name: str, value: object) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(cast(str, value))
    except (TypeError, ValueError):
        raise Invalid(name, f"{value!r} is not an ISO 8601 time") from None
