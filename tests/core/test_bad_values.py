"""Values refuse bad input themselves, with the name of what is wrong and its limit, before a store is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cofio import (
    AllOf,
    AnyOf,
    Delete,
    Draft,
    Drop,
    Edit,
    Extend,
    Invalid,
    Kind,
    LimitExceeded,
    Put,
    Query,
    Scope,
    Vacant,
    Where,
)
from cofio.values.query import Bounds, Window

DEMO, SOON = Scope("demo"), datetime(2100, 1, 1, tzinfo=UTC)
GOOD = Draft(scope=DEMO, text="good text")
NAN, INF, HUGE = math.nan, math.inf, 10**400
NOT_TEXT: list[Any] = [5, 5.0, True, b"x", ["x"], {"x": 1}, object(), SOON, "\ud800", "a\0b"]
NOT_INT: list[Any] = ["1", 1.0, True, NAN, b"1", [1], object(), HUGE]
NOT_BOOL: list[Any] = [None, "yes", 2, [], 1.0]
NOT_SCOPE: list[Any] = [None, "demo", ("demo",), b"demo", 5, {"scope": "demo"}]
NOT_TIME: list[Any] = [
    "2026-01-01", 5, 1e9, datetime(2026, 1, 1), date(2026, 1, 1), timedelta(1), True,
    datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC),
]  # fmt: skip


def deep(levels: int) -> list[Any]:
    """Lists in lists."""
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
NOT_JSON: list[Any] = [
    NAN, INF, {"a": NAN}, {1: "a"}, {"a": {True: 1}}, {1, 2}, (1, 2), [(1,)], b"x", object(), SOON, 1j, "\ud800",
    {"\ud800": 1}, "a\0b", {"a\0b": 1},
]  # fmt: skip
TOO_MUCH_JSON: list[Any] = [
    "x" * 1_048_576, ["x" * 600_000, "y" * 600_000], [0] * 600_000, deep(65), CYCLE, 10**5000, [-(10**5000)],
]  # fmt: skip
NOT_TAGS: list[Any] = [None, "auth", 5, [5], [b"x"], b"x", [["x"]], [""], ["\ud800"], ["a\0b"], object()]
NOT_GIVEN: list[Any] = [
    [1.0], "text", {"$": "text"}, {"$": []}, {"$": [0.0, 0.0]}, {"$": [NAN]}, {"$": [1e300]}, {"$": [1e-300]},
    {"$": [None]}, {"$": 3}, {3: [1.0]}, {"a\0b": [1.0]}, {"x" * 1025: [1.0]}, {"$": [1.0] * 65_537},
    {str(n): [1.0] for n in range(1001)},
]  # fmt: skip
NOT_FILTER: list[Any] = ["x", 5, {"title": "x"}, [Where("id", "=", "1")], True]
Bad = tuple[list[Any], list[Any]]
BOUNDS: dict[str, Bad] = {
    "scope": (NOT_SCOPE, []),
    "exact": (NOT_BOOL, []),
    "kinds": ([None, "note", b"note", 5, ["nonsense"], [None], {"note": 1}, Kind.NOTE], []),
    "filter": (NOT_FILTER, [Where("id", "in", ("x",) * 201)]),
}
# For each field of each value: what it refuses, and what is too much for it.
FIELDS: dict[Callable[..., object], tuple[dict[str, Any], dict[str, Bad]]] = {
    Draft: (
        {"scope": DEMO, "text": "good text"},
        {
            "scope": (NOT_SCOPE, []),
            "text": ([None, *NOT_TEXT, "", " ", "\n\t "], ["x" * 1_048_577]),
            "title": ([None, *NOT_TEXT], ["x" * 1001]),
            "author": ([None, *NOT_TEXT], ["x" * 257]),
            "source": ([None, *NOT_TEXT], ["x" * 65]),
            "tags": (NOT_TAGS, [[str(n) for n in range(65)], ["x" * 101]]),
            "kind": ([None, "nonsense", 5, []], []),
            "importance": ([None, "nonsense", 5, []], []),
            "data": (NOT_JSON, TOO_MUCH_JSON),
            "parent": ([*NOT_TEXT, ""], ["x" * 257]),
            "position": ([*NOT_INT, 2**53 + 1, -(2**53) - 1], []),
            "created_at": (NOT_TIME, []),
            "updated_at": (NOT_TIME, []),
            "expires_at": (NOT_TIME, []),
            "id": ([*NOT_TEXT, ""], ["x" * 129]),
            "key": (NOT_TEXT, ["x" * 1025]),
            "version": ([*NOT_INT, 0, -1], []),
        },
    ),
    Query: (
        {"text": "good"},
        BOUNDS
        | {
            "text": ([None, *NOT_TEXT], ["x" * 10_001]),
            "mode": ([None, "fuzzy", "", 5, ["hybrid"]], []),
            "limit": ([None, *NOT_INT, 0, -1, 1001], []),
            "each": ([0, -1, 1001, True, "3", (0, 1), (1,), (1, 2, 3), ("1", 2)], []),
            "floor": (["0.5", -0.1, 1.1, NAN, INF, True, [0.5], HUGE], []),
            "vector": (["x", 5, [], ["x"], [NAN], {"a": 1}], []),
        },
    ),
    Bounds: ({"scope": DEMO}, BOUNDS),
    Window: (
        {"limit": 10},
        {
            "limit": ([None, *NOT_INT, 0, -1, 10_001], []),
            "offset": ([None, *NOT_INT, -1, 2**53 + 1], []),
            "newest": (NOT_BOOL, []),
            "order": (["shuffled", None], []),
        },
    ),
    Put: ({"draft": GOOD}, {"if_version": ([*NOT_INT, -1, 2**53 + 1], [])}),
    Edit: ({"id": "known", "fields": {}}, {"id": ([None, *NOT_TEXT], ["x" * 129]), "if_version": ([*NOT_INT, -1], [])}),
    Delete: ({"id": "known"}, {"id": ([None, *NOT_TEXT], ["x" * 129]), "if_version": ([*NOT_INT, -1], [])}),
    Drop: ({}, {"scope": (NOT_SCOPE, [])}),
    Extend: ({"id": "x"}, {"expires_at": (NOT_TIME, [])}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "name"), [(make, name) for make, (_, fields) in FIELDS.items() for name in fields], ids=str
)
def test_a_bad_field_is_refused_by_its_name_and_limit(make: Callable[..., object], name: str) -> None:
    good, fields = FIELDS[make]
    called = "query" if (make, name) == (Query, "text") else name
    wrong, too_much = fields[name]
    for value in wrong:
        with pytest.raises(Invalid) as caught:
            make(**good | {name: value})
        assert caught.value.field == called
        assert str(caught.value).startswith(f"{called}: ")
    for value in too_much:
        with pytest.raises(LimitExceeded) as exceeded:
            make(**good | {name: value})
        assert exceeded.value.field == called
        assert f"{exceeded.value.limit:,}" in str(exceeded.value)


@pytest.mark.parametrize("given", NOT_GIVEN, ids=lambda given: repr(given)[:20])
def test_given_vectors_that_are_none_are_refused(given: Any) -> None:
    with pytest.raises(Invalid) as caught:
        Draft(scope=DEMO, key="k", given=given)
    assert caught.value.field == "given"


MAKERS: list[Callable[[], object]] = [
    lambda: Put(draft="x"),  # type: ignore[arg-type]
    lambda: Put(draft=GOOD, how="anew"),  # type: ignore[arg-type]
    lambda: Put(draft=GOOD, how="key"),
    *(
        lambda left_out=left_out: Put(
            draft=Draft(**{"scope": DEMO, "text": "x", "id": "1", "version": 1, "updated_at": SOON} | {left_out: None}),
            how="restore",
        )
        for left_out in ("id", "version", "updated_at")
    ),
    lambda: Put(draft=GOOD, on_duplicate="drop"),  # type: ignore[arg-type]
    lambda: Put(draft=GOOD, ttl=60),  # type: ignore[arg-type]
    lambda: Put(draft=GOOD, ttl=timedelta(0)),
    lambda: Put(draft=Draft(scope=DEMO, text="x", expires_at=SOON), ttl=timedelta(1)),
    lambda: Edit(id="x", fields=["title"]),  # type: ignore[arg-type]
    lambda: Edit(id="x", fields={"version": 2}),
    lambda: Edit(id="x", fields={"nonsense": 1}),
    lambda: Edit(id="x", fields={"expires_at": SOON}, ttl=timedelta(1)),
    lambda: Extend(id="x", expires_at=SOON, ttl=timedelta(1)),
    lambda: Extend(id="x", ttl=timedelta(days=400_000)),
    lambda: Vacant(scope=None, kind=Kind.FILE, first="", past=""),  # type: ignore[arg-type]
    lambda: Vacant(scope=DEMO, kind="nonsense", first="", past=""),  # type: ignore[arg-type]
    lambda: Vacant(scope=DEMO, kind=Kind.FILE, first=5, past=""),  # type: ignore[arg-type]
    lambda: Vacant(scope=DEMO, kind=Kind.FILE, first="", past="\ud800"),
    lambda: Vacant(scope=DEMO, kind=Kind.FILE, first="", past="x" * 1026),
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_change_that_cannot_be_made_cannot_be_named(make: Callable[[], object]) -> None:
    with pytest.raises(Invalid):
        make()


@pytest.mark.parametrize("names", [[""], ["a", ""], ["a\0b"], ["\ud800"], [5], [None], [b"a"], [["a"]], [DEMO]])
def test_a_name_that_cannot_be_stored_makes_no_scope(names: list[Any]) -> None:
    with pytest.raises(Invalid, match="scope"):
        Scope(*names)
    with pytest.raises(Invalid, match="scope"):
        _ = DEMO / names[-1]


def test_a_scope_too_deep_or_a_name_too_long_is_refused_with_its_limit() -> None:
    with pytest.raises(LimitExceeded, match="16"):
        Scope(*["x"] * 17)
    with pytest.raises(LimitExceeded, match="16"):
        _ = Scope(*["x"] * 16) / "y"
    with pytest.raises(LimitExceeded, match="256"):
        Scope("x" * 257)


NOT_TESTS: list[tuple[Any, Any, Any]] = [
    ("nonsense", "=", 1), ("", "=", 1), ("text", "=", "x"), ("data", "=", 1), (("data",), "=", 1), ((), "=", 1),
    (("data", 1), "=", 1), (("data", "\ud800"), "=", 1), ("data.a\0b", "=", 1), (("data", *["x"] * 33), "=", 1),
    (("title", "x"), "=", "x"), (None, "=", 1), (b"title", "=", "x"), ({"title"}, "=", "x"), ("title", "==", "x"),
    ("title", "like", "x"), ("title", None, "x"), ("title", ["="], "x"), ("title", "=", 1), ("title", "=", None),
    ("title", "=", "\ud800"), ("title", "=", "a\0b"), ("title", "=", ("x",)), ("title", "in", "x"),
    ("title", "in", {"x"}), ("title", "in", (1,)), ("title", "has", "x"), ("tags", "=", "x"), ("tags", "<", "x"),
    ("tags", "has", 1), ("kind", "=", "nonsense"), ("kind", "<", "note"), ("importance", "=", 3),
    ("importance", ">", "low"), ("position", "=", "1"), ("position", "=", True), ("position", "<", NAN),
    ("position", "<", HUGE), ("created_at", "=", "2026-01-01"), ("created_at", "=", None),
    ("created_at", ">", datetime(2026, 1, 1)), ("scope", "=", "demo"), ("scope", "<", Scope()),
    ("scope", "in", ("demo",)), ("data.x", "has", "x"), ("data.x", "<", True), ("data.x", "<", None),
    ("data.x", "=", [1]), ("data.x", "=", {"a": 1}), ("data.x", "=", NAN), ("data.x", "=", HUGE),
    ("data.x", "=", SOON), ("data.x", "in", ([1],)), ("data.x", "in", 1), ("title", "=", "x" * 10_001),
]  # fmt: skip


@pytest.mark.parametrize(("field", "operator", "value"), NOT_TESTS)
def test_a_test_that_makes_no_sense_is_refused(field: Any, operator: Any, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        Where(field, operator, value)
    assert caught.value.field == "filter"


@pytest.mark.parametrize("part", [None, "x", 1, {"title": "x"}, ()])
def test_only_filters_can_be_combined(part: Any) -> None:
    makers: list[Callable[[], object]] = [
        lambda: AllOf(part), lambda: AnyOf(part), lambda: Where("id", "=", "x") & part,
        lambda: Where("id", "=", "x") | part,
    ]  # fmt: skip
    for combine in makers:
        with pytest.raises(Invalid, match="filter"):
            combine()


def test_a_filter_too_large_or_too_deep_is_refused_with_its_limit() -> None:
    many = AnyOf(*(Where("id", "=", str(number)) for number in range(201)))
    nested: Any = Where("id", "=", "1")
    for _ in range(33):
        nested = AllOf(nested)
    for filter_, limit in ((many, 200), (nested, 32)):
        with pytest.raises(LimitExceeded) as caught:
            Query("x", filter=filter_)
        assert (caught.value.field, caught.value.limit) == ("filter", limit)


def test_lists_are_taken_where_tuples_are_kept() -> None:
    assert Draft(scope=DEMO, text="x", tags=["a", "b"]).tags == ("a", "b")  # type: ignore[arg-type]
    assert Query("x", kinds=[Kind.NOTE]).kinds == (Kind.NOTE,)  # type: ignore[arg-type]
    assert Where("id", "in", ["a"]).value == ("a",)  # type: ignore[arg-type]
