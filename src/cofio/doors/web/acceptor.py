"""How workers share one listener: each takes one connection at a time, and leaves it to another that has fewer."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from contextlib import suppress

from .board import Board

COURTESY = 0.004  # seconds that a new connection is left to a worker that has fewer
PAUSE = 1.0  # seconds without new connections after the system had no room for one
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logging.getLogger("cofio.serve")


class Acceptor:
    """Takes connections from a listener that other workers take connections from, too.

    asyncio's own server takes all that wait in one go: one worker would have a whole crowd, and the others none.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
        *,
        board: Board,
        number: int,
    ) -> None:
        """`count` is how many connections this worker, which has that `number`, has open."""
        self._listener = listener
        self._make_protocol = make_protocol
        self._count = count
        self._board = board
        self._number = number
        self._timer: TimerHandle | None = None
        self._openings: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to take connections."""
        self._listener.setblocking(False)
        self._listen()

    def stop(self) -> None:
        """Take no more; those that wait are left to the other workers."""
        self._pause(None)
        self._listener.close()

    @property
    def _loop(self) -> AbstractEventLoop:
        return asyncio.get_running_loop()

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listener.fileno(), self._notice)

    def _pause(self, seconds: float | None, then: Callable[[], None] | None = None) -> None:
        """Do not look at the listener for a while, or with None never again."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, then or self._listen)

    def _notice(self) -> None:
        """Take the next connection, now or, if another worker has fewer, only if that one does not take it."""
        fewest = self._board.find_fewest_connections(self._number)
        if fewest is not None and fewest < self._count() + len(self._openings):
            self._pause(COURTESY, self._take_and_listen)
        else:
            self._take()

    def _take_and_listen(self) -> None:
        self._listen()
        self._take()

    def _take(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                _log.error("no connection can be taken for %g s: %s", PAUSE, error.strerror)
                self._pause(PAUSE)
            return  # else another worker was quicker, or the client has gone
        connection.setblocking(False)
        with suppress(OSError):  # the client has gone
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small answers go out at once
        task = self._loop.create_task(self._open(connection))
        self._openings.add(task)
        self._board.set_connections(self._number, self._count() + len(self._openings))
        task.add_done_callback(self._openings.discard)

    async def _open(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the client has gone
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
