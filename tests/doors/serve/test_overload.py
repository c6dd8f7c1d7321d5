"""More than a server can do: what it cannot answer soon it refuses at once, in each door's form; all else goes on.

Writes stand still while another connection holds the lock of the database.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from tests.waiting import PATIENCE, join, wait_for, wait_until

from cofio.config.address import StoreAddress
from cofio.http import admission
from cofio.http.admission import (
    BURST_PER_THREAD,
    FIRST_AVERAGE_SECONDS,
    GREEDY_SECONDS,
    MAX_LAG_SECONDS,
    MAX_WAIT_SECONDS,
    MAX_WAITING,
    REFUSAL,
    TICK_SECONDS,
    CallQueue,
    Overload,
    ServerLoad,
    get_gone_check,
)
from cofio.http.connections import ConnectionLimits, Connections
from cofio.http.tracing import RequestTracer

from .conftest import META, REVISION
from .conftest import Server as ServerProcess

JSON = "Content-Type: application/json\r\n"
CROWD = 200  # requests at once, more than any door lets wait


def make_request(method: str, path: str, body: object = None, headers: str = JSON) -> bytes:
    """Return a request as it goes over the wire."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def add_message(number: int) -> bytes:
    message = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": f"House {number} is mine."}
    return make_request("POST", "/api/v2/memory/add", {"session_id": f"s{number}", "messages": [message]})


def write_note(number: int) -> bytes:
    params = {
        "name": "write_context", "arguments": {"topic": f"t{number}", "content": f"house {number}"},
        "_meta": {f"{META}protocolVersion": REVISION, f"{META}clientCapabilities": {}},
    }  # fmt: skip
    headers = (
        f"{JSON}Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {REVISION}\r\n"
        "Mcp-Method: tools/call\r\nMcp-Name: write_context\r\n"
    )
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return make_request("POST", "/mcp", message, headers)


def create_file(number: int) -> bytes:
    command = {"command": "create", "path": f"/memories/{number}.md", "file_text": f"house {number}"}
    return make_request("POST", "/api/v1/memory-tool", command)


def save_checkpoint(number: int) -> bytes:
    return make_request("POST", f"/threads/t{number}/checkpoints", {"state": {"house": number}})


SEARCH = make_request("POST", "/api/v2/memory/search", {"user_id": "alice", "query": "house", "method": "keyword"})
VIEW = make_request("POST", "/api/v1/memory-tool", {"command": "view", "path": "/memories"})


@dataclass(frozen=True)
class Answer:
    """An answer to a request."""

    status: int
    head: str
    body: bytes

    @property
    def is_refusal(self) -> bool:
        """Tell whether it says that there is too much to do."""
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
        """Tell whether something has come, or comes within the time."""
        return bool(self._rest or select.select([self._socket], [], [], seconds)[0])

    def read(self) -> Answer:
        """Return the next answer."""
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
    """`cofio serve` in one process."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.store = folder / "store"
        self._stack = stack
        self.process = ServerProcess(StoreAddress(folder=self.store), folder, "--workers", "1")

    def connect(self, request: bytes = b"") -> Client:
        """Return a connection, over which the request is sent."""
        return self._stack.enter_context(closing(Client(self.process.port, request)))

    def ask(self, request: bytes) -> Answer:
        """Send a request over a connection of its own."""
        with closing(Client(self.process.port, request)) as client:
            return client.read()

    def measure(self, name: str, door: str) -> float:
        """Return one of its numbers."""
        text = self.ask(make_request("GET", "/metrics")).body.decode()
        (found,) = re.findall(rf'^{name}{{door="{door}"}} (\S+)$', text, re.MULTILINE)
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

    def overload(self, make: Callable[[int], bytes]) -> tuple[list[Client], Answer]:
        """Send many requests while no write is done; return those that wait, and the first answer, a refusal."""
        clients = [self.connect(make(number)) for number in range(CROWD)]
        (first, *_) = wait_for(lambda: [client for client in clients if client.is_answered()], bool)
        return [client for client in clients if client is not first], first.read()


@pytest.fixture
def server(process: None, tmp_path: Path) -> Iterator[Server]:
    """A server in one process."""
    with ExitStack() as stack:
        started = Server(tmp_path, stack)
        yield started
        stack.close()
        assert started.process.end()[0] == 0


DOORS = {
    "rest": (add_message, 200), "mcp": (write_note, 200), "memory_tool": (create_file, 200),
    "checkpoints": (save_checkpoint, 201),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_door_refuses_in_its_own_form_and_then_answers_as_ever(server: Server, door: str) -> None:
    make, status = DOORS[door]
    assert server.ask(make(CROWD)).status == status
    with server.stop_writes():
        waiting, refusal = server.overload(make)
        assert refusal.is_refusal
        match door:
            case "rest":
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
        assert server.measure("cofio_http_refused_total", door) >= 1
        assert server.measure("cofio_http_waiting", door) > 0
        if door == "rest":  # which stands in no other one's way
            for request in (
                make_request("GET", "/health"),
                SEARCH,
                make_request("GET", "/threads/t/checkpoints"),
                VIEW,
            ):
                assert server.ask(request).status == 200
    outcomes = [client.read() for client in waiting]
    assert all(answer.status == status or answer.is_refusal for answer in outcomes)
    assert any(answer.status == status for answer in outcomes)
    assert server.measure("cofio_http_waiting", door) == 0
    assert server.ask(make(CROWD + 1)).status == status


def test_nothing_of_what_was_refused_is_done_and_all_of_what_was_acknowledged(server: Server) -> None:
    assert server.ask(VIEW).status == 200
    with server.stop_writes():
        clients, _ = server.overload(create_file)
    acknowledged = sum(client.read().status == 200 for client in clients)
    assert 0 < acknowledged < CROWD
    assert len(set(re.findall(r"/memories/\d+\.md", server.ask(VIEW).parse()["content"]))) == acknowledged


def test_a_large_body_is_refused_before_it_is_sent_and_the_connection_stays_good(server: Server) -> None:
    text = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": "House. " * 20_000}
    message = make_request("POST", "/api/v2/memory/add", {"session_id": "s", "messages": [text]})
    head, _, body = message.partition(b"\r\n\r\n")
    sent: list[Client] = []

    def is_refused_by_its_head() -> bool:
        """Send half a request; once the first has waited for a while, no more are let in."""
        sent.append(server.connect(head + b"\r\n\r\n" + body[:5]))
        return sent[-1].is_answered(0.1)

    assert server.ask(message).status == 200
    with server.stop_writes():
        waiting, _ = server.overload(add_message)
        wait_until(is_refused_by_its_head)
        client = sent[-1]
        assert client.read().is_refusal
        client.send(body[5:] + make_request("GET", "/health"))
        assert client.read().parse()["status"] == "ok"
        expecting = server.connect(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert expecting.read().is_refusal
    for each in waiting:
        each.read()
    client.send(message)
    assert client.read().status == 200


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
def make_queue(load: ServerLoad, count: int = 2, **chosen: float) -> Iterator[CallQueue]:
    made = CallQueue(count, "test", load, **chosen)
    try:
        yield made
    finally:
        made.shut_down(wait=True)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list of one item, that the queues go by."""
    times = [1000.0]
    monkeypatch.setattr(admission, "monotonic", lambda: times[0])
    return times


async def wait_for_begun(gate: Gate, count: int) -> None:
    await asyncio.to_thread(lambda: [gate.begun.acquire(timeout=PATIENCE) for _ in range(count)])


@pytest.mark.parametrize(
    ("max_seconds", "room"),
    [(FIRST_AVERAGE_SECONDS, 2 * BURST_PER_THREAD), (1e9, MAX_WAITING)],  # as if calls were slow, or took no time
    ids=["a burst", "many"],
)
def test_a_short_burst_always_passes_and_no_queue_is_without_end(max_seconds: float, room: int) -> None:
    async def run() -> None:
        gate, load, refused = Gate(), ServerLoad(), list[str]()
        load.on_refusal = refused.append
        with make_queue(load, max_seconds=max_seconds) as pool:
            calls = [asyncio.create_task(pool.run(gate.work)) for _ in range(2 + room)]
            await wait_for_begun(gate, 2)
            assert load.count_waiting() == {"test": pool.waiting} == {"test": room}
            with pytest.raises(Overload):
                pool.check_room()
            with pytest.raises(Overload):
                await pool.run(gate.work)
            assert refused == ["test"] * 2
            gate.go_on.set()
            assert await asyncio.gather(*calls) == ["done"] * len(calls)
            assert pool.waiting == 0
            pool.check_room()

    anyio.run(run)


@pytest.mark.parametrize(
    ("waiting", "seconds"), [(BURST_PER_THREAD, 1.0), (1, MAX_WAIT_SECONDS)], ids=["a crowd", "one"]
)
def test_what_has_waited_too_long_is_refused_although_no_thread_is_free(
    now: list[float], waiting: int, seconds: float
) -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_queue(load, count=1) as pool, load.watch():
            calls = [asyncio.create_task(pool.run(gate.work)) for _ in range(1 + waiting)]
            await wait_for_begun(gate, 1)
            now[0] += seconds - 0.1
            await asyncio.sleep(3 * TICK_SECONDS)
            assert pool.waiting == waiting
            now[0] += 0.2
            with anyio.fail_after(PATIENCE):
                outcomes = await asyncio.gather(*calls[1:], return_exceptions=True)
            assert {type(each) for each in outcomes} == {Overload}
            gate.go_on.set()
            assert await calls[0] == "done"

    anyio.run(run)


def test_a_call_that_is_cancelled_while_it_waits_is_not_counted_any_more() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_queue(load, count=1, max_seconds=1e9) as pool:
            first = asyncio.create_task(pool.run(gate.work))
            await wait_for_begun(gate, 1)
            others = [asyncio.create_task(pool.run(gate.work)) for _ in range(5)]
            await asyncio.sleep(0)
            assert pool.waiting == 5
            for each in others[1:4]:
                each.cancel()
            await asyncio.wait(others[1:4])
            assert pool.waiting == 2
            gate.go_on.set()
            assert set(await asyncio.gather(first, others[0], others[4])) == {"done"}

    anyio.run(run)


def test_each_client_that_waits_has_its_turn_and_the_one_with_the_most_calls_makes_room() -> None:
    async def run() -> None:
        gate, load, order = Gate(), ServerLoad(), list[str]()
        with make_queue(load, count=2) as pool:

            def note(name: str) -> str:
                gate.work()
                order.append(name)
                return name

            greedy = [asyncio.create_task(pool.run(partial(note, "greedy"), client="greedy")) for _ in range(10)]
            await wait_for_begun(gate, 2)
            assert pool.waiting == 2 * BURST_PER_THREAD
            with pytest.raises(Overload):
                await pool.run(gate.work, client="greedy")
            modest = [asyncio.create_task(pool.run(partial(note, "modest"), client="modest")) for _ in range(2)]
            await asyncio.sleep(0)
            assert pool.waiting == 2 * BURST_PER_THREAD  # two of the greedy one's made room
            gate.go_on.set()
            assert await asyncio.gather(*modest) == ["modest"] * 2
            outcomes = await asyncio.gather(*greedy, return_exceptions=True)
            assert sum(isinstance(each, Overload) for each in outcomes) == 2
            assert order.index("modest") <= 3

    anyio.run(run)


def test_a_client_that_keeps_the_processor_busy_has_one_thread_at_all_doors_while_others_call() -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_queue(load, count=4) as reads, make_queue(load, count=4) as writes:
            load.note_use("greedy", 2 * GREEDY_SECONDS)
            calls = [asyncio.create_task(pool.run(gate.work, client="greedy")) for pool in (reads, writes) * 2]
            await wait_for_begun(gate, 4)  # nobody else calls
            calls += [asyncio.create_task(reads.run(gate.work, client="modest")) for _ in range(2)]
            await wait_for_begun(gate, 2)
            calls += [asyncio.create_task(pool.run(gate.work, client="greedy")) for pool in (reads, writes)]
            await asyncio.sleep(0)
            assert (reads.waiting, writes.waiting) == (1, 1)
            gate.go_on.set()
            assert set(await asyncio.gather(*calls)) == {"done"}

    anyio.run(run)


def test_while_the_event_loop_is_late_only_few_calls_wait(now: list[float]) -> None:
    async def run() -> None:
        gate, load = Gate(), ServerLoad()
        with make_queue(load) as pool, load.watch():
            calls = [asyncio.create_task(pool.run(gate.work)) for _ in range(4)]
            await wait_for_begun(gate, 2)
            pool.check_room()
            now[0] += 2 * MAX_LAG_SECONDS
            with pytest.raises(Overload):
                pool.check_room()
            with anyio.fail_after(PATIENCE):
                while load.is_late:  # until its next two looks at the clock
                    await asyncio.sleep(0.01)
            pool.check_room()
            gate.go_on.set()
            await asyncio.gather(*calls)
        assert not load.is_late

    anyio.run(run)


@dataclass
class Reader:
    """An application that only reads, one request at a time."""

    gate: Gate = field(default_factory=Gate)
    queue: CallQueue = field(default_factory=lambda: CallQueue(1, "test", ServerLoad()))
    gone: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self.queue.run(self.gate.work, get_gone_check(scope))
        except ClientDisconnect:
            self.gone.append(scope["path"])
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def test_what_only_reads_is_not_begun_for_a_client_that_has_gone() -> None:
    reader = Reader()
    connections = Connections(ConnectionLimits())
    app, make = RequestTracer(reader), cast(Any, connections.make)
    config = uvicorn.Config(app, http=make, ws="none", lifespan="off", log_level="warning")
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        port = listening.getsockname()[1]
        first = Client(port, make_request("GET", "/first"))
        assert reader.gate.begun.acquire(timeout=PATIENCE)
        goes, stays = Client(port, make_request("GET", "/goes")), Client(port, make_request("GET", "/stays"))
        wait_until(lambda: reader.queue.waiting == 2)
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
    reader.queue.shut_down(wait=True)
