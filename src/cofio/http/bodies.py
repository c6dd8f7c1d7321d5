"""How HTTP doors read a body: within limits of length and time, and only if it says that it is JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from .connections import Connection
from .errors import RequestError

CONNECTION = "connection"  # in a request's state: what it came by, where that is known
BODY_SHARE = "body_share"  # in a request's state: its share of the memory for bodies
MAX_BODY_BYTES = 268_435_456  # of all requests of one process that are not answered yet
SMALL_BODY_BYTES = 65_536  # that a request may always have
MAX_PAUSE_SECONDS = 30.0  # between two pieces of a body
SLOW_SECONDS, MIN_BYTES_PER_SECOND = 60.0, 1024  # a body that takes longer has to come faster than that


class BodyShare:
    """The bytes of one request's body that are in memory."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def add(self, count: int) -> None:
        """Take so many bytes more. Raises RequestError if there is no room for them."""
        self.size += count
        self._budget.left -= count
        if self._budget.left < 0 and self.size > SMALL_BODY_BYTES:
            raise RequestError(
                503, "this server has all the large requests that it can hold: try again", headers={"Retry-After": "1"}
            )


class BodyBudget:
    """The memory for the bodies of all requests."""

    def __init__(self, limit: int = MAX_BODY_BYTES) -> None:
        self.left = limit

    @contextmanager
    def share(self) -> Iterator[BodyShare]:
        """Count the body of one request, until it is answered."""
        share = BodyShare(self)
        try:
            yield share
        finally:
            self.left += share.size


class BodyTooLong(RequestError):
    """More came in than anything here needs."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is longer than {limit:,} bytes")


class NotJson(RequestError):
    """A body that does not say that it is JSON: a page of another site could have sent it without being asked."""

    def __init__(self) -> None:
        super().__init__(
            415,
            "the body has to be JSON, and to say so: send the header `Content-Type: application/json`"
            " (with curl: -H 'Content-Type: application/json')",
        )


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytearray:
    """Read the body of a request, which has to be JSON, and to say so unless it is empty.

    Raises:
        NotJson: it is of another type, or of none.
        BodyTooLong: it has more bytes than it may have. It is raised as soon as that is known.
    """
    headers = Headers(scope=scope)
    is_json = _is_json(headers.getlist("content-type"))
    check_length(headers, limit)
    body = bytearray()  # it grows in place: pieces that are joined in the end would be in memory twice
    async for piece in read_pieces(scope, receive):
        body += piece
        if body and not is_json:
            raise NotJson
        if len(body) > limit:
            raise BodyTooLong(limit)
    return body


async def read_pieces(scope: Scope, receive: Receive, *, keeps: bool = True) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body as they come. They count as memory if the caller `keeps` them.

    Raises:
        RequestError: nothing came for too long, or there is no room for more.
        ClientDisconnect: the client has gone.
    """
    share: BodyShare | None = scope["state"].get(BODY_SHARE) if keeps else None
    connection: Connection | None = scope["state"].get(CONNECTION)
    loop = asyncio.get_running_loop()
    start, size, is_whole = loop.time(), 0, False
    while not is_whole:
        if connection is not None:
            connection.wait_for_body(True)
        try:
            async with asyncio.timeout(MAX_PAUSE_SECONDS):
                message = await receive()
        except TimeoutError:
            raise RequestError(408, f"nothing more of the body came for {MAX_PAUSE_SECONDS:g} seconds") from None
        if connection is not None:
            connection.wait_for_body(False)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        size, seconds = size + len(piece), loop.time() - start
        if seconds > SLOW_SECONDS and size < seconds * MIN_BYTES_PER_SECOND:
            raise RequestError(408, "the body comes too slowly")
        if share is not None:
            share.add(len(piece))
        yield piece
        is_whole = not message.get("more_body")


def is_large(scope: Scope) -> bool:
    """Return whether a request has a large body, or does not say how large it is."""
    length = Headers(scope=scope).get("content-length", "" if scope["method"] == "POST" else "0")
    return not length.isdigit() or len(length) > 9 or int(length) > SMALL_BODY_BYTES


def check_length(headers: Headers, limit: int) -> None:
    """Raise BodyTooLong for a body that is announced to have more bytes than it may have."""
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise BodyTooLong(limit)


def _is_json(types: list[str]) -> bool:
    if len(types) != 1:
        return False
    kind = types[0].partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
