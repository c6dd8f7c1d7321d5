"""Limits on connections: how many there may be, and how long a client may keep one without sending a request.

uvicorn waits for a client's first request, or for the rest of its head, for ever, and takes connections until there are
no descriptors left, for the store neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.types import Scope
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..system.processes import count_files, raise_file_limit
from .logs import LogThrottle

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
    """How many connections there may be, and how many seconds a client may take."""

    connections: int = MAX_CONNECTIONS
    backlog: int = BACKLOG
    head_seconds: float = 10
    """Until a request begins, from the connection or from the first byte of its head on."""
    unread_seconds: float = 60
    """In which a client reads nothing of its answer."""
    idle_seconds: float = 130
    """Between two requests. Longer than proxies keep an idle connection (nginx 60, Caddy 120): the side that waits for
    answers has to close first, for a request that is sent while this side closes is lost."""

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
        self._limits = limits
        self._waiting: dict[Connection, None] = {}
        """Those without a whole request; the one that has been silent longest stands first."""
        self._busy: set[Connection] = set()
        self._by_peer: dict[Any, Connection] = {}
        self._throttle = LogThrottle()
        self._sweep: asyncio.TimerHandle | None = None

    def make(self, config: Config, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> Connection:
        """Make a connection, as uvicorn makes its own: for `uvicorn.Config(http=...)`."""
        return Connection(self, HttpToolsProtocol(config, server_state, app_state, _loop))

    @contextmanager
    def hold(self, scope: Scope) -> Iterator[Connection | None]:
        """Keep the connection of a request open while the block runs; None where it is not one of these."""
        client = scope.get("client")
        connection = None if client is None else self._by_peer.get(tuple(client))
        if connection is None:
            yield None
            return
        connection.requests += 1
        self.set_waiting(connection, False)
        try:
            yield connection
        finally:
            connection.requests -= 1
            if not connection.requests:
                connection.reset()
                self.set_waiting(connection, True)

    def add(self, connection: Connection) -> bool:
        """Take in a connection, in place of the one that was silent longest if need be; False if there is no room."""
        loop = asyncio.get_running_loop()
        if self._sweep is None:
            self._sweep = loop.call_later(1.0, self._close_late, loop)
        if len(self._waiting) + len(self._busy) >= self._limits.connections:
            if (more := self._throttle.admit()) is not None:
                _log.warning("all %s connections are taken%s", f"{self._limits.connections:,}", more)
            if not self._waiting:
                return False
            longest = next(iter(self._waiting))
            self.remove(longest)
            longest.close(TOO_MANY if longest.requests else b"")
        self._waiting[connection] = None
        self._by_peer[connection.peer] = connection
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection."""
        self._waiting.pop(connection, None)
        self._busy.discard(connection)
        if self._by_peer.get(connection.peer) is connection:
            del self._by_peer[connection.peer]

    def set_waiting(self, connection: Connection, is_waiting: bool) -> None:
        """Note whether a connection waits for its client, who has just sent something: others make room first."""
        if connection in self._waiting or connection in self._busy:
            self._waiting.pop(connection, None)
            self._busy.discard(connection)
            if is_waiting:
                self._waiting[connection] = None
            else:
                self._busy.add(connection)

    def _close_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections of clients that keep the server waiting, and look again in a second."""
        now = loop.time()
        for connection in [*self._waiting, *self._busy]:
            if connection.is_unread(now, self._limits.unread_seconds):
                connection.abort()
            elif connection in self._waiting and connection.is_late(now, self._limits):
                connection.close(TOO_SLOW if connection.received else b"")
        self._sweep = loop.call_later(1.0, self._close_late, loop)


class Connection(asyncio.Protocol):
    """One connection: passes everything on to uvicorn's protocol, and notes when something came."""

    def __init__(self, connections: Connections, protocol: HttpToolsProtocol) -> None:
        self._connections = connections
        self._protocol = protocol
        self._transport: asyncio.Transport | None = None
        self._since = 0.0
        self._is_fresh = True
        self._backlog: tuple[int, float] = 0, 0.0
        self.peer: Any = None
        self.requests = 0
        self.received = 0
        """Bytes that came while no request was under way."""

    def connection_made(self, transport: Any) -> None:  # uvloop's is no asyncio.Transport
        self._transport = transport
        self._since = asyncio.get_running_loop().time()
        peer = transport.get_extra_info("peername")
        self.peer = tuple(peer[:2]) if peer else id(self)
        self._protocol.connection_made(transport)
        if not self._connections.add(self):
            self.close(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.requests:
            if not self.received and not self._is_fresh:
                self._since = asyncio.get_running_loop().time()
            self.received += len(data)
            self._connections.set_waiting(self, True)
        self._protocol.data_received(data)
        if self.received > MAX_HEAD_BYTES and not self.requests:
            self.close(TOO_LONG)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def reset(self) -> None:
        """Wait for the next request from now on."""
        self._is_fresh, self.received = False, 0
        self._since = asyncio.get_running_loop().time()

    def wait_for_body(self, is_waiting: bool) -> None:
        """Note whether the request at hand waits for the rest of its body."""
        self._connections.set_waiting(self, is_waiting)

    def is_gone(self) -> bool:
        """Return whether the client has closed the connection."""
        return self._transport is None or self._transport.is_closing()

    def is_late(self, now: float, limits: ConnectionLimits) -> bool:
        """Return whether the client has kept the server waiting for too long."""
        has_begun = self._is_fresh or self.received
        if self.requests:  # the time of a body is measured where it is read
            return False
        return now - self._since > (limits.head_seconds if has_begun else limits.idle_seconds)

    def is_unread(self, now: float, seconds: float) -> bool:
        """Return whether the client has read nothing of its answer for so many seconds."""
        assert self._transport is not None
        size = self._transport.get_write_buffer_size()
        if not size or size < self._backlog[0] or not self._backlog[0]:
            self._backlog = size, now
        return size > 0 and now - self._backlog[1] > seconds

    def close(self, answer: bytes = b"") -> None:
        """Close the connection, after an answer in the application's place."""
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.get_write_buffer_size():  # which would have to be read first
                self._transport.abort()
                return
            if answer:
                self._transport.write(answer)
            self._transport.close()

    def abort(self) -> None:
        """Close the connection without waiting for the client to read what there is for it."""
        if self._transport is not None:
            self._transport.abort()
