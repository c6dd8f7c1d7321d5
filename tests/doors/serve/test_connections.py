"""Connections that keep the server waiting are closed; they never cost a client whose request is whole its answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import anyio.lowlevel
import anyio.to_thread
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from cofio.doors.web.connections import MAX_HEAD, ConnectionPool, Timeouts
from cofio.doors.web.failures import LogThrottle
from cofio.doors.web.server import HttpServer

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/early":
            await answer(send, b"no")
            return
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                break
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


async def answer(send: Send, content: bytes) -> None:
    """Answer with 200."""
    length = (b"content-length", b"%d" % len(content))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": content})


class Client:
    """A client that sends what it is told to, byte by byte."""

    def __init__(self, port: int, sent: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.got = b""
        self.send(sent)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_much(self) -> None:
        """Send 10 GB, or as much as the server takes."""
        for _ in range(1_000_000):
            self.send(b"x" * 10_000)

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
def serving(application: Application, pool: ConnectionPool) -> Iterator[Connect]:
    """A real server with the connections of a pool; give a function that connects to it."""
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    config = uvicorn.Config(application, http=pool.protocol(), ws="none", log_level="warning", timeout_keep_alive=300)
    server = Server(config)
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


@contextmanager
def limited(application: Application, limit: int = 100, **seconds: float) -> Iterator[Connect]:
    """A server whose clients may take these times, and any other for ever."""
    timeouts = Timeouts(**{"head": NEVER, "body": NEVER, "answer": NEVER, "idle": NEVER} | seconds)
    with serving(application, ConnectionPool(limit, timeouts)) as connect:
        yield connect


# Time.


@pytest.mark.parametrize(
    ("sent", "seconds", "problem"),
    [
        (b"", {"head": 0.2}, None),
        (b"G", {"head": 0.2}, "the head of the request was not whole after 0.2 seconds"),
        (b"GET / HTTP/1.1\r\nX: y\r\n", {"head": 0.2}, "the head of the request was not whole after 0.2 seconds"),
        (HALF_A_BODY, {"body": 0.2}, "nothing more of the body came for 0.2 seconds"),
    ],
    ids=["nothing", "a byte", "half a head", "half a body"],
)
def test_who_keeps_the_server_waiting_is_told_so_and_let_go(
    application: Application, sent: bytes, seconds: dict[str, float], problem: str | None
) -> None:
    with limited(application, 100, **seconds) as connect:
        client = connect(sent)
        if problem is not None:
            status, body = client.read_answer()
            assert (status, json.loads(body)) == (408, {"error": problem})
        assert client.is_closed()


def test_a_head_has_no_longer_for_coming_byte_by_byte(application: Application) -> None:
    with limited(application, head=0.2) as connect:
        client = connect(b"GET / HTTP/1.1\r\nX: ")
        with suppress(ConnectionError):
            for _ in range(10_000_000):
                client.send(b"y")
                client.socket.settimeout(0.01)
                with suppress(TimeoutError):
                    if client.socket.recv(12) in (b"HTTP/1.1 408", b"HTTP/1.1 431", b""):
                        return
        assert client.is_closed()


def test_only_a_head_is_held_to_the_time_for_heads(application: Application) -> None:
    with limited(application, head=0.3) as connect:
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
    with limited(application, idle=0.2) as connect:
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        assert client.is_closed()
    config = HttpServer(application, lambda: None, lambda: None).config
    assert config.timeout_keep_alive >= Timeouts().idle > 120  # longer than proxies keep one


# What is sent.


def test_a_request_for_another_protocol_is_answered_as_any(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    with limited(application) as connect:
        upgrade = (
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
        )
        assert connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n").read_answer() == (200, b"0")
    assert caplog.records == []


def test_who_does_not_read_the_answer_or_sends_a_body_that_nobody_wants_is_let_go(application: Application) -> None:
    with limited(application, answer=0.2, body=0.2) as connect:
        connect(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert application.flood_over.wait(60)
        client = connect(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        assert client.read_answer() == (200, b"no")
        with pytest.raises(ConnectionError):
            client.send_much()


def test_a_head_without_end_is_refused(application: Application) -> None:
    with limited(application) as connect:
        client = connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):
            for _ in range(100 * MAX_HEAD // 1000):
                client.send(b"X: " + b"y" * 1000 + b"\r\n")
        with suppress(ConnectionError):  # what was sent after it was refused may have reset the connection
            assert client.read_answer()[0] == 431
        assert connect(GET).read_answer() == (200, b"0")


# Number.


def test_the_one_that_has_been_silent_longest_makes_room(application: Application) -> None:
    with limited(application, 3) as connect:
        first, second, third = connect(), connect(HALF_A_HEAD), connect(HALF_A_BODY)
        for _ in range(2):  # the second time it is sure that the other two have come before
            first.send(GET)
            assert first.read_answer() == (200, b"0")
        assert connect(GET).read_answer() == (200, b"0")
        assert second.is_closed()
        assert connect(GET).read_answer() == (200, b"0")
        status, body = third.read_answer()
        assert (status, "try again" in json.loads(body)["error"]) == (503, True)
        assert third.is_closed()
        first.send(GET)
        assert first.read_answer() == (200, b"0")


def test_no_request_that_is_under_way_makes_room(application: Application, caplog: pytest.LogCaptureFixture) -> None:
    with limited(application, 3) as connect:
        waiting = [connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(3)]
        for _ in waiting:
            assert application.waiting.acquire(timeout=60)
        for _ in range(5):
            status, body = connect().read_answer()
            assert (status, "try again" in json.loads(body)["error"]) == (503, True)
        application.go_on.set()
        assert [client.read_answer() for client in waiting] == [(200, b"0")] * 3
        assert connect(GET).read_answer() == (200, b"0")
    assert [record.getMessage() for record in caplog.records] == [
        "all 3 connections are taken: a new one is turned away"
    ]


def test_a_large_body_that_is_slow_to_come_makes_room_for_others(application: Application) -> None:
    large = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100001\r\n\r\n" + b"x" * 100_000
    pool = ConnectionPool(10, Timeouts(head=NEVER, body=NEVER, answer=NEVER, idle=NEVER), bodies=150_000)
    with serving(application, pool) as connect:
        first, other = connect(large), connect()
        for _ in range(10_000):
            if pool.bodies_left <= 50_000:  # the first has come
                break
            other.send(GET)
            assert other.read_answer() == (200, b"0")
        second = connect(large)
        status, body = first.read_answer()
        assert (status, "try again" in json.loads(body)["error"]) == (503, True)
        small = connect(HALF_A_BODY)
        small.send(b"123456789")
        assert small.read_answer() == (200, b"10")
        second.send(b"x")
        assert second.read_answer() == (200, b"100001")
    assert pool.bodies_left == 150_000


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
