"""Connections that keep the server waiting are closed; they never cost a client whose request is whole its answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import anyio.lowlevel
import anyio.to_thread
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.waiting import wait_until

from cofio.http import bodies
from cofio.http.bodies import BodyBudget, read_pieces
from cofio.http.connections import MAX_HEAD_BYTES, ConnectionLimits, Connections
from cofio.http.errors import RequestError
from cofio.http.logs import LogThrottle
from cofio.http.tracing import RequestTracer

NEVER = 300.0  # seconds: longer than any test
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEAD = b"POST / HTTP/1.1\r\nHost: loc"
HALF_A_BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"


@dataclass
class Application:
    """Answers with how many bytes it was sent; `/wait` when it is told to, `/flood` without end."""

    go_on: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    flood_over: threading.Event = field(default_factory=threading.Event)
    connections: Connections | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        try:
            async for piece in read_pieces(scope, receive, 1000):
                size += len(piece)
        except RequestError as error:
            await answer(send, str(error).encode(), error.status)
            return
        if scope["path"] == "/wait":
            self.waiting.release()
            await anyio.to_thread.run_sync(self.go_on.wait, 60)
        if scope["path"] == "/flood":
            await self._flood(receive, send)
            return
        await answer(send, b"%d" % size)

    async def _flood(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async with anyio.create_task_group() as tasks:

            async def pour() -> None:
                while True:
                    await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
                    await anyio.lowlevel.checkpoint()  # to send to nobody takes no time

            tasks.start_soon(pour)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
        self.flood_over.set()


async def answer(send: Send, content: bytes, status: int = 200) -> None:
    """Answer."""
    length = (b"content-length", b"%d" % len(content))
    await send({"type": "http.response.start", "status": status, "headers": [length]})
    await send({"type": "http.response.body", "body": content})


class Client:
    """A client that sends what it is told to, byte by byte."""

    def __init__(self, port: int, sent: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.got = b""
        self.send(sent)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_answer(self) -> tuple[int, bytes]:
        """The status and the body of the next answer."""
        while b"\r\n\r\n" not in self.got:
            self._read_more()
        head, _, self.got = self.got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(self.got) < length:
            self._read_more()
        body, self.got = self.got[:length], self.got[length:]
        return int(head.split()[1]), body

    def _read_more(self) -> None:
        piece = self.socket.recv(65_536)
        assert piece, "the connection was closed"
        self.got += piece

    def is_closed(self) -> bool:
        """Wait until the server says something or closes; tell whether it closed."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


Connect = Callable[..., Client]


@contextmanager
def limited(application: Application, limit: int = 100, **seconds: float) -> Iterator[Connect]:
    """A real server whose clients may take these times, and any other for ever; give a function that connects to it."""
    times: dict[str, Any] = {"head_seconds": NEVER, "unread_seconds": NEVER, "idle_seconds": NEVER} | seconds
    limits = ConnectionLimits(connections=limit, **times)
    started, connections = threading.Event(), Connections(limits)
    application.connections = connections

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    app, make, idle = RequestTracer(application), cast(Any, connections.make), cast(int, limits.idle_seconds)
    server = Server(uvicorn.Config(app, http=make, ws="none", log_level="warning", timeout_keep_alive=idle))
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert started.wait(60)

        def connect(sent: bytes = b"") -> Client:
            client = Client(listening.getsockname()[1], sent)
            stack.callback(client.socket.close)
            return client

        try:
            yield connect
        finally:
            application.go_on.set()
            stack.close()
            server.should_exit = True
            thread.join(60)


@pytest.fixture
def application() -> Application:
    """What is served."""
    return Application()


# Time.


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nX: y\r\n"], ids=["nothing", "a byte", "half a head"])
def test_who_sends_no_request_is_let_go(application: Application, sent: bytes) -> None:
    with limited(application, head_seconds=0.2) as connect:
        client = connect(sent)
        if sent:
            assert client.read_answer()[0] == 408
        assert client.is_closed()


def test_who_sends_half_a_body_is_told_so(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_PAUSE_SECONDS", 0.2)
    with limited(application) as connect:
        assert connect(HALF_A_BODY).read_answer() == (408, b"nothing more of the body came for 0.2 seconds")


def test_a_body_that_comes_byte_by_byte_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(bodies, "MIN_BYTES_PER_SECOND", 1e9)

    async def receive() -> dict[str, Any]:
        await anyio.lowlevel.checkpoint()
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read() -> None:
        async for _ in read_pieces({"state": {}, "headers": []}, receive, 1000):
            pass

    with pytest.raises(RequestError, match="too slowly"):
        anyio.run(read)


def test_only_a_head_is_held_to_the_time_for_heads(application: Application) -> None:
    with limited(application, head_seconds=0.3) as connect:
        waits, sends = connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"), connect(HALF_A_BODY)
        rests = connect(GET)
        assert rests.read_answer() == (200, b"0")
        for _ in range(2):  # so the time for heads has passed
            assert connect().is_closed()
        sends.send(b"123456789")
        assert sends.read_answer() == (200, b"10")
        application.go_on.set()
        assert waits.read_answer() == (200, b"0")
        rests.send(GET + GET)  # two at once
        assert [rests.read_answer() for _ in range(2)] == [(200, b"0")] * 2
        rests.send(b"\r\n")  # which begins nothing, but is a head from now on
        assert rests.read_answer()[0] == 408
        assert rests.is_closed()


def test_a_connection_that_is_idle_for_too_long_is_closed(application: Application) -> None:
    with limited(application, idle_seconds=0.2) as connect:
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        assert client.is_closed()
    assert ConnectionLimits().idle_seconds > 120  # longer than proxies keep one


# What is sent.


def test_who_does_not_read_the_answer_is_let_go(application: Application) -> None:
    with limited(application, unread_seconds=0.2) as connect:
        connect(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert application.flood_over.wait(60)


def test_a_head_without_end_is_refused(application: Application) -> None:
    with limited(application) as connect:
        client = connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):
            for _ in range(100 * MAX_HEAD_BYTES // 1000):
                client.send(b"X: " + b"y" * 1000 + b"\r\n")
        with suppress(ConnectionError):  # what was sent after it was refused may have reset the connection
            assert client.read_answer()[0] == 431
        assert connect(GET).read_answer() == (200, b"0")


# Number.


def test_the_one_that_has_been_silent_longest_makes_room(application: Application) -> None:
    with limited(application, 3) as connect:
        first, second, third = connect(), connect(HALF_A_HEAD), connect(HALF_A_BODY)
        assert application.connections is not None
        is_open = application.connections._open
        wait_until(lambda: [each.received > 0 for each in [*is_open] if not each.requests].count(True) == 1)
        wait_until(lambda: [each.requests for each in [*is_open] if each.is_waiting].count(1) == 1)
        first.send(GET)  # after the other two
        assert first.read_answer() == (200, b"0")
        assert connect(GET).read_answer() == (200, b"0")
        assert second.is_closed()
        assert connect(GET).read_answer() == (200, b"0")
        assert third.read_answer()[0] == 503
        assert third.is_closed()
        first.send(GET)
        assert first.read_answer() == (200, b"0")


def test_no_request_that_is_under_way_makes_room(application: Application, caplog: pytest.LogCaptureFixture) -> None:
    with limited(application, 3) as connect:
        waiting = [connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(3)]
        for _ in waiting:
            assert application.waiting.acquire(timeout=60)
        for _ in range(5):
            assert connect().read_answer()[0] == 503
        application.go_on.set()
        assert [client.read_answer() for client in waiting] == [(200, b"0")] * 3
        assert connect(GET).read_answer() == (200, b"0")
    assert [record.getMessage() for record in caplog.records] == ["all 3 connections are taken"]


def test_large_bodies_have_so_much_memory_together_and_no_more() -> None:
    budget = BodyBudget(150_000)
    budget.add("first", 100_000)
    with pytest.raises(RequestError, match="try again"):
        budget.add("second", 100_000)
    budget.add("small", 1000)
    budget.release("first")
    budget.release("second")
    budget.add("third", 149_000)


def test_a_burst_is_one_line_in_the_log() -> None:
    now = 0.0
    throttle = LogThrottle(60, lambda: now)
    assert [throttle.admit() for _ in range(4)] == ["", None, None, None]
    now = 59.0
    assert throttle.admit() is None
    now = 60.0
    assert [throttle.admit(), throttle.admit()] == [" (4 more since the last such line)", None]
    now = 500.0
    assert [throttle.admit(), throttle.admit()] == [" (1 more since the last such line)", None]
