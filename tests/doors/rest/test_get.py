"""Records listed: what a list takes, how it is paged and sorted, and how each kind of record looks."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import CLIMBING, COFFEE, DAY, HOUR, PLURALS, Api, Json, T, said

EPISODE = {
    "id", "user_id", "app_id", "project_id", "session_id", "timestamp", "sender_ids", "summary", "subject", "episode",
    "type",
}  # fmt: skip
PROFILE = {"id", "user_id", "app_id", "project_id", "profile_data"}
CASE = {
    "id", "agent_id", "app_id", "project_id", "session_id", "task_intent", "approach", "quality_score", "key_insight",
    "timestamp",
}  # fmt: skip
SKILL = {
    "id", "agent_id", "app_id", "project_id", "name", "description", "content", "confidence", "maturity_score",
    "source_case_ids",
}  # fmt: skip


@pytest.mark.requirement(
    "get.owner", "get.memory_type", "get.page", "get.page_size", "get.sort_by", "get.sort_order", "get.filters",
    "type.mismatch",
)  # fmt: skip
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"user_id": None}, "Value error, exactly one of user_id / agent_id must be provided"),
        ({"agent_id": "b"}, "Value error, exactly one of user_id / agent_id must be provided"),
        ({"user_id": ""}, "String should have at least 1 character: user_id"),
        ({"user_id": None, "agent_id": ""}, "String should have at least 1 character: agent_id"),
        ({"memory_type": ...}, "Field required: memory_type"),
        (
            {"memory_type": "fact"},
            "Input should be 'episode', 'profile', 'agent_case', 'agent_skill' or 'atomic_fact': memory_type",
        ),
        (
            {"memory_type": None},
            "Input should be 'episode', 'profile', 'agent_case', 'agent_skill' or 'atomic_fact': memory_type",
        ),
        ({"memory_type": "agent_case"}, "Value error, memory_type 'agent_case' is not valid when user_id is set"),
        ({"memory_type": "agent_skill"}, "Value error, memory_type 'agent_skill' is not valid when user_id is set"),
        (
            {"user_id": None, "agent_id": "b", "memory_type": "episode"},
            "Value error, memory_type 'episode' is not valid when agent_id is set",
        ),
        (
            {"user_id": None, "agent_id": "b", "memory_type": "profile"},
            "Value error, memory_type 'profile' is not valid when agent_id is set",
        ),
        ({"page": 0}, "Input should be greater than or equal to 1: page"),
        ({"page": -1}, "Input should be greater than or equal to 1: page"),
        ({"page": None}, "Input should be a valid integer: page"),
        ({"page": 10**30}, "Input should be less than or equal to 2147483648: page"),
        ({"page_size": 0}, "Input should be greater than or equal to 1: page_size"),
        ({"page_size": 101}, "Input should be less than or equal to 100: page_size"),
        ({"page_size": []}, "Input should be a valid integer: page_size"),
        ({"sort_by": "id"}, "Input should be 'timestamp' or 'updated_at': sort_by"),
        ({"sort_by": None}, "Input should be 'timestamp' or 'updated_at': sort_by"),
        ({"sort_order": "DESC"}, "Input should be 'asc' or 'desc': sort_order"),
        ({"filters": 5}, "Input should be a valid dictionary or object to extract fields from: filters"),
        ({"query": "x"}, "Extra inputs are not permitted: query"),
    ],
)
def test_a_list_that_is_none_is_refused(bare: Api, wrong: Json, message: str) -> None:
    body = {"user_id": "alice", "memory_type": "episode", **wrong}
    assert bare.refused("get", {name: value for name, value in body.items() if value is not ...}) == message


@pytest.mark.requirement(
    "type.episode", "type.profile", "type.agent_case", "type.agent_skill", "get.arrays", "get.episode", "get.profile",
    "get.case", "get.skill", "get.count", "get.total_count",
)  # fmt: skip
def test_each_type_fills_its_own_array_with_the_fields_of_the_page(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    api.told(CLIMBING, session="s", at=T + 2 * HOUR)
    shapes = {"episode": (EPISODE, 3), "profile": (PROFILE, 1), "agent_case": (CASE, 2), "agent_skill": (SKILL, 1)}
    for kind, (shape, count) in shapes.items():
        owner = {"user_id": "alice"} if kind in ("episode", "profile") else {"agent_id": "coder"}
        data = api.ok("get", memory_type=kind, **owner)
        assert set(data) == {*PLURALS.values(), "total_count", "count"}
        items = data.pop(PLURALS[kind])
        assert data.pop("total_count") == data.pop("count") == len(items) == count
        assert set(map(str, data.values())) == {"[]"}
        assert all(set(item) == shape for item in items)
        nobody = dict.fromkeys(owner, "nobody")
        assert api.ok("get", memory_type=kind, **nobody)["total_count"] == 0


@pytest.mark.requirement("get.episode", "get.case", "get.skill", "get.profile")
def test_a_listed_record_is_the_same_as_a_found_one_but_for_its_score(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    found = api.ok("search", agent_id="coder", query="login test")
    for kind in ("agent_case", "agent_skill"):
        listed = {each["id"]: each for each in api.get(kind, "coder")}
        assert found[PLURALS[kind]]
        for each in found[PLURALS[kind]]:
            assert {name: value for name, value in each.items() if name != "score"} == listed[each["id"]]


@pytest.mark.requirement("get.page", "get.page_size", "get.total_count", "get.count", "get.sort_order", "get.sort_by")
def test_pages_go_through_everything_once_and_in_order(api: Api) -> None:
    order = [3, 0, 6, 1, 5, 2, 4, *range(7, 23)]  # as they come in, which is not as they were said
    for n in order:
        api.told(f"I saw bird number {n}.", session=f"s{n}", at=T + n * DAY)
    assert [each["session_id"] for each in api.get()] == [f"s{n}" for n in range(22, 2, -1)]  # 20, the newest first
    for way, expected in (("asc", list(range(23))), ("desc", list(range(22, -1, -1)))):
        seen: list[str] = []
        for page in range(1, 6):
            data = api.ok("get", user_id="alice", memory_type="episode", page=page, page_size=7, sort_order=way)
            assert data["total_count"] == 23
            assert data["count"] == len(data["episodes"]) == (7, 7, 7, 2, 0)[page - 1]
            seen += [each["session_id"] for each in data["episodes"]]
        assert seen == [f"s{n}" for n in expected]
    changed = [each["session_id"] for each in api.get(sort_by="updated_at", sort_order="asc", page_size=100)]
    assert changed == [f"s{n}" for n in order]
    assert api.ok("get", user_id="alice", memory_type="episode", page=2**31, page_size=100)["count"] == 0


@pytest.mark.requirement("get.sort-fallback", "get.sort_by")
@pytest.mark.parametrize("sort_by", ["timestamp", "updated_at"])
def test_skills_and_profiles_are_sorted_by_their_last_change(api: Api, sort_by: str) -> None:
    tasks = {
        "fix": "Please fix the failing login test in the payments service.",
        "bake": "Please translate the brochure about Norwegian cheese into French.",
    }
    for n, (name, task) in enumerate([*tasks.items(), *tasks.items(), ("fix", tasks["fix"])]):
        at = T - n * DAY  # later runs are of earlier days
        tools = ("run_tests", "edit_file") if name == "fix" else ("read_brochure", "write_translation")
        api.add(
            said(task, at),
            *(
                said("", at + 1000 * step, sender="coder", role=role, **more)
                for step, (role, more) in enumerate(steps(tools), 1)
            ),
            said("Done: it is finished now, and checked twice.", at + 9000, "coder", "assistant"),
            session=f"run{n}",
        )
        api.flush(f"run{n}")
    skills = api.get("agent_skill", "coder", sort_by=sort_by)
    assert len(skills) == 2
    assert len(skills[0]["source_case_ids"]) == 3  # the one that grew last
    assert api.get("agent_skill", "coder", sort_by=sort_by, sort_order="asc") == skills[::-1]
    assert len(api.get("profile", sort_by=sort_by)) <= 1


def steps(tools: tuple[str, ...]) -> list[tuple[str, Json]]:
    """Calls of tools and their results."""
    found: list[tuple[str, Json]] = []
    for n, tool in enumerate(tools):
        calls: list[Any] = [{"id": f"c{n}", "function": {"name": tool, "arguments": '{"path": "a"}'}}]
        found += [("assistant", {"tool_calls": calls}), ("tool", {"tool_call_id": f"c{n}"})]
    return found


@pytest.mark.requirement("get.filters", "get.total_count")
def test_filters_hold_before_paging(api: Api) -> None:
    for n in range(6):
        api.told(CLIMBING if n % 2 else COFFEE, session=f"s{n % 2}", at=T + n * DAY)
    data = api.ok("get", user_id="alice", memory_type="episode", page_size=2, filters={"session_id": "s1"})
    assert (data["total_count"], data["count"]) == (3, 2)
    assert {each["session_id"] for each in data["episodes"]} == {"s1"}


@pytest.mark.requirement("type.atomic_fact", "get.fact")
def test_facts_are_listed_with_when_and_where_they_were_said(api: Api) -> None:
    api.told(CLIMBING, COFFEE, session="one")
    api.told("I live in Oslo.", session="two", at=T + DAY)
    listed = api.ok("get", user_id="alice", memory_type="atomic_fact", sort_order="asc")
    facts = listed["atomic_facts"]
    assert (listed["total_count"], listed["count"]) == (len(facts), len(facts))
    assert all(listed[plural] == [] for plural in PLURALS.values())
    for fact in facts:
        assert set(fact) == {
            "id", "user_id", "app_id", "project_id", "session_id", "timestamp", "sender_ids", "parent_type",
            "parent_id", "content",
        }  # fmt: skip
        assert fact["id"].startswith("alice_af_2026052")
    assert facts[-1]["content"] == "Alice lives in Oslo."
    assert (facts[-1]["session_id"], facts[-1]["timestamp"]) == ("two", "2026-05-29T11:30:36Z")
    assert [fact["timestamp"] for fact in facts] == sorted(fact["timestamp"] for fact in facts)
    assert api.get("atomic_fact", filters={"session_id": "two"}) == [facts[-1]]
    (episode,) = api.get(filters={"parent_id": facts[-1]["parent_id"]})
    assert episode["session_id"] == "two"
    assert api.get("atomic_fact", page=2, page_size=1, sort_order="asc") == [facts[1]]
    assert "atomic_facts" not in api.ok("get", user_id="alice", memory_type="episode")
    message = api.refused("get", {"agent_id": "coder", "memory_type": "atomic_fact"})
    assert message == "Value error, memory_type 'atomic_fact' is not valid when agent_id is set"
