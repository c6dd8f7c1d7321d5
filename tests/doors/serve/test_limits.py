"""Tokens that are limited: what they are good for, how they are kept, and how the guard holds them to it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from cofio.http.tokens import FILE, Access, Token, Tokens
from cofio.http.tracing import RequestTracer
from cofio.server.guard import Guard
from cofio.values.errors import CofioError, Invalid, LimitExceeded, Unavailable

NOW = datetime(2026, 7, 30, 23, 5, 9, 999_999, tzinfo=UTC)


def token(**limits: Any) -> Token:
    """Return a token as it might be kept."""
    return Token(name="t", made="2026-07-30T00:00:00+00:00", hash="0" * 64, **limits)


# What a token is good for.


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, None),
        ({"app": "shop"}, "the app shop"),
        ({"access": "read"}, "reading"),
        ({"app": "shop", "access": "read"}, "reading in the app shop"),
        ({"app": "shop", "project": "web", "access": "read"}, "reading in the project web of the app shop"),
    ],
)
def test_a_refusal_says_what_the_token_is_limited_to(limits: dict[str, Any], words: str | None) -> None:
    limited = token(**limits)
    assert limited.limits == words
    assert limited.find_refusal(app="shop", project="web", writes=False) is None
    beyond = [
        limited.find_refusal(app=app, project=project, writes=writes)
        for app in ("shop", "x" * 100_000, "\ud800") for project in ("web", "other") for writes in (True, False)
    ]  # fmt: skip
    said = [sentence for sentence in beyond if sentence]
    assert bool(said) == bool(limits)
    assert all(sentence.startswith(f"this token is limited to {words}; it may not ") for sentence in said)
    assert all(len(sentence.encode()) < 200 for sentence in said)  # which repeats no name of the caller's


NAMES = st.sampled_from(["shop", "Shop", "shop.", "web", "default"])


@given(NAMES | st.none(), NAMES | st.none(), st.sampled_from(get_args(Access)), NAMES, NAMES, st.booleans())
def test_a_call_is_allowed_only_when_every_limit_holds(
    of: str | None, within: str | None, access: Access, app: str, project: str, writes: bool
) -> None:
    within = within if of else None
    allowed = of in (None, app) and within in (None, project) and (access == "all" or not writes)
    refusal = token(app=of, project=within, access=access).find_refusal(app=app, project=project, writes=writes)
    assert (refusal is None) == allowed


# How tokens are kept.


def test_limits_are_kept_with_the_token_and_a_file_of_before_there_were_any_is_read(tmp_path: Path) -> None:
    shown = Tokens(tmp_path).add("old")
    kept = json.loads((tmp_path / FILE).read_text())
    before = [{name: each[name] for name in ("name", "made", "hash")} for each in kept]
    odd = {**before[0], "name": "odd", "hash": "é"}  # which no token has
    (tmp_path / FILE).write_text(json.dumps([odd, *before]))
    found = Tokens(tmp_path).find(shown)
    assert found is not None
    assert (found.name, found.app, found.project, found.access, found.limits) == ("old", None, None, "all", None)
    for name in ("a", "-", "...", "A_z.0@b+c-d", "a" * 128):
        found = Tokens(tmp_path).find(Tokens(tmp_path).add(f"of {name[:9]}", app=name, project=name, access="read"))
        assert found is not None
        assert (found.app, found.project, found.access) == (name, name, "read")
    assert len(Tokens(tmp_path).all()) == 7


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        *(({"app": name}, "app") for name in ("", "..", "a b", "../a", "a\n", "a\0", "é", "٣", "a:b", "\ud800")),
        ({"app": "a" * 129}, "app"), ({"app": "shop", "project": "a" * 129}, "project"), ({"app": 5}, "app"),
        ({"app": "shop", "project": "a/b"}, "project"), ({"app": "shop", "project": b"web"}, "project"),
        ({"project": "web"}, "project"), ({"access": "write"}, "access"), ({"access": None}, "access"),
    ],
)  # fmt: skip
def test_limits_that_mean_nothing_are_refused(tmp_path: Path, limits: dict[str, Any], field: str) -> None:
    tokens = Tokens(tmp_path)
    with pytest.raises(Invalid) as refused:
        tokens.add("t", **limits)
    assert refused.value.field == field
    assert isinstance(refused.value, LimitExceeded) == ("a" * 129 in limits.values())
    assert not (tmp_path / FILE).exists()
    assert not tokens.are_required


@pytest.mark.parametrize(
    "damage",
    [
        {"access": "write"}, {"access": None}, {"app": "a b"}, {"app": ["shop"]}, {"project": "web"}, {"name": ""},
        {"made": None}, {"hash": 5}, {"hash": ""}, {"hash": "\ud800"}, {"until": 5},
    ],
)  # fmt: skip
def test_a_file_whose_limits_are_not_understood_is_damaged(tmp_path: Path, damage: dict[str, Any]) -> None:
    shown = Tokens(tmp_path).add("t")
    (kept,) = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps([kept | damage]))
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(Unavailable, match=re.escape(FILE)):
        Tokens(tmp_path).find(shown)
    with pytest.raises(CofioError):
        Tokens(tmp_path).add("another")
    assert (tmp_path / FILE).read_bytes() == before


# How the guard holds them to it.


async def probe(request: Request) -> JSONResponse:
    """Answer with the token that the door is given."""
    given = request.scope["state"]["token"]
    return JSONResponse({"token": given and given.name, "limits": given and given.limits})


PROBED = ("/api/v1/memory/{verb:path}", "/elsewhere", "/health")


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    """The tokens of a store that has none yet."""
    return Tokens(tmp_path)


@pytest.fixture
def client(tokens: Tokens) -> TestClient:
    """A client of guarded doors that say whose token they are given."""
    routes = [Route(path, probe, methods=["GET", "POST"]) for path in PROBED]
    guard = Guard(Starlette(routes=routes), hosts={"localhost"}, tokens=tokens, strict=False)
    return TestClient(RequestTracer(guard), base_url="http://localhost")


def bearer(shown: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {shown}"}


def test_the_doors_are_given_the_token_that_was_shown_for_as_long_as_there_is_one(
    client: TestClient, tokens: Tokens
) -> None:
    assert client.post("/api/v1/memory/add").json() == {"token": None, "limits": None}
    assert client.post("/api/v1/memory/add", headers=bearer("unknown")).json()["token"] is None  # none is needed yet
    shown = {"laptop": tokens.add("laptop"), "dashboard": tokens.add("dashboard", app="shop", access="read")}
    for name, each in shown.items():
        for path in ("/api/v1/memory/add", "/api/v1/memory/"):
            assert client.post(path, headers=bearer(each)).json()["token"] == name
    assert client.get("/elsewhere", headers=bearer(shown["laptop"])).json()["token"] == "laptop"
    for headers in ({}, bearer("unknown")):
        assert client.post("/api/v1/memory/add", headers=headers).status_code == 401
    tokens.remove("dashboard")
    assert client.post("/api/v1/memory/add", headers=bearer(shown["dashboard"])).status_code == 401
    unlimited = bearer(tokens.add("dashboard"))
    assert client.get("/elsewhere", headers=unlimited).json()["token"] == "dashboard"


@pytest.mark.parametrize("limits", [{"app": "shop", "project": "web"}, {"access": "read"}])
def test_a_token_that_is_limited_in_any_way_opens_one_door(
    client: TestClient, tokens: Tokens, limits: dict[str, Any]
) -> None:
    limited, whole = bearer(tokens.add("limited", **limits)), bearer(tokens.add("whole"))
    for path in (
        "/", "/mcp", "/metrics", "/docs", "/openapi.json", "/api/v1/memory-tool", "/api/v1/memory", "/elsewhere",
        "/api/v1/memoryx/add", "/api/v3/memory/add", "/api/v2/memory", "//api/v1/memory/add", "/Api/v1/memory/add",
        "/health/",
    ):  # fmt: skip
        for method in ("GET", "POST", "OPTIONS"):
            answer = client.request(method, path, headers=limited, follow_redirects=False)
            assert answer.status_code == 403, (method, path)
            assert set(answer.json()) - {"request_id"} == {"error"}
            assert str(token(**limits).limits) in str(answer.json()["error"])
            assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
            assert client.request(method, path, headers=whole, follow_redirects=False).status_code != 403, path
    assert client.post("/api/v1/memory/add", headers=limited).json()["token"] == "limited"
    assert client.get("/health", headers=limited).json()["token"] is None  # none is needed there


@pytest.mark.parametrize(
    ("status", "code", "headers"),
    [
        (421, "HTTP_ERROR", {"Host": "evil.example"}),
        (403, "HTTP_ERROR", {"Origin": "http://evil.example"}),
        (401, "HTTP_ERROR", {"Authorization": "Bearer unknown"}),
        (503, "SYSTEM_ERROR", {}),
    ],
)
def test_refusals_under_the_rest_door_are_in_its_envelope(
    tokens: Tokens, tmp_path: Path, status: int, code: str, headers: dict[str, str]
) -> None:
    tokens.add("t")
    if status == 503:
        (tmp_path / FILE).write_text("{}")
    zone = timezone(timedelta(hours=-3, minutes=-30))
    guard = Guard(Starlette(), hosts={"localhost"}, tokens=tokens, strict=False, zone=zone, clock=lambda: NOW)
    client = TestClient(RequestTracer(guard), base_url="http://localhost")
    answer = client.post("/api/v1/memory/caf%C3%A9", headers=headers)
    plain = client.post("/mcp", headers=headers)
    assert answer.status_code == plain.status_code == status
    assert answer.json() == {
        "request_id": answer.headers["x-request-id"],
        "error": {
            "code": code, "message": plain.json()["error"], "timestamp": "2026-07-30T19:35:09-03:30",
            "path": "/api/v1/memory/café",
        },
    }  # fmt: skip
    assert (status == 401) == ("www-authenticate" in answer.headers) == ("www-authenticate" in plain.headers)
    assert answer.headers["x-request-id"] != plain.headers["x-request-id"]


def test_requests_at_once_do_not_see_each_others_tokens_nor_what_others_left(tokens: Tokens) -> None:
    shown = {f"t{n}": tokens.add(f"t{n}", app=f"app{n}") for n in range(20)}
    # What a server hands to each request if it makes no copy.
    shared: dict[str, Any] = {"kept": "by the lifespan", "token": "left by someone"}
    given: dict[str, Any] = {}

    def make_scope(path: str, name: str) -> dict[str, Any]:
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {name}".encode())]
        return {"type": "http", "method": "POST", "path": path, "headers": headers, "state": shared}

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def main() -> None:
        everyone = anyio.Event()

        async def door(scope: Scope, receive: Receive, send: Send) -> None:
            state = scope["state"]
            given[scope["path"].rsplit("/", 1)[1]] = (state["token"] and state["token"].name, state.get("kept"))
            state["kept"] = "left by a door"
            if len(given) == len(shown):
                everyone.set()
            with anyio.fail_after(60):
                await everyone.wait()

        guard = RequestTracer(Guard(door, hosts={"localhost"}, tokens=tokens, strict=False))
        async with anyio.create_task_group() as tasks:
            for name, each in shown.items():
                tasks.start_soon(guard, make_scope(f"/api/v1/memory/{name}", each), receive, send)
        await guard(make_scope("/health", "unknown"), receive, send)
        stateless = make_scope("/health", "unknown")
        del stateless["state"]
        await guard(stateless, receive, send)

    anyio.run(main)
    assert given == {**{name: (name, "by the lifespan") for name in shown}, "health": (None, None)}
    assert shared == {"kept": "by the lifespan", "token": "left by someone"}
