"""Records listed: what a list takes, how it is paged and sorted, and how each kind of record looks."""

from __future__ import annotations

import pytest

from .conftest import CLIMBING, COFFEE, DAY, HOUR, PLURALS, Api, T, said
from .test_search import CASE, EPISODE, PROFILE, SKILL


@pytest.mark.requirement(
    "type.episode", "type.profile", "type.agent_case", "type.agent_skill", "get.arrays", "get.episode", "get.profile",
    "get.case", "get.skill", "get.count", "get.total_count",
)  # fmt: skip
def test_each_type_fills_its_own_array_with_the_fields_of_the_page(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    api.told(CLIMBING, session="s", at=T + 2 * HOUR)
    found = api.ok("search", agent_id="coder", query="login test")
    shapes = [("episode", EPISODE, 3), ("profile", PROFILE, 1), ("agent_case", CASE, 2), ("agent_skill", SKILL, 1)]
    for kind, shape, count in shapes:
        owner = {"user_id": "alice"} if kind in ("episode", "profile") else {"agent_id": "coder"}
        data = api.ok("get", memory_type=kind, **owner)
        assert set(data) == {*PLURALS.values(), "total_count", "count"}
        items = data.pop(PLURALS[kind])
        assert data.pop("total_count") == data.pop("count") == len(items) == count
        assert set(map(str, data.values())) == {"[]"}
        assert all(item.keys() == shape.keys() for item in items)
        hits = [{name: value for name, value in each.items() if name != "score"} for each in found[PLURALS[kind]]]
        assert sorted(hits, key=str) == (sorted(items, key=str) if "agent_id" in owner else [])
        nobody = dict.fromkeys(owner, "nobody")
        assert api.ok("get", memory_type=kind, **nobody)["total_count"] == 0


@pytest.mark.requirement(
    "get.page", "get.page_size", "get.total_count", "get.count", "get.sort_order", "get.sort_by", "get.filters"
)
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
    chosen = {"session_id": {"in": ["s1", "s2", "s3"]}}  # which holds before paging
    data = api.ok("get", user_id="alice", memory_type="episode", page_size=2, filters=chosen)
    assert (data["total_count"], [each["session_id"] for each in data["episodes"]]) == (3, ["s3", "s2"])


@pytest.mark.requirement("get.sort-fallback", "get.sort_by")
def test_skills_and_profiles_are_sorted_by_their_last_change(api: Api) -> None:
    fix = ("Please fix the failing login test in the payments service.", "run_tests", "edit_file")
    translate = ("Please translate the brochure about Norwegian cheese into French.", "read_brochure", "write_text")
    for n, (task, *tools) in enumerate([fix, translate, fix, translate, fix]):
        at = T - n * DAY  # later runs are of earlier days
        messages = [said(task, at)]
        for step, tool in enumerate(tools):
            made = [{"id": f"c{step}", "function": {"name": tool, "arguments": '{"path": "a"}'}}]
            messages.append(said("", at + 2000 * step + 1000, "coder", "assistant", tool_calls=made))
            messages.append(said("", at + 2000 * step + 2000, "coder", "tool", tool_call_id=f"c{step}"))
        messages.append(said("Done: it is finished now, and checked twice.", at + 9000, "coder", "assistant"))
        api.add(*messages, session=f"run{n}")
        api.flush(f"run{n}")
    for sort_by in ("timestamp", "updated_at"):
        skills = api.get("agent_skill", "coder", sort_by=sort_by)
        assert [len(each["source_case_ids"]) for each in skills] == [3, 2]  # the one that grew last is the first
        assert api.get("agent_skill", "coder", sort_by=sort_by, sort_order="asc") == skills[::-1]
        assert len(api.get("profile", sort_by=sort_by)) <= 1


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
