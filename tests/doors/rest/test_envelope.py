"""How every answer looks: envelopes, ids of requests, failures in words, and the probes beside the calls."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import threading
from datetime import datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from starlette.testclient import TestClient

from cofio import Unavailable, __version__
from cofio.conversations.conversations import Conversations
from cofio.doors.rest import http as rest
from cofio.doors.rest.calls import NO_BODY
from cofio.doors.rest.jobs import Jobs
from cofio.doors.web.tokens import Tokens
from cofio.doors.web.tracing import RequestTracer

from ...conftest import Stores
from .conftest import ALIAS, CALLS, CLIMBING, PREFIX, VALID, Api, Json, enveloped, failed, said, serving

calls = pytest.mark.parametrize("call", CALLS)


@pytest.mark.requirement("envelope.success", "envelope.request-id", "envelope.header", "settings.prefix")
def test_a_success_has_its_envelope_and_an_id_of_its_own(api: Api) -> None:
    seen = set()
    for call in ("add", "flush", "search", "get", "delete", "jobs"):
        answer = api.post(call, VALID[call])
        assert isinstance(enveloped(answer), dict)
        assert list(answer.json()) == ["request_id", "data"]
        seen.add(answer.json()["request_id"])
    assert len(seen) == 6


@pytest.mark.requirement("envelope.success")
def test_an_answer_is_one_line_to_every_reader(api: Api) -> None:
    text = "I live in Oslo\u2028and work\u2029in Bergen\x85now."
    api.add(said(text))
    answer = api.post("search", {"user_id": "alice", "query": "Oslo", "include_unprocessed": True})
    assert text in json.dumps(enveloped(answer), ensure_ascii=False)
    assert len(answer.text.splitlines()) == 1


@pytest.mark.requirement("envelope.header", "envelope.request-id")
def test_an_id_that_a_client_sends_is_not_taken_over(api: Api) -> None:
    mine = "f" * 32
    answer = api.post("jobs", {}, X_Request_Id=mine)
    assert mine not in (answer.json()["request_id"], answer.headers["x-request-id"])


@pytest.mark.requirement("envelope.header")
@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/nope", "/mcp", f"{PREFIX}/add"])
def test_every_answer_carries_an_id(bare: Api, path: str) -> None:
    assert len(bare.client.get(path).headers["x-request-id"]) == 32


@pytest.mark.requirement("errors.envelope", "errors.unknown-path", "errors.path", "http.post")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_only_posts_are_answered(bare: Api, method: str) -> None:
    for call in CALLS:
        answer = bare.client.request(method, f"{PREFIX}/{call}")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "POST"
        if method != "HEAD":
            assert failed(answer, 405, f"{PREFIX}/{call}") == "Method Not Allowed"


@pytest.mark.requirement("errors.envelope", "errors.unknown-path", "errors.path")
@pytest.mark.parametrize("path", [f"{PREFIX}/nope", f"{PREFIX}/", PREFIX, "/api/v1/nope", "/nope", f"{PREFIX}/add/x"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_not_there_is_a_404_in_the_same_envelope(bare: Api, path: str, method: str) -> None:
    assert failed(bare.client.request(method, path), 404, path) == "Not Found"


@pytest.mark.requirement("errors.envelope", "errors.unknown-path")
def test_a_slash_too_many_is_a_404_in_the_same_envelope(api: Api) -> None:
    assert failed(api.client.post(f"{PREFIX}/add/", json=VALID["add"], follow_redirects=False), 404) == "Not Found"


@pytest.mark.requirement("versions.both", "settings.prefix", "errors.path", "errors.code")
@calls
def test_every_call_is_there_under_both_versions_and_failures_name_the_one_that_was_called(
    guarded: tuple[Api, Tokens], call: str
) -> None:
    api, tokens = guarded
    for prefix in (PREFIX, ALIAS):
        answer = api.client.post(f"{prefix}/{call}", json=VALID[call])
        assert (answer.status_code == 404) == (call == "update"), answer.text
        assert failed(api.client.post(f"{prefix}/{call}", json=[]), 422, f"{prefix}/{call}")
        assert failed(api.client.get(f"{prefix}/{call}"), 405, f"{prefix}/{call}")
    told = api.client.get("/metrics").text
    for prefix in (PREFIX, ALIAS):
        assert f'cofio_http_requests_total{{method="POST",path="{prefix}/{call}",status="422"}} 1.0' in told
    shown = {"Authorization": f"Bearer {tokens.add('shop', app='shop')}"}
    for prefix in (PREFIX, ALIAS):
        refused = api.client.post(f"{prefix}/{call}", json=VALID[call], headers=shown)
        assert "limited to the app shop" in failed(refused, 403, f"{prefix}/{call}")
        body = {**VALID[call], "app_id": "shop"}
        assert api.client.post(f"{prefix}/{call}", json=body, headers=shown).status_code in (200, 404)


@pytest.mark.requirement("versions.both")
def test_what_is_written_under_one_version_is_read_under_the_other(api: Api) -> None:
    body = {"session_id": "s", "messages": [said(CLIMBING)]}
    enveloped(api.client.post(f"{ALIAS}/add", json=body))
    assert enveloped(api.client.post(f"{PREFIX}/flush", json={"session_id": "s"})) == {"status": "extracted"}
    asked = {"user_id": "alice", "memory_type": "episode"}
    listed = [enveloped(api.client.post(f"{prefix}/get", json=asked)) for prefix in (PREFIX, ALIAS)]
    assert listed[0] == listed[1]
    assert listed[0]["total_count"] == 1


@pytest.mark.requirement("errors.422", "errors.message", "errors.first", "errors.code")
@pytest.mark.parametrize(
    ("call", "body", "message"),
    [
        ("add", {"session_id": "s"}, "Field required: messages"),
        ("add", {}, "Field required: session_id"),
        ("add", {"session_id": "s", "messages": [{}]}, "Field required: messages.0.sender_id"),
        ("add", {"session_id": "", "messages": 5}, "String should have at least 1 character: session_id"),
        (
            "add",
            {"session_id": "s", "messages": []},
            "List should have at least 1 item after validation, not 0: messages",
        ),
        ("flush", {}, "Field required: session_id"),
        ("search", {"query": "x"}, "Value error, exactly one of user_id / agent_id must be provided"),
        (
            "search",
            {"query": "x", "user_id": "a", "agent_id": "b"},
            "Value error, exactly one of user_id / agent_id must be provided",
        ),
        ("search", {"user_id": "a"}, "Field required: query"),
        ("search", {"user_id": "a", "query": "x", "top_k": 0}, "Value error, top_k must be -1 or in 1..100"),
        ("search", {"user_id": "a", "query": "x", "zzz": 1}, "Extra inputs are not permitted: zzz"),
        ("search", {"user_id": "a", "query": "x", "radius": 1.5}, "Input should be less than or equal to 1: radius"),
        ("get", {"user_id": "a"}, "Field required: memory_type"),
        (
            "get",
            {"user_id": "a", "memory_type": "agent_case"},
            "Value error, memory_type 'agent_case' is not valid when user_id is set",
        ),
        ("get", {"memory_type": "episode"}, "Value error, exactly one of user_id / agent_id must be provided"),
        (
            "get",
            {"user_id": "a", "memory_type": "x"},
            "Input should be 'episode', 'profile', 'agent_case', 'agent_skill' or 'atomic_fact': memory_type",
        ),
        (
            "delete",
            {},
            "Value error, exactly one of id / session_id / user_id / agent_id / all must be provided",
        ),
        ("update", {}, "Value error, exactly one of id / user_id must be provided"),
        ("update", {"user_id": "a"}, "Value error, user_id and profile_data go together"),
    ],
)
def test_the_first_thing_that_is_wrong_is_told_with_its_place(bare: Api, call: str, body: Any, message: str) -> None:
    assert bare.refused(call, body) == message


@pytest.mark.requirement("errors.422", "http.json", "errors.never-500")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", NO_BODY),
        (b"not json", "JSON decode error: Expecting value at line 1, column 1"),
        (
            b"{",
            "JSON decode error: Expecting property name enclosed in double quotes at line 1, column 2",
        ),
        (b'{\n  "session_id": "s",\n "messages": [', "JSON decode error: Expecting value at line 3, column 15"),
        (b"\xff\xfe", "JSON decode error: byte 1 is not UTF-8"),
        (b'{"session_id": NaN}', "JSON decode error: NaN is not a number in JSON"),
        (b'{"session_id": -Infinity}', "JSON decode error: -Infinity is not a number in JSON"),
        (b'{"page": ' + b"9" * 5000 + b"}", "JSON decode error: a number has too many digits"),
        (
            b"{'session_id': 1}",
            "JSON decode error: Expecting property name enclosed in double quotes at line 1, column 2",
        ),
        (b"[]", "Input should be a valid dictionary or object to extract fields from"),
        (b"null", "Input should be a valid dictionary or object to extract fields from"),
        (b"5", "Input should be a valid dictionary or object to extract fields from"),
        (b'"add"', "Input should be a valid dictionary or object to extract fields from"),
        (b"true", "Input should be a valid dictionary or object to extract fields from"),
    ],
)
def test_a_body_that_is_no_object_is_told_so(bare: Api, body: bytes, message: str) -> None:
    for call in CALLS:
        assert bare.refused(call, body) == message


@pytest.mark.requirement("http.json")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", "", None]
)
def test_another_content_type_or_none_is_refused_with_what_to_send(bare: Api, kind: str | None) -> None:
    for call in CALLS:
        headers = {} if kind is None else {"Content-Type": kind}
        answer = bare.client.post(f"{PREFIX}/{call}", content=json.dumps(VALID[call]), headers=headers)
        assert "curl: -H 'Content-Type: application/json'" in failed(answer, 415)


@pytest.mark.requirement("http.json")
@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json", " application/json "]
)
def test_the_content_type_may_be_written_as_http_allows(bare: Api, kind: str) -> None:
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


@pytest.mark.requirement("errors.timestamp")
def test_a_failure_says_when_in_utc_by_default(api: Api) -> None:
    assert api.post("add", {}).json()["error"]["timestamp"].endswith("+00:00")


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
    routes = rest.Door(conversations, Jobs(conversations), ZoneInfo("UTC")).make_routes()
    return TestClient(RequestTracer(Starlette(routes=routes)))


@pytest.mark.requirement("errors.500", "errors.code", "errors.logs")
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


@pytest.mark.requirement("errors.unavailable", "errors.code")
@calls
def test_a_memory_that_cannot_be_opened_is_a_503_that_names_no_folder(call: str) -> None:
    missing = Unavailable("/home/secret/.cofio cannot be made")
    with door(missing) as client:
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
    assert answer.json() == {
        "status": "ok",
        "version": __version__,
        "capabilities": {"llm": False, "embed": True, "rerank": False, "multimodal_llm": False, "parser": True},
        "disabled_features": ["reflection", "multimodal_upload"],
        "cascade": {
            "healthy": True, "reasons": [], "pending": 0, "failed_permanent": 0, "failed_retryable": 0,
            "drain_consecutive_failures": 0, "unrecoverable_total": 0, "optimize_failure_streak": 0,
            "prune_stale_seconds": 0.0, "index_rows": {}, "index_emptied": False,
        },
        "memorize_queue": {
            "healthy": True, "reasons": [], "loop_alive": True, "accepting": True, "pending": 0,
            "oldest_pending_age_s": None, "failed": 0, "loop_restarts": 0, "last_loop_error_at": None,
        },
    }  # fmt: skip


@pytest.mark.requirement("probes.health")
def test_health_says_what_a_server_without_vectors_cannot_do(stores: Stores) -> None:
    with serving(stores.new()) as (api, _):
        health = api.client.get("/health").json()
    assert health["capabilities"]["embed"] is False
    assert health["disabled_features"] == ["vector_search", "reflection", "multimodal_upload"]


@pytest.mark.requirement("machinery.trigger")
def test_a_strategy_that_is_to_be_triggered_is_answered_so_that_a_client_goes_on(bare: Api) -> None:
    for version in ("v1", "v2"):
        answer = bare.client.post(f"/api/{version}/ome/trigger", json={"name": "reflect_episodes", "force": True})
        told = {"status": "not_dispatched", "name": "reflect_episodes", "dispatched": 0, "runs": []}
        assert (answer.status_code, answer.json()) == (200, told)  # without an envelope, as it always was
        assert failed(bare.client.post(f"/api/{version}/ome/trigger", json={}), 422) == "Field required: name"


@pytest.mark.requirement("machinery.quiesce")
def test_there_is_never_anything_to_wait_for(api: Api) -> None:
    api.told(CLIMBING)
    for version in ("v1", "v2"):
        answer = api.client.post(f"/api/{version}/cascade/quiesce")
        told = {"quiesced": True, "drained": 0, "pending_before": 0, "pending_after": 0, "failed_permanent": 0}
        assert (answer.status_code, answer.json()) == (200, told)


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
def test_the_description_can_be_turned_off_and_says_how_to_turn_it_on(api: Api, stores: Stores) -> None:
    for path in ("/openapi.json", "/docs", "/redoc"):
        assert "COFIO_DOCS=true" in failed(api.client.get(path), 404, path)
    with serving(stores.new(), docs=True) as (other, _):
        described = other.client.get("/openapi.json").json()
        assert described["openapi"].startswith("3.")
        assert {f"{PREFIX}/{call}" for call in CALLS} < set(described["paths"])
        for page in ("/docs", "/redoc"):
            shown = other.client.get(page)
            assert shown.headers["content-type"].startswith("text/html")
            links = re.findall(r"(?:\b(?:href|src)=|\burl\(|@import )[\"']?([^\"'> )]+)", shown.text)
            assert {link for link in links if not link.startswith("#")} == {"/openapi.json"}  # nothing from elsewhere
            policy = shown.headers["content-security-policy"]
            style = re.search(r"<style>(.*?)</style>", shown.text, re.DOTALL)
            assert style is not None
            digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
            assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
            for call in CALLS:
                assert f"<code>{PREFIX}/{call}</code>" in shown.text
            for door in ("/mcp", "/api/v1/memory-tool", "/threads/"):
                assert f"<code>{door}</code>" in shown.text


@pytest.mark.requirement("docs.whole")
def test_the_description_names_every_field_of_the_page(stores: Stores) -> None:
    with serving(stores.new(), docs=True) as (other, _):
        schemas = other.client.get("/openapi.json").json()["components"]["schemas"]
    assert {"session_id", "app_id", "project_id", "messages"} <= set(schemas["AddRequest"]["properties"])
    for name, item in {
        "MessageItem": "sender_id sender_name role timestamp content tool_calls tool_call_id",
        "ContentItem": "type text uri base64 ext name extras",
        "ToolCall": "id type function",
        "ToolFunction": "name arguments",
        "SearchRequest": "user_id agent_id app_id project_id query method top_k radius min_score include_profile "
        "enable_llm_rerank filters",
        "GetRequest": "user_id agent_id app_id project_id memory_type page page_size sort_by sort_order filters",
        "SearchData": "episodes profiles agent_cases agent_skills unprocessed_messages",
        "GetData": "episodes profiles agent_cases agent_skills total_count count",
    }.items():
        assert set(item.split()) <= set(schemas[name]["properties"]), name


@pytest.mark.requirement("server.sigterm", "errors.envelope")
def test_a_call_that_outlasts_the_server_is_told_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        begun.set()
        over.wait(60)

    monkeypatch.setattr(api.door, "_reply", hold)
    route = next(route for route in api.door.make_routes() if route.path == f"{PREFIX}/search")
    sent: list[Json] = []

    async def receive() -> Json:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def stop() -> None:
        scope = {
            "type": "http", "method": "POST", "path": route.path, "state": {"request_id": "0" * 32},
            "headers": [(b"content-type", b"application/json")],
        }  # fmt: skip
        answering = asyncio.ensure_future(route.app(scope, receive, send))
        await asyncio.to_thread(begun.wait, 60)
        answering.cancel()  # as uvicorn does when the time is up
        await answering
        over.set()

    asyncio.run(stop())
    assert sent[0]["status"] == 503
    assert "was stopped before this was finished" in json.loads(sent[1]["body"])["error"]["message"]
