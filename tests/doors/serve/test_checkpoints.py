"""Checkpoints over HTTP: the wire format, the ids in its paths, its limits, and who may do what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.doors import threads
from cofio.http.tokens import Tokens
from cofio.values.errors import Unavailable

from ..application import make_app

STATE = {"run_id": "r", "messages": [{"role": "user", "content": "héllo"}], "iteration": 3}
HOSTILE = ("a/b", "..", "a b", "%2F", "line\nbreak", "日本語", "a?b#c", "checkpoints", "a/checkpoints/b", "//", "+")


class Client:
    """A client of the door."""

    def __init__(self, client: TestClient, engine: Engine, tokens: Tokens) -> None:
        self.client = client
        self.engine = engine
        self.tokens = tokens

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Response:
        """The answer to a request: bytes are sent as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        typed = {"Content-Type": "application/json"} | {name.replace("_", "-"): at for name, at in headers.items()}
        return self.client.request(method, path, content=content, headers=typed)

    def save(self, thread: str, body: object, **headers: str) -> Response:
        """The answer to a checkpoint."""
        return self.ask("POST", path(thread), body, **headers)


@pytest.fixture
def client(memory: Engine, tmp_path: Path) -> Iterator[Client]:
    """A client of the whole application."""
    tokens = Tokens(memory.shared_values or tmp_path)
    application = make_app(StoreAddress(folder=tmp_path), memory)
    with TestClient(application, base_url="http://localhost", follow_redirects=False) as asking:
        yield Client(asking, memory, tokens)


def path(thread: str, name: str | None = None) -> str:
    """The address of a thread's checkpoints, or of one."""
    whole = f"/threads/{encoded(thread)}/checkpoints"
    return whole if name is None else f"{whole}/{encoded(name)}"


def encoded(id: str) -> str:
    """Every byte percent-encoded: no client changes that."""
    return "".join(f"%{byte:02X}" for byte in id.encode())


def failed(answer: Response, status: int) -> str:
    """The message of a failure."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"request_id", "error"}
    assert set(body["error"]) == {"code", "message", "timestamp", "path"}
    return str(body["error"]["message"])


def test_a_checkpoint_is_saved_listed_loaded_and_forgotten(client: Client) -> None:
    sent = {"checkpoint_id": "c1", "thread_id": "t", "created_at": "2020-01-01T00:00:00+00:00", "state": STATE}
    answer = client.save("t", {**sent, "metadata": {"step": 1}})
    assert (answer.status_code, answer.json()) == (201, {"checkpoint_id": "c1"})
    assert answer.headers["content-type"] == "application/json"
    assert client.save("t", {"checkpoint_id": "c2", "state": {}, "unknown": 1}).json() == {"checkpoint_id": "c2"}
    listed = client.ask("GET", path("t")).json()
    assert [{**each, "created_at": ""} for each in listed["checkpoints"]] == [
        {"checkpoint_id": "c2", "created_at": "", "metadata": {}},
        {"checkpoint_id": "c1", "created_at": "", "metadata": {"step": 1}},
    ]
    found = client.ask("GET", path("t", "c1")).json()
    # The server's time, and not what the client said: others rely on it to find what is old.
    assert datetime.fromisoformat(found.pop("created_at")).year == 2026
    assert found == {"checkpoint_id": "c1", "thread_id": "t", "state": STATE, "metadata": {"step": 1}}
    assert client.ask("DELETE", path("t", "c2")).json() == {"deleted": 1}
    failed(client.ask("DELETE", path("t", "c2")), 404)
    client.save("t", {"state": STATE})
    assert client.ask("DELETE", path("t")).json() == {"deleted": 2}
    failed(client.ask("DELETE", path("t")), 404)
    failed(client.ask("GET", path("t", "c1")), 404)
    assert client.ask("GET", path("t")).json() == {"checkpoints": []}


def test_without_an_id_one_is_made(client: Client) -> None:
    for given in ({}, {"checkpoint_id": None, "metadata": None}, {"checkpoint_id": ""}):
        body: dict[str, Any] = {"state": STATE, **given}
        made = client.save("t", body).json()["checkpoint_id"]
        assert len(made) == 32
        assert client.ask("GET", path("t", made)).json()["state"] == STATE


def test_the_library_s_own_checkpointer_sees_the_same(client: Client) -> None:
    client.save("t", {"checkpoint_id": "c", "state": STATE, "metadata": {"a": 1}})
    found = client.engine.checkpoints.load("library", "t")
    assert found is not None
    assert (found.id, found.state, found.metadata) == ("c", STATE, {"a": 1})
    client.engine.checkpoints.save("langgraph", "other", "c", {})
    assert client.ask("GET", path("other")).json() == {"checkpoints": []}


def test_ids_are_what_the_path_says_percent_encoded(client: Client) -> None:
    for thread, name in [pair for each in HOSTILE for pair in ((each, "c"), ("t", each), (each, each))]:
        client.save(thread, {"checkpoint_id": name, "state": {"at": [thread, name]}})
        assert client.ask("GET", path(thread, name)).json()["state"] == {"at": [thread, name]}
        assert client.ask("GET", path(thread)).json()["checkpoints"][0]["checkpoint_id"] == name
        assert client.ask("DELETE", path(thread, name)).json() == {"deleted": 1}


def test_other_addresses_lead_nowhere_and_other_methods_are_refused(client: Client) -> None:
    for address in (
        "/threads/", "/threads/t", "/threads/t/checkpoints/", "/threads//checkpoints", "/threads/t/other",
        "/threads/t/checkpoints/c/d", "/threads/t/Checkpoints", path(""), path("a\0b"), path("x" * 1025),
    ):  # fmt: skip
        for method in ("GET", "POST", "DELETE"):
            answer = client.ask(method, address, {"state": STATE} if method == "POST" else None)
            assert answer.status_code in (404, 405, 422), answer.text
            failed(answer, answer.status_code)
    assert client.engine.checkpoints.threads("library") == []
    assert "UTF-8" in failed(client.ask("GET", "/threads/%FF/checkpoints"), 400)
    for method in ("PUT", "PATCH", "OPTIONS"):
        answer = client.ask(method, path("t"))
        failed(answer, 405)
        assert answer.headers["allow"] == "GET, POST, DELETE"
    answer = client.ask("POST", path("t", "c"), {"state": STATE})
    failed(answer, 405)
    assert answer.headers["allow"] == "GET, DELETE"
    assert client.ask("HEAD", path("t")).status_code == 200


def test_what_is_no_checkpoint_is_refused_and_nothing_is_kept(client: Client) -> None:
    refused: list[tuple[object, str]] = [
        (b"", "body: is not JSON"), (b"\xff", "body: is not JSON"), (b"[1]", "body: expected an object, got list"),
        (b'{"state": NaN}', "body: is not JSON"),
        (b'{"state":' + b"[" * 100_000, "body: is nested deeper than 1000 levels"),
        (b'{"state": {"n": ' + b"9" * 5000 + b"}}", "body: is not JSON"),
        ({}, "state: expected an object"), ({"state": [1]}, "state: expected an object"),
        ({"state": {}, "metadata": [1]}, "metadata: expected a dict"), ({"state": {}, "checkpoint_id": "a\0"}, "NUL"),
        ({"state": {}, "checkpoint_id": 7}, "id: expected"), ({"state": {}, "checkpoint_id": "\ud800"}, "id: "),
        ({"state": {}, "checkpoint_id": "x" * 1025}, "id: longer"),
        ({"state": {}, "thread_id": "other"}, "thread_id: is not the thread of the address"),
        (b'{"state":{"a":[' + b"[]," * 400_000, "has more than 1,000,000 values"),  # before it is parsed
    ]  # fmt: skip
    for body, problem in refused:
        assert problem in failed(client.save("t", body), 422)
    for kind in ("text/plain", ""):
        assert "`Content-Type: application/json`" in failed(client.save("t", {"state": STATE}, Content_Type=kind), 415)
    assert client.engine.checkpoints.threads("library") == []
    assert client.save("t", {"state": STATE}, Content_Type="application/json; charset=utf-8").status_code == 201


def test_a_limit_is_how_many_are_listed(client: Client) -> None:
    for number in range(12):
        client.save("t", {"checkpoint_id": f"{number}", "state": STATE})
    for query, count in {"": 10, "?limit=3": 3, "?limit=0": 0, "?limit=100": 12, "?limit=10000": 12}.items():
        assert len(client.ask("GET", path("t") + query).json()["checkpoints"]) == count
    for query in (
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=1.5",
        "limit=1&limit=2",
        "offset=1",
        "limit=" + "9" * 50,
        "%ff",
    ):
        failed(client.ask("GET", f"{path('t')}?{query}"), 422)
    assert "from 0 to 10,000" in failed(client.ask("GET", f"{path('t')}?limit=10001"), 422)


def test_half_of_a_surrogate_pair_comes_back_in_an_answer_that_is_utf_8(client: Client) -> None:
    state = {"half": "\ud83d", "whole": "🦓", "\udc00": 1}
    answer = client.save("t", b'{"checkpoint_id": "c", "state": ' + json.dumps(state).encode() + b"}")
    assert answer.status_code == 201
    content = client.ask("GET", path("t", "c")).content
    assert json.loads(content.decode("utf-8"))["state"] == state
    client.save("t", {"checkpoint_id": "é", "state": STATE})
    assert client.ask("GET", path("t", "é")).content.isascii()


@pytest.mark.parametrize("depth", [50, 480, 990, 5000])
def test_a_state_that_is_nested_deep_is_kept_or_refused(client: Client, depth: int) -> None:
    answer = client.ask("POST", path("t"), b'{"checkpoint_id":"c","state":{"x":' + b"[" * depth + b"]" * depth + b"}}")
    assert answer.status_code in (201, 422), answer.text
    found = client.ask("GET", path("t", "c")).status_code
    assert found in ((200, 422) if answer.status_code == 201 else (404,))


def test_a_body_that_is_too_long_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_BODY", 1000)
    client.save("t", {"state": {"x": "y" * 900}})
    assert "1,000 bytes" in failed(client.save("t", {"state": {"x": "y" * 1000}}), 413)
    assert len(client.engine.checkpoints.list("library", "t")) == 1


def test_from_the_first_token_on_one_is_needed(client: Client) -> None:
    client.tokens.add("someone")
    for method in ("GET", "POST", "DELETE"):
        failed(client.ask(method, path("t")), 401)
    assert "evil" in failed(client.ask("GET", path("t"), host="evil.example"), 421)
    failed(client.ask("GET", path("t"), origin="http://evil.example"), 403)


def test_a_token_for_reading_reads_and_changes_nothing(client: Client) -> None:
    client.save("t", {"checkpoint_id": "c", "state": STATE})
    reading = {"authorization": f"Bearer {client.tokens.add('reader', access='read')}"}
    assert client.ask("GET", path("t", "c"), **reading).json()["state"] == STATE
    assert len(client.ask("GET", path("t"), **reading).json()["checkpoints"]) == 1
    for answer in (
        client.save("t", {"state": STATE}, **reading),
        client.ask("DELETE", path("t"), **reading),
        client.ask("DELETE", path("t", "c"), **reading),
    ):
        assert failed(answer, 403) == "this token is limited to reading; it may not change anything"
    assert len(client.engine.checkpoints.list("library", "t")) == 1


@pytest.mark.parametrize("limits", [{"app": "shop"}, {"app": "shop", "project": "web", "access": "read"}])
def test_a_token_for_an_app_reaches_no_checkpoints(client: Client, limits: dict[str, Any]) -> None:
    client.save("t", {"checkpoint_id": "c", "state": STATE})
    shown = {"authorization": f"Bearer {client.tokens.add('shop', **limits)}"}
    for method, address in (("GET", path("t")), ("GET", path("t", "c")), ("POST", path("t")), ("DELETE", path("t"))):
        assert "checkpoints belong to no app" in failed(client.ask(method, address, {"state": {}}, **shown), 403)
    assert len(client.engine.checkpoints.list("library", "t")) == 1
    whole = {"authorization": f"Bearer {client.tokens.add('me')}"}
    assert client.ask("DELETE", path("t"), **whole).json() == {"deleted": 1}


def test_requests_are_counted_together_and_no_id_is_told(client: Client) -> None:
    client.save("secret-thread", {"checkpoint_id": "secret-id", "state": STATE})
    client.ask("GET", path("secret-thread", "secret-id"))
    told = client.client.get("/metrics").text
    assert 'cofio_http_requests_total{method="POST",path="/threads/",status="201"} 1.0' in told
    assert 'cofio_http_requests_total{method="GET",path="/threads/",status="200"} 1.0' in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("error", "status", "logged"),
    [
        (Unavailable("/home/alice is full"), 503, "/home/alice is full"), (KeyError("secret"), 500, "KeyError"),
        (RecursionError(), 422, None),
    ],
)  # fmt: skip
def test_what_fails_inside_is_told_without_what_it_was_about_and_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    error: Exception, status: int, logged: str | None,
) -> None:  # fmt: skip
    def fail(*_: object, **__: object) -> None:
        raise error

    for verb in ("save", "load"):
        monkeypatch.setattr(client.engine.checkpoints, verb, fail)
    for _ in range(20 if status == 503 else 1):
        message = failed(client.save("t", {"state": STATE}), status)
        assert failed(client.ask("GET", path("t", "c")), status) == message
        assert "alice" not in message
        assert "secret" not in message
    assert "secret" not in caplog.text
    assert len(caplog.records) == {503: 1, 500: 2, 422: 0}[status]  # a full disk once, however often it fails
    assert logged is None or logged in caplog.text


def test_a_state_of_many_values_is_kept(client: Client) -> None:
    vectors = [[n / 7] * 1000 for n in range(300)]
    assert client.save("t", {"checkpoint_id": "c", "state": {"vectors": vectors}}).status_code == 201
    assert client.ask("GET", path("t", "c")).json()["state"] == {"vectors": vectors}
