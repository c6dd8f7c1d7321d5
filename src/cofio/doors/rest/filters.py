"""The filter language of the API: what a client's `filters` mean to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from typing import cast

from ...http.errors import RequestError
from ...values.query import AllOf, AnyOf, Filter, Operator, Value, Where
from ...values.times import EPOCH

RESERVED = ("owner_id", "owner_type", "app_id", "project_id")
STRINGS = ("session_id", "parent_type", "parent_id")
OPERATORS: Mapping[str, Operator] = {
    "eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "in": "in",
}  # fmt: skip
ARRAYS = {"sender_id": "senders"}
SKILL_ARRAYS = {"sender_id": "senders", "session_id": "sessions"}  # a skill is made of several sessions
MAX_SESSION = 128
MILLISECONDS = 10**12  # a number from here on is taken for milliseconds, a smaller one for seconds
_FARTHEST = 10**18  # beyond any year, and still a number that every comparison can be made with


class BadFilter(RequestError):
    """What is wrong with a filter, in a sentence for the client."""

    def __init__(self, problem: str) -> None:
        super().__init__(422, problem)


def compile_filter(node: Mapping[str, object], zone: tzinfo, arrays: Mapping[str, str] = ARRAYS) -> Filter | None:
    """The filter that a node means; None when it lets everything through. `arrays` are fields with several values.

    Raises:
        BadFilter: a field, an operator or a value is not one that it takes.
    """
    parts: list[Filter] = []
    for key, value in node.items():
        if value is None:
            continue
        if key in ("AND", "OR"):
            nodes = cast("list[Mapping[str, object]]", value)
            inner = [part if (part := compile_filter(each, zone, arrays)) is not None else AllOf() for each in nodes]
            if inner:
                parts.append(AllOf(*inner) if key == "AND" else AnyOf(*inner))
        else:
            parts += _compile_field(key, value, zone, arrays)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AllOf(*parts)


def find_session(node: Mapping[str, object] | None) -> str | None:
    """The session whose waiting messages are wanted too: one that is named outright, at the top."""
    session = (node or {}).get("session_id")
    return session if isinstance(session, str) and 1 <= len(session) <= MAX_SESSION else None


def parse_moment(value: object, field: str, zone: tzinfo) -> float:
    """Milliseconds since 1970 for a number of them, a number of seconds, or an ISO time; without a zone it is ours."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _FARTHEST:
        return value if value >= MILLISECONDS else value * 1000
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
            return ((time if time.tzinfo else time.replace(tzinfo=zone)) - EPOCH) / timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            pass
    raise BadFilter(f"timestamp value for {field!r} must be ms or ISO string")


def _compile_field(field: str, value: object, zone: tzinfo, arrays: Mapping[str, str]) -> list[Filter]:
    if field in RESERVED:
        raise BadFilter(f"filter field {field!r} is reserved; pass it at the top of the request")
    if field not in (*STRINGS, "timestamp", "sender_id"):
        raise BadFilter(f"unsupported filter field: {field!r}")
    if isinstance(value, dict) and not value:
        raise BadFilter(f"empty operator map for field {field!r}")
    operators = value if isinstance(value, dict) else {"eq": value}
    for operator in operators:
        if operator not in OPERATORS:
            raise BadFilter(f"unsupported operator {operator!r} on field {field!r}")
    if field in arrays:
        return [_compile_membership(field, arrays[field], operator, operand) for operator, operand in operators.items()]
    return [_compile_comparison(field, operator, operand, zone) for operator, operand in operators.items()]


def _compile_comparison(field: str, operator: str, value: object, zone: tzinfo) -> Filter:
    path = ("data", "at") if field == "timestamp" else ("data", field)

    def parse(each: object) -> Value:
        return parse_moment(each, field, zone) if field == "timestamp" else _check_string(each, field)

    operand: Value = tuple(map(parse, _check_list(value, field))) if operator == "in" else parse(value)
    return Where(path, OPERATORS[operator], operand)


def _compile_membership(field: str, within: str, operator: str, value: object) -> Filter:
    """Whether one of a record's several values is meant; they are kept as the names of an object."""
    if operator not in ("eq", "in"):
        raise BadFilter(f"operator {operator!r} is not supported on array field {field!r}")
    names = [_check_string(each, field) for each in (_check_list(value, field) if operator == "in" else [value])]
    return AnyOf(*(Where(("data", within, name), "=", True) for name in names))


def _check_list(value: object, field: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise BadFilter(f"value for {field!r} with 'in' must be a non-empty list")
    return value


def _check_string(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise BadFilter(f"value for {field!r} must be a string")
    return value
