"""How the processes of one server talk to each other: messages into an inbox, and links on which one asks another.

A process that wants to ask makes a pair of sockets and sends one of them to the other's inbox. There is no address that
anyone else could find, nothing on disk, and nothing to be made again when a process is started again.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from ...system.sockets import receive_message, send_message

Question: TypeAlias = dict[str, Any]
Answerer: TypeAlias = Callable[[Question, "Link"], Awaitable[None]]
MOST_LEFT = 10_000  # messages that are taken out of an inbox at the end
PATIENCE = 1.0  # seconds that a message waits for room in an inbox
_FRAME = struct.Struct("!cI")
HEAD, BODY, END = b"H", b"B", b"E"
_CONNECTION = b"C"  # the message with which a client's connection comes; one with an end of a link is {}


class Link:
    """A two-way connection to another process, over which frames go: heads, which are JSON, and parts of bodies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Link:
        """Make a link of one end of a pair of sockets."""
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end))

    async def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a frame, and wait while the other side is slow to read.

        Raises:
            OSError: the other side has gone.
        """
        self._writer.write(_FRAME.pack(kind, len(content)))
        if content:
            self._writer.write(content)
        await self._writer.drain()

    async def receive(self) -> tuple[bytes, bytes] | None:
        """Return the kind and the content of the next frame; None when the other side has gone."""
        try:
            kind, size = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
            return kind, await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError):
            return None

    def close(self) -> None:
        """End the link: the other side hears of it."""
        self._writer.close()


class Switchboard:
    """One process's way to all processes of its server."""

    def __init__(self, own: socket.socket, inboxes: Sequence[socket.socket]) -> None:
        """`own` is the inbox that this process reads; `inboxes` are those of all, by their numbers, to send to."""
        self.own = own
        self._inboxes = inboxes
        for inbox in inboxes:
            inbox.settimeout(PATIENCE)

    def send(self, number: int, message: Mapping[str, Any], *, wait: bool = True) -> bool:
        """Put a message into another process's inbox; whether there was room, after a wait or at once."""
        return self._send(number, json.dumps(message).encode(), None, wait=wait)

    def hand_over(self, number: int, descriptor: int) -> bool:
        """Give another process a client's connection, if its inbox has room now; whether it has."""
        return self._send(number, _CONNECTION, descriptor, wait=False)

    def _send(self, number: int, message: bytes, descriptor: int | None, *, wait: bool = True) -> bool:
        with suppress(OSError):
            send_message(self._inboxes[number], message, descriptor, wait=wait)
            return True
        return False

    def call(self, number: int, *, wait: bool = True) -> socket.socket | None:
        """Return one end of a new link to another process; None if it takes no more, after a wait or at once."""
        ours, theirs = socket.socketpair()
        with theirs:
            if self._send(number, b"{}", theirs.fileno(), wait=wait):
                return ours
        ours.close()
        return None


def wait_for_answer(end: socket.socket, question: Question, seconds: float) -> Question | None:
    """Ask over one end of a link, and wait for the answer; None if there is none within the time."""
    content = json.dumps(question).encode()
    end.settimeout(seconds)
    try:
        end.sendall(_FRAME.pack(HEAD, len(content)) + content)
        with end.makefile("rb") as frames:
            head = frames.read(_FRAME.size)
            if len(head) < _FRAME.size:
                return None
            _, size = _FRAME.unpack(head)
            answer: Question = json.loads(frames.read(size))
            return answer
    except (OSError, ValueError):
        return None


class Receptionist:
    """Reads a process's inbox within its event loop, and has what comes answered."""

    def __init__(
        self,
        inbox: socket.socket,
        *,
        answer: Answerer,
        note: Callable[[Question], None],
        take_over: Callable[[socket.socket], None] | None = None,
    ) -> None:
        """`answer` is given the first frame of each link and the link, `note` each message that is not about a link.

        `take_over` is given the connections of clients that other processes hand over.
        """
        self._inbox = inbox
        self._take_over = take_over
        self._answer = answer
        self._note = note
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to read."""
        self._inbox.setblocking(False)
        asyncio.get_running_loop().add_reader(self._inbox.fileno(), self._read)

    async def stop(self, seconds: float) -> None:
        """Read no more, and break off what is not answered within the time."""
        asyncio.get_running_loop().remove_reader(self._inbox.fileno())
        self._take_over = None
        self._inbox.setblocking(False)
        for _ in range(MOST_LEFT):  # what others have handed over just now would else wait until this process ends
            try:
                _, end = receive_message(self._inbox)
            except OSError:
                break
            if end is not None:
                end.close()
        if self._tasks and seconds:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()

    def _read(self) -> None:
        with suppress(OSError):  # there is no more for now
            message, end = receive_message(self._inbox)
            if message == _CONNECTION:
                if end is not None:  # else there was no descriptor left for it here, and its client sees it end
                    self._receive(end)
                return
            if end is None:
                self._note(json.loads(message))
                return
            task = asyncio.get_running_loop().create_task(self._serve(end))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _receive(self, connection: socket.socket) -> None:
        if self._take_over is None:
            connection.close()
        else:
            self._take_over(connection)

    async def _serve(self, end: socket.socket) -> None:
        link = await Link.open(end)
        try:
            frame = await link.receive()
            if frame is not None:
                await self._answer(json.loads(frame[1]), link)
        except OSError:  # who asked has gone
            pass
        finally:
            link.close()
