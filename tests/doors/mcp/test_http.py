"""MCP over HTTP: what is heavy or not JSON is refused before the SDK sees it, and idle sessions make room."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp import http as door
from cofio.doors.mcp.surface import STATELESS

from .conftest import ENVELOPE, served

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
MODERN = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/list"}
LISTED = {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": ENVELOPE}}


class Client:
    """A client whose every request has a connection of its own."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.connections: list[http.client.HTTPConnection] = []

    def ask(self, method: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
        """The answer to a request, which is not read yet."""
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        self.connections.append(connection)
        sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, "/mcp", sent, {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse()

    def open_session(self) -> str:
        """Begin a session; its id."""
        answer = self.ask("POST", HELLO, **JSON)
        assert answer.status == 200, answer.read()
        return str(answer.getheader("mcp-session-id"))

    def ping(self, session: str) -> int:
        """The status that a ping of a session is answered with."""
        return self.ask("POST", PING, **JSON, mcp_session_id=session).status


@pytest.fixture
def client(memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a server that has room for three sessions."""
    monkeypatch.setattr(door, "SESSIONS", 3)
    with served(memory, folder) as address:
        client = Client(address)
        yield client
        for connection in client.connections:
            connection.close()


@pytest.mark.requirement("http.sessions")
def test_the_session_that_has_been_idle_longest_makes_room_for_one_more(client: Client) -> None:
    first, second, third = (client.open_session() for _ in range(3))
    assert client.ping(first) == 200
    fourth = client.open_session()
    assert {each: client.ping(each) for each in (first, second, third, fourth)} == {
        first: 200, second: 404, third: 200, fourth: 200,
    }  # fmt: skip
    for _ in range(10):
        last = client.open_session()
    assert client.ping(last) == 200
    assert client.ping(fourth) == 404


@pytest.mark.requirement("http.sessions")
def test_a_session_with_an_open_stream_makes_room_when_no_other_can(client: Client) -> None:
    listening = [client.open_session() for _ in range(2)]
    streams = [client.ask("GET", **JSON, mcp_session_id=each) for each in listening]
    assert [stream.status for stream in streams] == [200, 200]
    for _ in range(5):
        idle = client.open_session()
    assert [client.ping(each) for each in (*listening, idle)] == [200, 200, 200]
    assert client.ask("GET", **JSON, mcp_session_id=idle).status == 200
    newest = client.open_session()
    assert [client.ping(each) for each in (*listening, idle, newest)] == [404, 200, 200, 200]


@pytest.mark.requirement("http.sessions")
def test_sessions_that_their_clients_end_cost_no_other_its_own(client: Client) -> None:
    kept = client.open_session()
    for _ in range(10):
        assert client.ask("DELETE", mcp_session_id=client.open_session()).status == 200
    assert client.ping(kept) == 200
    for _ in range(10):
        assert client.ping("unknown") == 404
        assert client.ask("POST", PING, **JSON).status >= 400
    assert client.ping(kept) == 200


@pytest.mark.requirement("http.sessions")
def test_sessions_that_were_opened_in_an_odd_way_make_room_too(client: Client) -> None:
    odd = json.dumps(HELLO).replace("initialize", "\\u0069nitialize").encode()
    for _ in range(5):
        client.ask("POST", odd, **JSON).read()
    for _ in range(5):
        assert client.ping(client.open_session()) == 200


def in_session(client: Client) -> dict[str, str]:
    """The headers of a request in a session."""
    return JSON | {"mcp-session-id": client.open_session()}


def without(_: Client) -> dict[str, str]:
    """The headers of a request in the era that has no sessions."""
    return JSON | MODERN


eras = pytest.mark.parametrize("era", [in_session, without])
Era = Callable[[Client], dict[str, str]]


@pytest.mark.requirement("http.bounded")
@eras
def test_a_message_of_very_many_values_is_refused_before_it_is_parsed(client: Client, era: Era) -> None:
    headers = era(client)
    start = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"set_state","arguments":{"value":['
    answer = client.ask("POST", start + b"[]," * 200_000, **headers)
    assert answer.status == 400
    assert json.loads(answer.read())["error"]["message"] == "the body has more than 400,000 values"
    answer = client.ask("POST", b" " * (16 * 1024 * 1024 + 1), **headers)
    assert (answer.status, json.loads(answer.read())["error"]["message"]) == (
        413, "the body is longer than 16,777,216 bytes",
    )  # fmt: skip
    assert client.ask("POST", LISTED if era is without else PING, **headers).status == 200


@pytest.mark.requirement("http.json")
@eras
def test_a_message_that_does_not_say_that_it_is_json_is_refused(client: Client, era: Era) -> None:
    headers = era(client)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.ask("POST", LISTED, **(headers | {"Content-Type": kind}))
        assert answer.status == 415
        assert "`Content-Type: application/json`" in json.loads(answer.read())["error"]["message"]
    assert client.ask("POST", LISTED, **(headers | {"Content-Type": "application/json; charset=utf-8"})).status == 200
