"""Sockets between processes of one program, without an address that others could find."""

from __future__ import annotations

import os
import select
import socket
import sys

MAX_MESSAGE = 65_536  # bytes


def make_inbox() -> tuple[socket.socket, socket.socket]:
    """Make the two ends of an inbox: one process reads messages from the first, any number send by the second."""
    if sys.platform == "win32":
        raise OSError("there are no inboxes on Windows")
    # Of packets where there are such: ten datagrams fill a socket on Linux.
    kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
    return socket.socketpair(socket.AF_UNIX, kind)


def send_message(inbox: socket.socket, message: bytes, descriptor: int | None = None, *, wait: bool = True) -> None:
    """Send a message to an inbox, with an open file of which the reader gets a descriptor of its own.

    Without `wait`, only if there is room for it now.

    Raises:
        OSError: the inbox is full, or no one reads it any more.
    """
    if sys.platform == "win32":
        raise OSError("there are no inboxes on Windows")
    if not wait:
        poll = select.poll()
        poll.register(inbox, select.POLLOUT)
        if not poll.poll(0):
            raise BlockingIOError("the inbox is full")
    socket.send_fds(inbox, [message], [] if descriptor is None else [descriptor])


def receive_message(inbox: socket.socket) -> tuple[bytes, socket.socket | None]:
    """Take the next message out of an inbox, with the socket that came with it, if one did.

    Raises:
        OSError: there is none just now, and the inbox does not wait for one.
    """
    if sys.platform == "win32":
        raise OSError("there are no inboxes on Windows")
    message, descriptors, _, _ = socket.recv_fds(inbox, MAX_MESSAGE, 1)
    for other in descriptors[1:]:
        os.close(other)
    return message, socket.socket(fileno=descriptors[0]) if descriptors else None
