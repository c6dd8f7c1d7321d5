"""How a door over HTTP reads a body: no further than it may go, and only if it says that it is JSON."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from .failures import RequestError


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
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if body and not is_json:
            raise NotJson
        if len(body) > limit:
            raise BodyTooLong(limit)
        if not message.get("more_body"):
            return body


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
