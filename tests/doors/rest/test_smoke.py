"""The main calls on every backend: write, list, search, filter, put right, delete, a conflict and a task."""

from __future__ import annotations

import pytest

from cofio.values.records import Kind

from .conftest import ALIAS, BIKE, CLIMBING, COFFEE, DAY, HOUR, MINUTE, Api, Json, T, agent_run, enveloped, said
from .test_keeping import deleted


@pytest.mark.requirement(
    "versions.both", "add.accumulates", "add.accumulated", "add.message_count", "add.extras", "consistency.read",
    "flush.extracted", "flush.no_extraction",
)  # fmt: skip
def test_messages_of_a_session_gather_over_calls_and_of_others_do_not(api: Api) -> None:
    assert api.flush() == "no_extraction"
    body = {"session_id": "s", "zzz": 1, "messages": [said(CLIMBING, zzz=[])]}  # what is not known is passed over
    assert api.ok("add", **body) == {"message_count": 1, "status": "accumulated"}
    assert api.add(said(COFFEE, T + 1)) == "accumulated"
    assert api.add(said(BIKE, T + 2), session="S") == "accumulated"
    assert [each["content"] for each in api.waiting()] == [CLIMBING, COFFEE]
    assert [each["content"] for each in api.waiting("S")] == [BIKE]
    assert api.ok("flush", session_id="s", zzz=None) == {"status": "extracted"}
    assert api.waiting() == []
    assert len(api.waiting("S")) == 1
    old = api.client.post(f"{ALIAS}/get", json={"user_id": "alice", "memory_type": "episode"})
    assert enveloped(old)["episodes"] == api.get()  # the same under either version
    assert len(api.get()) == 1
    assert api.flush() == "no_extraction"


@pytest.mark.requirement("message.idempotent", "message.message_id")
@pytest.mark.parametrize("carved", [False, True])
def test_what_is_sent_again_adds_nothing(api: Api, carved: bool) -> None:
    batch = [said(CLIMBING), said(CLIMBING), said(COFFEE), *agent_run(at=T + MINUTE)]
    named = [said(CLIMBING, message_id="x1"), said(COFFEE, T + 1, message_id="x2")]
    api.add(*batch)
    api.add(*named, session="named")
    if carved:
        api.flush()
        api.flush("named")
    before = api.everything()
    assert api.add(*batch) == "accumulated"
    assert api.add(*named[::-1], session="named") == "accumulated"
    told = api.refused("add", {"session_id": "named", "messages": [said("Other.", message_id="x1")]}, 409)
    assert "x1" in told
    assert api.everything() == before
    assert [each["id"] for each in api.waiting("named")] == ([] if carved else ["x1", "x2"])
    assert api.flush() == ("no_extraction" if carved else "extracted")
    api.add(said("Other.", message_id="x1"), session="another")  # names are a session's own


@pytest.mark.requirement("update.fields", "consistency.read")
def test_an_episode_is_put_right_and_found_by_its_new_words(api: Api) -> None:
    api.told(CLIMBING)
    (before,) = api.get()
    changed = api.ok("update", id=before["id"], subject="A trip", episode="Alice went to Patagonia.")
    after = {**before, "subject": "A trip", "episode": "Alice went to Patagonia."}
    assert changed == {"id": before["id"], "memory_type": "episode", "item": after}
    assert api.get() == [after]
    assert [each["id"] for each in api.search("Patagonia", method="keyword")["episodes"]] == [before["id"]]
    assert api.ok("update", id=before["id"], summary="Short.")["item"] == {**after, "summary": "Short."}
    assert api.get(sort_by="updated_at")[0]["timestamp"] == before["timestamp"]


@pytest.mark.requirement("delete.id", "delete.derived", "delete.receipt")
def test_an_episode_goes_with_its_facts_its_messages_and_what_a_profile_has_of_it(api: Api) -> None:
    api.told(CLIMBING, session="one")
    api.told(COFFEE, session="two", at=T + DAY)
    one, two = api.get(sort_order="asc")
    before = api.everything()
    assert "is part of an episode" in api.refused("delete", {"id": f"m_one_{T}_000"}, 409)
    assert api.everything() == before
    assert deleted(api, id=one["id"]) == {"messages": 1, "episodes": 1, "atomic_facts": 1}
    assert api.get() == [two]
    (profile,) = api.get("profile")
    assert "Blue Bottle" in str(profile)
    assert "Yosemite" not in str([profile, api.everything()])
    assert api.search("Yosemite", method="keyword")["episodes"] == []
    assert deleted(api, id=two["id"]) == {"messages": 1, "episodes": 1, "atomic_facts": 1, "profiles": 1}
    assert {record.kind.value for record in api.engine.export()} <= {"ledger"}
    assert "no memory has the id" in api.refused("delete", {"id": one["id"]}, 404)


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


@pytest.mark.requirement("add.async", "tasks.one", "add.whole")
def test_an_async_add_is_answered_with_its_place_in_the_line_and_then_carried_out_once(api: Api) -> None:
    body = {"session_id": "s", "messages": [said(CLIMBING, message_id="x"), said(COFFEE, T + DAY)], "async_mode": True}
    answer = api.post("add", body)
    assert enveloped(answer, 202) == {"status": "queued", "message_count": 2, "pending": 1}
    task = api.finished(answer.json()["request_id"])
    created, finished = task.pop("created_at"), task.pop("finished_at")
    assert created <= finished
    assert task == {
        "id": answer.json()["request_id"], "status": "success", "task_type": "memory_add", "error": None,
        "error_code": None,
    }  # fmt: skip
    again = api.post("add", body).json()["request_id"]
    assert api.finished(again)["status"] == "success"
    api.refused("add", {**body, "messages": [said("Other.", message_id="x")]}, 409)
    assert api.read("tasks")["total"] == 2
    assert len(api.get()) == 1
    assert [each["content"] for each in api.waiting()] == [COFFEE]
