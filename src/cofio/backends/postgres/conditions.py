"""How bounds and filters become SQL: conditions over `record AS r`, values always bound."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b

from ...values.query import AllOf, AnyOf, Bounds, Filter, Value, Where
from ...values.records import NOT_SEARCHABLE, WITHOUT_VECTOR, Scope
from ...values.times import to_micros
from ..store_time import SLACK

SEARCHABLE = "r.kind NOT IN ('{}')".format("', '".join(sorted(NOT_SEARCHABLE)))
EMBEDDED = "r.kind NOT IN ('{}')".format("', '".join(sorted(WITHOUT_VECTOR)))
LIVE = "(r.expires_at IS NULL OR r.expires_at > {})"
PREFIX = 800  # bytes of a scope's path that its index is over
ALL_SCOPES = "*"
"""The reach of what is limited to no scope."""


def digest(*parts: str | bytes) -> bytes:
    """Return what stands for a value that may be too long for an index."""
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return blake2b(joined, digest_size=16).digest()


def encode_reach(scopes: Sequence[Scope]) -> str:
    """Return what tells the database that a transaction may see these scopes and all under them."""
    return ALL_SCOPES if any(not scope.names for scope in scopes) else ",".join(scope.path.hex() for scope in scopes)


class Values:
    """The values that a statement binds, in order."""

    def __init__(self, *values: object) -> None:
        self.list = [*values]

    def add(self, value: object, type_: str = "") -> str:
        """Bind one more; what stands for it in the statement."""
        self.list.append(value)
        return f"${len(self.list)}{'::' if type_ else ''}{type_}"


def select_scopes(bounds: Bounds, values: Values) -> str:
    """Return SQL of the array of the numbers of all scopes within bounds."""
    return f"ARRAY(SELECT s.no FROM @scope s WHERE {_match_path(bounds.scope, values, exact=bounds.exact)})"


def select_time(clock: int, values: Values) -> str:
    """Return SQL of the store's time, where the machine's clock says this."""
    own = values.add(clock, "bigint")
    return (
        f"(SELECT CASE WHEN {own} < m.at AND m.at <= {own} + {SLACK} THEN m.at ELSE {own} END"
        " FROM (SELECT coalesce(max(at), 0) AS at FROM @moment) AS m)"
    )


def within(bounds: Bounds, now: int | str, values: Values, *, scope: bool = True) -> str:
    """Return the condition that a record is within bounds; without `scope`, its scope is looked at elsewhere.

    `now` may be SQL.
    """
    parts = [LIVE.format(values.add(now, "bigint") if isinstance(now, int) else now)]
    if scope and (bounds.exact or bounds.scope.names):
        parts.append(f"r.scope = ANY({select_scopes(bounds, values)})")
    if bounds.kinds:
        parts.append(f"r.kind = ANY({values.add([str(kind) for kind in bounds.kinds], 'text[]')})")
    if bounds.filter is not None:
        parts.append(_filter(bounds.filter, values))
    return " AND ".join(parts)


def _match_path(scope: Scope, values: Values, *, exact: bool) -> str:
    if exact:
        return f"s.digest = {values.add(digest(scope.path), 'bytea')}"
    if not scope.names:
        return "true"
    low, high = scope.path, scope.path + b"\xff"  # no UTF-8 holds the byte FF
    first, past = values.add(low[:PREFIX], "bytea"), values.add(high[:PREFIX], "bytea")
    whole = f"s.path >= {values.add(low, 'bytea')} AND s.path < {values.add(high, 'bytea')}"
    return f"s.start >= {first} AND s.start <= {past} AND {whole}"


def _filter(filter_: Filter, values: Values) -> str:
    if isinstance(filter_, Where):
        return _where(filter_, values)
    joined, empty = (" AND ", "true") if isinstance(filter_, AllOf) else (" OR ", "false")
    assert isinstance(filter_, AllOf | AnyOf)
    return f"({joined.join(_filter(part, values) for part in filter_.parts) or empty})"


def _where(test: Where, values: Values) -> str:
    """One test, as an expression that is true or false and never NULL."""
    if isinstance(test.value, tuple):
        if test.name == "tags":
            return f"r.folded && {values.add([_fold(value) for value in test.value], 'text[]')}"
        return _filter(AnyOf(*(Where(test.field, "=", value) for value in test.value)), values)
    if test.name == "tags":
        return f"r.folded && {values.add([_fold(test.value)], 'text[]')}"
    if test.name == "scope":
        assert isinstance(test.value, Scope)
        matches = _match_path(test.value, values, exact=test.operator != "has")
        inside = f"r.scope IN (SELECT s.no FROM @scope s WHERE {matches})"
        return f"NOT {inside}" if test.operator == "!=" else inside
    if test.name == "data":
        return _data(test, values)
    column, value = f"r.{test.name}", _to_stored(test.value)
    if value is None:
        return f"{column} IS NOT NULL" if test.operator == "!=" else "false"
    if test.operator == "!=":
        return f"{column} IS DISTINCT FROM {_bind(value, values)}"
    return f"({column} IS NOT NULL AND {column} {test.operator} {_bind(value, values)})"


def _data(test: Where, values: Values) -> str:
    """A test of a data field. JSON's types stay apart: true is not 1, and "1" is not 1."""
    if test.operator == "!=":
        return f"NOT {_data(Where(test.field, '=', test.value), values)}"
    found = "r.fields" + "".join(f" -> {values.add(name, 'text')}" for name in test.path)
    if test.value is None or isinstance(test.value, bool):
        written = {None: "null", True: "true", False: "false"}[test.value]
        return f"coalesce(({found}) = '{written}'::jsonb, false)"
    text = f"(({found}) #>> '{{}}')"
    if isinstance(test.value, str):
        kind, compared = "string", f'{text} COLLATE "C" {test.operator} {values.add(test.value, "text")}'
    else:
        assert isinstance(test.value, int | float)
        kind, compared = "number", f"{text}::numeric {test.operator} {values.add(repr(test.value), 'numeric')}"
    return f"(CASE WHEN jsonb_typeof({found}) = '{kind}' THEN {compared} ELSE false END)"


def _bind(value: int | float | str, values: Values) -> str:
    if isinstance(value, float) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return values.add(repr(value), "numeric")
    return values.add(value, "text" if isinstance(value, str) else "bigint")


def _fold(value: Value) -> str:
    return str(value).casefold()


def _to_stored(value: Value) -> int | float | str | None:
    if isinstance(value, datetime):
        return to_micros(value)
    assert value is None or isinstance(value, int | float | str)
    return str(value) if isinstance(value, str) else value
