"""What a caller asks and what comes back: Query, Filter, Hit, Page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias, cast, get_args, overload

from .errors import Invalid, LimitExceeded
from .records import (
    MAX_AUTHOR,
    Importance,
    Kind,
    Record,
    Scope,
    check_bool,
    check_int,
    check_scope,
    check_text,
    check_time,
    checked_vector,
    encode_json,
    member,
)

MAX_QUERY = 10_000
MAX_LIMIT = 1000
MAX_LIST = 10_000
MAX_FILTER_TESTS = 200
MAX_FILTER_DEPTH = 32

Mode = Literal["hybrid", "keyword", "semantic"]
Order = Literal["changed", "created", "written", "expires"]
"""By the last change; by `created_at` and then the last change; by `created_at` and then the first write; by
`expires_at`, and those that never expire at the end."""
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "has"]
Value: TypeAlias = bool | int | float | str | datetime | Scope | tuple["Value", ...] | None

_TEXTS = ("id", "key", "title", "author", "source", "parent")
_TIMES = ("created_at", "updated_at", "expires_at")
_NUMBERS = ("position", "version")
FIELDS = ("scope", "kind", "tags", "importance", *_TEXTS, *_TIMES, *_NUMBERS)
_ORDERED = ("<", "<=", ">", ">=")


class _Combination:
    """Lets filters be joined with & and |."""

    __slots__ = ()

    def __and__(self, other: Filter) -> AllOf:
        return AllOf(cast(Filter, self), other)

    def __or__(self, other: Filter) -> AnyOf:
        return AnyOf(cast(Filter, self), other)


@dataclass(frozen=True, slots=True, init=False)
class AllOf(_Combination):
    """Holds when every one of its parts holds; with no parts it always holds."""

    parts: tuple[Filter, ...]

    def __init__(self, *parts: Filter) -> None:
        object.__setattr__(self, "parts", _checked_parts(parts))


@dataclass(frozen=True, slots=True, init=False)
class AnyOf(_Combination):
    """Holds when at least one of its parts holds; with no parts it never holds."""

    parts: tuple[Filter, ...]

    def __init__(self, *parts: Filter) -> None:
        object.__setattr__(self, "parts", _checked_parts(parts))


@dataclass(frozen=True, slots=True)
class Where(_Combination):
    """A test of one field: `Where("tags", "has", "auth")`, `Where("data.n", ">=", 3)`.

    A field is one of FIELDS, or a path into the data: "data.a.b", or ("data", "a.b") for a name with a dot.
    `has` tests one tag, ignoring case; `=` on "scope" is that scope alone, `in` takes a list, and
    `has` on "scope" is the scope with all that is under it. Tests on a missing field fail, but for `!=`.
    """

    field: str | tuple[str, ...]
    operator: Operator
    value: Value

    def __post_init__(self) -> None:
        if isinstance(self.value, list):
            object.__setattr__(self, "value", tuple(self.value))
        object.__setattr__(self, "field", _names(self.field))
        _check_where(self)

    @property
    def name(self) -> str:
        """The field's name, or "data" for a path into the data."""
        return self.field[0]

    @property
    def path(self) -> tuple[str, ...]:
        """The names under "data" that lead to the value tested."""
        return tuple(self.field[1:])


Filter: TypeAlias = AllOf | AnyOf | Where


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the memory. `vector` may carry the question's embedding when the caller has it."""

    text: str
    scope: Scope = field(default_factory=Scope, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    """Only the scope itself, not what is under it."""
    kinds: tuple[Kind, ...] = field(default=(), kw_only=True)
    filter: Filter | None = field(default=None, kw_only=True)
    mode: Mode = field(default="hybrid", kw_only=True)
    limit: int = field(default=10, kw_only=True)
    each: int | tuple[int, int] | None = field(default=None, kw_only=True)
    """The most hits under one parent that have a position there, and as many that have none, or a pair of two numbers;
    `limit` counts parents."""
    floor: float | None = field(default=None, kw_only=True)
    """The least score (0 to 1) that a hit must have; None means the store's setting."""
    vector: Sequence[float] | None = field(default=None, kw_only=True)
    asker: str | tuple[str, ...] = field(default="user", kw_only=True)
    """Who asks, by the author of their turns: of several names any may be it. I, me and my in the text mean them."""
    asked_at: datetime | None = field(default=None, kw_only=True)
    """When it is asked, which yesterday or last week in the text is counted from; None for now."""
    current: bool = field(default=False, kw_only=True)
    """Whether of what one author said on one subject in several sessions the newest comes first, though in other words:
    for the memory of one user, whose life goes on. Not where the past is asked for."""

    folds: bool = field(default=False, kw_only=True)
    """Whether a message, the facts made of it and its episode are one hit; `limit` counts those."""

    def __post_init__(self) -> None:
        check_text("query", self.text, MAX_QUERY)
        check_bool("folds", self.folds)
        check_scope(self.scope)
        check_bool("exact", self.exact)
        object.__setattr__(self, "kinds", check_kinds(self.kinds))
        check_filter(self.filter)
        if self.mode not in ("hybrid", "keyword", "semantic"):
            raise Invalid("mode", f"{self.mode!r} is not one of hybrid, keyword, semantic")
        check_int("limit", self.limit, 1, MAX_LIMIT)
        if self.each is not None:
            for most in self.each if isinstance(self.each, tuple) and len(self.each) == 2 else (self.each,):
                check_int("each", most, 1, MAX_LIMIT)
        if self.floor is not None and not (_is_number(self.floor) and 0 <= self.floor <= 1):
            raise Invalid("floor", f"{self.floor!r} is not a number from 0 to 1")
        if self.vector is not None:
            object.__setattr__(self, "vector", checked_vector("vector", self.vector))
        for name in self.asker if isinstance(self.asker, tuple) else (self.asker,):
            check_text("asker", name, MAX_AUTHOR)
        if self.asked_at is not None:
            check_time("asked_at", self.asked_at)
        check_bool("current", self.current)

    @property
    def askers(self) -> tuple[str, ...]:
        """The names that the one who asks may have as an author."""
        return self.asker if isinstance(self.asker, tuple) else (self.asker,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What one way of searching said of a hit: its own score, its rank (1 is best), its share of the total."""

    score: float
    rank: int | None
    share: float
    relevance: float
    """The score as a number from 0 to 1 that can be compared between queries; the floor is held against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a hit was found: each signal that saw it, what its surroundings added, and the words it shares."""

    keyword: Signal | None = None
    semantic: Signal | None = None
    context: Mapping[str, float] = field(default_factory=dict)
    total: float = 0.0
    """What the hits of a page are ordered by: all shares together. It cannot be compared between queries."""
    find_words: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)

    @property
    def words(self) -> tuple[str, ...]:
        """Which of the query's words the record holds. Worked out when asked: most callers do not."""
        return self.find_words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that answers a query, with its score and the reasons for it."""

    record: Record
    score: float
    """The probability that the record is relevant, from 0 to 1, which can be compared between queries."""
    why: Why
    superseded_by: str | None = None
    """The id of what the same author said later, in another session, on the subject of this hit and of the query;
    looked for with `Query.current`. A hint, by nearness and words: both are hits."""
    superseded_at: datetime | None = None
    """When that was said, and holds since."""
    others: tuple[Hit, ...] = ()
    """Where hits are folded: those that say the same, as the message that a fact was made of."""

    @property
    def id(self) -> str:
        """The id of the record."""
        return self.record.id

    @property
    def text(self) -> str:
        """What the record says; of one that has no text, its title or its data as JSON."""
        record = self.record
        return record.text or record.title or ("" if record.data is None else encode_json(record.data))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """What a search looked through."""

    scope: Scope
    kinds: tuple[Kind, ...]
    mode: Mode
    words: tuple[str, ...]
    keyword: int
    """How many candidates the words gave."""
    semantic: int | None
    """How many candidates the vectors gave; None when nothing was looked for by meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Sequence[Hit]):
    """The hits of a search, best first, with an account of the search itself."""

    hits: tuple[Hit, ...]
    searched: SearchReport
    cut: int
    """How many candidates were left out because nothing about them reached the floor."""
    near: tuple[Hit, ...] = ()
    """Where the floor left nothing: the up to three candidates that came nearest to it."""
    degraded: str | None
    """Why the search could not use everything that it should have; None when it did."""

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, at: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[at]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


def check_kinds(kinds: object) -> tuple[Kind, ...]:
    """`kinds` as a tuple; raises Invalid unless each is a Kind or names one."""
    if isinstance(kinds, str | Mapping) or not isinstance(kinds, Iterable):
        raise Invalid("kinds", f"expected a list of kinds, got {type(kinds).__name__}")
    return tuple(member(Kind, "kinds", kind) for kind in kinds)


def check_filter(filter_: object) -> None:
    """Raise Invalid unless `filter_` is None or a Filter of bearable size."""
    if filter_ is None:
        return
    if not isinstance(filter_, AllOf | AnyOf | Where):
        raise Invalid("filter", f"expected AllOf, AnyOf or Where, got {type(filter_).__name__}")
    tests, depth = _measure(filter_, 1)
    if tests > MAX_FILTER_TESTS:
        raise LimitExceeded("filter", MAX_FILTER_TESTS, "tests")
    if depth > MAX_FILTER_DEPTH:
        raise LimitExceeded("filter", MAX_FILTER_DEPTH, "levels")


def _measure(filter_: Filter, depth: int) -> tuple[int, int]:
    if isinstance(filter_, Where):
        return (len(filter_.value) if isinstance(filter_.value, tuple) else 1), depth
    if depth > MAX_FILTER_DEPTH:
        return 0, depth
    sizes = [_measure(part, depth + 1) for part in filter_.parts]
    return sum(tests for tests, _ in sizes), max((deep for _, deep in sizes), default=depth)


def _checked_parts(parts: tuple[Filter, ...]) -> tuple[Filter, ...]:
    for part in parts:
        if not isinstance(part, AllOf | AnyOf | Where):
            raise Invalid("filter", f"expected AllOf, AnyOf or Where, got {type(part).__name__}")
    return parts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _names(field: object) -> tuple[str, ...]:
    """A test's field as the names that lead to it; raises Invalid for what cannot be one."""
    if isinstance(field, str):
        names = tuple(field.split(".")) if field.startswith("data.") else (field,)
    elif isinstance(field, tuple | list) and field:
        names = tuple(field)
    else:
        raise Invalid("filter", f"expected the name of a field, got {field!r}")
    for name in names:
        check_text("filter", name, MAX_QUERY)
    return names


def _check_where(test: Where) -> None:
    """Raise Invalid unless the test's field is known and takes its operator and value."""
    name, shown = test.name, ".".join(test.field)
    if test.operator not in ("=", "!=", "in", "has", *_ORDERED):
        raise Invalid("filter", f"{test.operator!r} is not an operator; use = != < <= > >= in has")
    if name == "data":
        if not test.path or len(test.path) > MAX_FILTER_DEPTH:
            raise Invalid("filter", "a data field needs a name, as in data.status")
    elif name not in FIELDS or test.path:
        raise Invalid("filter", f"{shown!r} is not a field; use data.NAME or one of {', '.join(FIELDS)}")
    if (test.operator == "in") != isinstance(test.value, tuple):
        raise Invalid("filter", f"{shown} {test.operator}: `in` takes a list, other operators one value")
    if test.operator == "has" and name not in ("tags", "scope"):
        raise Invalid("filter", f"{shown}: `has` is for tags and scope")
    if name in ("tags", "scope", "kind", "importance") and test.operator in _ORDERED:
        raise Invalid("filter", f"{shown}: {test.operator} has no meaning here")
    if name == "tags" and test.operator in ("=", "!="):
        raise Invalid("filter", "tags: use `has` for one tag or `in` for any of several")
    for value in test.value if isinstance(test.value, tuple) else (test.value,):
        _check_value(name, shown, test.operator, value)


def _check_value(name: str, shown: str, operator: str, value: Value) -> None:
    if name == "scope":
        good = isinstance(value, Scope)
    elif name == "kind":
        good = value in list(Kind)
    elif name == "importance":
        good = value in list(Importance)
    elif name in _TIMES:
        good = isinstance(value, datetime)
        check_time("filter", value)
    elif name in _NUMBERS:
        good = _is_number(value)
    elif name in _TEXTS or name == "tags":
        good = isinstance(value, str)
    elif operator in _ORDERED:
        good = isinstance(value, str) or _is_number(value)
    else:
        good = value is None or isinstance(value, bool | str) or _is_number(value)
    if not good:
        raise Invalid("filter", f"{shown} {operator}: {value!r} is not a value that it can be compared with")
    if isinstance(value, str):
        check_text("filter", value, MAX_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a read may see: nothing outside these is ever returned."""

    scope: Scope
    exact: bool = False
    """Only the scope itself, not what is under it."""
    kinds: tuple[Kind, ...] = ()
    filter: Filter | None = None

    def __post_init__(self) -> None:
        check_scope(self.scope)
        check_bool("exact", self.exact)
        object.__setattr__(self, "kinds", check_kinds(self.kinds))
        check_filter(self.filter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which of the records within bounds a list has, and in which order."""

    limit: int
    offset: int = 0
    newest: bool = True
    """Whether the last comes first."""
    order: Order = "changed"

    def __post_init__(self) -> None:
        check_int("limit", self.limit, 1, MAX_LIST)
        check_int("offset", self.offset, 0, 2**53)
        check_bool("newest", self.newest)
        if self.order not in get_args(Order):
            raise Invalid("order", f"{self.order!r} is not one of {', '.join(get_args(Order))}")


class TimeCount(NamedTuple):
    """How many records of one kind were created in one step of time."""

    at: datetime
    """When the step begins."""
    kind: Kind
    records: int
