"""Checkpoints behind a server: what is sent, what is understood, and what is never taken for an empty answer."""

from __future__ import annotations

import base64
import json
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.waiting import join

from cofio.library.providers.http import HTTPCheckpointer
from cofio.values.errors import Invalid, Unavailable

from ... import servers
from .test_contract import said

pytestmark = pytest.mark.anyio


class Scripted:
    """A server that answers what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, object]] = []
        self.retry_after = ""
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                scripted.asked.append((self.command, self.path, headers, self.rfile.read(length)))
                status, body = scripted.answers.pop(0)
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                if scripted.retry_after:
                    self.send_header("Retry-After", scripted.retry_after)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815  # the names that http.server looks for

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Scripted]:
    """A server that answers what it is told to."""
    scripted = Scripted()
    thread = threading.Thread(target=scripted.server.serve_forever, args=[0.01])
    thread.start()
    yield scripted
    scripted.server.shutdown()
    join(thread)
    scripted.server.server_close()


@pytest.fixture
async def checkpointer(server: Scripted) -> AsyncIterator[HTTPCheckpointer]:
    """A checkpointer that asks the server."""
    async with HTTPCheckpointer(server.url) as opened:
        yield opened


@pytest.mark.requirement("http.wire")
async def test_a_save_is_a_post_of_the_document(server: Scripted) -> None:
    server.answers = [(200, {"checkpoint_id": "theirs"}), (201, b""), (200, {"ok": True})]
    state = said("hello")
    own: Any = {"headers": {"X-Own": "yes"}, "auth": ("user", "pässword")}
    async with HTTPCheckpointer(f"{server.url}/v1/", **own) as checkpointer:
        assert await checkpointer.save(state, "a/b ü..", "mine", {"n": 1}) == "theirs"
        assert await checkpointer.save(state, "t", "mine") == "mine"
        assert len(await checkpointer.save(state, "t")) == 32
    method, path, headers, body = server.asked[0]
    assert (method, path) == ("POST", "/v1/threads/a%2Fb%20%C3%BC%2E%2E/checkpoints")
    assert headers["content-type"] == "application/json"
    assert headers["x-own"] == "yes"
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode() == "user:pässword"
    sent = json.loads(body)
    assert datetime.fromisoformat(sent.pop("created_at")).tzinfo is not None
    assert sent == {
        "checkpoint_id": "mine", "thread_id": "a/b ü..", "state": state.to_checkpoint(), "metadata": {"n": 1},
    }  # fmt: skip
    assert json.loads(server.asked[1][3])["metadata"] == {}


@pytest.mark.requirement("http.wire")
async def test_the_latest_is_the_first_of_a_list_of_one(server: Scripted, checkpointer: HTTPCheckpointer) -> None:
    state = said("hello")
    server.answers = [
        (200, {"checkpoints": [{"checkpoint_id": "c/1"}]}), (200, {"state": state.to_checkpoint()}),
        (200, state.to_checkpoint()),
        (200, {"checkpoints": ["gone"]}), (404, b""), (200, {"checkpoints": ["there"]}), (200, state.to_checkpoint()),
        (200, {"deleted": 1}), (204, b""), (404, b""),
    ]  # fmt: skip
    assert await checkpointer.load("t") == state
    assert await checkpointer.load("t", "..") == state
    assert await checkpointer.load("t") == state  # one was deleted between the two requests
    assert await checkpointer.delete("t") is True
    assert await checkpointer.delete("t", "c") is True
    assert await checkpointer.delete("t", "c") is False
    assert [asked[:2] for asked in server.asked] == [
        ("GET", "/threads/t/checkpoints?limit=1"), ("GET", "/threads/t/checkpoints/c%2F1"),
        ("GET", "/threads/t/checkpoints/%2E%2E"),
        ("GET", "/threads/t/checkpoints?limit=1"), ("GET", "/threads/t/checkpoints/gone"),
        ("GET", "/threads/t/checkpoints?limit=1"), ("GET", "/threads/t/checkpoints/there"),
        ("DELETE", "/threads/t/checkpoints"), ("DELETE", "/threads/t/checkpoints/c"),
        ("DELETE", "/threads/t/checkpoints/c"),
    ]  # fmt: skip


@pytest.mark.requirement("http.lists")
async def test_a_list_is_understood_in_each_of_its_forms(server: Scripted, checkpointer: HTTPCheckpointer) -> None:
    for answer, ids in (
        (["a", "b", "c"], ["a", "b"]), ([{"checkpoint_id": each} for each in "abc"], ["a", "b"]),
        ({"checkpoints": ["a"]}, ["a"]), ({"checkpoints": [{"checkpoint_id": "a", "created_at": "now"}]}, ["a"]),
        ({"data": ["a"]}, ["a"]), ({"data": [{"checkpoint_id": "a"}]}, ["a"]), ([], []), ({"checkpoints": []}, []),
        ({}, []),
    ):  # fmt: skip
        server.answers = [(200, answer)]
        assert await checkpointer.list_checkpoints("t", limit=2) == ids
    assert {asked[1] for asked in server.asked} == {"/threads/t/checkpoints?limit=2"}


def calls(checkpointer: HTTPCheckpointer) -> list[Awaitable[object]]:
    """Everything that asks the server once."""
    return [
        checkpointer.save(said("x"), "t"), checkpointer.load("t", "c"), checkpointer.load("t"),
        checkpointer.list_checkpoints("t"), checkpointer.exists("t"), checkpointer.exists("t", "c"),
        checkpointer.delete("t"), checkpointer.delete("t", "c"), checkpointer.copy_thread("t", "u"),
    ]  # fmt: skip


@pytest.mark.requirement("http.down")
async def test_a_server_that_cannot_be_reached_is_an_error_and_not_an_empty_one() -> None:
    async with HTTPCheckpointer(f"http://127.0.0.1:{servers.free_port()}") as checkpointer:
        for call in calls(checkpointer):
            with pytest.raises(Unavailable, match="cannot be reached"):
                await call
        assert await checkpointer.health_check() is False


@pytest.mark.requirement("http.down")
@pytest.mark.parametrize("status", [301, 403, 429, 500])
async def test_a_server_that_fails_refuses_or_points_elsewhere_is_an_error(
    server: Scripted, status: int, checkpointer: HTTPCheckpointer
) -> None:
    server.answers = [(status, {"error": "told so"})] * 10
    for call in calls(checkpointer):
        with pytest.raises(Unavailable, match=f"answered {status} to .*told so"):
            await call
    assert await checkpointer.health_check() is False
    assert len(server.asked) == 10


@pytest.mark.requirement("http.down")
@pytest.mark.parametrize(("retry_after", "asked"), [("0", 5), ("3600", 1), ("Mon, 16 Nov 2026 09:00:00 GMT", 1)])
async def test_a_busy_server_is_asked_again_where_it_says_soon_and_is_an_error_otherwise(
    server: Scripted, checkpointer: HTTPCheckpointer, retry_after: str, asked: int
) -> None:
    server.retry_after = retry_after
    server.answers = [(503, {"error": "busy"})] * asked
    with pytest.raises(Unavailable, match=r"answered 503 to .*busy"):
        await checkpointer.load("t", "c")
    assert len(server.asked) == asked
    if asked > 1:
        server.answers = [*[(503, {"error": "busy"})] * 4, (201, {"checkpoint_id": "c"})]
        assert await checkpointer.save(said("x"), "t", "c") == "c"
        assert len({body for *_, body in server.asked[5:]}) == 1


@pytest.mark.requirement("http.refused")
async def test_what_the_server_finds_wrong_is_told(server: Scripted, checkpointer: HTTPCheckpointer) -> None:
    for status in (400, 413, 422):
        server.answers = [(status, {"error": "too long"})]
        with pytest.raises(Invalid, match=r"refused by http://.*too long"):
            await checkpointer.save(said("x"), "t")


@pytest.mark.requirement("http.nonsense")
async def test_an_answer_that_is_no_checkpoint_is_an_error(server: Scripted, checkpointer: HTTPCheckpointer) -> None:
    answer: Any
    for answer in (b"<html>", {"state": {}}, 7, "text", {"checkpoints": 3}, {"checkpoints": [{}]}, [1], {"state": 1}):
        server.answers = [(200, answer)] * 2
        with pytest.raises(Unavailable, match="something else than"):
            await checkpointer.load("t", "c")
        if not isinstance(answer, dict) or "state" not in answer:
            with pytest.raises(Unavailable, match="something else than"):
                await checkpointer.list_checkpoints("t")
    server.answers = [(404, b"")] + [(200, {"checkpoints": ["c"]}), (404, b"")] * 5
    with pytest.raises(Unavailable, match="keeps no checkpoints"):
        await checkpointer.save(said("x"), "t")
    with pytest.raises(Unavailable, match="lists a checkpoint that it does not have"):
        await checkpointer.load("t")


@pytest.mark.requirement("http.health")
async def test_health_is_asked_for_and_told(server: Scripted, checkpointer: HTTPCheckpointer) -> None:
    server.answers = [(200, {"status": "ok"}), (404, b""), (503, b"")]
    assert [await checkpointer.health_check() for _ in range(3)] == [True, False, False]
    assert {asked[1] for asked in server.asked} == {"/health"}


@pytest.mark.requirement("http.many")
async def test_more_than_a_server_lists_at_once_is_refused_where_a_part_would_look_like_all(
    server: Scripted, checkpointer: HTTPCheckpointer
) -> None:
    few, many = [f"{n}" for n in range(9_999)], [f"{n}" for n in range(10_000)]
    server.answers = [(200, few), (200, many), (200, many), (200, []), (200, many)]
    assert await checkpointer.list_checkpoints("t", limit=10**6) == few
    assert await checkpointer.list_checkpoints("t", limit=10_000) == many
    with pytest.raises(Invalid, match="10,000 checkpoints or more"):
        await checkpointer.list_checkpoints("t", limit=10_001)
    with pytest.raises(Invalid, match="source_thread_id: has 10,000 checkpoints or more"):
        await checkpointer.copy_thread("t", "u")
    assert [asked[1].rpartition("=")[2] for asked in server.asked] == ["10000"] * 3 + ["1", "10000"]
    assert {asked[0] for asked in server.asked} == {"GET"}


@pytest.mark.requirement("http.secrets")
async def test_a_password_in_the_address_is_sent_and_shown_nowhere(server: Scripted) -> None:
    server.answers = [(200, []), (500, b""), (200, [])]
    async with HTTPCheckpointer(server.url.replace("//", "//us%40er:open%20sesame@") + "/v1/") as checkpointer:
        assert checkpointer.base_url == f"{server.url}/v1"
        assert "sesame" not in repr(checkpointer)
        assert await checkpointer.list_checkpoints("t") == []
        with pytest.raises(Unavailable) as told:
            await checkpointer.load("t")
        assert "sesame" not in "".join(traceback.format_exception(told.value))
    sent = [asked[2]["authorization"].removeprefix("Basic ") for asked in server.asked]
    assert {base64.b64decode(each).decode() for each in sent} == {"us@er:open sesame"}
    async with HTTPCheckpointer(f"http://user:sesame@127.0.0.1:{servers.free_port()}") as down:
        with pytest.raises(Unavailable, match="cannot be reached") as told:
            await down.load("t")
        assert "sesame" not in "".join(traceback.format_exception(told.value))
    given = HTTPCheckpointer("http://user:sesame@h", auth=("other", "word"))
    assert (given.base_url, given.auth) == ("http://h", ("other", "word"))
    assert HTTPCheckpointer("http://token@h").auth == ("token", "")


@pytest.mark.requirement("http.settings", "http.secrets")
def test_its_settings_have_defaults_and_a_wrong_address_is_told_without_its_password() -> None:
    made = HTTPCheckpointer("http://localhost:1/")
    assert (made.base_url, made.headers, made.auth, made.timeout) == ("http://localhost:1", {}, None, 30.0)
    assert repr(made) == "HTTPCheckpointer(base_url='http://localhost:1')"
    wrong: Any
    for wrong in (
        "localhost:1", "", None, 7, "ftp://u:sesame@h", "http://u:sesame/1@h", "http://u:sesame#@h", "http://",
        "http://[::sesame", "sesame",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"^base_url: ") as told:
            HTTPCheckpointer(wrong)
        assert "sesame" not in str(told.value)
