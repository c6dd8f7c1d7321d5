"""The filter language: what it lets through, held against a plain reading of it, and what it says of what it cannot."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.plain import holds

from cofio import Record
from cofio.doors.rest.filters import BadFilter, compile_filter

from ...tiers import scale_examples
from .conftest import CLIMBING, HOUR, Api, Json, T

# What is wrong with a filter.


TIME = "timestamp value for 'timestamp' must be ms or ISO string"
NO_TIMES: list[Any] = ["yesterday", "", "2026-13-01", True, [], 10**400, 1e300]
STRING = "value for {!r} must be a string".format
LIST = "value for {!r} with 'in' must be a non-empty list".format


@pytest.mark.requirement(
    "filter.texts", "filter.reserved", "filter.unknown", "filter.in", "filter.sender_id", "filter.timestamp",
    "filter.and", "filter.or", "filter.garbage", "errors.422",
)  # fmt: skip
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        *(
            ({name: "a"}, f"filter field {name!r} is reserved; pass it at the top of the request")
            for name in ("owner_id", "owner_type", "app_id", "project_id")
        ),
        *(
            ({name: "a"}, f"unsupported filter field: {name!r}")
            for name in ("foo", "sender_ids", "user_id", "data", "and", "")
        ),
        ({"AND": [{"OR": [{"foo": 1}]}]}, "unsupported filter field: 'foo'"),
        ({"session_id": {"like": "a"}}, "unsupported operator 'like' on field 'session_id'"),
        ({"timestamp": {"EQ": 1}}, "unsupported operator 'EQ' on field 'timestamp'"),
        *(({name: {}}, f"empty operator map for field {name!r}") for name in ("session_id", "timestamp", "sender_id")),
        ({"session_id": {"in": []}}, LIST("session_id")),
        ({"session_id": {"in": "a"}}, LIST("session_id")),
        ({"sender_id": {"in": {}}}, LIST("sender_id")),
        ({"timestamp": {"in": 5}}, LIST("timestamp")),
        ({"session_id": 5}, STRING("session_id")),
        ({"session_id": ["a"]}, STRING("session_id")),
        ({"parent_id": {"ne": 5}}, STRING("parent_id")),
        ({"parent_type": {"in": ["a", 5]}}, STRING("parent_type")),
        ({"sender_id": 5}, STRING("sender_id")),
        ({"sender_id": {"in": [None]}}, STRING("sender_id")),
        ({"sender_id": {"gt": "a"}}, "operator 'gt' is not supported on array field 'sender_id'"),
        *(({"timestamp": wrong}, TIME) for wrong in NO_TIMES),
        ({"timestamp": {"gte": {}}}, TIME),
        ({"timestamp": {"in": [1, None]}}, TIME),
    ],
    ids=lambda each: str(each)[:60],
)
def test_what_is_wrong_with_a_filter_is_said_in_the_product_s_words(filters: Json, message: str) -> None:
    with pytest.raises(BadFilter) as refused:
        compile_filter(filters, UTC)
    assert str(refused.value) == message


@pytest.mark.requirement("filter.unknown", "filter.texts", "errors.bounded", "errors.never-500")
def test_filters_are_bounded_and_a_wrong_one_is_a_422(bare: Api) -> None:
    deep: Json = {"session_id": "s"}
    for _ in range(26):
        deep = {"AND": [deep]}
    many = [{"session_id": f"s{n}"} for n in range(1000)]
    for call, body in (
        ("search", {"user_id": "a", "query": "x"}),
        ("get", {"user_id": "a", "memory_type": "episode"}),
        ("get", {"agent_id": "a", "memory_type": "agent_case"}),
    ):
        assert bare.refused(call, {**body, "filters": {"foo": 1}}) == "unsupported filter field: 'foo'"
        for filters in (deep, {"OR": many}, {"session_id": {"in": ["s"] * 1000}}, {"session_id": "x" * 10_001}):
            assert bare.post(call, {**body, "filters": filters}).status_code in (200, 422)
        assert "200 tests" in bare.refused(call, {**body, "filters": {"OR": many}})


# What filters let through.


@pytest.mark.requirement("time.filter", "time.naive")
def test_a_time_without_a_zone_is_in_the_display_zone(shanghai: Api) -> None:
    shanghai.told(CLIMBING)
    same: list[Any] = ["2026-05-28T11:30:36Z", "2026-05-28T19:30:36+08:00", "2026-05-28 19:30:36", "20260528T193036"]
    same += [T, T // 1000, float(T), T / 1000]
    for written in (*same, "2026-05-28T11:30:36", "2026-05-28T11:30:36.001Z", T + 1):
        for filters in ({"timestamp": written}, {"timestamp": {"gte": written, "lte": written}}):
            assert len(shanghai.get(filters=filters)) == (written in same), written
            assert len(shanghai.search("climbing", filters=filters)["episodes"]) == (written in same), written


@pytest.mark.requirement("filter.skills", "filter.garbage")
def test_cases_and_skills_are_filtered_where_the_product_fails(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR, user="bob")
    for filters, cases, skills in (
        ({"session_id": "one"}, 1, 1),
        ({"session_id": {"in": ["one", "two"]}}, 2, 1),
        ({"session_id": "three"}, 0, 0),
        ({"sender_id": "bob"}, 1, 1),
        ({"sender_id": "coder"}, 2, 1),
        ({"sender_id": "carol"}, 0, 0),
        ({"timestamp": {"lt": T + HOUR}}, 1, 0),
        ({"parent_type": "memcell", "sender_id": "alice"}, 1, 0),
    ):
        assert len(api.get("agent_case", "coder", filters=filters)) == cases, filters
        found = api.ok("search", agent_id="coder", query="login test", filters=filters)
        assert len(found["agent_cases"]) == cases, filters
        assert len(found["agent_skills"]) == len(api.get("agent_skill", "coder", filters=filters)), filters
        if "parent_type" not in filters:
            assert len(found["agent_skills"]) == skills, filters
    for kind in ("episode", "profile"):
        assert isinstance(api.get(kind, filters={"session_id": "one", "sender_id": "alice"}), list)


# Any filter. What the engine makes of one is for the contract to show, with the same plain reading of it.

ZONE = ZoneInfo("Asia/Shanghai")
VALUES = {
    "session_id": ["s", "S", "s2", "é☃", "100%_", "s.data", ""],
    "parent_type": ["memcell", "Memcell", ""],
    "parent_id": ["mc_1", "mc_2", "mc_"],
    "sender_id": ["bob", "Bob", "x.y", "a+b@c-d", "__proto__", "nobody"],
}
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le,
    "in": lambda one, other: one in other,
}  # fmt: skip
WRITTEN: list[Callable[[datetime], Any]] = [
    lambda at: round(at.timestamp() * 1000),
    lambda at: at.timestamp() * 1000,
    lambda at: int(at.timestamp()),
    lambda at: at.isoformat(),
    lambda at: at.isoformat().replace("+00:00", "Z"),
    lambda at: at.astimezone(ZONE).replace(tzinfo=None).isoformat(),
    lambda at: at.date().isoformat(),
]
MOMENTS = st.integers(0, 12).map(lambda n: datetime.fromtimestamp(T / 1000, UTC) + timedelta(hours=3 * n, seconds=n))


def when(value: Any) -> datetime:
    """The moment that a filter's value means."""
    if isinstance(value, str):
        read = datetime.fromisoformat(value)
        return read if read.tzinfo else read.replace(tzinfo=ZONE)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value if value >= 10**12 else value * 1000)


def lets_through(node: Json, row: Json) -> bool:
    """Whether a filter, read plainly, lets an episode through."""
    for key, value in node.items():
        if value is None or (key in ("AND", "OR") and not value):
            continue
        if key in ("AND", "OR"):
            each = [lets_through(child, row) for child in value]
            if not (all(each) if key == "AND" else any(each)):
                return False
            continue
        for way, operand in (value if isinstance(value, dict) else {"eq": value}).items():
            if key == "sender_id":
                good = any(name in row["sender_id"] for name in ([operand] if way == "eq" else operand))
            elif key == "timestamp":
                good = COMPARED[way](row[key], [when(one) for one in operand] if way == "in" else when(operand))
            else:
                good = COMPARED[way](row[key], operand)
            if not good:
                return False
    return True


@st.composite
def conditions(draw: st.DrawFn, depth: int = 0) -> Json:
    """A filter, as deep and as wide as a person might write it."""
    names = draw(st.lists(st.sampled_from([*VALUES, "timestamp", "timestamp"]), max_size=2, unique=True))
    node = {name: draw(predicates(name)) for name in names}
    if depth < 3 and draw(st.booleans()):
        for way in draw(st.lists(st.sampled_from(["AND", "OR", "OR"]), max_size=2)):
            node[way] = draw(st.none() | st.lists(conditions(depth + 1), max_size=3))
    return node


@st.composite
def predicates(draw: st.DrawFn, name: str) -> Any:
    """What a field may be held against."""

    def value() -> Any:
        return (
            draw(st.sampled_from(WRITTEN))(draw(MOMENTS))
            if name == "timestamp"
            else draw(st.sampled_from(VALUES[name]))
        )

    operators = draw(st.lists(st.sampled_from(["eq", "in"] if name == "sender_id" else list(COMPARED)), max_size=2))
    if not operators:
        return draw(st.sampled_from([None, value(), value()]))
    return {way: [value() for _ in range(draw(st.integers(1, 4)))] if way == "in" else value() for way in operators}


EPISODES = st.fixed_dictionaries(
    {
        "session_id": st.sampled_from(VALUES["session_id"]),
        "parent_type": st.just("memcell"),
        "parent_id": st.sampled_from(VALUES["parent_id"]),
        "sender_id": st.lists(st.sampled_from(VALUES["sender_id"][:-1])),
        "timestamp": MOMENTS,
    }
)


@pytest.mark.requirement("filter.model", "time.filter", "time.naive", "filter.mixed", "filter.joined")
@settings(max_examples=scale_examples(300))
@given(conditions(), st.lists(EPISODES, min_size=1, max_size=8))
def test_any_filter_lets_through_what_a_plain_reading_of_it_does(filters: Json, rows: list[Json]) -> None:
    compiled = compile_filter(filters, ZONE)
    for row in rows:
        senders = dict.fromkeys(row["sender_id"], True)
        data = {**row, "senders": senders, "at": row["timestamp"].timestamp() * 1000}
        assert holds(compiled, cast(Record, SimpleNamespace(data=data))) == lets_through(filters, row)
