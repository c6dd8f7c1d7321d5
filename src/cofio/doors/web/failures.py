"""How a door over HTTP fails: one table from errors to statuses and public words, the envelope, and what is logged."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from http import HTTPStatus
from time import monotonic

from starlette.responses import JSONResponse
from starlette.types import Scope

from ...content import Unreadable
from ...values.errors import Conflict, Invalid, NotFound, Unavailable

MAX_REASONS = 16  # sentences about what cannot be used that are told apart in the log
CODES = {
    413: "PAYLOAD_TOO_LARGE", 415: "UNSUPPORTED_FORMAT", 422: "INVALID_INPUT", 429: "QUEUE_SATURATED",
    500: "INTERNAL_ERROR", 503: "EXTERNAL_SERVICE_UNAVAILABLE",
}  # fmt: skip
"""Codes of statuses that are not called as HTTP calls them."""


class RequestError(Exception):
    """A request that cannot be met: the status, the sentence and the headers that say so, and a code of its own."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


def describe_failure(error: Exception) -> RequestError:
    """Return how an error is answered; an unexpected one tells a client nothing."""
    match error:
        case RequestError():
            return error
        case Unreadable():
            return RequestError(415, str(error))
        case Invalid():
            return RequestError(422, str(error))
        case NotFound():
            return RequestError(404, f"no memory has the id {error.what!r} here")
        case Conflict():
            return RequestError(409, error.what if " " in error.what else str(error))
        case Unavailable():  # whose sentence may name a folder of this machine
            return RequestError(503, error.public or "The memory cannot be used at the moment")
    return RequestError(500, "Internal server error")


def render_failure(scope: Scope, error: RequestError, zone: tzinfo, *, now: datetime | None = None) -> JSONResponse:
    """Return the answer to a request that cannot be met, in the envelope of all doors that have no other."""
    body = {
        "code": error.code or _find_code(scope["path"], error.status),
        "message": str(error),
        "timestamp": (now or datetime.now(UTC)).astimezone(zone).isoformat(timespec="seconds"),
        "path": scope["path"],
    }
    return JSONResponse({"request_id": get_request_id(scope), "error": body}, error.status, error.headers)


def get_request_id(scope: Scope) -> str:
    """Return the id that the request was given when it came in."""
    return str(scope["state"]["request_id"])


def _find_code(path: str, status: int) -> str:
    """Return the code for a status: that of today's clients under /api/v2, and one of the first two everywhere else."""
    if path.startswith("/api/v2/"):
        return CODES.get(status) or HTTPStatus(status).name
    return "SYSTEM_ERROR" if status >= 500 else "HTTP_ERROR"


class LogThrottle:
    """Lets one line into the log at a time: what fails a thousand times in a row is logged once, with a count."""

    def __init__(self, seconds: float = 60, clock: Callable[[], float] = monotonic) -> None:
        """A line comes `seconds` after the one before it, or later."""
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._suppressed = 0

    def admit(self) -> str | None:
        """Count one more: None if it is suppressed, else what to add to its line about those that were."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                self._suppressed += 1
                return None
            self._next, suppressed, self._suppressed = now + self._seconds, self._suppressed, 0
            return f" ({suppressed:,} more since the last such line)" if suppressed else ""


class FaultLog:
    """Logs what a door could not do: where a fault lies, and not what it was about, for that is the users' own."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._throttles: dict[str, LogThrottle] = {}

    def report(self, request: str, error: Exception) -> None:
        """Log a fault with its frames, and a full disk or the like in a line, once for all of a burst."""
        if not isinstance(error, Unavailable):
            frames = "".join(traceback.format_tb(error.__traceback__))
            self._log.error("request %s failed with %s\n%s", request, type(error).__name__, frames)
            return
        if error.public:  # the store has logged it, once
            return
        if len(self._throttles) >= MAX_REASONS:
            self._throttles.clear()
        more = self._throttles.setdefault(str(error), LogThrottle()).admit()
        if more is not None:
            self._log.error("request %s failed: %s%s", request, error, more)
