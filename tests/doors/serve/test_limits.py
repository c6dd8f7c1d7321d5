"""Tokens that are limited: what they are good for, how they are kept, and how the guard holds them to it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cofio import Settings
from cofio.config.address import StoreAddress
from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp.http import Handlers, make_server
from cofio.doors.mcp.surface import Surface
from cofio.doors.web.server import Guard, make_app
from cofio.doors.web.tokens import FILE, Access, Token, Tokens
from cofio.doors.web.tracing import RequestTracer
from cofio.values.errors import CofioError, Invalid, LimitExceeded, Unavailable

NOW = datetime(2026, 7, 30, 23, 5, 9, 999_999, tzinfo=UTC)
BAD = [
    "", " ", ".", "..", "a b", "a/b", "../a", "a\n", "\na", "a\0", "é", "日本", "٣", "a*", "a:b", "'; --", "\ud800",
    "a" * 129,
]  # fmt: skip
GOOD = ["a", "-", "...", ".a", "A_z.0@b+c-d", "default", "a" * 128]


def token(**limits: Any) -> Token:
    """A token as it might be kept."""
    return Token(name="t", made="2026-07-30T00:00:00+00:00", hash="0" * 64, **limits)


# What a token is good for.


def test_a_token_without_limits_refuses_nothing() -> None:
    assert token().limits is None
    for writes in (True, False):
        assert token().find_refusal(app="shop", project="web", writes=writes) is None


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"app": "shop"}, "the app shop"),
        ({"app": "shop", "project": "web"}, "the project web of the app shop"),
        ({"access": "read"}, "reading"),
        ({"app": "shop", "access": "read"}, "reading in the app shop"),
        ({"app": "shop", "project": "web", "access": "read"}, "reading in the project web of the app shop"),
    ],
)
def test_a_refusal_says_what_the_token_is_limited_to(limits: dict[str, Any], words: str) -> None:
    limited = token(**limits)
    assert limited.limits == words
    assert limited.find_refusal(app="shop", project="web", writes=False) is None
    beyond = [
        limited.find_refusal(app=app, project=project, writes=writes)
        for app in ("shop", "other") for project in ("web", "other") for writes in (True, False)
    ]  # fmt: skip
    said = [sentence for sentence in beyond if sentence]
    assert said
    assert all(sentence.startswith(f"this token is limited to {words}; it may not ") for sentence in said)


NAMES = st.sampled_from(["shop", "Shop", "shop.", "web", "default"])


@given(NAMES | st.none(), NAMES | st.none(), st.sampled_from(get_args(Access)), NAMES, NAMES, st.booleans())
def test_a_call_is_allowed_only_when_every_limit_holds(
    of: str | None, within: str | None, access: Access, app: str, project: str, writes: bool
) -> None:
    within = within if of else None
    allowed = of in (None, app) and within in (None, project) and (access == "all" or not writes)
    refusal = token(app=of, project=within, access=access).find_refusal(app=app, project=project, writes=writes)
    assert (refusal is None) == allowed


@pytest.mark.parametrize("hostile", ["SHOP", "shop ", "shop\0", "shop/web", "", "*", "\ud800", "x" * 100_000])
def test_a_hostile_name_of_an_app_is_another_app_and_is_not_repeated(hostile: str) -> None:
    for limited in (token(app="shop"), token(app="shop", project="web")):
        refusal = limited.find_refusal(app=hostile, project="web", writes=False)
        assert refusal
        assert len(refusal) < 200
        refusal.encode()


# How tokens are kept.


def test_limits_are_kept_with_the_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    shown = {
        "all": tokens.add("all"),
        "app": tokens.add("app", app="shop"),
        "project": tokens.add("project", app="shop", project="web"),
        "read": tokens.add("read", access="read"),
        "both": tokens.add("both", app="shop", project="web", access="read"),
    }
    kept = {}
    for name, each in shown.items():
        found = Tokens(tmp_path).find(each)
        assert found is not None
        assert found.name == name
        kept[name] = (found.app, found.project, found.access)
    assert kept == {
        "all": (None, None, "all"), "app": ("shop", None, "all"), "project": ("shop", "web", "all"),
        "read": (None, None, "read"), "both": ("shop", "web", "read"),
    }  # fmt: skip
    tokens.remove("read")
    assert Tokens(tmp_path).find(shown["read"]) is None
    assert [each.limits for each in Tokens(tmp_path).all()][-1] == "reading in the project web of the app shop"


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_no_app_and_no_project_has_is_refused_and_changes_nothing(
    store: StoreAddress, tmp_path: Path, name: str
) -> None:
    tokens = Tokens(store.home)
    for field, of, within in (("app", name, None), ("project", "shop", name)):
        with pytest.raises(Invalid) as refused:
            tokens.add("t", app=of, project=within)
        assert refused.value.field == field
        assert isinstance(refused.value, LimitExceeded) == (len(name) > 128)
    assert not (tmp_path / "store").exists()
    assert not tokens.are_required


@pytest.mark.parametrize("name", GOOD)
def test_names_of_the_charset_are_taken(tmp_path: Path, name: str) -> None:
    found = Tokens(tmp_path).find(Tokens(tmp_path).add("t", app=name, project=name))
    assert found is not None
    assert (found.app, found.project) == (name, name)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"project": "web"}, "project"),
        ({"access": "write"}, "access"),
        ({"access": "READ"}, "access"),
        ({"access": ""}, "access"),
        ({"access": None}, "access"),
        ({"access": ["read"]}, "access"),
        ({"app": 5}, "app"),
        ({"app": ["shop"]}, "app"),
        ({"app": "shop", "project": b"web"}, "project"),
    ],
)
def test_limits_that_mean_nothing_are_refused(tmp_path: Path, limits: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        Tokens(tmp_path).add("t", **limits)
    assert refused.value.field == field
    assert not (tmp_path / FILE).exists()


def test_a_file_of_before_there_were_limits_is_read_as_unlimited_and_goes_on(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    shown = tokens.add("old")
    kept = json.loads((tmp_path / FILE).read_text())
    before = [{name: each[name] for name in ("name", "made", "hash")} for each in kept]
    (tmp_path / FILE).write_text(json.dumps(before, indent=1))
    found = Tokens(tmp_path).find(shown)
    assert found is not None
    assert (found.name, found.app, found.project, found.access, found.limits) == ("old", None, None, "all", None)
    Tokens(tmp_path).add("new", app="shop")
    assert [(each.name, each.limits) for each in tokens.all()] == [("old", None), ("new", "the app shop")]
    assert tokens.find(shown) == found


@pytest.mark.parametrize(
    "damage",
    [
        {"access": "write"}, {"access": None}, {"access": ["read"]}, {"access": {}}, {"access": True},
        {"app": ""}, {"app": "a b"}, {"app": 5}, {"app": ["shop"]}, {"project": "web"}, {"app": "a", "project": ".."},
        {"name": 5}, {"name": ""}, {"made": None}, {"hash": 5}, {"hash": "\ud800"}, {"acces": "read"}, {"until": 5},
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


def test_a_hash_that_is_none_matches_nothing(tmp_path: Path) -> None:
    shown = Tokens(tmp_path).add("t")
    (kept,) = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps([kept | {"name": "odd", "hash": "é"}, kept]))
    found = Tokens(tmp_path).find(shown)
    assert found is not None
    assert found.name == "t"


# How the guard holds them to it.


async def probe(request: Request) -> JSONResponse:
    """Whose token the door is given."""
    given = request.scope["state"]["token"]
    return JSONResponse({"token": given and given.name, "limits": given and given.limits})


PROBES = [Route(path, probe, methods=["GET", "POST"]) for path in ("/api/v1/memory/{verb:path}", "/elsewhere")]


@pytest.fixture
def tokens(store: StoreAddress) -> Tokens:
    """The tokens of a store that has none yet."""
    return Tokens(store.home)


@pytest.fixture
def client(store: StoreAddress, tokens: Tokens) -> Iterator[TestClient]:
    """A client of the whole application, with doors that say whose token they are given."""
    memory = Memory(
        store,
        Settings(embedder="none", sync="normal", background=False),
        say=lambda _: None,
    )
    whole = make_app(
        make_server(Handlers(Surface(memory))), routes=PROBES, hosts={"localhost"}, tokens=tokens, strict=False,
        zone=timezone(timedelta(hours=5, minutes=30)),
    )  # fmt: skip
    with closing(memory), TestClient(whole, base_url="http://localhost") as client:
        yield client


def bearer(shown: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {shown}"}


def test_the_doors_are_given_the_token_that_was_shown(client: TestClient, tokens: Tokens) -> None:
    assert client.post("/api/v1/memory/add").json() == {"token": None, "limits": None}
    assert client.post("/api/v1/memory/add", headers=bearer("unknown")).json()["token"] is None  # none is needed yet
    shown = {"laptop": tokens.add("laptop"), "dashboard": tokens.add("dashboard", app="shop", access="read")}
    for name, each in shown.items():
        for path in ("/api/v1/memory/add", "/api/v1/memory/search", "/api/v1/memory/"):
            assert client.post(path, headers=bearer(each)).json()["token"] == name
    assert client.get("/elsewhere", headers=bearer(shown["laptop"])).json()["token"] == "laptop"
    assert client.post("/api/v1/memory/add").status_code == 401
    assert client.post("/api/v1/memory/add", headers=bearer("unknown")).status_code == 401


@pytest.mark.parametrize(
    "limits", [{"app": "shop"}, {"app": "shop", "project": "web"}, {"access": "read"}, {"app": "a", "access": "read"}]
)
def test_a_token_that_is_limited_in_any_way_opens_one_door(
    client: TestClient, tokens: Tokens, limits: dict[str, Any]
) -> None:
    limited = bearer(tokens.add("limited", **limits))
    whole = bearer(tokens.add("whole"))
    for path in (
        "/", "/mcp", "/metrics", "/docs", "/openapi.json", "/api/v1/memory-tool", "/api/v1/memory", "/elsewhere",
        "/api/v1/memoryx/add", "/api/v3/memory/add", "/api/v2/memory", "//api/v1/memory/add", "/Api/v1/memory/add",
        "/health/",
    ):  # fmt: skip
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            answer = client.request(method, path, headers=limited, follow_redirects=False)
            assert answer.status_code == 403, (method, path)
            assert set(answer.json()) - {"request_id"} == {"error"}
            assert str(token(**limits).limits) in str(answer.json()["error"])
            assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
            assert client.request(method, path, headers=whole, follow_redirects=False).status_code != 403, path
    assert client.post("/api/v1/memory/add", headers=limited).json()["token"] == "limited"
    assert client.get("/health", headers=limited).json() == {"status": "ok"}


def test_limits_hold_and_end_with_the_token_from_the_next_request_on(client: TestClient, tokens: Tokens) -> None:
    limited = bearer(tokens.add("t", access="read"))
    assert client.get("/elsewhere", headers=limited).status_code == 403
    tokens.remove("t")
    assert client.get("/elsewhere", headers=limited).status_code == 401
    assert client.post("/api/v1/memory/add", headers=limited).status_code == 401
    unlimited = bearer(tokens.add("t"))
    assert client.get("/elsewhere", headers=unlimited).json()["token"] == "t"


def test_host_and_origin_are_looked_at_before_the_token(client: TestClient, tokens: Tokens) -> None:
    limited = bearer(tokens.add("t", app="shop"))
    assert client.post("/api/v1/memory/add", headers=limited | {"Host": "evil.example"}).status_code == 421
    assert client.post("/api/v1/memory/add", headers=limited | {"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("status", "code", "headers"),
    [
        (421, "HTTP_ERROR", {"Host": "evil.example"}),
        (403, "HTTP_ERROR", {"Origin": "http://evil.example"}),
        (401, "HTTP_ERROR", {}),
        (401, "HTTP_ERROR", {"Authorization": "Bearer unknown"}),
        (503, "SYSTEM_ERROR", {}),
    ],
)
def test_refusals_under_the_rest_door_are_in_its_envelope(
    tokens: Tokens, tmp_path: Path, status: int, code: str, headers: dict[str, str]
) -> None:
    tokens.add("t")
    if status == 503:
        (tmp_path / "store" / FILE).write_text("{}")
    zones = {UTC: "2026-07-30T23:05:09+00:00", timezone(timedelta(hours=-3, minutes=-30)): "2026-07-30T19:35:09-03:30"}
    seen = set()
    for zone, rendered in zones.items():
        guard = RequestTracer(
            Guard(Starlette(), hosts={"localhost"}, tokens=tokens, strict=False, zone=zone, clock=lambda: NOW)
        )
        client = TestClient(guard, base_url="http://localhost")
        for path in ("/api/v1/memory/add", "/api/v1/memory/caf%C3%A9"):
            answer = client.post(path, headers=headers)
            plain = client.post("/mcp", headers=headers)
            assert answer.status_code == plain.status_code == status
            assert answer.json() == {
                "request_id": answer.headers["x-request-id"],
                "error": {
                    "code": code, "message": plain.json()["error"], "timestamp": rendered,
                    "path": path.replace("%C3%A9", "é"),
                },
            }  # fmt: skip
            assert answer.headers.get("www-authenticate") == plain.headers.get("www-authenticate")
            assert (status == 401) == ("www-authenticate" in answer.headers)
            for each in (answer, plain):
                assert re.fullmatch(r"[0-9a-f]{32}", each.headers["x-request-id"])
                seen.add(each.headers["x-request-id"])
    assert len(seen) == 8


def test_the_application_renders_times_in_its_zone(client: TestClient, tokens: Tokens) -> None:
    tokens.add("t")
    told = client.post("/api/v1/memory/add").json()["error"]["timestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30", told)


# Requests do not see each other's tokens.


def test_requests_at_once_with_different_tokens_do_not_mix(tokens: Tokens) -> None:
    shown = {f"t{n}": tokens.add(f"t{n}", app=f"app{n}") for n in range(20)}
    shared: dict[str, Any] = {"kept": "by the lifespan"}  # what a server hands to each request if it makes no copy
    given: dict[str, Any] = {}

    async def main() -> None:
        everyone = anyio.Event()
        waiting = 0

        async def door(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal waiting
            waiting += 1
            if waiting == len(shown):
                everyone.set()
            with anyio.fail_after(60):
                await everyone.wait()
            given[scope["path"].rsplit("/", 1)[1]] = (scope["state"]["token"].name, scope["state"]["kept"])

        guard = RequestTracer(Guard(door, hosts={"localhost"}, tokens=tokens, strict=False))
        async with anyio.create_task_group() as tasks:
            for name, each in shown.items():
                tasks.start_soon(guard, asked(f"/api/v1/memory/{name}", each, shared), nothing, no_answer)

    anyio.run(main)
    assert given == {name: (name, "by the lifespan") for name in shown}
    assert shared == {"kept": "by the lifespan"}


def test_what_a_door_leaves_in_its_state_and_a_token_of_before_are_gone_for_the_next(tokens: Tokens) -> None:
    shared: dict[str, Any] = {"token": "left by someone"}
    seen: list[dict[str, Any]] = []

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append({name: value for name, value in scope["state"].items() if name != "request_id"})
        scope["state"]["left"] = True

    async def main() -> None:
        guard = RequestTracer(Guard(door, hosts={"localhost"}, tokens=tokens, strict=False))
        await guard(asked("/api/v1/memory/add", "unknown", shared), nothing, no_answer)
        await guard(asked("/health", "unknown", shared), nothing, no_answer)
        stateless = asked("/health", "unknown", shared)
        del stateless["state"]
        await guard(stateless, nothing, no_answer)

    anyio.run(main)
    assert seen == [{"token": None}] * 3
    assert shared == {"token": "left by someone"}


def asked(path: str, shown: str, state: dict[str, Any]) -> dict[str, Any]:
    """A request as a server hands it on."""
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {shown}".encode())]
    return {"type": "http", "method": "POST", "path": path, "headers": headers, "state": state}


async def nothing() -> Message:
    """No body."""
    return {"type": "http.request"}


async def no_answer(message: Message) -> None:
    """Fails: the door is to be reached, and says nothing."""
    raise AssertionError(message)


def test_a_connection_that_is_used_again_carries_no_token_over(tokens: Tokens) -> None:
    shown = {name: tokens.add(name, app="shop") for name in ("one", "two")}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        yield {"kept": "by the lifespan"}

    guard = RequestTracer(
        Guard(Starlette(routes=PROBES, lifespan=lifespan), hosts={"localhost"}, tokens=tokens, strict=False)
    )
    with listening(guard) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:

        def ask(headers: dict[str, str]) -> tuple[int, Any]:
            connection.request("POST", "/api/v1/memory/add", headers={"Host": "localhost"} | headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        for _ in range(3):
            for name, each in shown.items():
                assert ask(bearer(each)) == (200, {"token": name, "limits": "the app shop"})
                assert ask({})[0] == 401
    with listening(guard) as port:
        answers = together(port, [each for each in shown.values() for _ in range(20)])
    assert answers == ["one"] * 20 + ["two"] * 20


@contextmanager
def listening(application: ASGIApp) -> Iterator[int]:
    """A real server on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        serving = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield taken.getsockname()[1]
        finally:
            serving.should_exit = True
            thread.join(60)


def together(port: int, shown: list[str]) -> list[str | None]:
    """The names that a server answers to tokens that are shown at once."""
    answers: list[str | None] = [None] * len(shown)
    ready = threading.Barrier(len(shown))

    def ask(place: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            ready.wait(30)
            connection.request("POST", "/api/v1/memory/add", headers={"Host": "localhost"} | bearer(shown[place]))
            answers[place] = json.loads(connection.getresponse().read())["token"]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(shown))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers
