"""Failures of HTTP doors: one table from errors to statuses and public words, the envelope, and the log of faults."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from http import HTTPStatus

from starlette.responses import JSONResponse
from starlette.types import Scope

from ..content import Unreadable
from ..values.errors import Conflict, Invalid, NotFound, Unavailable
from .logs import LogThrottle

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
            headers = {"Retry-After": "1"} if error.trouble == "locked" else None
            return RequestError(503, error.public or "The memory cannot be used at the moment", headers=headers)
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
        if error.is_logged:
            return
        if len(self._throttles) >= MAX_REASONS:
            self._throttles.clear()
        more = self._throttles.setdefault(error.trouble or str(error), LogThrottle()).admit()
        if more is not None:
            self._log.error("request %s failed: %s%s", request, error, more)
