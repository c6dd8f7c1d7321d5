"""Memory out: what a search takes, what it finds, and how each kind of hit looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cofio.config.address import StoreAddress
from cofio.doors.rest.operations import FAR
from cofio.embed.hashed import HashedEmbedder

from ...conftest import BackendUnderTest
from .conftest import BIKE, CLIMBING, COFFEE, DAY, HOUR, VALID, Api, Json, T, enveloped, failed, said, serving

EPISODE: Json = {
    "id": str, "user_id": str, "app_id": str, "project_id": str, "session_id": str, "timestamp": str,
    "sender_ids": list, "summary": str, "subject": str, "episode": str, "type": str,
}  # fmt: skip
PROFILE: Json = {"id": str, "user_id": str, "app_id": str, "project_id": str, "profile_data": dict}
CASE: Json = {
    "id": str, "agent_id": str, "app_id": str, "project_id": str, "session_id": str, "task_intent": str,
    "approach": str, "quality_score": float, "key_insight": (str, type(None)), "timestamp": str,
}  # fmt: skip
SKILL: Json = {
    "id": str, "agent_id": str, "app_id": str, "project_id": str, "name": str, "description": str, "content": str,
    "confidence": float, "maturity_score": float, "source_case_ids": list,
}  # fmt: skip
SCORED: dict[str, Any] = {"score": float}
NOTHING: Json = {
    "episodes": [], "profiles": [], "agent_cases": [], "agent_skills": [], "unprocessed_messages": [],
}  # fmt: skip
TOPICS = [CLIMBING, COFFEE, BIKE, "I live in Oslo.", "My dog is called Rex."]


def shaped(item: Json, shape: dict[str, Any]) -> Json:
    """The item, which has these fields and no others."""
    assert set(item) == set(shape)
    for name, kind in shape.items():
        assert isinstance(item[name], kind), name
    return item


def ids(found: Json, plural: str = "episodes") -> list[str]:
    """The ids of what was found."""
    return [each["id"] for each in found[plural]]


@pytest.fixture(scope="module")
def topics(backend_under_test: BackendUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A user who has spoken of five things, in a session each; not to be changed."""
    address = backend_under_test.address(tmp_path_factory.mktemp("topics"))
    with serving(address, embedder=HashedEmbedder()) as (api, _):
        for n, topic in enumerate(TOPICS):
            api.told(topic, session=f"s{n}", at=T + n * HOUR)
        api.engine.settle()
        yield api


@pytest.mark.requirement("search.arrays", "search.coerces")
def test_all_arrays_are_there_when_nothing_is_found(bare: Api) -> None:
    assert bare.search("anything") == NOTHING
    assert bare.ok("search", agent_id="coder", query="anything", include_profile=True) == NOTHING
    assert bare.search("anything", include_unprocessed=True) == {**NOTHING, "message_hits": []}
    assert bare.search("?!", filters={}, radius=None) == NOTHING
    assert bare.search("anything", top_k="5", radius="0") == NOTHING  # what can be read as a number is one


# What it finds.


@pytest.mark.requirement("search.episode", "search.fact", "search.facts", "search.tracks", "search.arrays")
def test_an_episode_looks_as_the_page_says(api: Api) -> None:
    more = ("I climb in the gym on Mondays.", COFFEE, "Climbing shoes of size 42 fit me.")
    api.told(CLIMBING, *more, session="demo-002")
    found = api.search("climbing", top_k=5)
    (episode,) = found["episodes"]
    shaped(episode, {**EPISODE, **SCORED, "atomic_facts": list})
    assert episode | {"score": 0, "atomic_facts": []} == {**api.get()[0], "score": 0, "atomic_facts": []}
    assert episode["id"] == "alice_ep_20260528_00000001"
    assert (episode["app_id"], episode["project_id"], episode["session_id"]) == ("default", "default", "demo-002")
    assert (episode["type"], episode["sender_ids"]) == ("Conversation", ["alice"])
    assert "climbing" in episode["episode"]
    assert 0 < len(episode["summary"]) < 300
    assert "\n" not in episode["subject"]
    facts = [shaped(each, {"id": str, "content": str, "score": float}) for each in episode["atomic_facts"]]
    assert len(facts) >= 2  # those that match, the best first
    assert any("Yosemite" in each["content"] for each in facts)
    assert not any("coffee" in each["content"] for each in facts)
    assert [each["score"] for each in facts] == sorted((each["score"] for each in facts), reverse=True)
    assert found | {"episodes": []} == NOTHING


@pytest.mark.requirement("search.profile", "search.include_profile")
def test_a_profile_comes_when_it_is_asked_for_and_unranked(api: Api) -> None:
    api.told(CLIMBING, COFFEE)
    assert api.search("climbing")["profiles"] == []
    (profile,) = api.search("something else altogether", include_profile=True)["profiles"]
    shaped(profile, {**PROFILE, "score": type(None)})
    assert (profile["id"], profile["user_id"]) == ("alice", "alice")
    assert {"summary", "explicit_info", "implicit_traits", "profile_timestamp_ms"} <= set(profile["profile_data"])
    assert "Yosemite" in str(profile["profile_data"])
    assert api.search("climbing", "nobody", include_profile=True)["profiles"] == []
    assert api.ok("search", agent_id="alice", query="climbing", include_profile=True) == NOTHING


@pytest.mark.requirement(
    "search.case", "search.skill", "search.tracks", "search.maturity", "search.top_k", "search.enable_llm_rerank"
)
def test_cases_and_skills_look_as_the_page_says_and_grow(api: Api) -> None:
    api.run("one")
    assert api.get("agent_skill", "coder") == []
    maturity: list[float] = []
    for n, session in enumerate(("two", "three"), 1):
        api.run(session, at=T + n * HOUR)
        maturity += [each["maturity_score"] for each in api.get("agent_skill", "coder")]
    found = api.ok("search", agent_id="coder", query="failing login test")
    assert found | {"agent_cases": [], "agent_skills": []} == NOTHING
    assert {each["session_id"] for each in found["agent_cases"]} == {"one", "two", "three"}
    for case in found["agent_cases"]:
        shaped(case, {**CASE, **SCORED})
        assert 0 <= case["quality_score"] <= 1
        assert "login test" in case["task_intent"]
        assert "edit_file" in case["approach"]
    (skill,) = found["agent_skills"]
    shaped(skill, {**SKILL, **SCORED})
    assert 0 <= skill["confidence"] <= 1
    assert 0 <= maturity[0] < maturity[1] == skill["maturity_score"] <= 1
    assert sorted(skill["source_case_ids"]) == sorted(ids(found, "agent_cases"))
    assert api.search("failing login test", "coder") == NOTHING
    answer = api.post("search", {"agent_id": "coder", "query": "failing login test", "enable_llm_rerank": True})
    assert "enable_llm_rerank was ignored" in answer.json()["meta"]["notes"][0]
    assert enveloped(answer) == found
    for k in (1, 2, 100):  # the most of each kind
        assert len(ids(api.search("login test", top_k=k, method="keyword"))) == min(k, 3)
        found = api.ok("search", agent_id="coder", query="login test", top_k=k)
        assert (len(found["agent_cases"]), len(found["agent_skills"])) == (min(k, 3), 1)


@pytest.mark.requirement(
    "search.radius", "search.radius-default", "search.radius-caller", "search.radius-exempt", "method.vector"
)
@pytest.mark.parametrize("method", ["vector", "hybrid", "agentic"])
def test_a_radius_drops_what_is_too_far_off(topics: Api, method: str) -> None:
    everything = ids(topics.search("climbing in Yosemite", method=method, top_k=100))
    assert len(everything) == 5  # with top_k and without a radius, nothing is dropped
    near = ids(topics.search("climbing in Yosemite", method=method, top_k=100, radius=0.5))
    assert near == everything[:1]
    assert ids(topics.search("climbing in Yosemite", method=method, top_k=100, radius=1.0)) == []
    assert set(ids(topics.search("climbing in Yosemite", method=method, top_k=100, radius=0.0))) == set(everything)
    if method != "agentic":  # which goes on to what the first answers name
        usual = ids(topics.search("climbing in Yosemite", method=method))  # -1 leaves out what is not likely
        assert usual[:1] == near
        assert len(usual) < len(everything)
    # The caller's radius wins over the server's, and what has no cosine is exempt from both.
    assert len(ids(topics.search("climbing in Yosemite", method="vector", radius=0.0))) == 5
    for k in (10, -1):
        assert len(ids(topics.search("Yosemite", method="keyword", radius=1.0, top_k=k))) == 1


@pytest.mark.requirement("search.min_score", "method.agentic", "method.multiround")
@pytest.mark.parametrize("method", ["keyword", "vector", "hybrid", "agentic", "llm_multiround"])
def test_a_least_score_leaves_out_what_scores_less_whatever_the_method(topics: Api, method: str) -> None:
    found = topics.search("living in Oslo", method=method, top_k=10)["episodes"]
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    if method in ("agentic", "llm_multiround"):  # scores of several rounds are of the size of those of one
        best, *_ = topics.search("living in Oslo", top_k=10)["episodes"]
        assert (found[0]["id"], scores[0]) == (best["id"], best["score"])
    least = (scores[0] + scores[-1]) / 2 if len(found) > 1 else scores[0]
    above = [each for each in found if each["score"] >= least]
    assert above
    assert topics.search("living in Oslo", method=method, top_k=10, min_score=least)["episodes"] == above
    assert topics.search("living in Oslo", method=method, top_k=10, min_score=0)["episodes"] == found


@pytest.mark.requirement(
    "method.keyword", "method.vector", "method.hybrid", "method.agentic", "method.multiround", "search.method"
)
def test_each_method_answers(topics: Api) -> None:
    best = "alice_ep_20260528_00000004"
    for method in ("keyword", "vector", "hybrid", "agentic", "llm_multiround"):
        assert ids(topics.search("living in Oslo", method=method, top_k=3))[0] == best
    assert topics.search("Oslo") == topics.search("Oslo", method="hybrid")
    assert ids(topics.search("zyxxy", method="keyword", top_k=5)) == []
    assert len(ids(topics.search("zyxxy", method="vector", top_k=5))) == 5
    for method in ("agentic", "llm_multiround"):
        answer = topics.post("search", {"user_id": "alice", "query": "Oslo", "method": method}).json()
        assert f"{method!r} was answered without a model" in answer["meta"]["notes"][0]
    assert "meta" not in topics.post("search", {"user_id": "alice", "query": "Oslo"}).json()


@pytest.mark.requirement("method.no-model")
def test_without_a_model_words_are_searched_and_meaning_is_refused(store: StoreAddress) -> None:
    with serving(store) as (api, _):
        api.told(CLIMBING)
        assert "cofio model install" in api.refused("search", {"user_id": "a", "query": "x", "method": "vector"})
        documents = api.client.post("/api/v2/knowledge/search", json={"query": "x", "method": "vector"})
        assert "cofio model install" in failed(documents, 422)
        answer = api.post("search", {"user_id": "alice", "query": "Yosemite"})
        assert len(enveloped(answer)["episodes"]) == 1
        assert answer.headers["x-cofio-degraded"]
        assert "x-cofio-degraded" not in api.post("search", {**VALID["search"], "method": "keyword"}).headers
        assert len(api.search("Yosemite", method="keyword")["episodes"]) == 1


@pytest.mark.requirement("search.filters")
def test_filters_hold_before_ranking(topics: Api) -> None:
    for n in range(5):
        found = topics.search("climbing in Yosemite", filters={"session_id": f"s{n}"}, top_k=1)
        assert [each["session_id"] for each in found["episodes"]] == [f"s{n}"]
    late = {"timestamp": {"gte": T + 3 * HOUR}}
    assert set(ids(topics.search("I", top_k=10, filters=late))) <= {
        "alice_ep_20260528_00000004", "alice_ep_20260528_00000005",
    }  # fmt: skip


# Messages that wait.


@pytest.mark.requirement("search.unprocessed-when", "search.unprocessed")
def test_waiting_messages_come_for_a_session_that_is_named_outright_alone(api: Api) -> None:
    api.add(said(CLIMBING), said("Nice!", T + 1, "bot", "assistant"))

    def waiting(**body: Any) -> list[str]:
        found = api.ok("search", **{"query": "zyxxy", **body})
        return [each["content"] for each in found["unprocessed_messages"]]

    for owner in ({"user_id": "alice"}, {"agent_id": "bot"}):
        assert waiting(**owner, filters={"session_id": "s"}) == [CLIMBING, "Nice!"]
        assert waiting(**owner, filters={"session_id": "s", "timestamp": {"gt": 1}, "OR": []}) == [CLIMBING, "Nice!"]
        for filters in (
            None, {}, {"session_id": {"eq": "s"}}, {"session_id": {"in": ["s"]}}, {"AND": [{"session_id": "s"}]},
            {"OR": [{"session_id": "s"}]}, {"session_id": None}, {"session_id": "S"}, {"session_id": ""},
            {"session_id": "x" * 300}, {"sender_id": "alice"},
        ):  # fmt: skip
            assert waiting(**owner, filters=filters) == [], filters
    assert waiting(user_id="alice", filters={"session_id": "s"}, app_id="other") == []
    assert waiting(user_id="alice", filters={"session_id": "s"}, project_id="other") == []


@pytest.mark.requirement("search.message_hits", "consistency.read")
def test_messages_that_wait_are_found_when_asked_for(api: Api) -> None:
    api.add(said(CLIMBING, sender_name="Alice"), said("Blue Bottle opens at nine.", T + 1, "bot", "assistant"))
    api.add(said("I climb in Yosemite, too.", sender="bob"), session="other")
    assert "message_hits" not in api.search("Yosemite")
    found = api.search("Yosemite", include_unprocessed=True)
    (hit,) = found["message_hits"]
    assert hit | {"score": 0} == api.waiting()[0] | {"score": 0}
    assert isinstance(hit["score"], float)
    assert found["episodes"] == []
    assert [each["sender_id"] for each in api.search("Blue Bottle", include_unprocessed=True)["message_hits"]] == [
        "bot"
    ]
    for filters, count in (({"session_id": "s"}, 1), ({"session_id": "other"}, 0), ({"sender_id": "bot"}, 0)):
        assert len(api.search("Yosemite", include_unprocessed=True, filters=filters)["message_hits"]) == count
    assert api.search("Yosemite", include_unprocessed=True, app_id="other")["message_hits"] == []
    assert api.search("Yosemite", "bot", include_unprocessed=True)["message_hits"] == []
    api.flush()
    found = api.search("Yosemite", include_unprocessed=True)
    assert (len(found["episodes"]), found["message_hits"]) == (1, [])


@pytest.mark.requirement("search.waits")
def test_a_search_that_finds_nothing_says_that_messages_wait(api: Api) -> None:
    asked = {"user_id": "alice", "query": "Where does Alice climb?"}
    assert "meta" not in api.post("search", asked).json()
    api.add(said("I love climbing in Yosemite.", T))
    (note,) = api.post("search", asked).json()["meta"]["notes"]
    assert "include_unprocessed" in note
    for other in ({"user_id": "bob"}, {"app_id": "shop"}, {"include_unprocessed": True}):
        assert "meta" not in api.post("search", {**asked, **other}).json()
    api.flush()
    assert "meta" not in api.post("search", asked).json()


@pytest.mark.requirement("search.far", "scope.owner")
@pytest.mark.parametrize("method", ["hybrid", "agentic"])
def test_a_search_that_finds_nothing_near_enough_says_how_the_nearest_are_had(api: Api, method: str) -> None:
    for n, topic in enumerate(TOPICS * 3):
        api.told(f"{topic} It is {n}.", session=f"s{n}", at=T + n * DAY)
    asked = {
        "user_id": "alice",
        "query": "municipal archive committee audit ledger quorum bylaw clerk docket gavel proxy statute called",
        "method": method,
    }

    def notes(**more: Any) -> list[str]:
        answer = api.post("search", {**asked, **more}).json()
        return [note for note in answer.get("meta", {}).get("notes", []) if "answered without a model" not in note]

    assert enveloped(api.post("search", asked)) == NOTHING
    assert notes() == [FAR]
    for other in ({"user_id": "bob"}, {"app_id": "shop"}, {"project_id": "web"}):
        assert notes(**other) == []
    assert notes(top_k=3) == []
    assert len(enveloped(api.post("search", {**asked, "top_k": 3}))["episodes"]) == 3
    assert notes(query="zzzz") == []
