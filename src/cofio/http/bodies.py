"""Reads the bodies of requests, within limits of length, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from .connections import CONNECTION, Connection
from .errors import RequestError

BODY_BUDGET = "body_budget"  # in a request's state: the BodyBudget of the server
MAX_BODY_BYTES = 268_435_456  # of all requests of one process that are not answered yet
SMALL_BODY_BYTES = 65_536  # that a request may always have
MAX_PAUSE_SECONDS = 30.0  # between two pieces of a body
SLOW_SECONDS, MIN_BYTES_PER_SECOND = 60.0, 1024  # a body that takes longer has to come faster than that
NOT_JSON = (
    "the body has to be JSON, and to say so: send the header `Content-Type: application/json`"
    " (with curl: -H 'Content-Type: application/json')"
)


class BodyBudget:
    """The memory for the bodies of all requests of a process."""

    def __init__(self, limit: int = MAX_BODY_BYTES) -> None:
        self._left = limit
        self._sizes: dict[str, int] = {}
        """Bytes in memory by the id of their request."""

    def add(self, request: str, count: int) -> None:
        """Count so many bytes more of a request. Raises RequestError if there is no room for them."""
        size = self._sizes[request] = self._sizes.get(request, 0) + count
        self._left -= count
        if self._left < 0 and size > SMALL_BODY_BYTES:
            raise RequestError(
                503, "this server has all the large requests that it can hold: try again", headers={"Retry-After": "1"}
            )

    def release(self, request: str) -> None:
        """Count a request no more: it is answered."""
        self._left += self._sizes.pop(request, 0)


class BodyTooLong(RequestError):
    """A body that is longer than its door takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is longer than {limit:,} bytes")


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytearray:
    """Read the body of a request, which has to be JSON, and to say so unless it is empty.

    Raises:
        BodyTooLong: it has more bytes than it may have.
        RequestError: it is of another type, or of none: a page of another site can send that without being asked.
    """
    is_json = _is_json(Headers(scope=scope).getlist("content-type"))
    body = bytearray()  # it grows in place: pieces that are joined in the end would be in memory twice
    async for piece in read_pieces(scope, receive, limit):
        body += piece
        if body and not is_json:
            raise RequestError(415, NOT_JSON)
    return body


async def read_pieces(scope: Scope, receive: Receive, limit: int, *, keeps: bool = True) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body as they come. They count as memory if the caller `keeps` them.

    Raises:
        BodyTooLong: it has, or is announced to have, more bytes than `limit`.
        RequestError: nothing came for too long, or there is no room for more.
        ClientDisconnect: the client has gone.
    """
    state = scope["state"]
    budget: BodyBudget | None = state.get(BODY_BUDGET) if keeps else None
    connection: Connection | None = state.get(CONNECTION)
    loop = asyncio.get_running_loop()
    start, size, is_whole = loop.time(), 0, False
    if (_read_length(scope) or 0) > limit:
        raise BodyTooLong(limit)
    while not is_whole:
        if connection is not None:
            connection.set_waiting(True)
        try:
            async with asyncio.timeout(MAX_PAUSE_SECONDS):
                message = await receive()
        except TimeoutError:
            raise RequestError(408, f"nothing more of the body came for {MAX_PAUSE_SECONDS:g} seconds") from None
        if connection is not None:
            connection.set_waiting(False)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        size, seconds = size + len(piece), loop.time() - start
        if size > limit:
            raise BodyTooLong(limit)
        if seconds > SLOW_SECONDS and size < seconds * MIN_BYTES_PER_SECOND:
            raise RequestError(408, "the body comes too slowly")
        if budget is not None:
            budget.add(state["request_id"], len(piece))
        yield piece
        is_whole = not message.get("more_body")


def is_large(scope: Scope) -> bool:
    """Return whether a request has a large body, or does not say how large it is."""
    length = _read_length(scope)
    return scope["method"] == "POST" if length is None else length > SMALL_BODY_BYTES


def _read_length(scope: Scope) -> float | None:
    """Return how long a body is announced to be, or None."""
    declared = Headers(scope=scope).get("content-length", "")
    return float(declared) if declared.isascii() and declared.isdigit() else None


def _is_json(types: list[str]) -> bool:
    if len(types) != 1:
        return False
    kind = types[0].partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
