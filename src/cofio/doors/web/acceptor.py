"""How a server takes connections: several at a time, and where workers share a listener, each no more than another."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from contextlib import suppress

from .board import Board

AT_ONCE = 64  # connections that are taken in one round of the event loop
COURTESY = 0.004  # seconds that a new connection is left to a worker that has fewer
PAUSE = 1.0  # seconds without new connections after the system had no room for one
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logging.getLogger("cofio.serve")


class Acceptor:
    """Takes connections from a listener.

    uvloop takes one in each round of the event loop: when rounds are long, clients would wait for minutes to be heard.
    asyncio's own server takes all that wait: one worker would have a whole crowd, and the others none.
    """

    def __init__(self, listener: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._timer: TimerHandle | None = None
        self._openings: set[asyncio.Task[None]] = set()

    def start(self, backlog: int) -> None:
        """Begin to take connections, of which the system holds as many as `backlog` until they are taken."""
        self._listener.listen(backlog)
        self._listener.setblocking(False)
        self._listen()

    def stop(self) -> None:
        """Take no more; those that wait are left to other workers, if there are any."""
        self._pause(None)

    @property
    def _loop(self) -> AbstractEventLoop:
        return asyncio.get_running_loop()

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listener.fileno(), self._notice)

    def _pause(self, seconds: float | None, then: Callable[[], object] | None = None) -> None:
        """Do not look at the listener for a while, or with None never again."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, then or self._listen)

    def _notice(self) -> None:
        """Take the connections that wait."""
        for _ in range(AT_ONCE):
            if not self._take():
                break

    def _take(self) -> bool:
        """Take the next connection; whether there was one."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                _log.error("no connection can be taken for %g s: %s", PAUSE, error.strerror)
                self._pause(PAUSE)
            return False  # else there is none left, or the client has gone
        with suppress(OSError):  # the client has gone
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small answers go out at once
        self.open(connection, self._make_protocol)
        return True

    def open(self, connection: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Begin to listen to a connection."""
        connection.setblocking(False)
        task = self._loop.create_task(self._open(connection, make_protocol))
        self._openings.add(task)
        task.add_done_callback(self._openings.discard)

    async def _open(self, connection: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        with suppress(OSError):  # the client has gone
            await self._loop.connect_accepted_socket(make_protocol, connection)


class SharingAcceptor(Acceptor):
    """Takes connections from a listener that other workers take connections from, too."""

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        count: Callable[[], int],
        *,
        board: Board,
        number: int,
    ) -> None:
        """`count` is how many connections this worker, which has that `number`, has open."""
        super().__init__(listener, make_protocol)
        self._count = count
        self._board = board
        self._number = number

    def stop(self) -> None:
        """Take no more; those that wait are left to the other workers."""
        super().stop()
        self._listener.close()

    def _notice(self) -> None:
        """Take connections while no other worker has fewer; then only one that no other takes."""
        for _ in range(AT_ONCE):
            fewest = self._board.find_fewest_connections(self._number)
            if fewest is not None and fewest < self._count() + len(self._openings):
                self._pause(COURTESY, self._take_and_listen)
                return
            if not self._take():
                return

    def open(self, connection: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Begin to listen to a connection, and tell the other workers that there is one more."""
        super().open(connection, make_protocol)
        self._board.set_connections(self._number, self._count() + len(self._openings))

    def _take_and_listen(self) -> None:
        self._listen()
        self._take()
