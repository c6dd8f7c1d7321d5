"""The filter language: what it lets through, held against a plain reading of it, and what it says of what it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.embed.hashed import HashedEmbedder
from cofio.values.records import Kind

from ...conftest import BackendUnderTest
from .conftest import CLIMBING, COFFEE, DAY, HOUR, Api, Json, T, said, serving

# What is wrong with a filter.


@pytest.mark.requirement(
    "filter.texts", "filter.reserved", "filter.unknown", "filter.in", "filter.sender_id", "filter.timestamp",
    "filter.and", "filter.or", "filter.garbage", "errors.422",
)  # fmt: skip
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"owner_id": "a"}, "filter field 'owner_id' is reserved; pass it at the top of the request"),
        ({"owner_type": "a"}, "filter field 'owner_type' is reserved; pass it at the top of the request"),
        ({"app_id": "a"}, "filter field 'app_id' is reserved; pass it at the top of the request"),
        ({"project_id": {"eq": 1}}, "filter field 'project_id' is reserved; pass it at the top of the request"),
        ({"foo": 1}, "unsupported filter field: 'foo'"),
        ({"sender_ids": "a"}, "unsupported filter field: 'sender_ids'"),
        ({"user_id": "a"}, "unsupported filter field: 'user_id'"),
        ({"data": "a"}, "unsupported filter field: 'data'"),
        ({"and": []}, "unsupported filter field: 'and'"),
        ({"": "a"}, "unsupported filter field: ''"),
        ({"AND": [{"OR": [{"foo": 1}]}]}, "unsupported filter field: 'foo'"),
        ({"session_id": {"like": "a"}}, "unsupported operator 'like' on field 'session_id'"),
        ({"timestamp": {"EQ": 1}}, "unsupported operator 'EQ' on field 'timestamp'"),
        ({"sender_id": {"has": "a"}}, "unsupported operator 'has' on field 'sender_id'"),
        ({"session_id": {}}, "empty operator map for field 'session_id'"),
        ({"timestamp": {}}, "empty operator map for field 'timestamp'"),
        ({"sender_id": {}}, "empty operator map for field 'sender_id'"),
        ({"session_id": {"in": []}}, "value for 'session_id' with 'in' must be a non-empty list"),
        ({"session_id": {"in": "a"}}, "value for 'session_id' with 'in' must be a non-empty list"),
        ({"sender_id": {"in": {}}}, "value for 'sender_id' with 'in' must be a non-empty list"),
        ({"timestamp": {"in": 5}}, "value for 'timestamp' with 'in' must be a non-empty list"),
        ({"session_id": 5}, "value for 'session_id' must be a string"),
        ({"session_id": True}, "value for 'session_id' must be a string"),
        ({"session_id": ["a"]}, "value for 'session_id' must be a string"),
        ({"parent_id": {"ne": 5}}, "value for 'parent_id' must be a string"),
        ({"parent_type": {"in": ["a", 5]}}, "value for 'parent_type' must be a string"),
        ({"sender_id": 5}, "value for 'sender_id' must be a string"),
        ({"sender_id": {"in": [None]}}, "value for 'sender_id' must be a string"),
        ({"sender_id": {"gt": "a"}}, "operator 'gt' is not supported on array field 'sender_id'"),
        ({"sender_id": {"ne": "a"}}, "operator 'ne' is not supported on array field 'sender_id'"),
        ({"timestamp": "yesterday"}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": ""}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": "2026-13-01"}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": True}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": []}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": {"gte": {}}}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": {"in": [1, None]}}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": 10**400}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": -(10**400)}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"timestamp": 1e300}, "timestamp value for 'timestamp' must be ms or ISO string"),
        ({"AND": {}}, "Input should be a valid list: filters.AND"),
        ({"OR": "a"}, "Input should be a valid list: filters.OR"),
        ({"OR": [{"AND": 5}]}, "Input should be a valid list: filters.OR.0.AND"),
        ({"AND": [5]}, "Input should be a valid dictionary or object to extract fields from: filters.AND.0"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said_in_the_product_s_words(bare: Api, filters: Json, message: str) -> None:
    assert bare.refused("search", {"user_id": "a", "query": "x", "filters": filters}) == message
    assert bare.refused("get", {"user_id": "a", "memory_type": "episode", "filters": filters}) == message
    assert bare.refused("get", {"agent_id": "a", "memory_type": "agent_case", "filters": filters}) == message


@pytest.mark.requirement("filter.unknown", "errors.bounded", "errors.never-500")
def test_filters_are_bounded(api: Api) -> None:
    deep: Json = {"session_id": "s"}
    for _ in range(26):
        deep = {"AND": [deep]}
    many = [{"session_id": f"s{n}"} for n in range(1000)]
    for filters in (deep, {"OR": many}, {"session_id": {"in": ["s"] * 1000}}, {"session_id": "x" * 10_001}):
        for call in ("search", "get"):
            more = {"query": "x"} if call == "search" else {"memory_type": "episode"}
            answer = api.post(call, {"user_id": "a", "filters": filters, **more})
            assert answer.status_code in (200, 422)
    assert "200 tests" in api.refused("search", {"user_id": "a", "query": "x", "filters": {"OR": many}})


# What filters let through.


@pytest.mark.requirement(
    "filter.session_id", "filter.parent_type", "filter.eq", "filter.ne", "filter.in", "filter.or", "filter.and",
    "filter.mixed", "filter.joined", "filter.sender_id", "filter.gte", "filter.lt", "filter.gt", "filter.lte",
    "filter.timestamp", "filter.nothing", "filter.parent_id",
)  # fmt: skip
def test_the_examples_of_the_page(api: Api) -> None:
    api.told(CLIMBING, session="demo-001")
    api.add(said(COFFEE, T + DAY), said("Indeed.", T + DAY + 1, "bob"), session="demo-001")
    api.flush("demo-001")
    api.add(said("I run.", T + 2 * DAY), said("Me too.", T + 2 * DAY + 1, "carol"), session="demo-002")
    api.flush("demo-002")

    def days(filters: Json | None) -> list[str]:
        return [each["timestamp"][8:10] for each in api.get(filters=filters, sort_order="asc")]

    everything = ["28", "29", "30"]
    parents = [
        str(record.data["parent_id"])
        for record in api.engine.list(kinds=(Kind.EPISODE,), order="created", newest=False)
        if isinstance(record.data, dict) and record.scope.names[-1] == "alice"
    ]
    for filters, expected in (
        ({"session_id": "demo-001"}, ["28", "29"]),
        ({"session_id": "demo-001", "OR": [{"sender_id": "alice"}, {"sender_id": "bob"}]}, ["28", "29"]),
        ({"session_id": "demo-001", "OR": [{"sender_id": "carol"}, {"sender_id": "bob"}]}, ["29"]),
        ({"OR": [{"sender_id": "carol"}, {"timestamp": {"lt": T + HOUR}}]}, ["28", "30"]),
        ({"AND": [{"sender_id": "alice"}, {"sender_id": "bob"}]}, ["29"]),
        ({"timestamp": {"gte": T, "lt": T + DAY}}, ["28"]),
        ({"timestamp": {"gt": T, "lte": T + DAY + 1}}, ["29"]),
        ({"timestamp": T}, ["28"]),
        ({"timestamp": {"eq": T // 1000}}, ["28"]),
        ({"timestamp": {"ne": T}}, ["29", "30"]),
        ({"timestamp": {"in": [T, T + DAY + 1]}}, ["28", "29"]),
        ({"timestamp": {"gte": "2026-05-29"}}, ["29", "30"]),
        ({"session_id": {"in": ["demo-001", "demo-002"]}}, everything),
        ({"session_id": {"ne": "demo-001"}}, ["30"]),
        ({"session_id": {"eq": "demo-001", "ne": "demo-001"}}, []),
        ({"session_id": {"gt": "demo-001"}}, ["30"]),
        ({"sender_id": {"in": ["carol", "bob"]}}, ["29", "30"]),
        ({"sender_id": "nobody"}, []),
        ({"parent_type": "memcell"}, everything),
        ({"parent_type": {"ne": "memcell"}}, []),
        ({"parent_id": parents[1]}, ["29"]),
        ({"parent_id": {"in": [parents[0], parents[2], "x"]}}, ["28", "30"]),
        ({}, everything),
        (None, everything),
        ({"AND": [], "OR": None, "session_id": None}, everything),
        ({"OR": [{}]}, everything),
        ({"session_id": "' OR 1=1 --"}, []),
        ({"sender_id": 'a" : 1'}, []),
    ):
        assert days(filters) == expected, filters


@pytest.mark.requirement("time.filter", "time.naive")
@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("2026-05-28T11:30:36Z", True),
        ("2026-05-28T19:30:36+08:00", True),
        ("2026-05-28T19:30:36", True),  # as it is shown here, without its offset
        ("2026-05-28 19:30:36", True),
        ("20260528T193036", True),
        ("2026-05-28T11:30:36", False),
        ("2026-05-28T11:30:36.001Z", False),
        (T, True),
        (T // 1000, True),
        (T + 1, False),
        (float(T), True),
        (T / 1000, True),
    ],
)
def test_a_time_without_a_zone_is_in_the_display_zone(shanghai: Api, written: Any, found: bool) -> None:
    shanghai.told(CLIMBING)
    for filters in ({"timestamp": written}, {"timestamp": {"gte": written, "lte": written}}):
        assert len(shanghai.get(filters=filters)) == found
        assert len(shanghai.search("climbing", filters=filters)["episodes"]) == found


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


# Any filter.

ZONE = ZoneInfo("Asia/Shanghai")
SESSIONS = ["s", "S", "s2", "é☃", "a'b\"c", "100%_", "s.data", " "]
SENDERS = ["bob", "Bob", "bot", "x.y", "a+b@c-d", "__proto__"]
EPISODES = 240


class Store:
    """Episodes behind the API, and what a filter could know of each."""

    def __init__(self, api: Api) -> None:
        self.api = api
        for n in range(EPISODES):
            at = T + (n * 7919 % 97) * HOUR * 3 + n
            senders = [name for bit, name in enumerate(SENDERS) if n * 31 >> bit & 1]
            messages = [
                said(f"Bird {n} sings.", at - 1000), *(said("Yes.", at - 500, each, "assistant") for each in senders),
                said("So it does.", at),
            ]  # fmt: skip
            session = SESSIONS[n % len(SESSIONS)]
            api.add(*messages, session=session)
            api.flush(session)
        parents = {
            f"{record.scope.names[-1]}_{record.key}": record.data["parent_id"]
            for record in api.engine.list(kinds=(Kind.EPISODE,), limit=10_000)
            if isinstance(record.data, dict)
        }
        self.rows = [{**each, "parent_type": "memcell", "parent_id": parents[each["id"]]} for each in self.listed({})]
        assert len(self.rows) == EPISODES
        self.parents = sorted(str(row["parent_id"]) for row in self.rows)

    def listed(self, filters: Json) -> list[Json]:
        """Every episode that a filter lets through, page by page."""
        found: list[Json] = []
        for page in range(1, 10):
            data = self.api.ok("get", user_id="alice", memory_type="episode", page=page, page_size=100, filters=filters)
            found += data["episodes"]
            if len(found) == data["total_count"]:
                return found
        raise AssertionError(filters)


@pytest.fixture(scope="module")
def store(backend_under_test: BackendUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Some hundred episodes."""
    with serving(backend_under_test.address(tmp_path_factory.mktemp("filters")), ZONE, embedder=HashedEmbedder()) as (
        api,
        _,
    ):
        yield Store(api)


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda one, other: bool(one == other),
    "ne": lambda one, other: bool(one != other),
    "gt": lambda one, other: bool(one > other),
    "gte": lambda one, other: bool(one >= other),
    "lt": lambda one, other: bool(one < other),
    "lte": lambda one, other: bool(one <= other),
    "in": lambda one, other: one in other,
}


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
        for operator, operand in (value if isinstance(value, dict) else {"eq": value}).items():
            if key == "sender_id":
                good = any(name in row["sender_ids"] for name in ([operand] if operator == "eq" else operand))
            elif key == "timestamp":
                meant = [when(one) for one in operand] if operator == "in" else when(operand)
                good = COMPARED[operator](datetime.fromisoformat(row["timestamp"]), meant)
            else:
                good = COMPARED[operator](row[key], operand)
            if not good:
                return False
    return True


VALUES = {
    "session_id": [*SESSIONS, "", "t"],
    "parent_type": ["memcell", "memcell", "Memcell", ""],
    "sender_id": [*SENDERS, "alice", "nobody", "x", "data"],
}
WRITTEN: dict[str, Callable[[datetime], Any]] = {
    "ms": lambda at: round(at.timestamp() * 1000),
    "float": lambda at: at.timestamp() * 1000,
    "seconds": lambda at: int(at.timestamp()),
    "offset": lambda at: at.isoformat(),
    "z": lambda at: at.isoformat().replace("+00:00", "Z"),
    "naive": lambda at: at.astimezone(ZONE).replace(tzinfo=None).isoformat(),
    "day": lambda at: at.date().isoformat(),
}


@st.composite
def conditions(draw: st.DrawFn, parents: list[str], depth: int = 0) -> Json:
    """A filter, as deep and as wide as a person might write it."""
    names = draw(st.lists(st.sampled_from([*VALUES, "parent_id", "timestamp", "timestamp"]), max_size=2, unique=True))
    node = {name: draw(predicates(name, parents)) for name in names}
    if depth < 3 and draw(st.booleans()):
        for way in draw(st.lists(st.sampled_from(["AND", "OR", "OR"]), max_size=2)):
            node[way] = draw(st.none() | st.lists(conditions(parents, depth + 1), max_size=3))
    return node


@st.composite
def predicates(draw: st.DrawFn, name: str, parents: list[str]) -> Any:
    """What a field may be held against."""

    def value() -> Any:
        if name == "timestamp":
            exact = draw(st.booleans())
            millis = T + (draw(st.integers(0, 97 * 3)) * HOUR if exact else draw(st.integers(0, 13 * DAY)))
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
            return WRITTEN[draw(st.sampled_from(sorted(WRITTEN)))](at)
        return draw(st.sampled_from(VALUES.get(name, [*parents, "mc_"])))

    operators = draw(st.lists(st.sampled_from(["eq", "in"] if name == "sender_id" else list(COMPARED)), max_size=2))
    if not operators:
        return draw(st.sampled_from([None, value(), value()]))
    return {way: [value() for _ in range(draw(st.integers(1, 4)))] if way == "in" else value() for way in operators}


@pytest.mark.requirement("filter.model", "time.filter", "time.naive", "filter.mixed", "filter.joined")
def test_any_filter_lets_through_what_a_plain_reading_of_it_does(store: Store) -> None:
    @settings(max_examples=120)
    @given(conditions(store.parents))
    def check(filters: Json) -> None:
        expected = {row["id"] for row in store.rows if lets_through(filters, row)}
        listed = [each["id"] for each in store.listed(filters)]
        assert len(listed) == len(set(listed))
        assert set(listed) == expected
        found = store.api.search("bird sings", filters=filters, method="keyword", top_k=100)["episodes"]
        assert {each["id"] for each in found} <= expected
        assert bool(found) == bool(expected)

    check()
