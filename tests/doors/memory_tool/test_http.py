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


@pytest.mark.requirement("http.malformed", "http.owner")
def test_what_holds_no_command_or_names_no_owner_is_answered_in_the_same_shape(client: TestClient) -> None:
    bodies = [b"", b"{", b"[]", b"5", b"null", b'"view"', b"\xff", b"[" * 100_000, b'{"command": ' + b"9" * 5000 + b"}"]
    answers = [client.post(PATH, content=body) for body in bodies]
    owners = ["owner=Andr%E9", "Owner=alice", "owner=a&owner=b", "owner=a&x=1", "owner", "%ff=1", "owner=" + "x" * 300]
    answers += [client.post(f"{PATH}?{query}", json={"command": "view", "path": "/memories"}) for query in owners]
    for answer in answers:
        assert (answer.status_code, answer.json()["is_error"]) == (400, True)
        assert answer.json()["content"].startswith("Error: ")
    assert client.get(PATH).status_code == 405


@pytest.mark.requirement("http.limits")
def test_a_body_may_be_as_long_as_the_longest_file_and_not_much_longer(client: TestClient) -> None:
    escaped = b'{"command": "create", "path": "a", "file_text": "' + b"\\ud83d\\ude42" * 1_048_576 + b'"}'
    assert client.post(PATH, content=escaped).json()["is_error"] is False
    answer = client.post(PATH, content=b" " * (MAX_BODY + 1))
    assert answer.status_code == 413
    assert answer.json()["is_error"] is True
    answer = client.post(PATH, content=b'{"command": "view", "y": [' + b"[]," * 100_000)  # no JSON to the end
    assert answer.status_code == 400
    assert answer.json() == {"content": "Error: the body has more than 200,000 values", "is_error": True}


@pytest.mark.requirement("http.json")
def test_a_body_that_does_not_say_that_it_is_json_is_refused(client: TestClient, engine: Engine) -> None:
    command = b'{"command": "create", "path": "/memories/a.md", "file_text": "planted"}'
    for kind in ("text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""):
        answer = client.post(PATH, content=command, headers={"Content-Type": kind})
        assert answer.status_code == 415
        assert answer.json()["is_error"] is True
        assert "`Content-Type: application/json`" in answer.json()["content"]
    assert Tool(engine, home()).files == {}


@pytest.mark.requirement("http.unavailable")
def test_a_memory_that_cannot_be_opened_is_said_to_be_unavailable() -> None:
    def missing() -> Any:
        raise Unavailable("/home/secret/.cofio cannot be made")

    with TestClient(Starlette(routes=make_routes(missing))) as client:
        answer = client.post(PATH, json={"command": "view", "path": "/memories"})
    assert answer.status_code == 503
    assert answer.json() == {"content": "Error: The memory cannot be used at the moment", "is_error": True}
