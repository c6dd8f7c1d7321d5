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


# Deleting.


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


@pytest.mark.requirement("delete.session", "delete.derived", "delete.receipt")
def test_a_session_goes_with_all_that_was_made_of_it_for_everyone(api: Api) -> None:
    api.add(said(CLIMBING), said("I live in Bergen.", T + 1000, "bob"), session="shared")
    api.flush("shared")
    api.add(said("Still here.", T + 2000), session="shared")
    api.told(BIKE, session="mine", at=T + DAY)
    api.run("run", at=T + 2 * DAY)
    receipt = deleted(api, session_id="shared")
    assert (receipt["episodes"], receipt["profiles"], receipt["messages"]) == (2, 1, 3)  # each message counts once
    assert api.get(owner="bob") == api.get("profile", "bob") == api.waiting("shared") == []
    assert {each["session_id"] for each in api.get()} == {"mine", "run"}
    assert "Yosemite" not in str(api.everything())
    assert "Bergen" not in str(api.everything())
    assert deleted(api, session_id="run")["agent_cases"] == 1
    assert deleted(api, session_id="nope") == {}


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


@pytest.mark.requirement("delete.owner", "delete.derived")
def test_an_owner_s_records_of_one_type_go_alone(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    api.told(CLIMBING, session="s", at=T + DAY)
    assert deleted(api, user_id="alice", memory_type="profile") == {"profiles": 1}
    assert len(api.get()) == 3
    assert deleted(api, agent_id="coder", memory_type="agent_skill") == {"agent_skills": 1}
    assert len(api.get("agent_case", "coder")) == 2
    assert deleted(api, agent_id="coder", memory_type="agent_case") == {"agent_cases": 2}
    assert deleted(api, user_id="alice", memory_type="episode")["episodes"] == 3
    assert api.get() == []
    assert not any("Yosemite" in each["text"] for each in api.everything())


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


@pytest.mark.requirement("delete.again", "message.idempotent", "ids.once")
@pytest.mark.parametrize("how", ["id", "session", "owner", "all"])
def test_what_was_deleted_may_be_sent_again_and_has_another_id(api: Api, how: str) -> None:
    api.told(CLIMBING)
    (episode,) = api.get()
    target = {"id": {"id": episode["id"]}, "session": {"session_id": "s"}, "owner": {"user_id": "alice"}}
    api.ok("delete", **target.get(how, {"all": True}))
    assert api.get() == []
    api.told(CLIMBING)
    (again,) = api.get()
    assert again["episode"] == episode["episode"]
    assert (episode["id"], again["id"]) == ("alice_ep_20260528_00000001", "alice_ep_20260528_00000002")


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
    new = {**data, "explicit_info": kept, "note": "by hand", "summary": "Mine."}
    changed = api.ok("update", user_id="alice", profile_data=new)
    assert (changed["id"], changed["memory_type"]) == ("alice", "profile")
    assert api.get("profile") == [changed["item"]]
    assert changed["item"]["profile_data"]["explicit_info"] == kept
    api.told("I work as a nurse.", session="later", at=T + DAY)
    after = api.get("profile")[0]["profile_data"]
    assert (after["note"], after["summary"]) == ("by hand", "Mine.")
    told = {item["description"] for item in after["explicit_info"]}
    assert "Is a nurse." in told
    assert not any("Oslo" in each for each in told)


@pytest.mark.requirement("update.profile", "errors.never-500")
def test_whatever_a_person_makes_of_a_profile_sessions_can_still_be_carved(api: Api) -> None:
    odd: list[Json] = [
        {}, {"explicit_info": 5}, {"explicit_info": {"a": 1}}, {"explicit_info": ["x", None, {"description": 5}]},
        {"profile_timestamp_ms": "x", "implicit_traits": 7, "summary": []}, {"explicit_info": [{"supersedes": []}]},
        {"explicit_info": [{"supersedes": {"supersedes": {"supersedes": {}}}}]},
        {"explicit_info": [{"timestamp_ms": 10**30}]},
    ]  # fmt: skip
    for data in odd:
        api.told(COFFEE)
        assert api.ok("update", user_id="alice", profile_data=data)["item"]["profile_data"] == data
        api.told("I live in Oslo.", session="later", at=T + DAY)
        assert "Oslo" in str(api.get("profile"))
        api.ok("delete", session_id="later")
        assert len(api.get()) == 1
        api.ok("delete", all=True)


@pytest.mark.requirement("update.kept")
def test_what_is_made_later_leaves_a_person_s_words_alone(api: Api) -> None:
    api.run("one")
    api.run("two", at=T + HOUR)
    (skill,) = api.get("agent_skill", "coder")
    mine = {"name": "mending", "description": "Mine.", "content": "My own words.", "confidence": 0.125}
    api.ok("update", id=skill["id"], **mine)
    api.run("three", at=T + 2 * HOUR)
    (grown,) = api.get("agent_skill", "coder")
    assert grown.items() >= mine.items()
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
        ({"id": episode}, 422),
        ({"id": episode, "subject": "x" * 1001}, 422),
        ({"id": episode, "subject": "a\0b"}, 422),
        ({"id": episode, "subject": None}, 422),
        ({"id": case["id"], "quality_score": None}, 422),
        ({"id": case["id"], "approach": None}, 422),
        ({"user_id": "alice", "profile_data": {"a\0": 1}}, 422),
        ({"user_id": "alice", "profile_data": {"a": "x" * 1_048_576}}, 422),
    ):
        assert api.refused("update", body, status)
    assert api.everything() == before


# Later.


@pytest.mark.requirement("add.async", "jobs.listed", "jobs.one")
def test_jobs_are_listed_by_state_and_in_pages(api: Api) -> None:
    jobs = [api.queue(said("Hi."), said("Ho.", T + DAY), session=f"s{n}") for n in range(5)]
    first, *_ = [api.done(job) for job in jobs]
    assert first | {"created_at": "", "updated_at": ""} == {
        "job_id": jobs[0], "status": "done", "session_id": "s0", "message_count": 2, "result": "extracted",
        "error": None, "created_at": "", "updated_at": "",
    }  # fmt: skip
    listed = api.ok("jobs")
    assert (listed["total_count"], listed["count"]) == (5, 5)
    assert [each["job_id"] for each in listed["jobs"]] == jobs[::-1]
    second = api.ok("jobs", page=2, page_size=2, status="done")
    assert [each["job_id"] for each in second["jobs"]] == [jobs[2], jobs[1]]
    assert (second["total_count"], second["count"]) == (5, 2)
    assert api.ok("jobs", status="failed") == {"jobs": [], "total_count": 0, "count": 0}
    assert "no memory has the id 'job_0'" in api.refused("jobs", {"job_id": "job_0"}, 404)
    api.ok("delete", session_id="s0")
    assert api.ok("jobs")["total_count"] == 4


@pytest.mark.requirement("jobs.resumed", "tasks.durable")
def test_a_task_that_was_left_undone_is_done_by_the_next_server(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.done(api.queue(said(CLIMBING), said(COFFEE, T + DAY)))
        api.jobs.close(5.0)  # it ends with the job in hand, and does no other
        left_undone = api.queue(said(CLIMBING), said(COFFEE, T + DAY), session="t")
        assert [each["job_id"] for each in api.ok("jobs", status="queued")["jobs"]] == [left_undone]
        assert len(api.waiting("t")) == 2
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        assert api.finished(left_undone)["status"] == "success"
        assert len(api.waiting("t")) == 1
