"""A filter lets through exactly what its words say, in lists, counts and every mode of search."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from cofio import (
    AllOf,
    AnyOf,
    Draft,
    Engine,
    Filter,
    Importance,
    Invalid,
    Json,
    Kind,
    LimitExceeded,
    Query,
    Record,
    Scope,
    Where,
)
from cofio.values.query import Mode

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
APP = Scope("app")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAWN = datetime(2026, 3, 1, 6, tzinfo=UTC)

DRAFTS = (
    Draft(scope=APP, id="1", text="common", title="Alpha", author="ann", source="mcp", tags=("Auth", "x%")),
    Draft(scope=APP / "sub", id="2", text="common", title="beta", author="Bob", tags=("auth-db",), position=2,
          parent="p", kind=Kind.TURN, importance=Importance.HIGH),
    Draft(scope=Scope("app-2"), id="3", text="common", key="k", tags=("AUTH", "日本"), position=-1, created_at=DAWN),
    Draft(scope=Scope(), id="4", text="common", title="", author="ann", expires_at=datetime(2027, 1, 1, tzinfo=UTC)),
)  # fmt: skip
CASES: list[tuple[Filter, str]] = [
    (Where("id", "=", "2"), "2"),
    (Where("id", "in", ("1", "3", "99")), "13"),
    (Where("id", "!=", "2"), "134"),
    (Where("id", ">", "2"), "34"),
    (Where("id", "in", ()), ""),
    (Where("title", "=", "Alpha"), "1"),
    (Where("title", "=", "alpha"), ""),
    (Where("title", "=", ""), "34"),
    (Where("title", "<", "b"), "134"),
    (Where("title", ">=", "beta"), "2"),
    (Where("author", "=", "ann"), "14"),
    (Where("author", "=", "an"), ""),
    (Where("author", "=", "bob"), ""),
    (Where("author", "!=", "ann"), "23"),
    (Where("author", "in", ("Bob", "")), "23"),
    (Where("source", "=", "mcp"), "1"),
    (Where("source", "!=", "mcp"), "234"),
    (Where("key", "=", "k"), "3"),
    (Where("key", "!=", "k"), "124"),
    (Where("key", "<", "z"), "3"),
    (Where("parent", "=", "p"), "2"),
    (Where("parent", "!=", "q"), "1234"),
    (Where("kind", "=", Kind.TURN), "2"),
    (Where("kind", "!=", "turn"), "134"),
    (Where("kind", "in", (Kind.TURN, Kind.FACT)), "2"),
    (Where("importance", "=", Importance.HIGH), "2"),
    (Where("importance", "in", ("medium", "low")), "134"),
    (Where("tags", "has", "auth"), "13"),
    (Where("tags", "has", "AUTH-DB"), "2"),
    (Where("tags", "has", "aut"), ""),
    (Where("tags", "has", "auth%"), ""),
    (Where("tags", "has", "x%"), "1"),
    (Where("tags", "has", "x_"), ""),
    (Where("tags", "has", "*"), ""),
    (Where("tags", "has", "日本"), "3"),
    (Where("tags", "in", ("AUTH-db", "X%")), "12"),
    (Where("tags", "in", ()), ""),
    (Where("position", "=", 2), "2"),
    (Where("position", "=", 2.0), "2"),
    (Where("position", "<", 2.5), "23"),
    (Where("position", ">", -1), "2"),
    (Where("position", "!=", 2), "134"),
    (Where("position", "in", (-1, 7)), "3"),
    (Where("version", "=", 1), "1234"),
    (Where("version", ">", 1), ""),
    (Where("created_at", "=", DAWN), "3"),
    (Where("created_at", ">", DAWN), "124"),
    (Where("updated_at", "<=", NOON), "1234"),
    (Where("updated_at", "<", NOON), ""),
    (Where("expires_at", ">", NOON), "4"),
    (Where("expires_at", "!=", NOON), "1234"),
    (Where("scope", "=", APP), "1"),
    (Where("scope", "!=", APP), "234"),
    (Where("scope", "has", APP), "12"),
    (Where("scope", "has", Scope()), "1234"),
    (Where("scope", "=", Scope()), "4"),
    (Where("scope", "in", (Scope(), APP / "sub")), "24"),
    (Where("scope", "=", Scope("nowhere")), ""),
    (Where("scope", "!=", Scope("nowhere")), "1234"),
    (AllOf(), "1234"),
    (AnyOf(), ""),
    (AllOf(AnyOf()), ""),
    (AnyOf(AllOf()), "1234"),
    (Where("tags", "has", "auth") & Where("author", "=", "ann"), "1"),
    (Where("tags", "has", "auth") | Where("author", "=", "ann"), "134"),
    (Where("position", ">", 0) | Where("key", "=", "k") & Where("title", "=", "Alpha"), "2"),
    (AllOf(AnyOf(Where("id", "=", "1"), Where("id", "=", "2")), Where("scope", "has", APP / "sub")), "2"),
    (AnyOf(AllOf(Where("kind", "=", "turn"), Where("author", "=", "ann")), Where("scope", "=", Scope())), "4"),
]  # fmt: skip


def test_each_test_of_a_field_lets_through_exactly_what_it_says(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    remember(*DRAFTS)
    for filter_, expected in CASES:
        assert "".join(record.id for record in memory.list(filter=filter_, newest=False)) == expected, filter_
        assert memory.count(filter=filter_) == len(expected), filter_
        for mode in MODES:
            hits = memory.search(Query("common", filter=filter_, mode=mode, floor=0.0))
            assert "".join(sorted(hit.record.id for hit in hits)) == expected, (mode, filter_)


def test_a_filter_works_within_the_scope_and_kinds_that_are_asked(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    remember(*DRAFTS)
    by_tag = Where("tags", "in", ("auth", "auth-db"))
    assert [record.id for record in memory.list(APP, filter=by_tag)] == ["2", "1"]
    assert [record.id for record in memory.list(APP, exact=True, filter=by_tag)] == ["1"]
    assert [record.id for record in memory.list(kinds=[Kind.TURN], filter=by_tag)] == ["2"]
    for mode in MODES:
        asked = Query("common", scope=APP, kinds=(Kind.NOTE,), filter=by_tag, mode=mode)
        assert [hit.record.id for hit in memory.search(asked)] == ["1"]


def test_a_selective_filter_finds_its_record_among_many_better_ones(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    *_, wanted = remember(
        *(Draft(scope=APP, text="budget budget", data={"n": number}) for number in range(500)),
        Draft(scope=APP, text="somewhere in here the budget is named, among a good many other words", data={"n": -1}),
    )
    for mode in MODES:
        asked = Query("budget", filter=Where("data.n", "<", 0), mode=mode, floor=0.0)
        assert [hit.record for hit in memory.search(asked)] == [wanted]


def lets_through(memory: Engine, filter_: Filter) -> set[str | None]:
    """The keys of the records that a filter lets through."""
    return {record.key for record in memory.list(filter=filter_)}


VALUES: dict[str, Json] = {
    "one": 1, "one point": 1.0, "true": True, "text one": "1", "zero": 0, "false": False, "null": None, "empty": "",
    "half": 0.5, "list": [1], "dict": {"x": 1}, "text true": "true", "text null": "null",
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("=", 1, {"one", "one point"}),
        ("=", 1.0, {"one", "one point"}),
        ("=", True, {"true"}),
        ("=", "1", {"text one"}),
        ("=", 0, {"zero"}),
        ("=", False, {"false"}),
        ("=", None, {"null"}),
        ("=", "", {"empty"}),
        ("=", "true", {"text true"}),
        ("=", "null", {"text null"}),
        ("!=", 1, {*VALUES, "missing", "no data"} - {"one", "one point"}),
        ("!=", True, {*VALUES, "missing", "no data"} - {"true"}),
        ("!=", None, {*VALUES, "missing", "no data"} - {"null"}),
        ("in", (1, "1", None), {"one", "one point", "text one", "null"}),
        ("in", (), set()),
        ("<", 1, {"zero", "half"}),
        ("<=", 1, {"zero", "half", "one", "one point"}),
        (">", 0.25, {"half", "one", "one point"}),
        (">=", 10**30, set()),
        (">", "1", {"text true", "text null"}),
        ("<", "1", {"empty"}),
    ],
)
def test_the_types_of_data_stay_apart(memory: Engine, operator: str, value: object, expected: set[str]) -> None:
    memory.write_many([Draft(scope=APP, key=name, data={"v": value}) for name, value in VALUES.items()])
    memory.write_many([Draft(scope=APP, key="missing", data={"w": 1}), Draft(scope=APP, key="no data")])
    assert lets_through(memory, Where("data.v", operator, value)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["a", "a.b", "", " ", '"', "'", "[0]", "a[0]", "$", "$.a", "\\", '\\"', "\n", "\x01", "\x7f", "é", "日本", "🙂",
     "\u2028", "a" * 1000, "#", "@", "*", "0", "-1", "null", "data"],
)  # fmt: skip
def test_a_name_in_the_data_may_hold_any_character(memory: Engine, name: str) -> None:
    decoy: Json = {"b" if name == "a" else "a": {"b": 1}, "x": [1]}
    memory.put(APP, "top", data={name: 1})
    memory.put(APP, "nested", data={"x": {name: {name: 1}}})
    memory.put(APP, "decoy", data=decoy)
    assert lets_through(memory, Where(("data", name), "=", 1)) == {"top"}
    assert lets_through(memory, Where(("data", "x", name, name), "=", 1)) == {"nested"}
    assert lets_through(memory, Where(("data", name), ">", 0)) == {"top"}
    assert lets_through(memory, Where(("data", name), "!=", 1)) == {"nested", "decoy"}


def test_a_path_with_dots_leads_into_the_data(memory: Engine) -> None:
    memory.put(APP, "nested", data={"a": {"b": "c"}})
    memory.put(APP, "dotted", data={"a.b": "c"})
    assert lets_through(memory, Where("data.a.b", "=", "c")) == {"nested"}
    assert lets_through(memory, Where(("data", "a.b"), "=", "c")) == {"dotted"}
    assert lets_through(memory, Where("data..", "=", "c")) == set()


def test_data_that_is_no_object_has_no_fields(memory: Engine) -> None:
    values: list[Json] = [None, 1, "a", [1, 2], ["a"], True]
    for number, value in enumerate(values):
        memory.put(APP, str(number), data=value)
    for path in ("a", "0", "1", "length"):
        assert lets_through(memory, Where(("data", path), "!=", "nothing")) == set("012345")
        for value in (1, 2, "a", None, True):
            assert lets_through(memory, Where(("data", path), "=", value)) == set()


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e-300, 1.7976931348623157e308, 5e-324, 123456789.123456789, 1 / 3])
def test_a_float_equals_itself(memory: Engine, value: float) -> None:
    memory.put(APP, "key", data={"v": value})
    assert lets_through(memory, Where("data.v", "=", value)) == {"key"}
    assert lets_through(memory, Where("data.v", "<=", value) & Where("data.v", ">=", value)) == {"key"}
    assert (
        lets_through(memory, Where("data.v", "<", value)) == lets_through(memory, Where("data.v", ">", value)) == set()
    )


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**30])
def test_a_whole_number_equals_itself_however_large(memory: Engine, value: int) -> None:
    memory.put(APP, "key", data={"v": value})
    assert lets_through(memory, Where("data.v", "=", value)) == {"key"}
    assert lets_through(memory, Where("data.v", "<", value // 2)) == ({"key"} if value < 0 else set())


@pytest.mark.parametrize(
    ("field", "operator", "value"),
    [
        ("nonsense", "=", 1),
        ("", "=", 1),
        ("text", "=", "x"),
        ("data", "=", 1),
        (("data",), "=", 1),
        ((), "=", 1),
        (("data", 1), "=", 1),
        (("data", None), "=", 1),
        (("data", "\ud800"), "=", 1),
        (("data", "\0"), "=", 1),
        ("data.\ud800", "=", 1),
        ("data.a\0b", "=", 1),
        (("data", *["x"] * 33), "=", 1),
        (("title", "x"), "=", "x"),
        (None, "=", 1),
        (5, "=", 1),
        (b"title", "=", "x"),
        (["title", "x"], "=", "x"),
        ({"title"}, "=", "x"),
        ("title", "==", "x"),
        ("title", "like", "x"),
        ("title", None, "x"),
        ("title", ["="], "x"),
        ("title", "=", 1),
        ("title", "=", None),
        ("title", "=", b"x"),
        ("title", "=", "\ud800"),
        ("title", "=", "a\0b"),
        ("title", "=", ("x",)),
        ("title", "in", "x"),
        ("title", "in", {"x"}),
        ("title", "in", (1,)),
        ("title", "has", "x"),
        ("tags", "=", "x"),
        ("tags", "!=", "x"),
        ("tags", "<", "x"),
        ("tags", "has", 1),
        ("tags", "has", None),
        ("kind", "=", "nonsense"),
        ("kind", "=", None),
        ("kind", "<", "note"),
        ("importance", "=", 3),
        ("importance", ">", "low"),
        ("position", "=", "1"),
        ("position", "=", True),
        ("position", "=", None),
        ("position", "<", float("nan")),
        ("position", "<", float("inf")),
        ("position", "<", 10**400),
        ("created_at", "=", "2026-01-01"),
        ("created_at", "=", None),
        ("created_at", ">", datetime(2026, 1, 1)),
        ("scope", "=", "demo"),
        ("scope", "=", None),
        ("scope", "<", Scope()),
        ("scope", "in", ("demo",)),
        ("data.x", "has", "x"),
        ("data.x", "<", True),
        ("data.x", "<", None),
        ("data.x", "=", [1]),
        ("data.x", "=", {"a": 1}),
        ("data.x", "=", float("nan")),
        ("data.x", "=", 10**400),
        ("data.x", "=", datetime(2026, 1, 1, tzinfo=UTC)),
        ("data.x", "in", ([1],)),
        ("data.x", "in", 1),
    ],
)
def test_a_test_that_makes_no_sense_is_refused(field: object, operator: object, value: object) -> None:
    with pytest.raises(Invalid) as caught:
        Where(field, operator, value)  # type: ignore[arg-type]
    assert caught.value.field == "filter"


def test_a_filter_too_large_or_too_deep_is_refused_with_its_limit(memory: Engine) -> None:
    many = AnyOf(*(Where("id", "=", str(number)) for number in range(201)))
    deep: Filter = Where("id", "=", "1")
    for _ in range(33):
        deep = AllOf(deep)
    for filter_, limit in ((many, 200), (Where("id", "in", ("x",) * 201), 200), (deep, 32)):
        for act in (
            lambda filter_=filter_: memory.list(filter=filter_),
            lambda filter_=filter_: memory.count(filter=filter_),
            lambda filter_=filter_: Query("x", filter=filter_),
        ):
            with pytest.raises(LimitExceeded) as caught:
                act()
            assert (caught.value.field, caught.value.limit) == ("filter", limit)
    with pytest.raises(LimitExceeded):
        Where("title", "=", "x" * 10_001)


def test_a_filter_of_the_largest_allowed_size_works(memory: Engine) -> None:
    record = memory.write(APP, text="common", id="7")
    many = AnyOf(*(Where("data.x", "=", number) for number in range(199)), Where("id", "=", "7"))
    deep: Filter = Where("id", "=", "7")
    for _ in range(31):
        deep = AllOf(deep)
    for filter_ in (many, deep):
        assert memory.list(filter=filter_) == [record]
        assert memory.search(Query("common", filter=filter_, mode="keyword"))[0].record == record


@pytest.mark.parametrize("part", [None, "x", 1, {"title": "x"}, ()])
def test_only_filters_can_be_combined(memory: Engine, part: object) -> None:
    for combine in (AllOf, AnyOf):
        with pytest.raises(Invalid, match="filter"):
            combine(part)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="filter"):
        Where("title", "=", "x") & part  # type: ignore[operator]
    if part is not None:
        with pytest.raises(Invalid, match="filter"):
            memory.list(filter=part)  # type: ignore[arg-type]
