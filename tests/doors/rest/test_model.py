"""With a model: what the rules wrote is bettered, only a flush waits for it, and nothing is lost when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.llm.scripted import (
    Scripted,
    as_llama_cpp,
    broken,
    echoing,
    empty,
    fails,
    refusing,
    right,
    slow,
    wrong_types,
)
from tests.waiting import wait_until

from cofio import Kind
from cofio.config.address import StoreAddress
from cofio.doors.rest.http import WRITERS
from cofio.embed.hashed import HashedEmbedder

from .conftest import BIKE, CLIMBING, COFFEE, DAY, HOUR, Api, Json, T, agent_run, said, serving


@pytest.fixture
def model() -> Iterator[Scripted]:
    """A model that does as it should."""
    with Scripted(right) as server:
        yield server


@pytest.fixture
def wise(store: StoreAddress, model: Scripted) -> Iterator[Api]:
    """The API with that model."""
    with serving(store, embedder=HashedEmbedder(), model=model.url) as (api, _):
        yield api


def flushed(api: Api, session: str = "s", **place: Any) -> Json:
    """The whole answer to a flush."""
    answer: Json = api.post("flush", {"session_id": session, **place}).json()
    assert answer["data"]["status"] == "extracted"
    return answer


def provenance(api: Api) -> dict[str, set[str]]:
    """By whom the records of each kind are."""
    found: dict[str, set[str]] = {}
    for record in api.engine.export():
        if isinstance(record.data, dict) and "extractor" in record.data:
            found.setdefault(record.kind.value, set()).add(str(record.data["extractor"]))
    return found


@pytest.mark.requirement("model.betters", "content.read")
def test_a_flush_gives_the_model_s_records_under_the_rules_ids(wise: Api, model: Scripted) -> None:
    wise.add(said(CLIMBING), said(COFFEE, T + 1000), said(BIKE, T + 2000))
    answer = flushed(wise)
    assert answer["meta"]["usage"]["calls"] == len(model.calls) <= 6
    assert "notes" not in answer["meta"]
    (episode,) = wise.get("episode")
    assert (episode["id"], episode["subject"]) == ("alice_ep_20260528_00000001", "What Alice talked about")
    facts = [record for record in wise.engine.export() if record.kind is Kind.FACT]
    assert {record.text for record in facts} == {f'Alice said: "{text}"' for text in (CLIMBING, COFFEE, BIKE)}
    assert {record.key for record in facts} == {f"af_20260528_{n:08d}" for n in (1, 2, 3)}
    assert all(record.version == 2 for record in facts)
    assert provenance(wise) == {"episode": {"llm:scripted"}, "fact": {"llm:scripted"}}
    (profile,) = wise.get("profile")
    assert [item["description"] for item in profile["profile_data"]["explicit_info"]] == ["Said something."]
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = {"type": "image", "base64": png, "ext": "png", "name": "lake.png"}
    wise.add(said([{"type": "text", "text": "Look:"}, image], T + DAY), session="image")
    item = wise.waiting("image")[0]["content"][1]
    assert (item["text"], "base64" in item) == ("A red boat on a blue lake.", False)


@pytest.mark.requirement("model.fails")
@pytest.mark.parametrize("manner", [broken, refusing, wrong_types, echoing, empty])
def test_when_the_model_fails_the_rules_records_stand_and_the_job_waits(store: StoreAddress, manner: Any) -> None:
    with Scripted(manner) as bad, serving(store, embedder=HashedEmbedder(), model=bad.url, wait=0.0) as (api, _):
        api.add(said(CLIMBING))
        answer = flushed(api)
        assert "the rules' records" in answer["meta"]["notes"][0]
        (episode,) = api.get("episode")
        assert "Alice loves climbing" in episode["episode"]
        (job,) = api.waiting_for_model()
        assert CLIMBING not in job["error"]
        health = api.client.get("/health").json()
        assert health["status"] == "ok"
        assert health["model"]["status"] == "unavailable"
        assert health["model"]["waiting"] == 1
    with Scripted(right) as good, serving(store, embedder=HashedEmbedder(), model=good.url) as (api, _):
        assert api.done(job["job_id"])["result"] == "refined"
        assert provenance(api)["episode"] == {"llm:scripted"}
        assert api.client.get("/health").json()["model"] == {"status": "ok", "waiting": 0}


@pytest.mark.requirement("model.form")
def test_what_the_endpoint_takes_is_known_to_the_next_server_too(store: StoreAddress) -> None:
    with Scripted(as_llama_cpp) as model:
        with serving(store, embedder=HashedEmbedder(), model=model.url) as (api, _):
            api.add(said(CLIMBING))
            flushed(api)
            assert provenance(api)["episode"] == {"llm:scripted"}
            assert [call.form for call in model.calls][:2] == ["json_schema", "json_object"]
        first = len(model.calls)
        with serving(store, embedder=HashedEmbedder(), model=model.url) as (api, _):
            api.add(said(COFFEE, T + HOUR), session="t")
            flushed(api, "t")
            assert {call.form for call in model.calls[first:]} == {"json_object"}
            assert {call.form for call in model.calls[1:]} == {"json_object"}


@pytest.mark.requirement("model.wait", "model.write-path")
def test_an_add_waits_for_no_model_and_a_flush_no_longer_than_is_set(store: StoreAddress) -> None:
    with Scripted(slow) as silent, serving(store, embedder=HashedEmbedder(), model=silent.url, wait=0.01) as (api, _):
        assert api.add(said(CLIMBING), said(COFFEE, T + DAY)) == "extracted"
        (episode,) = api.get("episode")
        assert "Alice loves climbing" in episode["episode"]
        assert "it has not answered yet" in flushed(api)["meta"]["notes"][0]
        assert provenance(api)["episode"] == {"rules"}


@pytest.mark.requirement("model.wait")
def test_a_model_that_could_not_be_asked_is_not_waited_for(store: StoreAddress) -> None:
    with Scripted(fails(401)) as bad, serving(store, embedder=HashedEmbedder(), model=bad.url, wait=600.0) as (api, _):
        for number, text in enumerate((CLIMBING, COFFEE)):
            api.add(said(text, T + number * HOUR), session=str(number))
            assert "answered 401" in flushed(api, str(number))["meta"]["notes"][0]


@pytest.mark.requirement("model.budget")
def test_a_day_s_budget_is_kept(store: StoreAddress, model: Scripted) -> None:
    with serving(store, embedder=HashedEmbedder(), model=model.url, budget="calls=2") as (api, _):
        api.add(said(CLIMBING))
        flushed(api)
        assert len(model.calls) == 2
        metrics = api.client.get("/metrics").text
        assert "cofio_llm_calls_total 2.0" in metrics
        assert "cofio_llm_tokens_total 240.0" in metrics
    with serving(store, embedder=HashedEmbedder(), model=model.url, budget="calls=2", wait=0.0) as (api, _):
        api.add(said(COFFEE, T + HOUR), session="t")
        flushed(api, "t")
        assert all("budget" in job["error"] for job in api.waiting_for_model())
        assert len(model.calls) == 2


@pytest.mark.requirement("model.hand")
def test_what_a_person_has_written_is_left_alone(store: StoreAddress) -> None:
    with Scripted(refusing) as bad, serving(store, embedder=HashedEmbedder(), model=bad.url, wait=0.0) as (api, _):
        api.add(said(CLIMBING), said(COFFEE, T + 1000))
        flushed(api)
        (job,) = api.waiting_for_model()
        api.ok("update", id="alice_ep_20260528_00000001", episode="Mine.")
    with Scripted(right) as good, serving(store, embedder=HashedEmbedder(), model=good.url) as (api, _):
        assert api.done(job["job_id"])["result"] == "left as it is"
        assert api.get("episode")[0]["episode"] == "Mine."


def several_runs(count: int, at: int = T) -> list[Json]:
    """The messages of so many tasks that an agent does one after the other."""
    messages = []
    for number in range(count):
        for message in agent_run(at=at + 20_000 * number):
            for made in message.get("tool_calls", ()):
                made["id"] += f"-{number}"
            if "tool_call_id" in message:
                message["tool_call_id"] += f"-{number}"
            messages.append(message)
    return messages


@pytest.mark.requirement("model.cases", "rerank.model")
def test_each_task_of_a_stretch_is_a_case_and_three_are_bettered_and_ranked(wise: Api, model: Scripted) -> None:
    wise.add(*several_runs(4))
    flushed(wise)
    cases = wise.get("agent_case", "coder", sort_order="asc")
    rules = "Fix the failing login test in the payments service."
    assert [case["task_intent"] for case in cases] == ["Do what was asked."] * 3 + [rules]
    assert {case["quality_score"] for case in cases[:3]} == {0.9}
    (skill,) = wise.get("agent_skill", "coder")
    assert (skill["name"], skill["description"]) == ("do-what-is-asked", "For whatever is asked.")
    assert skill["id"].startswith("coder_sk_20260528_")
    assert 0 < skill["maturity_score"] < 1
    assert len(skill["source_case_ids"]) == 4
    assert [call.task for call in model.calls].count("case") == 3
    wise.add(*several_runs(2, at=T + DAY), session="later")
    flushed(wise, "later")
    (skill,) = wise.get("agent_skill", "coder")
    assert len(set(skill["source_case_ids"])) == 6
    assert {case["id"] for case in wise.get("agent_case", "coder")} == set(skill["source_case_ids"])
    before = len(model.calls)
    asked = {"agent_id": "coder", "query": "do what was asked", "enable_llm_rerank": True, "top_k": 5}
    answer = wise.post("search", asked).json()
    assert set(model.tasks[before:]) == {"rerank"}
    assert len(answer["data"]["agent_cases"]) == 5
    model.script = [broken]
    assert "enable_llm_rerank was ignored" in wise.post("search", asked).json()["meta"]["notes"][0]


@pytest.mark.requirement("agentic.model", "method.multiround")
def test_a_search_in_rounds_asks_the_model_and_says_so(wise: Api, model: Scripted) -> None:
    for number, text in enumerate((CLIMBING, COFFEE, BIKE)):
        wise.add(said(text, T + number * DAY), session=f"s{number}")
        flushed(wise, f"s{number}")
    for method in ("agentic", "llm_multiround"):
        before = len(model.calls)
        asked = {"user_id": "alice", "query": "What has Alice said?", "method": method}
        answer = wise.post("search", asked).json()
        assert f"method {method!r} was answered with the model" in answer["meta"]["notes"][0]
        assert answer["meta"]["usage"]["calls"] == len(model.calls) - before
        assert {"sufficiency", "queries", "rerank"} <= set(model.tasks[before:])
        scores = [episode["score"] for episode in answer["data"]["episodes"]]
        assert scores == sorted(scores, reverse=True)
    model.script = [broken]
    answer = wise.post("search", asked).json()
    assert "without a model" in answer["meta"]["notes"][0]
    assert answer["data"]["episodes"]


@pytest.mark.requirement("agentic.rules")
def test_an_agentic_search_without_a_model_follows_names_and_days(api: Api) -> None:
    api.told("I met Ingrid at the climbing gym.")
    api.told("Ingrid lives in Tromsø.", session="t", at=T + DAY)
    query = {"user_id": "alice", "query": "Who was at the climbing gym?", "method": "agentic", "top_k": 5}
    answer = api.post("search", query).json()
    assert "without a model" in answer["meta"]["notes"][0]
    assert "usage" not in answer["meta"]
    told = " ".join(episode["episode"] for episode in answer["data"]["episodes"])
    assert "Tromsø" in told
    assert answer == {**api.post("search", query).json(), "request_id": answer["request_id"]}


@pytest.mark.requirement("tasks.order", "model.write-path")
def test_tasks_and_adds_are_carried_out_while_a_model_takes_its_time_and_flushes_wait_for_it(
    store: StoreAddress,
) -> None:
    with (
        Scripted(slow) as model,
        serving(store, embedder=HashedEmbedder(), model=model.url, wait=600.0) as (api, _),
        ThreadPoolExecutor(WRITERS) as pool,
    ):
        for number in range(WRITERS):
            api.add(said(CLIMBING, T + number), session=f"s{number}")
            pool.submit(api.flush, f"s{number}")
        wait_until(lambda: api.ok("jobs")["total_count"] == WRITERS and len(model.calls) >= 3)
        assert api.ok("jobs", status="failed")["total_count"] == 0
        assert api.finished(api.queue(said(BIKE), session="t"))["status"] == "success"
        api.door.stop_waiting()


@pytest.mark.requirement("model.default")
def test_without_a_model_nothing_is_asked_and_no_job_is_kept(api: Api) -> None:
    api.told(CLIMBING)
    assert api.ok("jobs")["total_count"] == 0
    assert "model" not in api.client.get("/health").json()
    assert "cofio_llm" not in api.client.get("/metrics").text
