"""A filter lets through exactly what its words say, in lists, counts and every mode of search."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from cofio import AllOf, AnyOf, Draft, Engine, Filter, Importance, Json, Kind, Query, Record, Scope, Where
from cofio.values.query import Mode, Operator, Value

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


EVERY = {*VALUES, "missing", "no data"}
TYPES: list[tuple[Operator, Value, set[str]]] = [
    ("=", 1, {"one", "one point"}), ("=", 1.0, {"one", "one point"}), ("=", True, {"true"}), ("=", "1", {"text one"}),
    ("=", 0, {"zero"}), ("=", False, {"false"}), ("=", None, {"null"}), ("=", "", {"empty"}),
    ("=", "true", {"text true"}), ("=", "null", {"text null"}), ("!=", 1, EVERY - {"one", "one point"}),
    ("!=", True, EVERY - {"true"}), ("!=", None, EVERY - {"null"}),
    ("in", (1, "1", None), {"one", "one point", "text one", "null"}), ("in", (), set()), ("<", 1, {"zero", "half"}),
    ("<=", 1, {"zero", "half", "one", "one point"}), (">", 0.25, {"half", "one", "one point"}), (">=", 10**30, set()),
    (">", "1", {"text true", "text null"}), ("<", "1", {"empty"}),
]  # fmt: skip


def test_the_types_of_data_stay_apart(memory: Engine) -> None:
    memory.write_many([Draft(scope=APP, key=name, data={"v": value}) for name, value in VALUES.items()])
    memory.write_many([Draft(scope=APP, key="missing", data={"w": 1}), Draft(scope=APP, key="no data")])
    for operator, value, expected in TYPES:
        assert lets_through(memory, Where("data.v", operator, value)) == expected, (operator, value)


NAMES = [
    "a", "a.b", "", " ", '"', "'", "[0]", "a[0]", "$", "$.a", "\\", '\\"', "\n", "\x01", "\x7f", "é", "日本", "🙂",
    "\u2028", "a" * 1000, "#", "@", "*", "0", "-1", "null", "data",
]  # fmt: skip


def test_a_name_in_the_data_may_hold_any_character(memory: Engine) -> None:
    for name in NAMES:
        decoy: Json = {"b" if name == "a" else "a": {"b": 1}, "x": [1]}
        memory.put(APP, "top", data={name: 1})
        memory.put(APP, "nested", data={"x": {name: {name: 1}}})
        memory.put(APP, "decoy", data=decoy)
        assert lets_through(memory, Where(("data", name), "=", 1)) == {"top"}, name
        assert lets_through(memory, Where(("data", "x", name, name), "=", 1)) == {"nested"}, name
        assert lets_through(memory, Where(("data", name), ">", 0)) == {"top"}, name
        assert lets_through(memory, Where(("data", name), "!=", 1)) == {"nested", "decoy"}, name
    assert lets_through(memory, Where("data.a.b", "=", 1)) == {"decoy"}  # a path with dots leads into the data


def test_data_that_is_no_object_has_no_fields(memory: Engine) -> None:
    values: list[Json] = [None, 1, "a", [1, 2], ["a"], True]
    for number, value in enumerate(values):
        memory.put(APP, str(number), data=value)
    for path in ("a", "0", "1", "length"):
        assert lets_through(memory, Where(("data", path), "!=", "nothing")) == set("012345")
        for value in (1, 2, "a", None, True):
            assert lets_through(memory, Where(("data", path), "=", value)) == set()


def test_a_number_equals_itself_however_large_or_small(memory: Engine) -> None:
    for value in (0.1 + 0.2, 1e-300, 1.7976931348623157e308, 5e-324, 123456789.123456789, 1 / 3):
        memory.put(APP, "key", data={"v": value})
        assert lets_through(memory, Where("data.v", "=", value)) == {"key"}
        assert lets_through(memory, Where("data.v", "<=", value) & Where("data.v", ">=", value)) == {"key"}
        assert lets_through(memory, Where("data.v", "<", value) | Where("data.v", ">", value)) == set()
    for whole in (2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**30):
        memory.put(APP, "key", data={"v": whole})
        assert lets_through(memory, Where("data.v", "=", whole)) == {"key"}
        assert lets_through(memory, Where("data.v", "<", whole // 2)) == ({"key"} if whole < 0 else set())


def test_a_filter_of_the_largest_allowed_size_works(memory: Engine) -> None:
    record = memory.write(APP, text="common", id="7")
    many = AnyOf(*(Where("data.x", "=", number) for number in range(199)), Where("id", "=", "7"))
    deep: Filter = Where("id", "=", "7")
    for _ in range(31):
        deep = AllOf(deep)
    for filter_ in (many, deep):
        assert memory.list(filter=filter_) == [record]
        assert memory.search(Query("common", filter=filter_, mode="keyword"))[0].record == record
