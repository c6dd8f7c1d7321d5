"""`cofio serve` with several processes: one server to its clients, whichever answers and whichever is killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp_types import TextContent
from starlette.types import Message, Receive, Scope, Send
from tests.waiting import PATIENCE, wait_until

import mcp
from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.cli import main
from cofio.doors.mcp.session_routes import SessionRouter
from cofio.doors.web.board import REPORT_SIZE, Board
from cofio.doors.web.links import Switchboard
from cofio.doors.web.relay import Relay
from cofio.doors.web.supervisor import choose_workers
from cofio.values.errors import Invalid

from ..token_commands import add_token, hold, remove_token
from .conftest import ACCEPT, GOODBYE, Server, Start, ask, is_gone, remove

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
ADD = "/api/v1/memory/add"


def open_session(connection: http.client.HTTPConnection) -> str:
    """Return the id of a new session over MCP."""
    answer = ask(connection, "/mcp", INITIALIZE)
    assert answer.status == 200, answer.text
    return answer.headers["mcp-session-id"]


def worker_of(session: str) -> str:
    """Return the number of the worker that holds a session."""
    return session.rpartition("-")[2]


def make_message(text: str) -> dict[str, Any]:
    return {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": text}


def write(connection: http.client.HTTPConnection, session: str, text: str) -> None:
    """Have a conversation of one message remembered."""
    answer = ask(connection, ADD, {"session_id": session, "messages": [make_message(text)]})
    assert answer.status == 200, answer.text
    assert ask(connection, "/api/v1/memory/flush", {"session_id": session}).status == 200


def search(connection: http.client.HTTPConnection, query: str) -> str:
    """Return the answer to a search."""
    answer = ask(connection, "/api/v1/memory/search", {"user_id": "alice", "query": query})
    assert answer.status == 200, answer.text
    return answer.text


Connections = tuple[Server, dict[str, http.client.HTTPConnection]]


@pytest.fixture
def connections(start: Start) -> Iterator[Connections]:
    """A server with two workers, and a connection to each, by its number."""
    server = start("--workers", "2")
    with ExitStack() as stack:
        found: dict[str, http.client.HTTPConnection] = {}

        def connect() -> bool:
            connection = stack.enter_context(closing(server.connect()))
            found.setdefault(worker_of(open_session(connection)), connection)
            return len(found) == 2

        wait_until(connect)
        yield server, found


def test_what_is_written_through_one_worker_is_found_through_the_other_at_once(connections: Connections) -> None:
    one, other = connections[1]["0"], connections[1]["1"]
    for number in range(3):
        write(one, f"s{number}", f"The zebra{number} lives in Oslo.")
        assert f"zebra{number}" in search(other, f"zebra{number}")
        write(other, f"t{number}", f"The heron{number} lives in Bergen.")
        assert f"heron{number}" in search(one, f"heron{number}")


def test_a_session_and_its_stream_go_on_at_whichever_worker_their_requests_come_in(connections: Connections) -> None:
    server, found = connections
    one, other = found["0"], found["1"]
    session = open_session(one)
    assert worker_of(session) == "0"
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert ask(other, "/mcp", notification, Mcp_Session_Id=session).status == 202
    note = {"name": "write_context", "arguments": {"topic": "Deploys", "content": "x" * 200_000}}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": note}
    assert ask(other, "/mcp", call, Mcp_Session_Id=session).status == 200  # a body of several pieces

    def open_stream() -> int:
        """Open a stream and close it again; a session has one at a time."""
        with closing(server.connect()) as connection:
            connection.request("GET", "/mcp", headers={**ACCEPT, "Mcp-Session-Id": session})
            return connection.getresponse().status

    with closing(server.connect()) as listener:
        listener.request("GET", "/mcp", headers={**ACCEPT, "Mcp-Session-Id": session})
        assert listener.getresponse().headers["content-type"].split(";")[0] == "text/event-stream"
        for connection in (one, other):
            answer = ask(connection, "/mcp", TOOLS, Mcp_Session_Id=session)
            assert (answer.status, "search_context" in answer.text) == (200, True)
        assert open_stream() == 409
    wait_until(lambda: open_stream() == 200)
    assert ask(other, "/mcp", method="DELETE", Mcp_Session_Id=session).status == 200
    for unknown in (session, "", "x", "-1", "abc-2", "abc-999999", "abc--1", "é-1", "a" * 5000):
        for connection in (one, other):
            answer = ask(connection, "/mcp", TOOLS, Mcp_Session_Id=unknown.encode().decode("latin-1"))
            assert answer.status in (400, 404), (unknown, answer.text)


async def use_tools(address: str, number: int) -> None:
    """Write and search as a client of the SDK, with several requests at once."""
    async with mcp.Client(address, mode="legacy") as client:

        async def find() -> None:
            found = await client.call_tool("search_context", {"query": f"otter{number}"})
            assert isinstance(found.content[0], TextContent)
            assert f"otter{number}" in found.content[0].text

        note = {"topic": f"Note {number}", "content": f"The otter{number} swims."}
        assert not (await client.call_tool("write_context", note)).is_error
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(find)


def test_many_clients_of_the_sdk_are_served_by_all_workers(start: Start) -> None:
    server = start("--workers", "3")

    async def use() -> None:
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(use_tools, server.first_line, number)

    anyio.run(use)
    code, log = server.end()
    assert (code, len(log.splitlines())) == (0, 3), log


def test_a_worker_that_is_killed_is_started_again_and_nothing_that_was_acknowledged_is_lost(
    connections: Connections,
) -> None:
    server, found = connections
    write(found["0"], "s", "The zebra lives in Oslo.")
    workers = [process for name, process in server.find_children().items() if name != "background"]
    sessions = [open_session(connection) for connection in found.values()]

    def is_replaced(process: int) -> bool:
        children = server.find_children()
        return len(children) == 3 and process not in children.values()

    def is_unknown(session: str) -> bool:
        return server.ask("/mcp", TOOLS, Mcp_Session_Id=session).status == 404

    for process in workers:
        os.kill(process, signal.SIGKILL)
        wait_until(partial(is_replaced, process))
    wait_until(lambda: server.ask("/health").status == 200)
    for session in sessions:
        wait_until(partial(is_unknown, session))
    with closing(server.connect()) as connection:
        assert "zebra" in search(connection, "zebra")
        write(connection, "t", "The heron lives in Bergen.")
        assert worker_of(open_session(connection)) in "01"
    code, log = server.end()
    assert code == 0
    assert log.count("ended by SIGKILL: it is started again in 0.1 s") == 2
    assert "Traceback" not in log


def test_a_background_process_that_is_killed_is_started_again_and_does_what_was_left(start: Start) -> None:
    server = start("--workers", "2")
    background = server.find_children()["background"]
    os.kill(background, signal.SIGKILL)
    answer = server.ask(
        ADD, {"session_id": "s", "async_mode": True, "messages": [make_message("The zebra lives in Oslo.")]}
    )
    assert answer.status == 202, answer.text
    wait_until(lambda: server.find_children().get("background", background) != background)
    jobs = {"app_id": "default", "project_id": "default", "job_id": answer.parse()["request_id"]}
    wait_until(lambda: '"done"' in server.ask("/api/v1/memory/jobs", jobs).text)
    wait_until(lambda: "\ncofio_store_waiting_for_vectors 0.0\n" in server.ask("/metrics").text)
    health = server.ask("/health").parse()
    assert (health["status"], health["memorize_queue"]["healthy"]) == ("ok", True)
    code, log = server.end()
    assert (code, "the background process ended by SIGKILL" in log) == (0, True)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_worker_that_is_started_again_neither_makes_a_store_nor_opens_one_that_replaced_its_own(
    start: Start, store: StoreAddress, tmp_path: Path, how: str
) -> None:
    server = start("--workers", "1")
    server.ask(ADD, {"session_id": "s", "messages": [make_message("The zebra lives in Oslo.")]})
    if how == "replaced":
        assert main(["--store", store.spell(), "backup", str(tmp_path / "copy")]) == 0
        store.home.rename(tmp_path / "elsewhere")
        (tmp_path / "copy").rename(store.home)
    else:
        wait_until(lambda: remove(store.home))
    worker = server.find_worker()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker))
    assert server.process.stderr is not None
    line = next(line for line in server.process.stderr if "could not start" in line)
    assert "was deleted, moved or replaced; start this program again" in line
    assert store.home.exists() == (how == "replaced")
    assert not list(store.home.glob("*-wal"))


def test_when_the_parent_is_killed_all_end_and_the_port_is_free(start: Start) -> None:
    server = start("--workers", "2")
    port, processes = server.port, [*server.find_children().values()]
    assert len(processes) == 3
    server.process.kill()
    wait_until(lambda: all(map(is_gone, processes)))
    assert start("--workers", "1", "--port", str(port)).port == port


def test_a_request_under_way_is_answered_although_the_server_is_stopped(
    connections: Connections, store: StoreAddress
) -> None:
    server, found = connections
    bodies = {}
    for number, connection in found.items():
        message = make_message(f"The zebra{number} lives in Oslo.")
        body = bodies[number] = json.dumps({"session_id": number, "messages": [message]}).encode()
        connection.putrequest("POST", ADD)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:20])
        connection.sock.sendall(body[20:-1])
    processes = server.find_children().values()
    server.process.send_signal(signal.SIGTERM)
    for number, connection in found.items():
        connection.sock.sendall(bodies[number][-1:])
        assert connection.getresponse().status == 200
    code, log = server.wait()
    assert (code, log.splitlines()[-1]) == (0, GOODBYE)
    assert all(map(is_gone, processes))
    with Engine.open(store, settings=Settings(embedder="none")) as engine:
        assert engine.stats().records == 2


def test_ctrl_c_ends_all_processes_once(start: Start) -> None:
    server = start("--workers", "2")
    processes = [*server.find_children().values()]
    for process in processes:  # as a terminal does
        os.kill(process, signal.SIGINT)
    code, log = server.end(signal.SIGINT)
    assert (code, log.splitlines()[-1]) == (130, GOODBYE)
    assert "started again" not in log
    assert all(map(is_gone, processes))


def test_the_numbers_are_those_of_all_processes_and_survive_a_kill(connections: Connections) -> None:
    server, found = connections

    def count_requests(text: str) -> int:
        return int(float(re.findall(r'cofio_http_requests_total\{method="GET",path="/",status="200"\} (.*)', text)[0]))

    for connection in found.values():
        for _ in range(5):
            ask(connection, "/")
    for connection in found.values():
        text = ask(connection, "/metrics").text
        assert count_requests(text) == 10
        assert 'cofio_http_request_duration_seconds_count{method="GET",path="/"} 10.0' in text
        assert "cofio_store_records" in text
    for name, process in server.find_children().items():
        if name != "background":
            os.kill(process, signal.SIGKILL)
    texts: list[str] = []

    def is_answered() -> bool:
        with suppress(OSError, http.client.HTTPException):
            texts.append(server.ask("/metrics").text)
        return bool(texts)

    wait_until(is_answered)
    assert count_requests(texts[0]) == 10


def test_a_token_counts_in_all_workers_as_soon_as_there_is_one(connections: Connections, store: StoreAddress) -> None:
    _, found = connections
    shown = {"Authorization": f"Bearer {add_token(store, 'laptop')}"}
    hold(store, lambda: {ask(each, "/").status for each in found.values()} == {401})
    assert {ask(each, "/", **shown).status for each in found.values()} == {200}
    remove_token(store, "laptop")
    hold(store, lambda: {ask(each, "/", **shown).status for each in found.values()} == {401})


def test_the_number_of_workers_is_a_setting_and_without_any_one_process_does_everything(start: Start) -> None:
    assert len(start("--json", COFIO_WORKERS="1").find_children()) == 2
    server = start("--workers", "0", COFIO_WORKERS="2")
    assert server.find_children() == {}
    with closing(server.connect()) as connection:
        write(connection, "s", "The zebra lives in Oslo.")
        assert "zebra" in search(connection, "zebra")
        assert "-" not in open_session(connection)
    assert server.end()[0] == 0


def test_by_default_there_is_a_worker_for_each_core_and_on_windows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.doors.web.supervisor.count_cores", lambda: 3)
    assert [choose_workers(wanted) for wanted in (None, 0, 1, 8)] == [3, 0, 1, 8]
    monkeypatch.setattr("cofio.doors.web.supervisor.count_cores", lambda: 64)
    assert choose_workers(None) == 8
    monkeypatch.setattr(sys, "platform", "win32")
    assert choose_workers(None) == choose_workers(0) == 0
    with pytest.raises(Invalid, match="Windows"):
        choose_workers(2)


# What the processes share.


class OtherWorker:
    """The way to another worker, which takes requests in and never answers, has ended, or cannot be reached."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._ends: list[socket.socket] = []

    def call(self, _number: int, *, wait: bool = True) -> socket.socket | None:
        assert not wait
        if self._state == "unreachable":
            return None
        ours, theirs = socket.socketpair()
        self._ends.append(theirs)
        if self._state == "ended":
            theirs.close()
        return ours

    def close(self) -> None:
        for end in self._ends:
            end.close()


@pytest.mark.parametrize(("state", "status"), [("silent", 504), ("ended", 502), ("unreachable", 503), ("unknown", 404)])
def test_a_request_that_another_worker_does_not_answer_is_answered_here(
    monkeypatch: pytest.MonkeyPatch, state: str, status: int
) -> None:
    monkeypatch.setattr("cofio.doors.web.relay.LONGEST_WAIT", 0.05)
    memory, sent = Board.make(), list[Message]()
    board = Board(memory, 2)
    if state != "unknown":
        board.register(1, os.getpid())
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "state": {"request_id": "r"},
        "headers": [(b"mcp-session-id", b"abc-1")],
    }  # fmt: skip
    pieces = [b"a", b"b"]

    async def receive() -> Message:
        if not pieces:
            await anyio.sleep(PATIENCE)
        return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError

    with closing(OtherWorker(state)) as other:
        router = SessionRouter(never, 0, board, Relay(cast("Switchboard", other)))
        anyio.run(router, scope, receive, send)
    assert sent[0]["status"] == status
    assert json.loads(sent[1]["body"])["error"]["message"]
    os.close(memory)


def test_workers_tell_each_other_what_they_are_at() -> None:
    memory = Board.make()
    board, other = Board(memory, 2), Board(memory, 2)
    assert (board.find_fewest_connections(0), board.has_busy_threads(), board.measure_silence()) == (None, False, 0.0)
    for number in (0, 1):
        board.register(number, os.getpid())
    assert board.find_idle_worker(0, 100) is None
    board.set_busy_threads(0, 1)
    assert other.has_busy_threads()
    assert board.find_idle_worker(0, 100) == 1
    board.set_connections(1, 90)  # many more than the one that asks
    assert other.find_idle_worker(0, 100) is None
    assert (other.find_fewest_connections(0), other.find_fewest_connections(1)) == (90, 0)
    board.add_tasks_sent(0, 3)
    board.add_tasks_sent(1, 2)
    board.count_task_received(0)
    assert other.count_tasks() == 4
    assert (board.claim_wake(), other.claim_wake()) == (True, False)
    other.clear_wake()
    assert board.claim_wake()
    board.register(0, 0)  # it was killed, with two tasks to send
    assert (other.count_tasks(), other.is_up(0), other.has_busy_threads()) == (2, False, False)
    assert [other.is_up(number) for number in (-1, 3, 99)] == [False] * 3
    board.register(board.background, 0)
    assert other.count_tasks() == 0
    board.beat()
    assert other.measure_silence() < PATIENCE
    for report in (b"", b"one", b"x" * REPORT_SIZE):
        board.write_report(report)
        assert other.read_report() == report
    os.close(memory)
