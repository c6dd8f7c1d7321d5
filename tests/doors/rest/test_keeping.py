"""Beyond the page: memory is taken back, put right by hand, and made later by jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .conftest import BIKE, CLIMBING, COFFEE, DAY, HOUR, MINUTE, Api, Json, T, said, serving

NOTHING = {"messages": 0, "episodes": 0, "atomic_facts": 0, "profiles": 0, "agent_cases": 0, "agent_skills": 0}


def deleted(api: Api, **target: Any) -> Json:
    """The receipt of a delete, but for what there was none of."""
    receipt = api.ok("delete", **target)
    assert set(receipt) == set(NOTHING)
    return {name: count for name, count in receipt.items() if count}


def left(api: Api) -> set[str]:
    """The kinds of what is stored, but for what the door keeps for itself."""
    return {record.kind.value for record in api.engine.export()} - {"ledger"}


# Deleting.


@pytest.mark.requirement("delete.one-target")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "Value error, exactly one of id / session_id / user_id / agent_id / all must be provided"),
        ({"all": False}, "Value error, exactly one of id / session_id / user_id / agent_id / all must be provided"),
        (
            {"id": "x", "session_id": "s"},
            "Value error, exactly one of id / session_id / user_id / agent_id / all must be provided",
        ),
        (
            {"user_id": "a", "all": True},
            "Value error, exactly one of id / session_id / user_id / agent_id / all must be provided",
        ),
        (
            {"session_id": "s", "memory_type": "episode"},
            "Value error, memory_type 'episode' is only valid when user_id is set",
        ),
        (
            {"user_id": "a", "memory_type": "agent_case"},
            "Value error, memory_type 'agent_case' is only valid when agent_id is set",
        ),
        ({"session_id": "s", "zzz": 1}, "Extra inputs are not permitted: zzz"),
        ({"session_id": ""}, "String should have at least 1 character: session_id"),
    ],
)
def test_a_delete_names_exactly_one_thing(bare: Api, target: Json, message: str) -> None:
    assert bare.refused("delete", target) == message


@pytest.mark.requirement("delete.id", "delete.derived", "delete.receipt")
def test_an_episode_goes_with_its_facts_its_messages_and_what_a_profile_has_of_it(api: Api) -> None:
    api.told(CLIMBING, session="one")
    api.told(COFFEE, session="two", at=T + DAY)
    one, two = api.get(sort_order="asc")
    assert deleted(api, id=one["id"]) == {"messages": 1, "episodes": 1, "atomic_facts": 1}
    assert api.get() == [two]
    (profile,) = api.get("profile")
    assert "Yosemite" not in str(profile)
    assert "Blue Bottle" in str(profile)
    assert "Yosemite" not in str(api.everything())
    assert api.search("Yosemite", method="keyword")["episodes"] == []
    assert deleted(api, id=two["id"]) == {"messages": 1, "episodes": 1, "atomic_facts": 1, "profiles": 1}
    assert left(api) == set()
    assert "no memory has the id" in api.refused("delete", {"id": one["id"]}, 404)


@pytest.mark.requirement("delete.id", "delete.receipt")
def test_a_fact_a_case_a_skill_and_a_waiting_message_are_deleted_by_their_ids(api: Api) -> None:
    api.told(CLIMBING, COFFEE)
    fact = api.search("climbing in Yosemite")["episodes"][0]["atomic_facts"][0]
    assert deleted(api, id=fact["id"])["atomic_facts"] == 1
    assert all(fact["id"] != each["id"] for hit in api.search("climbing in Yosemite")["episodes"]
               for each in hit["atomic_facts"])  # fmt: skip
    assert len(api.get()) == 1
    api.add(said("Wait.", T + DAY), said("For me.", T + DAY + 1, message_id="mine"), session="open")
    first, second = api.waiting("open")
    assert deleted(api, id=first["id"]) == {"messages": 1}
    assert deleted(api, id="mine") == {"messages": 1}
    assert second["id"] == "mine"
    assert api.waiting("open") == []
    api.run("one")
    api.run("two", at=T + HOUR)
    api.run("three", at=T + 2 * HOUR)
    (skill,) = api.get("agent_skill", "coder")
    assert deleted(api, id=skill["source_case_ids"][0]) == {"agent_cases": 1}
    (shrunk,) = api.get("agent_skill", "coder")
    assert shrunk["source_case_ids"] == skill["source_case_ids"][1:]
    assert deleted(api, id=skill["source_case_ids"][1]) == {"agent_cases": 1, "agent_skills": 1}
    assert len(api.get("agent_case", "coder")) == 1


@pytest.mark.requirement("delete.id")
def test_a_message_of_an_episode_is_not_taken_out_of_it(api: Api) -> None:
    api.told(CLIMBING, COFFEE)
    before = api.everything()
    assert "is part of an episode" in api.refused("delete", {"id": f"m_s_{T}_000"}, 409)
    assert api.everything() == before


@pytest.mark.requirement("delete.session", "delete.derived", "delete.receipt")
def test_a_session_goes_with_all_that_was_made_of_it_for_everyone(api: Api) -> None:
    api.add(said(CLIMBING), said("I live in Bergen.", T + 1000, "bob"), session="shared")
    api.flush("shared")
    api.add(said("Still here.", T + 2000), session="shared")
    api.told(BIKE, session="mine", at=T + DAY)
    api.run("run", at=T + 2 * DAY)
    receipt = deleted(api, session_id="shared")
    assert receipt["episodes"] == 2
    assert receipt["profiles"] == 1
    assert api.get(owner="bob") == []
    assert api.get("profile", "bob") == []
    assert api.waiting("shared") == []
    assert {each["session_id"] for each in api.get()} == {"mine", "run"}
    assert "Yosemite" not in str(api.everything())
    assert "Bergen" not in str(api.everything())
    assert deleted(api, session_id="run")["agent_cases"] == 1
    assert deleted(api, session_id="nope") == {}


@pytest.mark.requirement("delete.receipt", "delete.session")
def test_a_receipt_counts_each_message_once(api: Api) -> None:
    api.add(said(CLIMBING), said("I live in Bergen.", T + 1000, "bob"))
    api.flush()
    assert deleted(api, session_id="s")["messages"] == 2


@pytest.mark.requirement("delete.owner", "delete.receipt")
def test_an_owner_goes_with_what_they_said_that_still_waits(api: Api) -> None:
    api.add(said(CLIMBING), said("I live in Bergen.", T + 1000, "bob"))
    api.flush()
    api.add(said("I wait.", T + DAY), said("So do I.", T + DAY + 1, "bob"), session="open")
    receipt = deleted(api, user_id="alice")
    assert (receipt["episodes"], receipt["profiles"], receipt["messages"]) == (1, 1, 3)
    assert api.get() == []
    assert api.get("profile") == []
    assert api.waiting("open") == []
    assert [each["sender_id"] for each in api.waiting("open", user="bob")] == ["bob"]
    assert len(api.get(owner="bob")) == 1
    assert deleted(api, user_id="nobody") == {}
    api.run("run", at=T + 2 * DAY)
    assert deleted(api, agent_id="coder") == {"agent_cases": 1}
    assert len(api.get()) == 1


@pytest.mark.requirement("delete.owner")
def test_an_owner_s_records_of_one_type_go_alone(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    api.told(CLIMBING, session="s", at=T + DAY)
    assert deleted(api, user_id="alice", memory_type="profile") == {"profiles": 1}
    assert len(api.get()) == 3
    assert deleted(api, agent_id="coder", memory_type="agent_skill") == {"agent_skills": 1}
    assert len(api.get("agent_case", "coder")) == 2
    assert deleted(api, agent_id="coder", memory_type="agent_case") == {"agent_cases": 2}


@pytest.mark.requirement("delete.owner", "delete.derived")
def test_an_owner_s_episodes_go_with_their_facts(api: Api) -> None:
    api.told(CLIMBING, COFFEE)
    assert deleted(api, user_id="alice", memory_type="episode")["episodes"] == 1
    assert api.get() == []
    assert "Yosemite" not in str([each for each in api.everything() if "Yosemite" in each["text"]])


@pytest.mark.requirement("delete.all", "delete.receipt")
def test_everything_of_an_app_and_project_goes(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    api.told(CLIMBING, session="s", at=T + DAY)
    api.add(said("Waiting.", T + 2 * DAY), session="open")
    api.told(COFFEE, app_id="other")
    receipt = deleted(api, all=True)
    assert {name: receipt[name] for name in ("episodes", "profiles", "agent_cases", "agent_skills")} == {
        "episodes": 3, "profiles": 1, "agent_cases": 2, "agent_skills": 1,
    }  # fmt: skip
    assert receipt["messages"] == 24
    assert deleted(api, all=True) == {}
    assert len(api.get(app_id="other")) == 1


@pytest.mark.requirement("delete.again", "message.idempotent")
@pytest.mark.parametrize("how", ["id", "session", "owner", "all"])
def test_what_was_deleted_may_be_sent_again(api: Api, how: str) -> None:
    api.told(CLIMBING)
    (episode,) = api.get()
    target = {"id": {"id": episode["id"]}, "session": {"session_id": "s"}, "owner": {"user_id": "alice"}}
    api.ok("delete", **target.get(how, {"all": True}))
    api.told(CLIMBING)
    (again,) = api.get()
    assert again["episode"] == episode["episode"]


@pytest.mark.requirement("delete.again", "delete.owner", "delete.id")
@pytest.mark.parametrize("how", ["id", "owner"])
def test_what_was_deleted_of_one_user_may_be_sent_again_though_another_has_it_too(api: Api, how: str) -> None:
    shared = [said("I live in Oslo."), said("I live in Bergen.", T + 1000, "bob")]
    api.add(*shared)
    api.flush()
    (mine,) = api.get()
    api.ok("delete", **({"id": mine["id"]} if how == "id" else {"user_id": "alice"}))
    api.add(*shared)
    assert api.flush() == "extracted"
    assert len(api.get()) == 1
    assert api.waiting() == []


# Putting right.


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


@pytest.mark.requirement("update.fields")
def test_facts_cases_and_skills_are_put_right(api: Api) -> None:
    api.told(CLIMBING)
    fact = api.search("climbing in Yosemite")["episodes"][0]["atomic_facts"][0]
    changed = api.ok("update", id=fact["id"], content="Alice climbs in Squamish.")
    assert changed == {
        "id": fact["id"], "memory_type": "atomic_fact",
        "item": {"id": fact["id"], "content": "Alice climbs in Squamish."},
    }  # fmt: skip
    found = api.search("Squamish", method="keyword")["episodes"]
    assert [each["content"] for each in found[0]["atomic_facts"]] == ["Alice climbs in Squamish."]
    api.run("one")
    api.run("two", at=T + HOUR)
    case = api.get("agent_case", "coder")[0]
    new = {"task_intent": "Mend the test.", "approach": "Quickly.", "key_insight": None, "quality_score": 0.25}
    assert api.ok("update", id=case["id"], **new)["item"] == {**case, **new}
    (skill,) = api.get("agent_skill", "coder")
    new = {"name": "mending", "description": "How to mend.", "content": "Mend it.", "confidence": 1.0}
    assert api.ok("update", id=skill["id"], **new)["item"] == {**skill, **new}
    assert api.ok("search", agent_id="coder", query="mending", method="keyword")["agent_skills"][0]["name"] == "mending"


@pytest.mark.requirement("update.profile", "update.kept")
def test_a_profile_is_put_right_and_goes_on_from_there(api: Api) -> None:
    api.told("I live in Oslo.", COFFEE)
    (before,) = api.get("profile")
    data = before["profile_data"]
    kept = [each for each in data["explicit_info"] if "Oslo" not in str(each)]
    changed = api.ok("update", user_id="alice", profile_data={**data, "explicit_info": kept, "note": "by hand"})
    assert (changed["id"], changed["memory_type"]) == ("alice", "profile")
    assert api.get("profile") == [changed["item"]]
    assert "Oslo" not in str(changed["item"]["profile_data"]["explicit_info"])
    api.told("I have a dog called Rex.", session="later", at=T + DAY)
    (after,) = api.get("profile")
    assert after["profile_data"]["note"] == "by hand"
    assert "Oslo" not in str(after["profile_data"]["explicit_info"])


@pytest.mark.requirement("update.profile", "errors.never-500")
@pytest.mark.parametrize(
    "data",
    [
        {}, {"explicit_info": 5}, {"explicit_info": {"a": 1}}, {"explicit_info": ["x", None, {"description": 5}]},
        {"profile_timestamp_ms": "x", "implicit_traits": 7, "summary": []}, {"explicit_info": [{"supersedes": []}]},
        {"explicit_info": [{"supersedes": {"supersedes": {"supersedes": {}}}}]},
        {"explicit_info": [{"timestamp_ms": 10**30}]},
    ],
)  # fmt: skip
def test_whatever_a_person_makes_of_a_profile_sessions_can_still_be_carved(api: Api, data: Json) -> None:
    api.told(COFFEE)
    assert api.ok("update", user_id="alice", profile_data=data)["item"]["profile_data"] == data
    api.told("I live in Oslo.", session="later", at=T + DAY)
    (profile,) = api.get("profile")
    assert "Oslo" in str(profile)
    api.ok("delete", session_id="later")
    assert len(api.get()) == 1


@pytest.mark.requirement("update.kept")
def test_what_is_made_later_leaves_a_person_s_words_alone(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    (skill,) = api.get("agent_skill", "coder")
    api.ok("update", id=skill["id"], name="mending", description="Mine.", content="My own words.")
    api.run("three", at=T + 2 * HOUR)
    (grown,) = api.get("agent_skill", "coder")
    assert (grown["name"], grown["description"], grown["content"]) == ("mending", "Mine.", "My own words.")
    assert len(grown["source_case_ids"]) == 3
    api.told(CLIMBING)
    (episode,) = api.get(filters={"session_id": "s"})
    changed = api.ok("update", id=episode["id"], subject="Mine.")["item"]
    api.add(said(COFFEE, T + MINUTE))
    api.flush()
    assert changed in api.get(page_size=100)


@pytest.mark.requirement("update.refused", "errors.never-500")
def test_an_update_that_fits_nothing_is_refused(api: Api) -> None:
    api.told(CLIMBING)
    api.run("one")
    episode = api.get(filters={"session_id": "s"})[0]["id"]
    (case,) = api.get("agent_case", "coder")
    before = api.everything()
    for body, status in (
        ({"id": "alice_ep_20260528_99999999", "subject": "x"}, 404),
        ({"id": "nothing", "subject": "x"}, 404),
        ({"id": f"m_s_{T}_000", "content": "x"}, 404),
        ({"user_id": "nobody", "profile_data": {}}, 404),
        ({"id": episode, "content": "x"}, 422),
        ({"id": episode, "task_intent": "x"}, 422),
        ({"id": episode}, 422),
        ({"id": episode, "subject": "x" * 1001}, 422),
        ({"id": episode, "subject": "a\0b"}, 422),
        ({"id": episode, "subject": None}, 422),
        ({"id": episode, "profile_data": {}}, 422),
        ({"id": case["id"], "quality_score": 2}, 422),
        ({"id": case["id"], "quality_score": None}, 422),
        ({"id": case["id"], "approach": None}, 422),
        ({"id": case["id"], "timestamp": T}, 422),
        ({"user_id": "alice", "profile_data": {"a\0": 1}}, 422),
        ({"user_id": "alice", "profile_data": []}, 422),
        ({"user_id": "alice", "profile_data": {"a": "x" * 1_048_576}}, 422),
    ):
        assert api.refused("update", body, status)
    assert api.everything() == before


# Later.


@pytest.mark.requirement("add.async", "jobs.one")
def test_an_async_add_is_a_job_whose_id_is_that_of_its_request(api: Api) -> None:
    task = api.queue(said(CLIMBING), said(COFFEE, T + DAY))
    job = api.done(task)
    assert set(job) == {
        "job_id", "status", "session_id", "message_count", "result", "error", "created_at", "updated_at",
    }  # fmt: skip
    assert (job["status"], job["result"], job["error"]) == ("done", "extracted", None)
    assert (job["job_id"], job["session_id"], job["message_count"]) == (task, "s", 2)


@pytest.mark.requirement("jobs.listed", "jobs.one")
def test_jobs_are_listed_by_state_and_in_pages(api: Api) -> None:
    jobs = [api.queue(said("Hi."), session=f"s{n}") for n in range(5)]
    for job in jobs:
        api.done(job)
    listed = api.ok("jobs")
    assert (listed["total_count"], listed["count"]) == (5, 5)
    assert [each["job_id"] for each in listed["jobs"]] == jobs[::-1]
    second = api.ok("jobs", page=2, page_size=2, status="done")
    assert [each["job_id"] for each in second["jobs"]] == [jobs[2], jobs[1]]
    assert (second["total_count"], second["count"]) == (5, 2)
    assert api.ok("jobs", status="failed") == {"jobs": [], "total_count": 0, "count": 0}
    assert "no memory has the id 'job_0'" in api.refused("jobs", {"job_id": "job_0"}, 404)
    assert "Input should be" in api.refused("jobs", {"status": "lost"})
    api.ok("delete", session_id="s0")
    assert api.ok("jobs")["total_count"] == 4


@pytest.mark.requirement("jobs.resumed", "tasks.durable")
def test_a_task_that_was_left_undone_is_done_by_the_next_server(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.done(api.queue(said(CLIMBING), said(COFFEE, T + DAY)))
        api.door.jobs.close()  # it ends with the job in hand, and does no other
        left_undone = api.queue(said(CLIMBING), said(COFFEE, T + DAY), session="t")
        assert [each["job_id"] for each in api.ok("jobs", status="queued")["jobs"]] == [left_undone]
        assert len(api.waiting("t")) == 2
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        assert api.read(f"tasks/{left_undone}")["status"] == "queued"
        api.door.jobs.resume()
        assert api.finished(left_undone)["status"] == "success"
        assert len(api.waiting("t")) == 1


@pytest.mark.requirement("update.kept")
def test_a_number_that_a_person_has_set_stays(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    (skill,) = api.get("agent_skill", "coder")
    api.ok("update", id=skill["id"], confidence=0.125)
    api.run("three", at=T + 2 * HOUR)
    assert api.get("agent_skill", "coder")[0]["confidence"] == 0.125


@pytest.mark.requirement("update.kept", "update.profile")
def test_a_summary_of_one_s_own_stays_when_more_is_learned(api: Api) -> None:
    api.told("I live in Oslo.")
    (profile,) = api.get("profile")
    api.ok("update", user_id="alice", profile_data={**profile["profile_data"], "summary": "Mine."})
    api.told("I work as a nurse.", session="t", at=T + DAY)
    data = api.get("profile")[0]["profile_data"]
    assert data["summary"] == "Mine."
    assert {item["description"] for item in data["explicit_info"]} == {"Lives in Oslo.", "Is a nurse."}
