"""The connections of the HTTP server: how many there may be at once, and how long a client may keep one waiting.

uvicorn waits for a client for as long as it likes, and takes connections until there are no descriptors left, for the
store neither.
"""

from __future__ import annotations

import asyncio
import json
import logging
from asyncio import TimerHandle
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from ...system.processes import count_files, raise_file_limit
from .failures import LogThrottle
from .overload import RETRY_AFTER
from .workers import GONE_CHECK

MAX_CONNECTIONS = 4096
MAX_HEAD = 65_536  # bytes; one read may bring more, and is parsed first
MAX_BODIES = 536_870_912  # bytes of all requests that are not answered yet
LEAST_BODIES = 201_326_592  # of one worker, however many there are: the longest body three times
SMALL_BODY = 65_536  # bytes that a request may always have
RESERVED = 128  # descriptors for the store: its files, for each of the threads that use it
BACKLOG = 1024  # connections that the system holds until they are taken, all of them at once
FILES = 16_384  # descriptors that are enough, should the system allow any number
_log = logging.getLogger("cofio.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How many seconds a client may take."""

    head: float = 10
    """Until the head of its request is whole, from the connection or from the head's first byte on."""
    body: float = 30
    """Between two pieces of a body."""
    answer: float = 60
    """Between two pieces of an answer that it reads."""
    idle: float = 130
    """Between two requests. Longer than proxies keep an idle connection (nginx 60, Caddy 120): the side that waits for
    answers has to close first, for a request that is sent while this side closes is lost."""

    @property
    def shortest(self) -> float:
        """How often to look, so that nothing is much late."""
        return min(self.head, self.body, self.answer, self.idle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many connections there may be: those that are taken, and those that wait to be."""

    connections: int = MAX_CONNECTIONS
    backlog: int = BACKLOG

    @classmethod
    def measure(cls) -> Capacity:
        """Get as many descriptors as the system gives, and leave enough of them to the store."""
        spare = raise_file_limit(FILES) - count_files(RESERVED)
        backlog = max(1, min(BACKLOG, spare // 4))
        room = spare - min(RESERVED, spare // 2) - backlog
        return cls(connections=max(1, min(MAX_CONNECTIONS, room)), backlog=backlog)


class ConnectionPool:
    """The open connections, of which those that have no request under way make room for others."""

    def __init__(
        self, limit: int = MAX_CONNECTIONS, timeouts: Timeouts | None = None, *, bodies: int = MAX_BODIES
    ) -> None:
        """`limit` connections may be open, and their bodies have no more bytes in memory than `bodies`."""
        self.timeouts = timeouts or Timeouts()
        self.bodies_left = bodies
        self.limit = limit
        self._open: set[Connection] = set()
        self._incomplete: dict[Connection, None] = {}
        """Those from which no whole request has come; the one for which that is longest true stands first."""
        self._throttle = LogThrottle()
        self.hand_over: Callable[[int], bool] | None = None
        """Gives a connection, by its descriptor, to another process of the server that has less to do; whether it did.
        A client that has few connections, as most have, would else be answered by one process while others rest."""

    def protocol(self) -> type[asyncio.Protocol]:
        """Make the class whose connections belong to this pool."""
        return type("PooledConnection", (Connection,), {"pool": self})

    def add(self, connection: Connection) -> bool:
        """Take in a connection, in place of another if need be; whether there was room."""
        self._open.add(connection)
        self._incomplete[connection] = None
        if len(self._open) <= self.limit:
            return True
        longest = next(iter(self._incomplete))
        if longest is connection:  # else a stream that stands open makes room, as an MCP client's does
            longest = min((each for each in self._open if each.is_streaming()), key=_get_last_heard, default=connection)
        self.remove(longest)
        outcome = "a new one is turned away" if longest is connection else "one that waits for its client is closed"
        self._report(f"all {self.limit:,} connections are taken: {outcome}")
        if longest is connection:
            return False
        longest.evict()
        return True

    def _report(self, what: str) -> None:
        if (more := self._throttle.admit()) is not None:
            _log.warning("%s%s", what, more)

    def remove(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._incomplete.pop(connection, None)

    def note_activity(self, connection: Connection) -> None:
        """Note that a piece of a request has come: those that have been silent for longer make room first."""
        if connection in self._incomplete:
            del self._incomplete[connection]
            self._incomplete[connection] = None

    def free_body(self, now: float) -> None:
        """Give up the slowest of the large bodies that are not whole, when together they are too much to hold."""
        slow = [each for each in self._incomplete if each.holds_large_body()]
        if slow:
            self._report("there is no room for more large requests: one that is slow to come is given up")
            min(slow, key=lambda each: each.body_rate(now)).give_up_body()

    def begin_request(self, connection: Connection) -> None:
        """Note that a whole request has come: the connection is kept until it is answered."""
        self._incomplete.pop(connection, None)

    def end_request(self, connection: Connection) -> None:
        """Note that all requests are answered."""
        if connection in self._open:
            self._incomplete.pop(connection, None)
            self._incomplete[connection] = None


class _Part(Enum):
    """The part of a request that is being read."""

    NONE = auto()
    """The last one was whole, and no other has begun."""
    HEAD = auto()
    BODY = auto()


class Connection(HttpToolsProtocol):
    """One client's connection, which is closed when the client keeps it waiting for too long.

    A timer looks at it now and then; to move the timer with every piece that comes would cost more.
    """

    pool: ClassVar[ConnectionPool]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._part = _Part.HEAD
        self._since = self.loop.time()
        """When the head was begun, or the last piece of a body came, or all was answered."""
        self._head_size = 0
        self._body_size = 0
        """Bytes of the bodies that are not answered yet."""
        self._body_begun = self._since
        self._open_requests = 0
        self._backlog: tuple[int, float] | None = None
        """How many bytes of answers the client has not taken, and since when there are no fewer."""
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.pool.timeouts.shortest, self._check_client)
        if not self.pool.add(self):
            self._refuse(503, "this server has all the requests that it can take: try again")

    def connection_lost(self, exc: Exception | None) -> None:
        self.pool.remove(self)
        self._release_body()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._part is _Part.BODY:
            if self._open_requests:  # else it is only listened to until it ends
                self._since = self.loop.time()
                self.pool.note_activity(self)
        elif self._part is _Part.NONE and not self._open_requests:
            self._begin_head()
        if self._part is _Part.HEAD:
            self._head_size += len(data)
        super().data_received(data)
        if self._part is _Part.HEAD and self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._refuse(431, f"the head of a request may have {MAX_HEAD:,} bytes, this one has more")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._part is not _Part.HEAD:
            self._begin_head()

    def _begin_head(self) -> None:
        self._part, self._since, self._head_size = _Part.HEAD, self.loop.time(), 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.scope["state"][GONE_CHECK] = self.transport.is_closing
        self._part, self._since = _Part.BODY, self.loop.time()
        self._body_begun = self._since
        self._open_requests += 1

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if self.cycle.response_complete or self.cycle.disconnected:
            return
        self._body_size += len(body)
        self.pool.bodies_left -= len(body)
        if self.pool.bodies_left < 0:
            self.pool.free_body(self.loop.time())

    def holds_large_body(self) -> bool:
        """Whether it has a large part of a body that is not whole."""
        return self._body_size > SMALL_BODY and self._awaits_body()

    def body_rate(self, now: float) -> float:
        """How many bytes of its body have come in a second."""
        return self._body_size / (now - self._body_begun + 1)

    def give_up_body(self) -> None:
        """Refuse the request, and free its body at once."""
        self._refuse(503, "this server has all the large requests that it can hold: try again")
        self._release_body()

    @property
    def last_heard(self) -> float:
        """When its client last sent something."""
        return self._since

    def is_streaming(self) -> bool:
        """Whether an answer has begun and not ended."""
        return self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete

    def _release_body(self) -> None:
        self.pool.bodies_left += self._body_size
        self._body_size = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._part, self._since = _Part.NONE, self.loop.time()
        if self._open_requests:
            self.pool.begin_request(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._open_requests -= 1
        if not self._open_requests:
            self._release_body()
            self._since = self.loop.time()
            self.pool.end_request(self)
            if self.pool.hand_over is not None:
                self.loop.call_soon(self._hand_over)  # once the answer is written

    def _hand_over(self) -> None:
        """Leave the connection to another process if that has less to do, between two requests.

        What the client sends meanwhile waits in the socket, which is closed here and goes on there.
        """
        is_at_rest = self._part is _Part.NONE and not self._open_requests
        if not is_at_rest or self.transport.is_closing() or self.transport.get_write_buffer_size():
            return
        descriptor = self.transport.get_extra_info("socket").fileno()
        if self.pool.hand_over is not None and self.pool.hand_over(descriptor):
            self.transport.close()

    def take_over(self) -> None:
        """Go on with a connection that another process has had, and on which a request may come at any time."""
        self._part = _Part.NONE

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as if no other protocol had been asked for; but what follows the head is not read, so not a body."""
        if any(name in (b"content-length", b"transfer-encoding") and value != b"0" for name, value in self.headers):
            self._refuse(400, "this server speaks HTTP/1.1 alone: send a body without the header Upgrade")

    def evict(self) -> None:
        """Close the connection at once, in favour of another."""
        if self._awaits_body():
            self._refuse(503, "this server has too many connections, and this request was not whole: try again")
        self.transport.close()
        if self.transport.get_write_buffer_size():  # which would have to be read first
            self.transport.abort()

    def _check_client(self) -> None:
        """See whether the client has kept the server waiting for too long, and look again later."""
        now, shortest = self.loop.time(), self.pool.timeouts.shortest
        if self._is_unread(now):
            self.transport.abort()
            return
        deadline = self._deadline(now)
        if deadline <= now:
            self._time_out()
        self._timer = self.loop.call_later(
            min(shortest, deadline - now) if deadline > now else shortest, self._check_client
        )

    def _deadline(self, now: float) -> float:
        """When the client has kept the server waiting for too long; never, while it is the client that waits."""
        if self.transport.is_closing():
            return float("inf")
        if self.flow.read_paused:
            self._since = now
        if self._part is _Part.BODY and self._open_requests <= 1:
            return self._since + self.pool.timeouts.body
        if self._open_requests:
            return float("inf")
        return self._since + (self.pool.timeouts.idle if self._part is _Part.NONE else self.pool.timeouts.head)

    def _is_unread(self, now: float) -> bool:
        """Whether the client has read nothing for long of what there is for it."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._backlog = None
        elif self._backlog is None or size < self._backlog[0]:
            self._backlog = size, now
        return self._backlog is not None and now - self._backlog[1] >= self.pool.timeouts.answer

    def _time_out(self) -> None:
        if self._awaits_body():
            self._refuse(408, f"nothing more of the body came for {self.pool.timeouts.body:g} seconds")
        elif self._part is _Part.HEAD and self._head_size:
            self._refuse(408, f"the head of the request was not whole after {self.pool.timeouts.head:g} seconds")
        else:
            self.transport.close()

    def _awaits_body(self) -> bool:
        """Whether there is one request, which is neither whole nor being answered."""
        return self._part is _Part.BODY and self._open_requests == 1 and not self.cycle.response_started

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer in the application's place, and close the connection."""
        content = json.dumps({"error": sentence}).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (b"connection", b"close"),
        ]
        if status == 503:
            headers.append((b"retry-after", b"%d" % RETRY_AFTER))
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        if self.cycle is not None:  # it must not answer, too
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + content)
        self.transport.close()


def _get_last_heard(connection: Connection) -> float:
    return connection.last_heard
