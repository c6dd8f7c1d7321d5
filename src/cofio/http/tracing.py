"""The outermost layer: gives each request an id, keeps its connection, counts its body and measures its time."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from uuid import uuid4

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .admission import RETRY_AFTER_SECONDS
from .bodies import BODY_BUDGET, BodyBudget
from .connections import CONNECTION, Connection

CLOSE_SECONDS = 0.05  # between two connections that are closed for that
CLIENT_GONE = 499  # what nginx calls a request whose client did not wait
STOPPING = "this server is stopping, and has done nothing of this: send it again in a moment"
Observer = Callable[[str, str, int, float], None]
"""Called with the method, path and status of each request, and the seconds that it took."""


class RequestTracer:
    """The outermost application of a server."""

    def __init__(self, app: ASGIApp, observe: Observer | None = None, *, shares_load: bool = False) -> None:
        """With `shares_load`, other processes take connections from the same listener."""
        self._app = app
        self._observe = observe
        self._shares_load = shares_load
        self._bodies = BodyBudget()
        self._open_requests = 0
        self._next_close = 0.0
        self.is_stopping = False
        """Refuse every further request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity, status, start, has_begun = uuid4().hex, 500, perf_counter(), False

        async def send_traced(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                headers = [*message.get("headers", ()), (b"x-request-id", identity.encode())]
                # Clients use their last connection first, and so one process, although another may have less to do.
                if self.is_stopping or self._should_share(start):
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        # In a copy: a server need not make one of what the lifespan left, and the next request is someone else's.
        state = {**scope.get("state", {}), "request_id": identity, BODY_BUDGET: self._bodies}
        # White space around a value is not part of it; not every parser takes it away.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        connection: Connection | None = state.get(CONNECTION)
        self._open_requests += 1
        try:
            with connection.hold() if connection is not None else nullcontext():
                app = _refuse if self.is_stopping else self._app
                await app({**scope, "headers": headers, "state": state}, receive, send_traced)
        except ClientDisconnect:  # there is no one to answer
            status = CLIENT_GONE
        except CancelledError:  # the time is up that a server which stops gives to its calls
            if not self.is_stopping or has_begun:
                raise
            await _refuse(scope, receive, send_traced)
        finally:
            self._open_requests -= 1
            self._bodies.release(identity)
            if self._observe is not None:
                self._observe(scope["method"], scope["path"], status, perf_counter() - start)

    def _should_share(self, now: float) -> bool:
        """Return whether to close a connection, so that the client's next one can go to another process."""
        if not self._shares_load or self._open_requests <= 1 or now < self._next_close:
            return False
        self._next_close = now + CLOSE_SECONDS
        return True


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    retry = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    await JSONResponse({"error": STOPPING}, 503, retry)(scope, receive, send)
