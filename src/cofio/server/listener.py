"""The address that a server listens on, and whether it may. It is checked before anything else is loaded."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

from ..config.trust import is_versioned
from ..http.tokens import FILE, Tokens
from ..system.processes import claim_address
from ..values.errors import Unavailable


def check_exposure(tokens: Tokens, home: Path, host: str, names: Sequence[str]) -> bool:
    """Check that a server may listen there under these names; return whether every client needs a token.

    Raises:
        Unavailable: others could reach it and there is no token, or the tokens are known to others.
    """
    strict = not is_local(host) or not all(is_local(name) for name in names)
    if strict and not tokens.all():
        public_name = next((name for name in (host, *names) if not is_local(name)), host)
        raise Unavailable(f"others can reach {public_name}, so a token is needed: make one with `cofio token add NAME`")
    if tokens.all() and is_versioned(home, (FILE,)):
        raise Unavailable(
            f"{home / FILE} came with the project, so others know its tokens: remove it, and make new ones with"
            " `cofio token add`"
        )
    return strict


def is_local(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    """Whether the name of a host is an address of numbers."""
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
