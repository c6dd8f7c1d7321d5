"""How a store's item is kept as a record: where it is, what it is found by, and what a filter on it asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, TypeAlias, TypeVar, cast

from ..values.errors import Invalid, LimitExceeded
from ..values.json_values import is_same_json
from ..values.query import MAX_LIST, AllOf, Filter, Operator, Where
from ..values.records import (
    MAX_DATA,
    MAX_DATA_DEPTH,
    MAX_SCOPE_DEPTH,
    Draft,
    Json,
    Kind,
    Record,
    Scope,
    check_json,
    check_text,
    encode_json,
)
from ..values.scopes import ITEMS

T = TypeVar("T")
Namespace: TypeAlias = tuple[str, ...]
Path: TypeAlias = tuple[str, ...]

SOURCE = "store"  # what tells an item that a store put from what others put under its scope
KINDS = (Kind.ITEM,)
WHOLE = "$"  # the part of an item that a vector of all of it is of
PAGE = 1000  # items read at a time, when some of them will not do

_ORDERED: dict[str, Operator] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def make_scope(namespace: Namespace) -> Scope:
    """The scope of a namespace; raises Invalid for one that cannot be."""
    try:
        return Scope(*ITEMS.names, *namespace)
    except LimitExceeded as error:
        most = MAX_SCOPE_DEPTH - 1 if error.unit == "names" else error.limit
        raise LimitExceeded("namespace", most, error.unit) from None
    except Invalid as error:
        raise Invalid("namespace", error.problem) from None


def get_namespace(scope: Scope) -> Namespace:
    """The namespace of a scope."""
    return scope.names[1:]


def copy_json(name: str, value: Any, depth: int = 1) -> Json:
    """A copy of a value that is JSON, tuples as lists and times in ISO's form; raises Invalid, naming the field, for
    anything else."""
    if depth > MAX_DATA_DEPTH:
        raise LimitExceeded(name, MAX_DATA_DEPTH - 1, "levels")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise Invalid(name, f"the key {key!r} is not a string")
            check_text(name, key, MAX_DATA)
        return {key: copy_json(f"{name}.{key}", inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(f"{name}[{at}]", inner, depth + 1) for at, inner in enumerate(value)]
    if isinstance(value, str):
        check_text(name, value, MAX_DATA)
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(name, f"{value} is not JSON")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, date):  # a datetime is one, too
        return value.isoformat()
    raise Invalid(name, f"{type(value).__name__} is not JSON")


def build_draft(
    namespace: Namespace,
    key: str,
    value: Json,
    metadata: Mapping[str, Json] | None = None,
    *,
    ttl: float | None = None,
    given: Mapping[str, Sequence[float]] | None = None,
) -> Draft:
    """The record that an item becomes. `ttl`, in seconds, is kept for those who start it again at each read.

    The text is what the value and the metadata say, so that other doors can find and show the item, and so that the
    names of the fields here are no words that it is found by.
    """
    data: dict[str, Json] = {"value": value}
    if metadata:
        data["metadata"] = dict(metadata)
    if ttl is not None:
        data["ttl"] = ttl
    check_json(data)
    return Draft(
        scope=make_scope(namespace), kind=Kind.ITEM, key=key, text=render_text(value, metadata), data=data,
        source=SOURCE, given=cast(Mapping[str, tuple[float, ...]], given),
    )  # fmt: skip


def render_text(value: Json, metadata: Mapping[str, Json] | None = None) -> str:
    """What an item says, as a person would write it down: what it is found by."""
    parts = ["\n".join(_render_lines(value)) or encode_json(value), "\n".join(_render_lines(dict(metadata or {})))]
    return "\n\n".join(filter(None, parts))


def _render_lines(value: Json) -> Iterator[str]:
    """A value as a person would write it down."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict | list):
                yield f"{name}:"
                yield from _render_lines(inner)
            else:
                yield f"{name}: {_render_word(inner)}"
    elif isinstance(value, list):
        for inner in value:
            yield from _render_lines(inner)
    else:
        yield _render_word(value)


def _render_word(value: Json) -> str:
    return value if isinstance(value, str) else encode_json(value)


def get_value(record: Record) -> Any:
    """The value of an item; of what another door put here, its data or else its text."""
    if record.source == SOURCE and isinstance(record.data, dict):
        return record.data.get("value")
    return record.text if record.data is None else record.data


def get_metadata(record: Record) -> dict[str, Any]:
    """The metadata of an item."""
    found = record.data.get("metadata") if record.source == SOURCE and isinstance(record.data, dict) else None
    return found if isinstance(found, dict) else {}


def get_ttl(record: Record) -> float | None:
    """How many seconds an item lasts from each time that it is read."""
    found = record.data.get("ttl") if record.source == SOURCE and isinstance(record.data, dict) else None
    return found if isinstance(found, int | float) and record.expires_at is not None else None


def filter_keyed(records: Iterable[Record]) -> Iterator[Record]:
    """Those of the records that have a key, as every item has, and what others wrote to its scope may not."""
    return (record for record in records if record.key is not None)


def fetch_pages(fetch: Callable[[int, int], Sequence[T]], size: int, offset: int = 0) -> Iterator[T]:
    """What `fetch` gives for a limit and an offset, page by page, until there is no more."""
    size = min(size, MAX_LIST)
    while True:
        page = fetch(size, offset)
        yield from page
        if len(page) < size:
            return
        offset += size


class ItemFilter:
    """A filter on the fields of an item's value, or of its metadata.

    A field's test is a value that it must equal, operators such as {"$gt": 3}, or tests of the fields in it. A missing
    field is like one that is None. JSON's types stay apart: true is not 1, and "1" is not 1.

    Raises:
        TypeError, ValueError: these are no tests.
        Invalid: a name or a value is none that a field could have, or there are too many.
    """

    def __init__(self, under: str, tests: Mapping[str, Any] | None) -> None:
        if tests is not None and not isinstance(tests, Mapping):
            raise TypeError(f"filter: expected a dict, got {type(tests).__name__}")
        self._tests = cast(dict[str, Json], copy_json("filter", tests or {}))
        self.exact = True
        """Whether `filter` says it all, so that `holds` need not be asked."""
        found = [each for name, test in self._tests.items() for each in self._build_filter(("data", under, name), test)]
        self.filter: Filter | None = AllOf(*found) if found else None

    def holds(self, fields: Any) -> bool:
        """Whether these fields pass."""
        return all(_holds(_get_field(fields, name), test) for name, test in self._tests.items())

    def _build_filter(self, path: Path, test: Any) -> Iterator[Filter]:
        """What a database can say of a test: no more than it asks, and less when it is not exact."""
        if isinstance(test, dict) and _has_operators(test):
            for operator, value in test.items():
                yield from self._build_comparison(path, operator, value)
        elif isinstance(test, dict):
            self.exact = False
            for name, inner in test.items():
                yield from self._build_filter((*path, name), inner)
        elif isinstance(test, list):
            self.exact = False
            for inner in test:
                list(self._build_filter(path, inner))  # they must make sense, but only `holds` can tell where they do
        else:
            yield from self._build_comparison(path, "$eq", test)

    def _build_comparison(self, path: Path, operator: str, value: Any) -> Iterator[Filter]:
        if operator in _ORDERED:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError(f"filter: {operator} takes a number or a string, got {value!r}")
            yield Where(path, _ORDERED[operator], value)
        elif operator not in ("$eq", "$ne"):
            raise ValueError(f"Unsupported operator: {operator}")
        elif value is None or isinstance(value, list | dict):
            self.exact = False
        else:
            yield Where(path, "=" if operator == "$eq" else "!=", value)


def _has_operators(test: Mapping[str, Any]) -> bool:
    return any(name.startswith("$") for name in test)


def _get_field(fields: Any, name: str) -> Any:
    return fields.get(name) if isinstance(fields, dict) else None


def _holds(value: Any, test: Any) -> bool:
    """Whether a value passes a test."""
    if isinstance(test, dict):
        if _has_operators(test):
            return all(_compares(value, operator, other) for operator, other in test.items())
        return isinstance(value, dict) and all(_holds(value.get(name), inner) for name, inner in test.items())
    if isinstance(test, list):
        return isinstance(value, list) and len(value) == len(test) and all(map(_holds, value, test))
    return is_same_json(value, test)


def _compares(value: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return is_same_json(value, other) == (operator == "$eq")
    if not (_is_comparable(value, str) and _is_comparable(other, str)) and not (
        _is_comparable(value, int | float) and _is_comparable(other, int | float)
    ):
        return False
    return bool({"$gt": value > other, "$gte": value >= other, "$lt": value < other, "$lte": value <= other}[operator])


def _is_comparable(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
