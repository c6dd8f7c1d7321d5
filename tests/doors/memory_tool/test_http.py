"""The memory tool over HTTP: a command comes in, its result goes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from cofio import Engine, Unavailable
from cofio.doors.memory_tool.http import MAX_BODY, PATH, make_routes
from cofio.files import home

from .conftest import Tool

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    """A client of an application that has this door alone."""
    with TestClient(Starlette(routes=make_routes(lambda: engine)), headers=JSON) as client:
        yield client


@pytest.mark.requirement("http.result", "http.owner")
def test_a_command_is_carried_out_for_its_owner(client: TestClient, engine: Engine) -> None:
    command = {"command": "create", "path": "/memories/a.md", "file_text": "é\n"}
    answer = client.post(PATH, json=command)
    assert answer.status_code == 200
    assert answer.json() == {"content": "File created successfully at: /memories/a.md", "is_error": False}
    assert client.post(PATH, json=command).json() == {
        "content": "Error: File /memories/a.md already exists", "is_error": True,
    }  # fmt: skip
    assert client.post(PATH, json=command, params={"owner": "pm & co"}).json()["is_error"] is False
    assert Tool(engine, home()).files == Tool(engine, home("pm & co")).files == {"/memories/a.md": "é\n"}
    assert client.post(PATH, json={"command": "nope"}).status_code == 200


@pytest.mark.requirement("http.malformed")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"5", b"null", b'"view"', b"\xff", b"[" * 100_000, b'{"command": ' + b"9" * 5000 + b"}"]
)
def test_a_body_that_holds_no_command_is_answered_in_the_same_shape(client: TestClient, body: bytes) -> None:
    answer = client.post(PATH, content=body)
    assert answer.status_code == 400
    assert answer.json()["is_error"] is True
    assert answer.json()["content"].startswith("Error: ")


@pytest.mark.requirement("http.malformed")
def test_an_owner_that_cannot_be_is_refused(client: TestClient) -> None:
    for owner in ("", "x" * 300):
        answer = client.post(PATH, json={"command": "view", "path": "/memories"}, params={"owner": owner})
        assert answer.status_code == 400
        assert answer.json()["is_error"] is True


@pytest.mark.requirement("http.limits")
def test_a_body_may_be_as_long_as_the_longest_file_and_not_much_longer(client: TestClient) -> None:
    escaped = b'{"command": "create", "path": "a", "file_text": "' + b"\\ud83d\\ude42" * 1_048_576 + b'"}'
    assert client.post(PATH, content=escaped).json()["is_error"] is False
    answer = client.post(PATH, content=b" " * (MAX_BODY + 1))
    assert answer.status_code == 413
    assert answer.json()["is_error"] is True


@pytest.mark.requirement("http.limits")
def test_a_body_of_many_values_is_refused_before_it_is_parsed(client: TestClient) -> None:
    command = b'{"command": "create", "path": "/memories/a.md", "file_text": "x", "y": [' + b"[]," * 100_000
    answer = client.post(PATH, content=command)  # no JSON to the end
    assert answer.status_code == 400
    assert answer.json() == {"content": "Error: the body has more than 200,000 values", "is_error": True}


@pytest.mark.requirement("http.json")
@pytest.mark.parametrize("kind", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""])
def test_a_body_that_does_not_say_that_it_is_json_is_refused(client: TestClient, engine: Engine, kind: str) -> None:
    command = b'{"command": "create", "path": "/memories/a.md", "file_text": "planted"}'
    answer = client.post(PATH, content=command, headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json()["is_error"] is True
    assert "`Content-Type: application/json`" in answer.json()["content"]
    assert Tool(engine, home()).files == {}


@pytest.mark.requirement("http.result")
def test_what_cannot_be_sent_is_not_sent(client: TestClient) -> None:
    answer = client.post(PATH, content=b'{"command": "view", "path": "/memories/\\ud800"}')
    assert answer.status_code == 200
    assert answer.json()["is_error"] is True


@pytest.mark.requirement("http.unavailable")
def test_a_memory_that_cannot_be_opened_is_said_to_be_unavailable() -> None:
    def missing() -> Any:
        raise Unavailable("/home/secret/.cofio cannot be made")

    with TestClient(Starlette(routes=make_routes(missing))) as client:
        answer = client.post(PATH, json={"command": "view", "path": "/memories"})
    assert answer.status_code == 503
    assert answer.json() == {"content": "Error: The memory cannot be used at the moment", "is_error": True}


@pytest.mark.requirement("http.result")
@pytest.mark.parametrize("query", ["owner=Andr%E9", "Owner=alice", "owner=a&owner=b", "owner=a&x=1", "owner", "%ff=1"])
def test_an_owner_is_never_guessed(client: TestClient, query: str) -> None:
    answer = client.post(f"{PATH}?{query}", json={"command": "view", "path": "/memories"})
    assert (answer.status_code, answer.json()["is_error"]) == (400, True)


@pytest.mark.requirement("http.result")
def test_only_posts_are_answered(client: TestClient) -> None:
    assert client.get(PATH).status_code == 405
