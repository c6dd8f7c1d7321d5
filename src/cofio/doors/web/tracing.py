"""What every request gets before any door sees it: an id, and someone who is told how it went."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from uuid import uuid4

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLIENT_GONE = 499  # what nginx calls a request whose client did not wait
Observer = Callable[[str, str, int, float], None]
"""Told of each request's method, path and status, and of the seconds that it took."""


class RequestTracer:
    """Gives each request an id, which every answer carries, and tells an observer how it went."""

    def __init__(self, app: ASGIApp, observe: Observer | None = None) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity, status, start = uuid4().hex, 500, perf_counter()

        async def send_traced(message: Message) -> None:
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
            await self._app({**scope, "headers": headers, "state": state}, receive, send_traced)
        except ClientDisconnect:  # the client has gone: there is no one to answer
            status = CLIENT_GONE
        finally:
            if self._observe is not None:
                self._observe(scope["method"], scope["path"], status, perf_counter() - start)
