"""How bounds and filters become SQL: conditions over `record`, values always bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ...values.query import AllOf, AnyOf, Bounds, Filter, Value, Where
from ...values.records import NOT_SEARCHABLE, WITHOUT_VECTOR, Scope
from ...values.times import to_micros

Bound = None | int | float | str | bytes
SEARCHABLE = "kind NOT IN ('{}')".format("', '".join(sorted(NOT_SEARCHABLE)))
EMBEDDED = "kind NOT IN ('{}')".format("', '".join(sorted(WITHOUT_VECTOR)))


@dataclass(slots=True)
class Condition:
    """A piece of SQL, and the values that it binds, in order."""

    parts: list[str] = field(default_factory=list)
    values: list[Bound] = field(default_factory=list)

    def add(self, sql: str, *values: Bound) -> None:
        """Ask for this as well."""
        self.parts.append(sql)
        self.values.extend(values)

    @property
    def sql(self) -> str:
        """The condition as text."""
        return " AND ".join(self.parts) or "1"


def within(bounds: Bounds, now: int, *, by_row: bool) -> Condition:
    """The condition that a record is within bounds.

    `by_row` is for records that are looked up by number: it tests each one's scope on its own, where a
    walk over many records had better know the scopes first.
    """
    condition = within_scope(bounds, by_row=by_row)
    condition.add("(expires_at IS NULL OR expires_at > ?)", now)
    if bounds.kinds:
        condition.add(f"kind IN ({_marks(len(bounds.kinds))})", *bounds.kinds)
    if bounds.filter is not None:
        sql, values = _filter(bounds.filter, by_row)
        condition.add(sql, *values)
    return condition


def names_rows(filter_: Filter | None) -> bool:
    """Whether a filter is met by few records, which an index finds: those with an id or under a parent."""
    if isinstance(filter_, AllOf):
        return any(map(names_rows, filter_.parts))
    return isinstance(filter_, Where) and filter_.name in ("id", "parent") and filter_.operator in ("=", "in")


def within_scope(bounds: Bounds, *, by_row: bool = True) -> Condition:
    """The condition that a record is in the scope of the bounds, whatever else they ask."""
    condition = Condition()
    if bounds.exact:
        # The plus keeps SQLite from walking the whole scope for the few records that are looked up by number.
        condition.add(f"{'+' if by_row else ''}scope = (SELECT no FROM scope WHERE path = ?)", bounds.scope.path)
    elif bounds.scope.names:
        condition.add(_under(by_row), *_range(bounds.scope))
    return condition


def changed_within(bounds: Bounds, since: int) -> Condition:
    """The condition that a record may be within bounds and was changed after `since`, to walk over by its change.

    Of one scope the changes are in order; those of a scope and all under it are not, and are taken with all others.
    """
    condition = within_scope(bounds, by_row=False) if bounds.exact else Condition()
    condition.add("seq > ?", since)
    return condition


def _under(by_row: bool) -> str:
    if by_row:
        return "EXISTS (SELECT 1 FROM scope WHERE scope.no = record.scope AND path >= ? AND path < ?)"
    return "scope IN (SELECT no FROM scope WHERE path >= ? AND path < ?)"


def _range(scope: Scope) -> tuple[bytes, bytes]:
    """The stored forms of a scope and all under it; no UTF-8 holds the byte FF."""
    return scope.path, scope.path + b"\xff"


def _marks(count: int) -> str:
    return ",".join("?" * count)


def _filter(filter_: Filter, by_row: bool) -> tuple[str, list[Bound]]:
    if isinstance(filter_, Where):
        return _where(filter_, by_row)
    joined, empty = (" AND ", "1") if isinstance(filter_, AllOf) else (" OR ", "0")
    assert isinstance(filter_, AllOf | AnyOf)
    pieces = [_filter(part, by_row) for part in filter_.parts]
    sql = joined.join(piece for piece, _ in pieces) or empty
    return f"({sql})", [value for _, values in pieces for value in values]


def _where(test: Where, by_row: bool) -> tuple[str, list[Bound]]:
    """One test, as an expression that is 0 or 1 and never NULL."""
    if isinstance(test.value, tuple):
        if test.name == "tags":
            tags = [_fold(value) for value in test.value]
            return _has_tag(f"IN ({_marks(len(tags))})", by_row), list(tags)
        return _filter(AnyOf(*(Where(test.field, "=", value) for value in test.value)), by_row)
    if test.name == "tags":
        return _has_tag("= ?", by_row), [_fold(test.value)]
    if test.name == "scope":
        return _scope(test, by_row)
    if test.name == "data":
        return _data(test)
    if test.operator == "!=":
        return f"{test.name} IS NOT ?", [_to_stored(test.value)]
    return f"({test.name} IS NOT NULL AND {test.name} {test.operator} ?)", [_to_stored(test.value)]


def _has_tag(tag: str, by_row: bool) -> str:
    if by_row:
        return f"EXISTS (SELECT 1 FROM tag WHERE tag.tag {tag} AND tag.no = record.no)"
    return f"no IN (SELECT no FROM tag WHERE tag {tag})"


def _scope(test: Where, by_row: bool) -> tuple[str, list[Bound]]:
    assert isinstance(test.value, Scope)
    if test.operator == "has":
        return _under(by_row), list(_range(test.value))
    inside = "scope IN (SELECT no FROM scope WHERE path = ?)"
    return (inside if test.operator == "=" else f"NOT {inside}"), [test.value.path]


def make_data_path(names: Sequence[str]) -> str:
    """The JSON path of a data field."""
    return "$" + "".join("." + json.dumps(name, ensure_ascii=False) for name in names)


def _data(test: Where) -> tuple[str, list[Bound]]:
    """A test of a data field. JSON's types stay apart: true is not 1, and "1" is not 1."""
    path = make_data_path(test.path)
    if test.operator == "!=":
        sql, values = _data(Where(test.field, "=", test.value))
        return f"NOT {sql}", values
    if test.value is None or isinstance(test.value, bool):
        kind = {None: "null", True: "true", False: "false"}[test.value]
        return "(json_type(data, ?) IS ?)", [path, kind]
    kinds = "('text')" if isinstance(test.value, str) else "('integer', 'real')"
    sql = f"(ifnull(json_type(data, ?) IN {kinds}, 0) AND json_extract(data, ?) {test.operator} ?)"
    return sql, [path, path, _to_stored(test.value)]


def _fold(value: Value) -> str:
    return str(value).casefold()


def _to_stored(value: Value) -> Bound:
    if isinstance(value, datetime):
        return to_micros(value)
    assert value is None or isinstance(value, int | float | str)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value
