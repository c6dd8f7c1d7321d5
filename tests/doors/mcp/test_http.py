"""MCP over HTTP: no request depends on another, and what is heavy or not JSON is refused before the SDK sees it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp.surface import STATELESS

from .conftest import ENVELOPE, served

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
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
        connection.request(method, "/mcp", sent, headers)
        return connection.getresponse()


@pytest.fixture
def client(memory: Memory, folder: Path) -> Iterator[Client]:
    """A client of a server."""
    with served(memory, folder) as address:
        client = Client(address)
        yield client
        for connection in client.connections:
            connection.close()


@pytest.mark.requirement("http.stateless")
def test_a_request_needs_no_other_and_a_session_id_is_ignored(client: Client) -> None:
    begun = client.ask("POST", HELLO, **JSON)
    assert (begun.status, begun.getheader("mcp-session-id")) == (200, None)
    plain = JSON | {"MCP-Protocol-Version": "2025-11-25"}
    for headers in (JSON, plain, plain | {"mcp-session-id": "of another server"}):
        assert client.ask("POST", INITIALIZED, **headers).status == 202
        listed = json.loads(client.ask("POST", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **headers).read())
        assert listed["result"]["tools"]
        assert client.ask("DELETE", **headers).status == 200
        assert client.ask("GET", **headers).status == 405


eras = pytest.mark.parametrize("headers", [JSON, JSON | MODERN], ids=["2025", "2026"])


@pytest.mark.requirement("http.bounded")
@eras
def test_a_message_of_very_many_values_is_refused_before_it_is_parsed(client: Client, headers: dict[str, str]) -> None:
    start = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"set_state","arguments":{"value":['
    answer = client.ask("POST", start + b"[]," * 200_000, **headers)
    assert answer.status == 400
    assert json.loads(answer.read())["error"]["message"] == "the body has more than 400,000 values"
    answer = client.ask("POST", b" " * (16 * 1024 * 1024 + 1), **headers)
    assert (answer.status, json.loads(answer.read())["error"]["message"]) == (
        413, "the body is longer than 16,777,216 bytes",
    )  # fmt: skip
    assert client.ask("POST", LISTED, **headers).status == 200


@pytest.mark.requirement("http.json")
@eras
def test_a_message_that_does_not_say_that_it_is_json_is_refused(client: Client, headers: dict[str, str]) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.ask("POST", LISTED, **(headers | {"Content-Type": kind}))
        assert answer.status == 415
        assert "`Content-Type: application/json`" in json.loads(answer.read())["error"]["message"]
    assert client.ask("POST", LISTED, **(headers | {"Content-Type": "application/json; charset=utf-8"})).status == 200
