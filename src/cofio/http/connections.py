"""Limits on connections: how many there may be, and how long a client may keep one without sending a request.

uvicorn waits without limit for a first request, for the rest of a head and for a client to read its answer, and takes
connections until no descriptors are left for the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..system.processes import count_files, raise_file_limit
from .admission import IS_GONE
from .logs import LogThrottle

CONNECTION = "connection"  # in a request's state: the Connection that it came by, if the server has limits
MAX_CONNECTIONS = 4096
MAX_HEAD_BYTES = 1_048_576  # that may come before a request begins
RESERVED_FILES = 128  # descriptors for the store: its files, for each of the threads that use it
BACKLOG = 1024  # connections that the system holds until they are taken
MAX_FILES = 16_384
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_log = logging.getLogger("cofio.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on the number of connections, and on the seconds that a client may take."""

    connections: int = MAX_CONNECTIONS
    backlog: int = BACKLOG
    head_seconds: float = 10
    """From the connection to the first byte, and from the first byte of a head to its end."""
    unread_seconds: float = 60
    """In which a client reads nothing of its answer."""
    idle_seconds: float = 130
    """Between two requests; uvicorn closes such a connection. Longer than proxies keep one (nginx 60, Caddy 120): a
    request that is sent while this side closes is lost, so the proxy has to close first."""

    @classmethod
    def measure(cls, processes: int = 1) -> ConnectionLimits:
        """Return the limits of one of the processes that share a server, and leave descriptors to the store."""
        spare = raise_file_limit(MAX_FILES) - count_files(RESERVED_FILES)
        backlog = max(1, min(BACKLOG, spare // 4))
        room = spare - min(RESERVED_FILES, spare // 2) - backlog
        return cls(connections=max(1, min(-(-MAX_CONNECTIONS // processes), room)), backlog=backlog)


class Connections:
    """The open connections of one process."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: OrderedDict[Connection, None] = OrderedDict()
        """The one that has been silent longest stands first."""
        self._throttle = LogThrottle()
        self._is_watching = False

    def make(self, config: Config, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> Connection:
        """Make a connection, as uvicorn makes its own: for `uvicorn.Config(http=...)`."""
        return Connection(self, config, server_state, app_state)

    def add(self, connection: Connection) -> bool:
        """Take in a connection, in place of the one that was silent longest if need be; False if there is no room."""
        if not self._is_watching:
            self._is_watching = True
            self._close_late()
        if len(self._open) >= self.limits.connections:
            if (more := self._throttle.admit()) is not None:
                _log.warning("all %s connections are taken%s", f"{self.limits.connections:,}", more)
            longest = next((each for each in self._open if each.is_waiting), None)
            if longest is None:
                return False
            self.remove(longest)
            longest.close(TOO_MANY if longest.requests else b"")
        self._open[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)

    def note_activity(self, connection: Connection) -> None:
        """Have all others make room before this one."""
        if connection in self._open:
            self._open.move_to_end(connection)

    def _close_late(self) -> None:
        """Close the connections of clients that keep the server waiting, and look again in a second."""
        loop = asyncio.get_running_loop()
        for connection in [*self._open]:
            connection.close_if_late(loop.time())
        loop.call_later(1.0, self._close_late)


class Connection(asyncio.Protocol):
    """One connection: passes everything on to uvicorn's protocol, and notes when something came."""

    def __init__(self, connections: Connections, config: Config, server_state: Any, app_state: dict[str, Any]) -> None:
        state = {**app_state, CONNECTION: self, IS_GONE: self.is_gone}  # uvicorn copies it for each request
        self._protocol = HttpToolsProtocol(config, server_state, state)
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._head_deadline = 0.0
        self._unread_bytes, self._read_at = 0, 0.0
        self.is_waiting = True
        """The client has to send something, so the connection can make room for another."""
        self.requests = 0
        """Requests under way: two for a moment, as uvicorn begins the next one early."""
        self.received = 0
        """Bytes that came while no request was under way."""

    def connection_made(self, transport: Any) -> None:  # uvloop's is no asyncio.Transport
        self._transport = transport
        self._read_at = asyncio.get_running_loop().time()
        self._head_deadline = self._read_at + self._connections.limits.head_seconds
        self._protocol.connection_made(transport)
        if not self._connections.add(self):
            self.close(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.requests:
            if not self.received:
                self._head_deadline = asyncio.get_running_loop().time() + self._connections.limits.head_seconds
            self.received += len(data)
            self._connections.note_activity(self)
        self._protocol.data_received(data)
        if self.received > MAX_HEAD_BYTES and not self.requests:
            self.close(TOO_LONG)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the connection open while a request of it is under way."""
        self.requests += 1
        self._head_deadline = float("inf")
        self.set_waiting(False)
        try:
            yield
        finally:
            self.requests -= 1
            if not self.requests:
                self.received = 0
                self.set_waiting(True)

    def set_waiting(self, is_waiting: bool) -> None:
        """Note whether the client has to send something: a request, or the rest of a body."""
        self.is_waiting = is_waiting
        self._connections.note_activity(self)

    def is_gone(self) -> bool:
        """Return whether the client has closed the connection."""
        return self._transport is None or self._transport.is_closing()

    def close_if_late(self, now: float) -> None:
        """Close the connection if its client sends no whole head, or reads nothing of its answer, for too long."""
        assert self._transport is not None
        size = self._transport.get_write_buffer_size()
        if not size or size < self._unread_bytes:
            self._read_at = now
        self._unread_bytes = size
        if now - self._read_at > self._connections.limits.unread_seconds:
            self._transport.abort()
        elif now > self._head_deadline:
            self.close(TOO_SLOW if self.received else b"")

    def close(self, answer: bytes = b"") -> None:
        """Close the connection, after an answer in the application's place."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():  # which would have to be read first
            self._transport.abort()
            return
        self._transport.write(answer)
        self._transport.close()
