"""Connections that keep the server waiting are closed; they never cost a client whose request is whole its answer."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import anyio.lowlevel
import anyio.to_thread
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from cofio.doors.web.acceptor import Acceptor
from cofio.doors.web.connections import MAX_HEAD, Capacity, Connection, ConnectionPool, Timeouts
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
        """Wait until the server says something or closes; whether it closed."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


Connect = Callable[..., Client]


@contextmanager
def serving(
    application: Application, pool: ConnectionPool, acceptors: list[Acceptor] | None = None
) -> Iterator[Connect]:
    """A real server with connections of the pool; gives what connects to it.

    With `acceptors`, one is added that takes over connections that others have had.
    """
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if acceptors is not None:
                acceptors.append(LentAcceptor(listening, partial(make_taken_over, self)))
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


class LentAcceptor(Acceptor):
    """Takes over connections from any thread."""

    def __init__(self, listener: socket.socket, make_protocol: Callable[[], Connection]) -> None:
        super().__init__(listener, make_protocol)
        self._lent_loop = asyncio.get_running_loop()

    def lend(self, descriptor: int) -> bool:
        """Take over the connection with this descriptor, which is closed by who has it."""
        connection = socket.socket(fileno=os.dup(descriptor))
        self._lent_loop.call_soon_threadsafe(self.open, connection, self._make_protocol)
        return True


def make_taken_over(server: uvicorn.Server) -> Connection:
    """What goes on with a connection that another server has had."""
    protocol = server.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn makes it
        config=server.config, server_state=server.server_state, app_state={}
    )
    assert isinstance(protocol, Connection)
    protocol.take_over()
    return protocol


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


def test_who_sends_nothing_is_let_go(application: Application) -> None:
    with limited(application, head=0.2) as connect:
        assert connect().is_closed()


@pytest.mark.parametrize("head", [b"G", HALF_A_HEAD, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n"])
def test_a_head_that_does_not_become_whole_is_answered_and_closed(application: Application, head: bytes) -> None:
    with limited(application, head=0.2) as connect:
        client = connect(head)
        status, body = client.read_answer()
        assert (status, json.loads(body)) == (408, {"error": "the head of the request was not whole after 0.2 seconds"})
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


def test_a_body_that_stands_still_is_answered_and_closed(application: Application) -> None:
    with limited(application, body=0.2) as connect:
        client = connect(HALF_A_BODY)
        status, body = client.read_answer()
        assert (status, json.loads(body)) == (408, {"error": "nothing more of the body came for 0.2 seconds"})
        assert client.is_closed()


def test_a_request_that_is_whole_and_a_body_that_comes_have_all_the_time_they_need(application: Application) -> None:
    with limited(application, head=0.3) as connect:
        waits, sends = connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"), connect(HALF_A_BODY)
        assert connect().is_closed()  # so the time for heads has passed
        assert connect().is_closed()
        sends.send(b"123456789")
        assert sends.read_answer() == (200, b"10")
        application.go_on.set()
        assert waits.read_answer() == (200, b"0")


def test_a_connection_that_is_used_again_has_the_time_anew(application: Application) -> None:
    with limited(application, head=0.3) as connect:
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        client.send(GET + GET)  # two at once, too
        assert client.read_answer() == (200, b"0")
        assert client.read_answer() == (200, b"0")
        client.send(b"\r\n")  # which begins nothing
        assert client.read_answer()[0] == 408
        assert client.is_closed()


def test_a_connection_may_be_idle_for_longer_than_a_head_may_take(application: Application) -> None:
    with limited(application, head=0.2) as connect:
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        for _ in range(3):  # so the time for heads has passed
            assert connect().is_closed()
        client.send(GET)
        assert client.read_answer() == (200, b"0")


def test_a_connection_that_is_idle_for_too_long_is_closed(application: Application) -> None:
    with limited(application, idle=0.2) as connect:
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        assert client.is_closed()


# Handing over.


@contextmanager
def two_servers(application: Application, **seconds: float) -> Iterator[tuple[Connect, list[int], ConnectionPool]]:
    """A server that hands over each connection after an answer to another one, which has these times.

    It gives what connects to the first, what was handed over, and the pool of the second.
    """
    timeouts = Timeouts(**{"head": NEVER, "body": NEVER, "answer": NEVER, "idle": NEVER} | seconds)
    here, there = ConnectionPool(100), ConnectionPool(100, timeouts)
    acceptors: list[Acceptor] = []
    with serving(application, there, acceptors), serving(application, here) as connect:
        (acceptor,) = acceptors
        assert isinstance(acceptor, LentAcceptor)
        handed: list[int] = []

        def hand_over(descriptor: int) -> bool:
            handed.append(descriptor)
            return acceptor.lend(descriptor)

        here.hand_over = hand_over
        yield connect, handed, there


def test_a_connection_that_is_handed_over_goes_on_where_it_is_handed_to(application: Application) -> None:
    with two_servers(application) as (connect, handed, there):
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        for size in (3, 70_000, 0):
            client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            assert client.read_answer() == (200, b"%d" % size)
        assert len(handed) == 1  # the other keeps it
        assert len(there._open) == 1


def test_requests_that_come_while_a_connection_is_handed_over_are_all_answered(application: Application) -> None:
    with two_servers(application) as (connect, handed, _):
        clients = [connect() for _ in range(20)]
        for _ in range(5):
            for client in clients:  # several at once, and the next right behind them
                client.send(GET * 2)
            for client in clients:
                client.send(GET)
                assert [client.read_answer() for _ in range(3)] == [(200, b"0")] * 3
        assert handed


def test_a_connection_that_was_handed_over_may_be_idle_as_any_other(application: Application) -> None:
    with two_servers(application, head=0.2) as (connect, handed, _):
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        threading.Event().wait(0.6)  # longer than a head may take
        client.send(GET)
        assert client.read_answer() == (200, b"0")
        assert handed
    with two_servers(application, idle=0.2) as (connect, _, _):
        client = connect(GET)
        assert client.read_answer() == (200, b"0")
        assert client.is_closed()


def test_a_connection_with_a_request_under_way_is_not_handed_over(application: Application) -> None:
    with two_servers(application) as (connect, handed, _):
        client = connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert application.waiting.acquire(timeout=60)
        client.send(GET)  # behind it, so that the first answer leaves one under way
        assert not handed
        application.go_on.set()
        assert [client.read_answer() for _ in range(2)] == [(200, b"0")] * 2


def test_a_server_keeps_idle_connections_for_longer_than_proxies_do(application: Application) -> None:
    config = HttpServer(application, lambda: None, lambda: None).config
    assert config.timeout_keep_alive >= Timeouts().idle > 120


def test_a_request_for_another_protocol_is_answered_as_any(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    with limited(application) as connect:
        upgrade = (
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
        )
        assert connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n").read_answer() == (200, b"0")
    assert caplog.records == []


def test_the_rest_of_a_body_that_nobody_wants_is_not_heard_out_for_ever(application: Application) -> None:
    with limited(application, body=0.2) as connect:
        client = connect(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        assert client.read_answer() == (200, b"no")
        with pytest.raises(ConnectionError):
            client.send_much()


def test_who_does_not_read_the_answer_is_let_go(application: Application) -> None:
    with limited(application, answer=0.2) as connect:
        connect(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert application.flood_over.wait(30)


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


def test_those_that_left_are_not_counted(application: Application) -> None:
    with limited(application, 2) as connect:
        keeps = connect(HALF_A_BODY)
        for _ in range(20):
            client = connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert client.read_answer() == (200, b"0")
            assert client.is_closed()
        keeps.send(b"123456789")
        assert keeps.read_answer() == (200, b"10")


def test_descriptors_are_left_to_the_store() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for soft in (64, 256, 1024):
            if soft > before[1]:
                continue
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
            capacity = Capacity.measure()
            raised, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            assert hard == before[1]
            assert raised >= min(hard, 16_384)
            assert capacity.connections + capacity.backlog + 128 < raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


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


def test_a_pool_s_connections_are_its_own() -> None:
    one, other = ConnectionPool(), ConnectionPool()
    assert issubclass(one.protocol(), Connection)
    assert one.protocol() is not other.protocol()
