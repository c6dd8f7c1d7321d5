"""How every answer looks: envelopes, ids of requests, failures in words, and the probes beside the calls."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from datetime import datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from starlette.testclient import TestClient

from cofio import Unavailable, __version__
from cofio.conversations.conversations import Conversations
from cofio.doors.rest import http as rest
from cofio.http.tokens import Tokens
from cofio.http.tracing import RequestTracer

from ...conftest import Stores
from .conftest import ALIAS, CALLS, CLIMBING, PREFIX, VALID, Api, enveloped, failed, said, serving

calls = pytest.mark.parametrize("call", CALLS)


@pytest.mark.requirement(
    "envelope.success", "envelope.request-id", "envelope.header", "settings.prefix", "machinery.quiesce"
)
def test_a_success_has_its_envelope_and_an_id_of_its_own(api: Api) -> None:
    text = "I live in Oslo\u2028and work\u2029in Bergen\x85now."
    api.add(said(text))
    answer = api.post("search", {"user_id": "alice", "query": "Oslo", "include_unprocessed": True})
    assert text in json.dumps(enveloped(answer), ensure_ascii=False)
    assert len(answer.text.splitlines()) == 1
    mine = "f" * 32
    seen = {mine}
    for call in ("add", "flush", "search", "get", "delete", "jobs"):
        answer = api.post(call, VALID[call], X_Request_Id=mine)  # which is not taken over
        assert isinstance(enveloped(answer), dict)
        assert list(answer.json()) == ["request_id", "data"]
        seen.add(answer.json()["request_id"])
    seen |= {
        api.client.get(path).headers["x-request-id"] for path in ("/", "/health", "/metrics", "/nope", "/mcp", PREFIX)
    }
    assert (len(seen), {len(each) for each in seen}) == (13, {32})
    for version in ("v1", "v2"):  # without an envelope, as it always was
        answer = api.client.post(f"/api/{version}/cascade/quiesce")
        told = {"quiesced": True, "drained": 0, "pending_before": 0, "pending_after": 0, "failed_permanent": 0}
        assert (answer.status_code, answer.json()) == (200, told)


@pytest.mark.requirement("errors.envelope", "errors.unknown-path", "errors.path", "http.post")
def test_only_posts_are_answered(bare: Api) -> None:
    for call in CALLS:
        for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
            answer = bare.client.request(method, f"{PREFIX}/{call}")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            if method != "HEAD":
                assert failed(answer, 405, f"{PREFIX}/{call}") == "Method Not Allowed"


@pytest.mark.requirement("errors.envelope", "errors.unknown-path", "errors.path")
@pytest.mark.parametrize("path", [f"{PREFIX}/nope", f"{PREFIX}/", PREFIX, "/nope", f"{PREFIX}/add/", f"{PREFIX}/add/x"])
def test_what_is_not_there_is_a_404_in_the_same_envelope(bare: Api, path: str) -> None:
    for method in ("GET", "POST"):
        assert failed(bare.client.request(method, path, follow_redirects=False), 404, path) == "Not Found"


@pytest.mark.requirement("versions.both", "settings.prefix", "errors.path", "errors.code", "auth.tokens")
def test_every_call_is_there_under_both_versions_and_failures_name_the_one_that_was_called(
    guarded: tuple[Api, Tokens],
) -> None:
    api, tokens = guarded
    for call in CALLS:
        for prefix in (PREFIX, ALIAS):
            answer = api.client.post(f"{prefix}/{call}", json=VALID[call])
            assert (answer.status_code == 404) == (call == "update"), answer.text
            assert failed(api.client.post(f"{prefix}/{call}", json=[]), 422, f"{prefix}/{call}")
            assert failed(api.client.get(f"{prefix}/{call}"), 405, f"{prefix}/{call}")
    told = api.client.get("/metrics").text
    shown = {"Authorization": f"Bearer {tokens.add('shop', app='shop')}"}
    for call in CALLS:
        for prefix in (PREFIX, ALIAS):
            assert f'cofio_http_requests_total{{method="POST",path="{prefix}/{call}",status="422"}} 1.0' in told
            refused = api.client.post(f"{prefix}/{call}", json=VALID[call], headers=shown)
            assert "limited to the app shop" in failed(refused, 403, f"{prefix}/{call}")


@pytest.mark.requirement("http.json")
def test_only_json_is_taken_however_http_allows_to_write_that(bare: Api) -> None:
    for call in CALLS:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", "", None):
            headers = {} if kind is None else {"Content-Type": kind}
            answer = bare.client.post(f"{PREFIX}/{call}", content=json.dumps(VALID[call]), headers=headers)
            assert "curl: -H 'Content-Type: application/json'" in failed(answer, 415)
        told = failed(bare.client.post(f"{PREFIX}/{call}"), 422)
        assert told.startswith("Field required: the body, which is missing; send a JSON object")
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"):
        enveloped(bare.post("jobs", {}, Content_Type=kind))


@pytest.mark.requirement("http.utf8")
def test_bodies_are_utf_8_in_and_out(api: Api) -> None:
    spoken = "Ég heiti Þórður 🙂, 我住在奥斯陆."
    body = {"session_id": "þ/☃ \n", "messages": [said(spoken)]}
    enveloped(api.post("add", json.dumps(body, ensure_ascii=False).encode()))
    answer = api.post("search", {"user_id": "alice", "query": "x", "filters": {"session_id": "þ/☃ \n"}})
    assert spoken.encode() in answer.content
    for encoding in ("utf-16", "utf-16-le", "utf-32", "latin-1"):
        assert api.refused("add", json.dumps(body, ensure_ascii=False).encode(encoding, "replace"))
    assert len(api.waiting("þ/☃ \n")) == 1


@pytest.mark.requirement("errors.timestamp", "errors.path")
def test_a_failure_says_when_in_the_display_zone(shanghai: Api) -> None:
    error = shanghai.post("add", {}).json()["error"]
    told = datetime.fromisoformat(error["timestamp"])
    assert told.utcoffset() == timedelta(hours=8)
    assert told.tzinfo is not None
    assert error["path"] == f"{PREFIX}/add"


class Broken:
    """Conversations that cannot be used, whatever is asked of them."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


def door(error: Exception) -> TestClient:
    """A client of an application that has the REST door alone, on a memory that fails in this way."""
    from starlette.applications import Starlette

    conversations = cast(Conversations, Broken(error))
    routes = rest.Door(conversations, ZoneInfo("UTC")).make_routes()
    return TestClient(RequestTracer(Starlette(routes=routes)))


@pytest.mark.requirement("errors.500", "errors.code", "errors.logs", "errors.unavailable")
@calls
def test_a_fault_of_our_own_tells_nothing_and_logs_no_content(call: str, caplog: pytest.LogCaptureFixture) -> None:
    broken = RuntimeError("SECRET-1 in /home/owner/.cofio")
    body = json.dumps(VALID[call] | {"app_id": "SECRET-2"})
    with door(broken) as client, caplog.at_level(logging.DEBUG):
        answer = client.post(f"{PREFIX}/{call}", content=body, headers={"Content-Type": "application/json"})
    assert failed(answer, 500, f"{PREFIX}/{call}") == "Internal server error"
    assert "SECRET" not in answer.text + caplog.text
    assert "climbing" not in caplog.text
    assert answer.json()["request_id"] in caplog.text
    assert "RuntimeError" in caplog.text
    with door(Unavailable("/home/secret/.cofio cannot be made")) as client:
        answer = client.post(f"{PREFIX}/{call}", json=VALID[call])
    assert failed(answer, 503) == "The memory cannot be used at the moment"


@pytest.mark.requirement("errors.logs")
def test_nothing_that_is_said_or_asked_is_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="cofio"):
        api.told("I live in Xanadu.")
        api.search("Xanadu")
        api.refused("search", {"user_id": "Xanadu", "query": "Xanadu", "filters": {"Xanadu": 1}})
        api.refused("add", {"session_id": "s", "messages": [said([{"type": "pdf", "uri": "http://Xanadu"}])]}, 415)
    assert "Xanadu" not in "".join(each.getMessage() for each in caplog.records if each.name.startswith("cofio"))


@pytest.mark.requirement("probes.health")
def test_health_is_ok_without_a_token(guarded: tuple[Api, Tokens]) -> None:
    api, tokens = guarded
    tokens.add("laptop")
    answer = api.client.get("/health")
    assert answer.status_code == 200
    health = answer.json()
    expected = {"status", "version", "storage", "capabilities", "disabled_features", "cascade", "memorize_queue"}
    assert set(health) == expected
    assert (health["status"], health["version"]) == ("ok", __version__)
    assert health["capabilities"] == {
        "llm": False, "embed": True, "rerank": False, "multimodal_llm": False, "parser": True,
    }  # fmt: skip
    assert health["disabled_features"] == ["reflection", "multimodal_upload"]
    assert health["cascade"]["healthy"] is True
    assert health["memorize_queue"].items() >= {"healthy": True, "accepting": True, "pending": 0, "failed": 0}.items()


@pytest.mark.requirement("machinery.trigger")
def test_a_strategy_that_is_to_be_triggered_is_answered_so_that_a_client_goes_on(bare: Api) -> None:
    for version in ("v1", "v2"):
        answer = bare.client.post(f"/api/{version}/ome/trigger", json={"name": "reflect_episodes", "force": True})
        told = {"status": "not_dispatched", "name": "reflect_episodes", "dispatched": 0, "runs": []}
        assert (answer.status_code, answer.json()) == (200, told)  # without an envelope, as it always was
        assert failed(bare.client.post(f"/api/{version}/ome/trigger", json={}), 422) == "Field required: name"


@pytest.mark.requirement("probes.metrics")
def test_metrics_count_requests_by_path_and_status_and_hold_no_names(api: Api) -> None:
    api.told(CLIMBING, session="secret-session")
    api.refused("add", {})
    api.client.get("/made-up-by-a-stranger")
    answer = api.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    counted = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}
    total = "cofio_http_requests_total"
    assert counted[f'{total}{{method="POST",path="{PREFIX}/add",status="200"}}'] == 1
    assert counted[f'{total}{{method="POST",path="{PREFIX}/add",status="422"}}'] == 1
    assert counted[f'{total}{{method="GET",path="other",status="404"}}'] == 1
    assert counted[f'cofio_http_request_duration_seconds_count{{method="POST",path="{PREFIX}/add"}}'] == 2
    assert "secret" not in answer.text
    assert "stranger" not in answer.text


@pytest.mark.requirement("docs.setting", "docs.page")
def test_the_description_can_be_turned_off_and_says_how_to_turn_it_on(bare: Api, stores: Stores) -> None:
    for path in ("/openapi.json", "/docs", "/redoc"):
        assert "COFIO_DOCS=true" in failed(bare.client.get(path), 404, path)
    with serving(stores.new(), docs=True) as (other, _):
        health = other.client.get("/health").json()  # and there are no vectors here
        assert health["capabilities"]["embed"] is False
        assert health["disabled_features"] == ["vector_search", "reflection", "multimodal_upload"]
        assert {f"{PREFIX}/{call}" for call in CALLS} < set(other.client.get("/openapi.json").json()["paths"])
        for page in ("/docs", "/redoc"):
            shown = other.client.get(page)
            assert shown.headers["content-type"].startswith("text/html")
            links = re.findall(r"(?:\b(?:href|src)=|\burl\(|@import )[\"']?([^\"'> )]+)", shown.text)
            assert {link for link in links if not link.startswith("#")} == {"/openapi.json"}  # nothing from elsewhere
            style = re.search(r"<style>(.*?)</style>", shown.text, re.DOTALL)
            assert style is not None
            digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
            policy = shown.headers["content-security-policy"]
            assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
            for address in (*(f"{PREFIX}/{call}" for call in CALLS), "/mcp", "/api/v1/memory-tool", "/threads/"):
                assert f"<code>{address}</code>" in shown.text
