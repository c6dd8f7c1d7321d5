"""What every door over HTTP shares: bodies that are read no further than they may go, a request's id, and failures."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from http import HTTPStatus
from time import monotonic, perf_counter
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...values.errors import Unavailable

MOST_REASONS = 16  # sentences about what cannot be used that are told apart in the log
GONE = 499  # what nginx calls a request whose client did not wait
CODES = {
    413: "PAYLOAD_TOO_LARGE", 415: "UNSUPPORTED_FORMAT", 422: "INVALID_INPUT", 429: "QUEUE_SATURATED",
    500: "INTERNAL_ERROR", 503: "EXTERNAL_SERVICE_UNAVAILABLE",
}  # fmt: skip
"""Codes of statuses that are not called as HTTP calls them."""
Observer = Callable[[str, str, int, float], None]
"""Told of each request's method, path and status, and of the seconds that it took."""


class TooLong(Exception):
    """More came in than anything here needs."""


class NotJson(Exception):
    """A body that does not say that it is JSON: a page of another site could have sent it without being asked."""

    def __init__(self) -> None:
        super().__init__(
            "the body has to be JSON, and to say so: send the header `Content-Type: application/json`"
            " (with curl: -H 'Content-Type: application/json')"
        )


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytearray:
    """Read the body of a request, which has to be JSON, and to say so unless it is empty.

    Raises:
        NotJson: it is of another type, or of none.
        TooLong: it has more bytes than it may have. It is raised as soon as that is known.
    """
    headers = Headers(scope=scope)
    is_json = _is_json(headers.getlist("content-type"))
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise TooLong
    body = bytearray()  # it grows in place: pieces that are joined in the end would be in memory twice
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if body and not is_json:
            raise NotJson
        if len(body) > limit:
            raise TooLong
        if not message.get("more_body"):
            return body


def _is_json(types: list[str]) -> bool:
    if len(types) != 1:
        return False
    kind = types[0].partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


class LogThrottle:
    """Lets one line into the log at a time: what fails a thousand times in a row is told once, with a count."""

    def __init__(self, seconds: float = 60, clock: Callable[[], float] = monotonic) -> None:
        """A line comes `seconds` after the one before it, or later."""
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._held_back = 0

    def admit(self) -> str | None:
        """Count one more: None if it is held back, else what to add to its line about those that were."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                self._held_back += 1
                return None
            self._next, held_back, self._held_back = now + self._seconds, self._held_back, 0
            return f" ({held_back:,} more since the last such line)" if held_back else ""


class FaultLog:
    """Logs what a door could not do: where a fault lies, and not what it was about, for that is the users' own."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._throttles: dict[str, LogThrottle] = {}

    def report(self, request: str, error: Exception) -> None:
        """Tell of a fault with its frames, and of a full disk or the like in a line, once for all of a burst."""
        if not isinstance(error, Unavailable):
            frames = "".join(traceback.format_tb(error.__traceback__))
            self._log.error("request %s failed with %s\n%s", request, type(error).__name__, frames)
            return
        if error.public:  # the store has logged it, once
            return
        if len(self._throttles) >= MOST_REASONS:
            self._throttles.clear()
        more = self._throttles.setdefault(str(error), LogThrottle()).admit()
        if more is not None:
            self._log.error("request %s failed: %s%s", request, error, more)


def request_id(scope: Scope) -> str:
    """The id that the request was given when it came in."""
    return str(scope["state"]["request_id"])


def failure(
    scope: Scope,
    status: int,
    message: str,
    zone: tzinfo,
    *,
    code: str | None = None,
    now: datetime | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The answer to a request that cannot be met."""
    error = {
        "code": code or _code(scope["path"], status),
        "message": message,
        "timestamp": (now or datetime.now(UTC)).astimezone(zone).isoformat(timespec="seconds"),
        "path": scope["path"],
    }
    return JSONResponse({"request_id": request_id(scope), "error": error}, status, headers)


def _code(path: str, status: int) -> str:
    """The code for a status: that of today's clients under /api/v2, and one of the first two everywhere else."""
    if path.startswith("/api/v2/"):
        return CODES.get(status) or HTTPStatus(status).name
    return "SYSTEM_ERROR" if status >= 500 else "HTTP_ERROR"


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
