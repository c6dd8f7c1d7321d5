"""The address that a server listens on."""

from __future__ import annotations

import ipaddress
import socket

from ..system.processes import claim_address
from ..values.errors import Unavailable


def is_local(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    """Return whether the name of a host is an address of numbers."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def open_listener(host: str, port: int) -> socket.socket:
    """Listen on an address; the port 0 takes a free one.

    Raises:
        Unavailable: the address is taken, or is none of this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With its protocol named: only then does asyncio send small answers at once, rather than 40 ms later.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            claim_address(listener)
            listener.bind((host, port))
            listener.listen()
        except OSError:
            listener.close()
            raise
    except OSError as error:
        problem = f"cannot listen on {host} port {port} ({error.strerror or error})"
        raise Unavailable(f"{problem}: choose another with --host or --port") from error
    return listener


def render_url(host: str, listener: socket.socket) -> str:
    """Return the URL of a server that listens there."""
    url_host = f"[{host}]" if ":" in host else host
    return f"http://{url_host}:{listener.getsockname()[1]}"
