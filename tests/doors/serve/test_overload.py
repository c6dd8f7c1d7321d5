"""More than a server can do: what it cannot answer soon it refuses at once, in each door's form; all else goes on.

A server whose writes stand still is a real one: another process holds the lock of its database.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from tests.waiting import PATIENCE, join, wait_until

from cofio import Engine, Settings
from cofio.doors import threads
from cofio.doors.mcp import http as mcp
from cofio.doors.memory_tool import http as memory_tool
from cofio.doors.rest import http as rest
from cofio.doors.web.connections import BACKLOG, MAX_CONNECTIONS, ConnectionPool
from cofio.doors.web.overload import LATE, REFUSAL, RETRY_AFTER, LoopLag, Overload, ServerLoad
from cofio.doors.web.workers import (
    BURST,
    BURST_PER_THREAD,
    CAUTION,
    FIRST_GUESS,
    LONG_PATIENCE,
    MAX_WAITING,
    Workers,
    get_gone_check,
)
from cofio.doors.web.workers import PATIENCE as WAIT
from cofio.system.processes import raise_file_limit

JSON = "Content-Type: application/json\r\n"
STATELESS, META = "2026-07-28", "io.modelcontextprotocol/"
MOST = 2000  # requests after which a server that refuses none of them never will


def make_request(method: str, path: str, body: object = None, headers: str = JSON) -> bytes:
    """A request as it goes over the wire."""
    content = b"" if body is None else json.dumps(body).encode()
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode()
        + content
    )


def add_message(number: int) -> bytes:
    message = {
        "sender_id": "alice",
        "role": "user",
        "timestamp": 1779967836000,
        "content": f"I live in house {number}.",
    }
    return make_request("POST", "/api/v2/memory/add", {"session_id": f"s{number}", "messages": [message]})


def add_message_as_before(number: int) -> bytes:
    return add_message(number).replace(b"/api/v2/", b"/api/v1/")


def write_note(number: int) -> bytes:
    params = {
        "name": "write_context", "arguments": {"topic": f"t{number}", "content": f"house {number}"},
        "_meta": {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}},
    }  # fmt: skip
    headers = (
        f"{JSON}Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {STATELESS}\r\n"
        "Mcp-Method: tools/call\r\nMcp-Name: write_context\r\n"
    )
    return make_request(
        "POST", "/mcp", {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, headers
    )


def create_file(number: int) -> bytes:
    command = {"command": "create", "path": f"/memories/{number}.md", "file_text": f"house {number}"}
    return make_request("POST", "/api/v1/memory-tool", command)


def save_checkpoint(number: int) -> bytes:
    return make_request("POST", f"/threads/t{number}/checkpoints", {"state": {"house": number}})


SEARCH = make_request("POST", "/api/v2/memory/search", {"user_id": "alice", "query": "house", "method": "keyword"})


@dataclass(frozen=True)
class Answer:
    """What a request was answered with."""

    status: int
    head: str
    body: bytes

    @property
    def is_refusal(self) -> bool:
        """Whether it was refused because there is too much to do."""
        return self.status == 503 and "\r\nretry-after: 1\r\n" in f"{self.head}\r\n".lower()

    def parse(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection, which sends requests and reads their answers."""

    def __init__(self, port: int, request: bytes = b"") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._rest = b""
        self.send(request)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def is_answered(self, seconds: float = 0.0) -> bool:
        """Whether something has come within the time."""
        return bool(self._rest or select.select([self._socket], [], [], seconds)[0])

    def read(self) -> Answer:
        """The next answer."""
        while b"\r\n\r\n" not in self._rest:
            self._receive()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        (length,) = re.findall(rb"\r\ncontent-length: (\d+)", head.lower())
        while len(self._rest) < int(length):
            self._receive()
        body, self._rest = self._rest[: int(length)], self._rest[int(length) :]
        return Answer(int(head.split()[1]), head.decode(), body)

    def _receive(self) -> None:
        piece = self._socket.recv(1 << 20)
        assert piece, "the connection was closed"
        self._rest += piece

    def close(self) -> None:
        self._socket.close()


class Server:
    """`cofio serve` in a process of its own."""

    def __init__(self, store: Path, process: subprocess.Popen[str], stack: ExitStack) -> None:
        self.store = store
        self._stack = stack
        assert process.stdout is not None
        self.port = int(process.stdout.readline().rsplit(":", 1)[1].split("/")[0])

    def connect(self, request: bytes = b"") -> Client:
        """A connection, over which the request is sent."""
        return self._stack.enter_context(closing(Client(self.port, request)))

    def ask(self, request: bytes) -> Answer:
        """The answer to a request, over a connection of its own."""
        with closing(Client(self.port, request)) as client:
            return client.read()

    def measure(self, name: str, door: str) -> float:
        """One of its numbers."""
        told = self.ask(make_request("GET", "/metrics")).body.decode()
        (found,) = re.findall(rf'^{name}{{door="{door}"}} (\S+)$', told, re.MULTILINE)
        return float(found)

    @contextmanager
    def stop_writes(self) -> Iterator[None]:
        """Hold the lock of its database."""
        with closing(sqlite3.connect(self.store / "memory.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                other.execute("ROLLBACK")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "store") as started:
        yield started


@contextmanager
def serving(store: Path) -> Iterator[Server]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    environ |= {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", "COFIO_WORKERS": "0"}
    command = [sys.executable, "-m", "cofio", "serve", "--store", str(store), "--port", "0"]
    with (
        ExitStack() as stack,
        subprocess.Popen(command, env=environ, cwd=store.parent, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            yield Server(store, process, stack)
        finally:
            stack.close()
            process.terminate()
            process.wait(PATIENCE)


def send_until_refused(server: Server, make: Callable[[int], bytes]) -> tuple[list[Client], Answer]:
    """Send requests, none of which can be met, until one is refused; those that wait, and the refusal."""
    waiting: list[Client] = []
    for number in range(MOST):
        client = server.connect(make(number))
        if client.is_answered(0.02):
            return waiting, client.read()
        waiting.append(client)
    raise AssertionError("nothing was refused")


DOORS = {
    "rest": (add_message, 200), "rest, v1": (add_message_as_before, 200), "mcp": (write_note, 200),
    "memory_tool": (create_file, 200), "checkpoints": (save_checkpoint, 201),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_door_refuses_in_its_own_form_and_then_answers_as_ever(server: Server, door: str) -> None:
    make, status = DOORS[door]
    assert server.ask(make(MOST)).status == status
    with server.stop_writes():
        waiting, refusal = send_until_refused(server, make)
        assert refusal.is_refusal
        match door:
            case "rest" | "rest, v1":
                error = refusal.parse()["error"]
                assert (error["code"], error["message"]) == ("QUEUE_SATURATED", REFUSAL)
            case "mcp":
                error = refusal.parse()
                assert error["jsonrpc"] == "2.0"
                assert error["id"] is None or isinstance(error["id"], int)  # of one that was read, and waited too long
                assert error["error"] == {"code": -32603, "message": REFUSAL}
            case "memory_tool":
                assert refusal.parse() == {"content": f"Error: {REFUSAL}", "is_error": True}
            case "checkpoints":
                assert refusal.parse()["error"]["message"] == REFUSAL
        name = door.partition(",")[0]
        assert server.measure("cofio_http_refused_total", name) >= 1  # one that waits for long may be refused after all
        assert server.measure("cofio_http_waiting", name) > 0
    outcomes = [client.read() for client in waiting]
    assert all(answer.status == status or answer.is_refusal for answer in outcomes)
    assert any(answer.status == status for answer in outcomes)
    assert server.measure("cofio_http_waiting", name) == 0
    assert server.ask(make(MOST + 1)).status == status


def test_nothing_of_what_was_refused_is_done_and_all_of_what_was_acknowledged(server: Server) -> None:
    with server.stop_writes():
        waiting, _ = send_until_refused(server, create_file)
    outcomes = [client.read() for client in waiting]
    done = {f"/memories/{number}.md" for number, answer in enumerate(outcomes) if answer.status == 200}
    listing = server.ask(make_request("POST", "/api/v1/memory-tool", {"command": "view", "path": "/memories"}))
    assert set(re.findall(r"/memories/\d+\.md", listing.parse()["content"])) == done


def test_a_door_that_is_full_stands_in_no_other_ones_way(server: Server) -> None:
    assert server.ask(add_message(0)).status == 200
    with server.stop_writes():
        waiting, _ = send_until_refused(server, add_message)
        assert server.ask(make_request("GET", "/health")).parse()["status"] == "ok"
        assert server.ask(make_request("GET", "/metrics")).status == 200
        assert server.ask(SEARCH).status == 200
        assert server.ask(make_request("GET", "/threads/t/checkpoints")).status == 200
        view = make_request("POST", "/api/v1/memory-tool", {"command": "view", "path": "/memories"})
        assert server.ask(view).status == 200
    for client in waiting:
        client.read()


def test_a_body_is_refused_before_it_is_sent_and_the_connection_stays_good(server: Server) -> None:
    message = add_message(0)
    head, _, body = message.partition(b"\r\n\r\n")
    with server.stop_writes():
        waiting, _ = send_until_refused(server, add_message)
        client = server.connect(head + b"\r\n\r\n" + body[:5])
        assert client.read().is_refusal
        client.send(body[5:] + make_request("GET", "/health"))
        assert client.read().parse()["status"] == "ok"
        expecting = server.connect(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert expecting.read().is_refusal
    for each in waiting:
        each.read()
    client.send(message)
    assert client.read().status == 200


def test_a_burst_is_partly_answered_and_partly_refused_and_then_all_is_normal(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Engine.open(store, settings=Settings(background=False, embedder="none", sync="normal")) as engine:
        for number in range(2000):  # so that to list them takes its time
            engine.checkpoints.save("library", "t", f"c{number}", {"n": number}, metadata={"step": number})
    listing = make_request("GET", "/threads/t/checkpoints?limit=10000")
    with serving(store) as server:
        clients = [server.connect() for _ in range(700)]
        for client in clients:
            client.send(listing)
        outcomes = [client.read() for client in clients]
        assert all(answer.status == 200 or answer.is_refusal for answer in outcomes)
        counts = Counter(answer.status for answer in outcomes)
        assert set(counts) == {200, 503}, counts
        assert server.measure("cofio_http_refused_total", "checkpoints") == counts[503]
        assert server.measure("cofio_http_waiting", "checkpoints") == 0
        assert len(server.ask(listing).parse()["checkpoints"]) == 2000


def test_a_thousand_clients_that_are_slow_or_idle_do_not_hurt_the_others(server: Server) -> None:
    if raise_file_limit(4096) < 2048:
        pytest.skip("this system does not let a process have so many connections")
    halves = (b"", b"POST /api/v2/memory/add HTTP/1.1\r\nHost: loc", add_message(0)[:-20], write_note(0)[:-20])
    clients = [server.connect(halves[number % 4]) for number in range(1000)]
    for number in range(25):
        for make, status in DOORS.values():
            assert server.ask(make(number)).status == status
        assert server.ask(SEARCH).status == 200
    whole = server.connect(add_message(1000))
    assert whole.read().status == 200
    clients[2].send(add_message(0)[-20:])  # and they are answered in their turn
    assert clients[2].read().status == 200


# What the doors stand on.


@dataclass
class Gate:
    """Work that takes until it is let go on."""

    go_on: threading.Event = field(default_factory=threading.Event)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def work(self) -> str:
        self.begun.release()
        assert self.go_on.wait(PATIENCE)
        return "done"


@contextmanager
def make_workers(load: ServerLoad, count: int = 2, **chosen: float) -> Iterator[Workers]:
    workers = Workers(count, "test", load.find_door("test"), **chosen)
    try:
        yield workers
    finally:
        workers.shut_down(wait=True)


def test_a_short_burst_always_passes_and_what_would_wait_too_long_does_not() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_workers(load, patience=FIRST_GUESS) as workers:  # so that none but a burst can be answered in time
            calls = [asyncio.create_task(workers.run(gate.work)) for _ in range(2 + 2 * BURST_PER_THREAD)]
            await asyncio.to_thread(lambda: [gate.begun.acquire(timeout=PATIENCE) for _ in range(2)])
            assert workers.queue_length == load.find_door("test").queue_length == 2 * BURST_PER_THREAD
            with pytest.raises(Overload):
                workers.check_room()
            with pytest.raises(Overload):
                await workers.run(gate.work)
            assert load.find_door("test").refused == 2
            gate.go_on.set()
            assert await asyncio.gather(*calls) == ["done"] * len(calls)
            assert workers.queue_length == 0
            workers.check_room()

    anyio.run(run)


def test_quick_calls_may_wait_in_great_number_but_not_in_any() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_workers(load, patience=1e9) as workers:
            calls = [asyncio.create_task(workers.run(gate.work)) for _ in range(2 + MAX_WAITING)]
            await asyncio.to_thread(lambda: [gate.begun.acquire(timeout=PATIENCE) for _ in range(2)])
            with pytest.raises(Overload):
                await workers.run(gate.work)
            gate.go_on.set()
            assert len(await asyncio.gather(*calls)) == 2 + MAX_WAITING

    anyio.run(run)


def test_what_has_waited_too_long_behind_others_is_refused_when_its_turn_comes() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_workers(load, count=1, patience=0.5) as workers:
            for _ in range(50):  # quick ones, so that many more are let in
                await workers.run(str)
            calls = [asyncio.create_task(workers.run(gate.work)) for _ in range(1 + BURST)]
            await asyncio.to_thread(gate.begun.acquire, timeout=PATIENCE)
            await asyncio.sleep(0.6)  # which is the time that is up
            with pytest.raises(Overload):
                workers.check_room()
            gate.go_on.set()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            refused = [each for each in outcomes if isinstance(each, Overload)]
            # The last few are no crowd any more: each of them is done, however late.
            assert (len(refused), outcomes.count("done")) == (BURST - BURST_PER_THREAD, 1 + BURST_PER_THREAD)
            assert load.find_door("test").refused == len(refused) + 1

    anyio.run(run)


def test_a_call_that_is_cancelled_while_it_waits_is_not_counted_any_more() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_workers(load, count=1, patience=1e9) as workers:
            first = asyncio.create_task(workers.run(gate.work))
            await asyncio.to_thread(gate.begun.acquire, timeout=PATIENCE)
            others = [asyncio.create_task(workers.run(gate.work)) for _ in range(5)]
            await asyncio.sleep(0)
            assert workers.queue_length == 5
            for each in others[1:4]:
                each.cancel()
            await asyncio.wait(others[1:4])
            assert workers.queue_length == 2
            gate.go_on.set()
            assert set(await asyncio.gather(first, others[0], others[4])) == {"done"}
            assert workers.queue_length == 0

    anyio.run(run)


def test_while_the_event_loop_is_late_only_few_calls_wait() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_workers(load) as workers, load.lag.measure():
            calls = [asyncio.create_task(workers.run(gate.work)) for _ in range(4)]
            await asyncio.to_thread(lambda: [gate.begun.acquire(timeout=PATIENCE) for _ in range(2)])
            workers.check_room()
            wait_until(lambda: load.lag.seconds > LATE)  # in the loop's own thread, so that it stands still
            with pytest.raises(Overload):
                workers.check_room()
            with anyio.fail_after(PATIENCE):
                while load.lag.seconds > LATE:
                    await asyncio.sleep(0.01)
            workers.check_room()
            gate.go_on.set()
            await asyncio.gather(*calls)
        assert LoopLag().seconds == load.lag.seconds == 0

    anyio.run(run)


@dataclass
class Reader:
    """An application that only reads, one request at a time."""

    gate: Gate = field(default_factory=Gate)
    workers: Workers = field(default_factory=lambda: Workers(1, "test", ServerLoad().find_door("test")))
    gone: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self.workers.run(self.gate.work, get_gone_check(scope))
        except ClientDisconnect:
            self.gone.append(scope["path"])
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def test_what_only_reads_is_not_begun_for_a_client_that_has_gone() -> None:
    reader = Reader()
    pool = ConnectionPool()
    config = uvicorn.Config(reader, http=pool.protocol(), ws="none", lifespan="off", log_level="warning")
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        port = listening.getsockname()[1]
        first = Client(port, make_request("GET", "/first"))
        assert reader.gate.begun.acquire(timeout=PATIENCE)
        goes, stays = Client(port, make_request("GET", "/goes")), Client(port, make_request("GET", "/stays"))
        wait_until(lambda: reader.workers.queue_length == 2)
        goes.close()
        wait_until(lambda: len(running.server_state.connections) == 2)
        reader.gate.go_on.set()
        assert (first.read().status, stays.read().status) == (200, 200)
        wait_until(lambda: reader.gone == ["/goes"])
        assert reader.gate.begun.acquire(blocking=False)  # for the one that stayed
        assert not reader.gate.begun.acquire(blocking=False)
        first.close()
        stays.close()
        running.should_exit = True
        join(thread)
    reader.workers.shut_down(wait=True)


def test_the_page_on_serving_says_what_the_code_does() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "serving.md").read_text().split())
    for row in (
        f"| REST, calls that write | {rest.WRITERS} | {BURST} | {rest.UPLOADERS} for files"
        f" (uploads), {LONG_PATIENCE:g} s |",
        f"| REST, calls that read | {rest.READERS} | {BURST} |",
        f"| MCP | {mcp.THREADS} | {BURST}; {mcp.MAX_CALLS} calls at once in all |",
        f"| memory tool | {memory_tool.THREADS} | {BURST} |",
        f"| checkpoints | {threads.THREADS} | {BURST} | {threads.LARGE_THREADS} for states of"
        f" {threads.LARGE // 2**20} MiB and more, {LONG_PATIENCE:g} s |",
        f"likely to be answered within {CAUTION * WAIT:g} s, but at least {BURST}",
        f"and {MAX_WAITING} at most",
        f"While the loop is more than {LATE:g} s late",
        f"{MAX_CONNECTIONS:,} at most, and {BACKLOG:,} more",
        f"`Retry-After: {RETRY_AFTER}`",
    ):
        assert row in page
    assert WAIT == 1
