"""What every door over HTTP shares: bodies that are read no further than they may go, a request's id, and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from time import perf_counter
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GONE = 499  # what nginx calls a request whose client did not wait
Observer = Callable[[str, str, int, float], None]
"""Told of each request's method, path and status, and of the seconds that it took."""


class TooLong(Exception):
    """More came in than anything here needs."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """What came in; raises TooLong as soon as it is more than it may be."""
    declared = Headers(scope=scope).get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise TooLong
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise TooLong
        if not message.get("more_body"):
            return b"".join(pieces)


def request_id(scope: Scope) -> str:
    """The id that the request was given when it came in."""
    return str(scope["state"]["request_id"])


def failure(
    scope: Scope,
    status: int,
    message: str,
    zone: tzinfo,
    *,
    now: datetime | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The answer to a request that cannot be met."""
    error = {
        "code": "SYSTEM_ERROR" if status >= 500 else "HTTP_ERROR",
        "message": message,
        "timestamp": (now or datetime.now(UTC)).astimezone(zone).isoformat(timespec="seconds"),
        "path": scope["path"],
    }
    return JSONResponse({"request_id": request_id(scope), "error": error}, status, headers)


class Traced:
    """Gives each request an id, which every answer carries, and tells an observer how it went."""

    def __init__(self, app: ASGIApp, observe: Observer | None = None) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity, status, started = uuid4().hex, 500, perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", identity.encode())]
            await send(message)

        # In a copy: a server need not make one of what the lifespan left, and the next request is someone else's.
        state = {**scope.get("state", {}), "request_id": identity}
        # White space around a value is not part of it; not every parser takes it away.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        try:
            await self._app({**scope, "headers": headers, "state": state}, receive, sending)
        except ClientDisconnect:  # there is nobody left to answer
            status = GONE
        finally:
            if self._observe is not None:
                self._observe(scope["method"], scope["path"], status, perf_counter() - started)
