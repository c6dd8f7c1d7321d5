"""`cofio serve` with several processes: one server to its clients, whichever answers and whichever is killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import pytest
from mcp_types import TextContent
from starlette.types import Message, Receive, Scope, Send
from tests.waiting import PATIENCE, join, wait_until

import mcp
from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.cli import main
from cofio.doors.mcp.http import SESSIONS
from cofio.doors.mcp.session_routes import SessionRouter
from cofio.doors.web.board import COUNTS_SIZE, REPORT_SIZE, Board, SharedCounts
from cofio.doors.web.links import Switchboard
from cofio.doors.web.relay import Relay
from cofio.doors.web.supervisor import choose_workers
from cofio.values.errors import Invalid

from ..token_commands import add_token, hold, remove_token

Answer = tuple[int, dict[str, str], str]
JSON_TYPE = {"Content-Type": "application/json"}
ACCEPT = {**JSON_TYPE, "Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
T = 1779967836000
ADD = "/api/v1/memory/add"
ABOUT_PROCESSES = pytest.mark.folder_only("the processes of a server are the same on every store")


class Server:
    """A server of several processes, as its clients and its system see it."""

    def __init__(self, store: StoreAddress, folder: Path, *arguments: str, **environ: str) -> None:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cofio", "serve", "--store", store.spell(), "--port", "0", *arguments],
            cwd=folder, env={**ours, "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", **environ},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout
        self.first_line = self.process.stdout.readline().strip()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.first_line.rsplit(":", 1)[1].split("/")[0])

    def connect(self) -> http.client.HTTPConnection:
        """A connection that stays open."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, path: str, body: object = None, **headers: str) -> Answer:
        """The status, headers and body that a request on a connection of its own is answered with."""
        with closing(self.connect()) as connection:
            return ask(connection, path, body, **headers)

    def children(self) -> dict[str, int]:
        """The ids of its processes: of the workers by their numbers, and of the background process."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = {}
        for each in map(int, listed):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                nice = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[16])
                found["background" if nice == 19 else f"worker {each}"] = each
        return found

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop it; its exit code, and its log."""
        self.process.send_signal(how)
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log


def ask(connection: http.client.HTTPConnection, path: str, body: object = None, **headers: str) -> Answer:
    """The status, headers and body that a request on this connection is answered with."""
    data = None if body is None else json.dumps(body).encode()
    sent = {**ACCEPT, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request("GET" if body is None else "POST", path, data, sent)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def open_session(connection: http.client.HTTPConnection) -> str:
    """The id of a new session over MCP."""
    status, headers, text = ask(connection, "/mcp", INITIALIZE)
    assert status == 200, text
    return headers["mcp-session-id"]


def worker_of(session: str) -> str:
    """Which worker holds a session."""
    return session.rpartition("-")[2]


def make_message(text: str) -> dict[str, Any]:
    return {"sender_id": "alice", "role": "user", "timestamp": T, "content": text}


def write(connection: http.client.HTTPConnection, session: str, text: str) -> None:
    """Have a conversation of one message remembered."""
    status, _, answer = ask(connection, ADD, {"session_id": session, "messages": [make_message(text)]})
    assert status == 200, answer
    assert ask(connection, "/api/v1/memory/flush", {"session_id": session})[0] == 200


def find(connection: http.client.HTTPConnection, query: str) -> str:
    """What a search answers."""
    status, _, answer = ask(connection, "/api/v1/memory/search", {"user_id": "alice", "query": query})
    assert status == 200, answer
    return answer


def is_gone(process: int) -> bool:
    """Whether a process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


Start = Callable[..., Server]


@pytest.fixture
def start(store_address: StoreAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers on one store, which are ended with the test."""
    monkeypatch.setenv("AGENT_STORE_PATH", str(tmp_path / "none"))
    servers: list[Server] = []

    def run(*arguments: str, **environ: str) -> Server:
        servers.append(Server(store_address, tmp_path, *(arguments or ("--workers", "2")), **environ))
        return servers[-1]

    yield run
    for each in servers:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate(timeout=PATIENCE)


@pytest.fixture
def connections(start: Start) -> Iterator[tuple[Server, dict[str, http.client.HTTPConnection]]]:
    """A server with two workers, and a connection to each, by its number."""
    server = start()
    with ExitStack() as stack:
        found: dict[str, http.client.HTTPConnection] = {}

        def connect() -> bool:
            connection = stack.enter_context(closing(server.connect()))
            found.setdefault(worker_of(open_session(connection)), connection)
            return len(found) == 2

        wait_until(connect)
        yield server, found


Connections = tuple[Server, dict[str, http.client.HTTPConnection]]


def test_what_is_written_through_one_worker_is_found_through_the_other_at_once(connections: Connections) -> None:
    _, found = connections
    for number in range(10):
        one, other = found["0"], found["1"]
        write(one, f"s{number}", f"The zebra{number} lives in Oslo.")
        assert f"zebra{number}" in find(other, f"zebra{number}")
        write(other, f"t{number}", f"The heron{number} lives in Bergen.")
        assert f"heron{number}" in find(one, f"heron{number}")


@ABOUT_PROCESSES
def test_a_session_goes_on_at_whichever_worker_its_requests_come_in(connections: Connections) -> None:
    _, found = connections
    one, other = found["0"], found["1"]
    session = open_session(one)
    assert worker_of(session) == "0"
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert ask(other, "/mcp", notification, Mcp_Session_Id=session)[0] == 202
    for connection in (one, other, one, other):
        status, _, text = ask(connection, "/mcp", TOOLS, Mcp_Session_Id=session)
        assert (status, "search_context" in text) == (200, True)
    note = {"name": "write_context", "arguments": {"topic": "Deploys", "content": "x" * 200_000}}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": note}
    status, _, text = ask(other, "/mcp", call, Mcp_Session_Id=session)  # a body of several pieces
    assert status == 200, text
    other.request("DELETE", "/mcp", headers={**ACCEPT, "Mcp-Session-Id": session})
    assert other.getresponse().read() is not None
    for connection in (one, other):
        status, _, text = ask(connection, "/mcp", TOOLS, Mcp_Session_Id=session)
        assert (status, "Session not found" in text) == (404, True)


@ABOUT_PROCESSES
def test_a_stream_that_another_worker_holds_stands_open_and_ends_with_its_client(connections: Connections) -> None:
    server, found = connections
    session = open_session(found["0"])
    other = found["1"]
    other.request("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session})
    answer = other.getresponse()
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
    assert ask(found["0"], "/mcp", TOOLS, Mcp_Session_Id=session)[0] == 200
    # There is one stream for a session; the next one is let in only once this one's end was noticed.
    with closing(server.connect()) as third:
        third.request("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session})
        assert third.getresponse().status == 409
    other.close()

    def open_another() -> bool:
        with closing(server.connect()) as fresh:
            fresh.request("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session})
            return fresh.getresponse().status == 200

    wait_until(open_another)


@ABOUT_PROCESSES
def test_a_session_that_there_is_not_is_not_found(connections: Connections) -> None:
    for session in ("", "x", "-0", "-1", "abc-7", "abc-2", "abc-999999", "abc--1", "é-1", "a" * 5000):
        for connection in connections[1].values():
            status, _, text = ask(connection, "/mcp", TOOLS, Mcp_Session_Id=session.encode().decode("latin-1"))
            assert status in (400, 404), (session, text)


async def use_tools(address: str, mode: Literal["auto", "legacy"], number: int) -> None:
    """What a client of the SDK does, with several requests at once."""
    async with mcp.Client(address, mode=mode) as client:
        note = {"topic": f"Note {number}", "content": f"The otter{number} swims."}

        async def search() -> None:
            found = await client.call_tool("search_context", {"query": f"otter{number}"})
            assert isinstance(found.content[0], TextContent)
            assert f"otter{number}" in found.content[0].text

        assert not (await client.call_tool("write_context", note)).is_error
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(search)


@ABOUT_PROCESSES
def test_there_is_room_for_as_many_sessions_as_in_one_process_however_they_are_spread(
    connections: Connections,
) -> None:
    _, found = connections
    one, other = found["0"], found["1"]

    def is_held(session: str) -> bool:
        return ask(other, "/mcp", TOOLS, Mcp_Session_Id=session)[0] == 200

    held = [open_session(one) for _ in range(SESSIONS - 20)]  # more than this worker's share
    assert is_held(held[-1])
    assert is_held(held[0])
    later = [open_session(other) for _ in range(40)]
    wait_until(lambda: not is_held(held[1]))  # it has been idle longest where there are the most
    assert all(map(is_held, later))
    assert is_held(held[0])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_clients_of_the_sdk_are_served_by_all_workers(start: Start, mode: Literal["auto", "legacy"]) -> None:
    server = start("--workers", "3")

    async def use() -> None:
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(use_tools, server.first_line, mode, number)

    anyio.run(use)
    code, log = server.end()
    assert (code, len(log.splitlines())) == (0, 3), log


@ABOUT_PROCESSES
def test_connections_are_spread_over_the_workers(start: Start) -> None:
    server = start("--workers", "3")
    with ExitStack() as stack:
        all_of_them = [stack.enter_context(closing(server.connect())) for _ in range(30)]
        for connection in all_of_them:
            connection.connect()  # all at once, as a crowd does
        spread = Counter(worker_of(open_session(connection)) for connection in all_of_them)
    assert len(spread) == 3
    assert min(spread.values()) >= 5, spread


@ABOUT_PROCESSES
def test_a_connection_goes_to_the_other_worker_while_its_own_is_busy_and_no_request_is_lost(start: Start) -> None:
    server = start("--workers", "2")
    is_over, failures = threading.Event(), list[object]()

    def write_on(number: int) -> None:
        with closing(server.connect()) as connection:
            for at in range(100_000):
                if is_over.is_set():
                    return
                body = {"session_id": f"s{number}", "messages": [{**make_message(f"word {at}"), "timestamp": T + at}]}
                status, _, text = ask(connection, ADD, body)
                if status != 200:
                    failures.append(text)

    threads = [threading.Thread(target=write_on, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    seen = set[str]()
    try:
        with closing(server.connect()) as connection:
            connection.connect()
            socket_of = connection.sock

            def has_met_both() -> bool:
                seen.add(worker_of(open_session(connection)))
                return len(seen) == 2

            wait_until(has_met_both)
            assert connection.sock is socket_of  # its client has not noticed
    finally:
        is_over.set()
        for thread in threads:
            join(thread)
    assert not failures


def test_a_worker_that_is_killed_is_started_again_and_nothing_that_was_acknowledged_is_lost(
    connections: Connections,
) -> None:
    server, found = connections
    write(found["0"], "s", "The zebra lives in Oslo.")
    before = {name: process for name, process in server.children().items() if name != "background"}
    sessions = {number: open_session(connection) for number, connection in found.items()}

    def is_replaced(process: int) -> bool:
        return len(server.children()) == 3 and process not in server.children().values()

    def is_unknown(session: str) -> bool:
        return server.ask("/mcp", TOOLS, Mcp_Session_Id=session)[0] == 404

    for process in before.values():
        os.kill(process, signal.SIGKILL)
        wait_until(partial(is_replaced, process))
    wait_until(lambda: server.ask("/health")[0] == 200)
    for session in sessions.values():
        wait_until(partial(is_unknown, session))
    with closing(server.connect()) as connection:
        assert "zebra" in find(connection, "zebra")
        write(connection, "t", "The heron lives in Bergen.")
        assert worker_of(open_session(connection)) in "01"
    code, log = server.end()
    assert code == 0
    assert log.count("ended by SIGKILL: it is started again in 0.1 s") == 2
    assert "Traceback" not in log


def test_a_background_process_that_is_killed_is_started_again_and_does_what_was_left(start: Start) -> None:
    server = start()
    background = server.children()["background"]
    os.kill(background, signal.SIGKILL)
    body = {"session_id": "s", "async_mode": True, "messages": [make_message("The zebra lives in Oslo.")]}
    status, _, text = server.ask(ADD, body)
    assert status == 202, text
    task = json.loads(text)["request_id"]

    wait_until(lambda: server.children().get("background", background) != background)
    jobs = {"app_id": "default", "project_id": "default", "job_id": task}
    wait_until(lambda: '"done"' in server.ask("/api/v1/memory/jobs", jobs)[2])
    health = json.loads(server.ask("/health")[2])
    assert (health["status"], health["memorize_queue"]["healthy"]) == ("ok", True)
    code, log = server.end()
    assert (code, "the background process ended by SIGKILL" in log) == (0, True)


@pytest.mark.folder_only("the store's folder is moved or deleted")
def test_a_worker_that_is_started_again_makes_no_store_where_one_was_deleted(start: Start) -> None:
    server = start("--workers", "2")
    store = Path(server_store(server))
    worker = next(process for name, process in server.children().items() if name != "background")
    shutil.rmtree(store)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker))
    assert server.process.stderr is not None
    assert any("could not start: the memory in" in line for line in server.process.stderr)
    assert not store.exists()
    server.end()
    assert not store.exists()


@pytest.mark.folder_only("the store's folder is moved or deleted")
def test_a_worker_that_is_started_again_opens_no_store_that_replaced_its_own(start: Start, tmp_path: Path) -> None:
    server = start("--workers", "1")
    server.ask(ADD, {"session_id": "s", "messages": [make_message("The zebra lives in Oslo.")]})
    store = Path(server_store(server))
    assert main(["--store", str(store), "backup", str(tmp_path / "copy")]) == 0
    store.rename(tmp_path / "elsewhere")
    (tmp_path / "copy").rename(store)
    worker = next(process for name, process in server.children().items() if name != "background")
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker))
    assert server.process.stderr is not None
    line = next(line for line in server.process.stderr if "could not start" in line)
    assert "was deleted, moved or replaced; start this program again" in line
    assert not list(store.glob("*-wal"))


@ABOUT_PROCESSES
def test_when_the_parent_is_killed_all_end_and_the_port_is_free(start: Start) -> None:
    server = start()
    port, processes = server.port, [*server.children().values()]
    assert len(processes) == 3
    server.process.kill()
    wait_until(lambda: all(map(is_gone, processes)))
    again = start("--workers", "1", "--port", str(port))
    assert again.port == port


ORPHAN = """
import os, socket, sys, threading
from concurrent.futures import ThreadPoolExecutor
from cofio.doors.web import child
child.LAST = 0.5
import signal
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told\\n"))
ThreadPoolExecutor(1).submit(threading.Event().wait)
child.ParentLine(socket.socket(fileno=int(sys.argv[1]))).end_with_parent()
print("begun", flush=True)
"""


def test_a_process_whose_threads_do_not_end_ends_soon_after_its_parent() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", ORPHAN, str(theirs.fileno())]
    with theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        theirs.close()
        ours.close()  # as when the parent is killed
        try:
            assert process.stdout.readline() == "told\n"
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()


class SilentSwitchboard:
    """Reaches a worker that takes requests in, and never answers."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []

    def call(self, _number: int, *, wait: bool = True) -> socket.socket:
        assert not wait
        ours, theirs = socket.socketpair()
        self.ends.append(theirs)
        return ours


def test_a_request_that_another_worker_does_not_answer_ends_with_504(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.doors.web.relay.LONGEST_WAIT", 0.3)
    memory = Board.make()
    board, switchboard, sent = Board(memory, 2), SilentSwitchboard(), []
    board.register(1, os.getpid())
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "state": {"request_id": "r"},
        "headers": [(b"mcp-session-id", b"abc-1")],
    }  # fmt: skip
    pieces = [b"a", b"b"]

    async def receive() -> Message:
        if not pieces:
            await anyio.sleep(PATIENCE)
        await anyio.sleep(0.5)  # a slow client has all the time that it needs
        return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError

    router = SessionRouter(never, 0, board, Relay(cast("Switchboard", switchboard)))
    anyio.run(router, scope, receive, send)
    assert (pieces, sent[0]["status"]) == ([], 504)
    assert "did not answer within" in json.loads(sent[1]["body"])["error"]["message"]
    for end in switchboard.ends:
        end.close()
    os.close(memory)


def test_a_request_under_way_is_answered_although_the_server_is_stopped(connections: Connections) -> None:
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
    processes = server.children().values()
    server.process.send_signal(signal.SIGTERM)
    for number, connection in found.items():
        connection.sock.sendall(bodies[number][-1:])
        assert connection.getresponse().status == 200
    _, log = server.process.communicate(timeout=PATIENCE)
    assert server.process.returncode == 0
    assert log.splitlines()[-1] == "cofio: stopped; all that was written is kept. Goodbye"
    assert all(map(is_gone, processes))
    with Engine.open(server_store(server), settings=Settings(embedder="none")) as engine:
        assert engine.stats().records == 2


def server_store(server: Server) -> str:
    """The address of the store that a server serves."""
    arguments = server.process.args
    assert isinstance(arguments, list)
    return str(arguments[arguments.index("--store") + 1])


@ABOUT_PROCESSES
def test_ctrl_c_ends_all_processes_once(start: Start) -> None:
    server = start()
    processes = [*server.children().values()]
    for process in processes:  # as a terminal does
        os.kill(process, signal.SIGINT)
    code, log = server.end(signal.SIGINT)
    assert code == 130
    assert log.splitlines()[-1] == "cofio: stopped; all that was written is kept. Goodbye"
    assert "started again" not in log
    assert all(map(is_gone, processes))


def test_a_store_that_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "memory.db").write_bytes(b"This is no database at all." * 1000)
    server = Server(StoreAddress(folder=store), tmp_path, "--workers", "2")
    _, log = server.process.communicate(timeout=PATIENCE)
    assert (server.first_line, server.process.returncode) == ("", 1)
    assert len(log.splitlines()) == 1, log
    assert "memory.db" in log


def test_a_wrong_setting_is_told_in_one_line(tmp_path: Path) -> None:
    store = StoreAddress(folder=tmp_path / "store")
    server = Server(
        store, tmp_path, "--workers", "2", COFIO_LLM_BASE_URL="http://x", COFIO_LLM_MODEL="y", COFIO_LLM_BUDGET="z"
    )
    _, log = server.process.communicate(timeout=PATIENCE)
    assert (server.first_line, server.process.returncode) == ("", 1)
    assert (len(log.splitlines()), "budget" in log) == (1, True), log


@ABOUT_PROCESSES
def test_the_numbers_are_those_of_all_processes_and_survive_a_kill(connections: Connections) -> None:
    server, found = connections

    def count_requests(text: str) -> int:
        return int(float(re.findall(r'cofio_http_requests_total\{method="GET",path="/",status="200"\} (.*)', text)[0]))

    for connection in found.values():
        for _ in range(5):
            ask(connection, "/")
    for connection in found.values():
        text = ask(connection, "/metrics")[2]
        assert count_requests(text) == 10
        assert 'cofio_http_request_duration_seconds_count{method="GET",path="/"} 10.0' in text
        assert 'cofio_http_request_duration_seconds_bucket{le="+Inf",method="GET",path="/"} 10.0' in text
        assert "cofio_store_records" in text
        memory = re.findall(r"^process_resident_memory_bytes (.*)$", text, re.MULTILINE)
        status = [
            Path(f"/proc/{each}/status").read_text() for each in (server.process.pid, *server.children().values())
        ]
        least = max(int(re.findall(r"VmRSS:\s+(\d+)", each)[0]) * 1024 for each in status)
        assert float(memory[0]) > 2 * least
    for name, process in server.children().items():
        if name != "background":
            os.kill(process, signal.SIGKILL)
    wait_until(lambda: len(server.children()) == 3)
    texts: list[str] = []

    def is_answered() -> bool:
        with suppress(OSError, http.client.HTTPException):
            texts.append(server.ask("/metrics")[2])
        return bool(texts)

    wait_until(is_answered)
    assert count_requests(texts[0]) == 10


def test_a_token_counts_in_all_workers_as_soon_as_there_is_one(connections: Connections, store: StoreAddress) -> None:
    _, found = connections
    token = add_token(store, "laptop")
    shown = {"Authorization": f"Bearer {token}"}
    hold(store, lambda: {ask(each, "/")[0] for each in found.values()} == {401})
    assert {ask(each, "/", **shown)[0] for each in found.values()} == {200}
    remove_token(store, "laptop")
    hold(store, lambda: {ask(each, "/", **shown)[0] for each in found.values()} == {401})


def test_there_is_room_for_as_many_tasks_as_before(connections: Connections) -> None:
    _, found = connections
    statuses: Counter[int] = Counter()
    for number in range(60):
        body = {"session_id": "one", "async_mode": True, "messages": [make_message(f"The zebra{number} is here.")]}
        statuses[ask(found[str(number % 2)], ADD, body)[0]] += 1
    assert statuses[202] >= 50
    assert set(statuses) <= {202, 429}
    empty: dict[str, Any] = {}

    def is_empty() -> bool:
        empty.update(json.loads(ask(found["0"], "/health")[2])["memorize_queue"])
        return bool(empty["pending"] == 0)

    wait_until(is_empty)
    assert (empty["failed"], empty["healthy"]) == (0, True)


def test_without_workers_one_process_does_everything(start: Start) -> None:
    server = start("--workers", "0")
    assert server.children() == {}
    with closing(server.connect()) as connection:
        write(connection, "s", "The zebra lives in Oslo.")
        assert "zebra" in find(connection, "zebra")
        assert "-" not in open_session(connection)
    assert server.end()[0] == 0


@ABOUT_PROCESSES
def test_the_number_of_workers_is_a_setting_too(start: Start) -> None:
    assert len(start("--json", COFIO_WORKERS="1").children()) == 2
    assert len(start("--workers", "2", COFIO_WORKERS="0").children()) == 3


@pytest.mark.parametrize("count", ["-1", "9", "1.5", "two", "", "99999999999999999999"])
def test_a_number_that_is_none_is_wrong_usage(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--workers", count]) == 2
    assert "--workers" in capsys.readouterr().err


def test_a_setting_that_is_no_number_of_workers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COFIO_WORKERS", "9")
    assert main(["--store", str(tmp_path / "store"), "serve"]) == 1
    assert "from 1 to 8" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_by_default_there_is_a_worker_for_each_core_and_on_windows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.doors.web.supervisor.count_cores", lambda: 3)
    assert [choose_workers(wanted) for wanted in (None, 0, 1, 8)] == [3, 0, 1, 8]
    monkeypatch.setattr("cofio.doors.web.supervisor.count_cores", lambda: 64)
    assert choose_workers(None) == 8
    monkeypatch.setattr(sys, "platform", "win32")
    assert choose_workers(None) == choose_workers(0) == 0
    with pytest.raises(Invalid, match="Windows"):
        choose_workers(2)


def test_a_derived_index_follows_what_workers_write(start: Start, tmp_path: Path) -> None:
    server = start()
    with closing(server.connect()) as connection:
        write(connection, "s", "The zebra lives in Oslo.")

    def follows() -> bool:
        text = server.ask("/metrics")[2]
        return re.findall(r"^cofio_store_waiting_for_vectors (.*)$", text, re.MULTILINE) == ["0.0"]

    wait_until(follows)


def test_counts_are_shared_and_outlive_their_writer() -> None:
    memory = SharedCounts.make()
    first, reader = SharedCounts(memory), SharedCounts(memory)
    first.add("a")
    first.add("longer name", 2.5)
    assert reader.read() == {"a": 1.0, "longer name": 2.5}
    second = SharedCounts(memory)
    second.add("a", 2)
    second.add("b")
    assert reader.read() == {"a": 3.0, "longer name": 2.5, "b": 1.0}
    for number in range(COUNTS_SIZE // 16):
        second.add(f"{number:08}")
    second.add("a")
    assert reader.read()["a"] == 4.0
    os.close(memory)


def test_the_board_tells_what_is_open_and_what_is_yet_to_be_heard_of() -> None:
    memory = Board.make()
    board, other = Board(memory, 2), Board(memory, 2)
    assert (board.find_fewest_connections(0), board.has_busy_threads(), board.measure_silence()) == (None, False, 0.0)
    board.register(0, 100)
    board.register(1, 101)
    board.set_connections(1, 5)
    assert (other.find_fewest_connections(0), other.find_fewest_connections(1)) == (5, 0)
    board.set_busy_threads(1, 2)
    assert other.has_busy_threads()
    board.add_tasks_sent(1, 3)
    board.set_tasks(4)
    board.count_task_received(1)
    assert other.count_tasks() == 6
    assert board.claim_wake()
    assert not other.claim_wake()
    other.clear_wake()
    assert board.claim_wake()
    board.register(1, 0)
    assert (other.has_busy_threads(), other.find_fewest_connections(0), other.is_up(1)) == (False, None, False)
    assert [other.is_up(number) for number in (-1, 3, 99)] == [False] * 3
    board.beat()
    assert other.measure_silence() < PATIENCE
    assert other.read_report() == b""
    for report in (b"one", b"x" * REPORT_SIZE, b"three"):
        board.write_report(report)
        assert other.read_report() == report
    os.close(memory)


def test_only_a_busy_worker_looks_for_an_idle_one() -> None:
    memory = Board.make()
    board = Board(memory, 3)
    for number in (0, 1, 2):
        board.register(number, os.getpid())
    assert board.find_idle_worker(0, 100) is None
    board.set_busy_threads(0, 1)
    assert board.find_idle_worker(0, 100) == 1
    board.set_busy_threads(1, 2)
    assert board.find_idle_worker(0, 100) == 2
    board.set_connections(2, 100)  # it has all that it may have
    assert board.find_idle_worker(0, 100) is None
    board.set_connections(2, 90)  # and many more than the one that asks
    assert board.find_idle_worker(0, 100) is None
    board.set_connections(0, 50)
    assert board.find_idle_worker(0, 100) == 2
    board.register(2, 0)  # it has ended
    assert board.find_idle_worker(0, 100) is None
    os.close(memory)


def test_a_task_that_a_process_was_killed_with_is_not_counted_for_ever() -> None:
    memory = Board.make()
    board = Board(memory, 2)
    board.add_tasks_sent(0, 3)
    board.add_tasks_sent(1, 2)
    board.count_task_received(0)
    assert board.count_tasks() == 4
    board.register(0, 0)  # which was about to send two
    assert board.count_tasks() == 2
    board.count_task_received(0)  # of which one was on its way
    board.add_tasks_sent(0, 1)
    assert board.count_tasks() == 3
    board.register(board.background, 0)  # which was about to count them all
    assert board.count_tasks() == 0
    for number in (0, 1):
        board.count_task_received(number)  # those that its successor finds in the inbox
        board.add_tasks_sent(number, 1)
    assert board.count_tasks() == 2
    os.close(memory)


def test_a_process_that_has_read_the_counts_goes_on_with_them() -> None:
    memory = SharedCounts.make()
    SharedCounts(memory).add("a")
    second = SharedCounts(memory)
    assert second.read() == {"a": 1.0}  # as a worker does that is started again
    second.add("a", 2)
    second.add("b", 4)
    assert second.read() == SharedCounts(memory).read() == {"a": 3.0, "b": 4.0}
    os.close(memory)


def test_counts_are_whole_however_often_they_are_read_meanwhile() -> None:
    memory = SharedCounts.make()
    counts = SharedCounts(memory)
    names = [f"{number}" * (number % 9 + 1) for number in range(300)]

    def count_all() -> None:
        for name in names * 5:
            counts.add(name)

    writer = threading.Thread(target=count_all)
    writer.start()
    while writer.is_alive():
        assert set(counts.read().values()) <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    join(writer)
    assert counts.read() == dict.fromkeys(names, 5.0)
    os.close(memory)
