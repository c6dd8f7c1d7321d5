"""How a document is fetched over HTTP from a host that may be hostile, or may lead to one that must not be reached.

The name is resolved once, every address it has is checked, and the connection goes to one of these and no other: what
the name stands for a moment later does not matter. A redirect is a new fetch, checked in the same way.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from .addresses import Address, is_public, normalize_host, resolve
from .decoder import make_too_large
from .fetch_policy import FetchPolicy
from .message_items import Unreadable

MAX_REDIRECTS = 5
MAX_URI = 4096
MAX_ADDRESSES = 8
_PORTS = {"http": 80, "https": 443}
_IN_PATH = "/%:@!$&'()*+,;=~"
_REDIRECTS = (301, 302, 303, 307, 308)
_PIECE = 65536
_CONNECTING = 5.0  # seconds for one of several addresses


class FetchedDocument(NamedTuple):
    """A document as its server sent it: what it says that it is, and the path it was at."""

    data: bytes
    mime: str | None
    charset: str | None
    path: str


@dataclass(frozen=True, slots=True)
class _Target:
    """A URI that was found to be in order."""

    scheme: str
    host: str
    port: int
    path: str


class Web:
    """Fetches documents from the hosts that the owner allows."""

    def __init__(
        self,
        fetching: FetchPolicy,
        *,
        resolve: Callable[[str, int], list[str]] = resolve,
        allowed: Callable[[Address], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._fetching = fetching
        self._resolve = resolve
        self._allowed = allowed
        self._tls = tls

    def fetch(self, uri: str, deadline: float) -> FetchedDocument:
        """The document at `uri`, by `deadline` on the monotonic clock or the owner's limit, whichever is earlier.

        Raises:
            Unreadable: it may not be fetched, or cannot be.
        """
        deadline = min(deadline, time.monotonic() + self._fetching.seconds)
        for _ in range(MAX_REDIRECTS + 1):
            target = self._parse_target(uri)
            try:
                found = self._request(target, deadline)
            except TimeoutError:
                raise Unreadable("The document could not be fetched in time.") from None
            except (OSError, HTTPException, ValueError):
                raise Unreadable(
                    "The document could not be fetched: its host cannot be reached, or breaks off."
                ) from None
            if isinstance(found, FetchedDocument):
                return found
            uri = urljoin(uri, _check_uri(found))
            if target.scheme == "https" and not uri.lower().startswith("https:"):
                raise Unreadable("The URI leads from https to something else, which is not followed.")
        raise Unreadable(f"The URI was redirected more than {MAX_REDIRECTS} times.")

    def _parse_target(self, uri: str) -> _Target:
        parts = urlsplit(_check_uri(uri))
        port = parts.port
        if parts.scheme not in ("http", "https"):
            raise Unreadable("Only http:// and https:// are fetched.")
        if "@" in parts.netloc:
            raise Unreadable("The URI holds a user's name or password, which are not sent.")
        # The port is cut off here, as what urlsplit calls the host name is already changed by it.
        host = normalize_host(parts.netloc if port is None else parts.netloc.rpartition(":")[0])
        port = _PORTS[parts.scheme] if port is None else port
        if not self._fetching.allows(host, port):
            raise Unreadable("The owner of this server does not allow it to fetch from that host: send it as base64.")
        query = f"?{quote(parts.query, safe=_IN_PATH + '?')}" if parts.query else ""
        return _Target(parts.scheme, host, port, quote(parts.path or "/", safe=_IN_PATH) + query)

    def _request(self, target: _Target, deadline: float) -> FetchedDocument | str:
        """What a host answers: a document, or where to look instead."""
        connected = self._connect(target, deadline)
        with closing(connected):
            port = "" if target.port == _PORTS[target.scheme] else f":{target.port}"
            host = f"[{target.host}]" if ":" in target.host else target.host
            connected.settimeout(_remaining_seconds(deadline))
            connected.sendall(
                f"GET {target.path} HTTP/1.1\r\nHost: {host}{port}\r\nUser-Agent: cofio\r\nAccept: */*\r\n"
                "Accept-Encoding: identity\r\nConnection: close\r\n\r\n".encode("ascii")
            )
            with closing(HTTPResponse(_TimedConnection(connected, deadline), method="GET")) as response:  # type: ignore[arg-type]  # it only calls makefile
                response.begin()
                if response.status in _REDIRECTS:
                    return response.headers.get("Location") or ""
                return self._read_body(response, target)

    def _read_body(self, response: HTTPResponse, target: _Target) -> FetchedDocument:
        limit = self._fetching.max_bytes
        if response.status != 200:
            raise Unreadable(f"The document could not be fetched: its host answered {response.status}.")
        if response.headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
            raise Unreadable("The host sends the document compressed, though it was asked not to.")
        if response.length is not None and response.length > limit:
            raise make_too_large(limit)
        pieces, size = [], 0
        while piece := response.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise make_too_large(limit)
            pieces.append(piece)
        if response.length:
            raise Unreadable("The document could not be fetched whole: its host broke off.")
        declared = response.headers.get("Content-Type") is not None
        return FetchedDocument(
            b"".join(pieces), response.headers.get_content_type() if declared else None,
            response.headers.get_content_charset(), target.path.partition("?")[0],
        )  # fmt: skip

    def _connect(self, target: _Target, deadline: float) -> socket.socket:
        """A connection to one of the addresses that the host has now, all of which must be allowed."""
        addresses = self._find_addresses(target, deadline)
        for last, address in enumerate(addresses, 1 - len(addresses)):
            left = _remaining_seconds(deadline)
            try:
                raw = socket.create_connection(
                    (str(address), target.port), left if not last else min(left, _CONNECTING)
                )
            except OSError:
                if not last:
                    raise
                continue
            if target.scheme == "http":
                return raw
            try:
                raw.settimeout(_remaining_seconds(deadline))
                # A document that is cut off is not one that is over.
                context = self._tls or ssl.create_default_context()
                return context.wrap_socket(raw, server_hostname=target.host, suppress_ragged_eofs=False)
            except BaseException:
                raw.close()
                raise
        raise OSError("no address")

    def _find_addresses(self, target: _Target, deadline: float) -> list[Address]:
        try:
            addresses: list[Address] = [ip_address(target.host)]
        except ValueError:
            addresses = [ip_address(found) for found in self._look_up(target, deadline)]
        if not addresses or not all(map(self._allowed, addresses)):
            raise Unreadable("The host of the URI is not a public one, and documents are fetched from no other.")
        return list(dict.fromkeys(addresses))[:MAX_ADDRESSES]

    def _look_up(self, target: _Target, deadline: float) -> list[str]:
        """Ask the resolver, which knows no time limit, in a thread that is not waited for beyond ours."""
        answer: SimpleQueue[list[str] | OSError | ValueError] = SimpleQueue()

        def ask() -> None:
            try:
                answer.put(self._resolve(target.host, target.port))
            except (OSError, ValueError) as error:
                answer.put(error)

        Thread(target=ask, name="cofio-resolve", daemon=True).start()
        try:
            found = answer.get(timeout=_remaining_seconds(deadline))
        except Empty:
            raise TimeoutError from None
        if isinstance(found, Exception):
            raise found
        return found


class _TimedConnection(io.RawIOBase):
    """A connection from which each read waits only until the deadline, so that many short waits make no long one."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline

    def makefile(self, *_: object) -> io.BufferedReader:
        """What HTTPResponse reads from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io hands over nothing else
        """Take what has come, or wait for more."""
        self._socket.settimeout(_remaining_seconds(self._deadline))
        return self._socket.recv_into(buffer)


def _check_uri(uri: str) -> str:
    """The URI, if it has nothing in it that urllib would take out or stumble over."""
    try:
        _ = urlsplit(uri).port
    except ValueError:
        raise Unreadable("The URI is not well formed.") from None
    if len(uri) > MAX_URI or not uri.isprintable() or any(each in uri for each in ' \\"<>'):
        raise Unreadable("The URI is too long, or holds characters that a URI has not.")
    return uri


def _remaining_seconds(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
