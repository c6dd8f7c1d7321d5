"""The states of agents over HTTP: `/threads/{thread}/checkpoints`, as HTTPCheckpointer asks for them.

Save with POST, list with GET, and forget a thread with DELETE; below it, GET and DELETE one by its id. These are the
checkpoints that `CofioCheckpointer` keeps in the same store. A part of the path is an id, percent-encoded as a whole:
`a%2Fb` is `a/b`, and no two ids have the same address.

`GET …?limit=N` lists the newest N, 10 unless told otherwise. More than 10,000 at once are refused (422) and not cut, so
that nobody takes a part for the whole. Answers are ASCII: every other character is escaped, also half of a surrogate
pair, for which UTF-8 has no bytes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs, unquote_to_bytes
from uuid import uuid4

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..checkpoints.checkpoints import MAX_NAME, Checkpoint
from ..engine.engine import Engine
from ..values.errors import Invalid, Unavailable
from ..values.records import check_text
from .web.http import FaultLog, NotJson, TooLong, failure, read_body, request_id
from .web.json_limits import JsonLimits, TooComplex
from .web.tokens import Token

PREFIX = "/threads/"
SPACE = "library"
MAX_BODY = 67_108_864  # bytes
# A million values in 60 MB cost some 150 MiB, and half a second in which no other thread runs.
LIMITS = JsonLimits(values=1_000_000, depth=1000, text=None)
MAX_LIMIT = 10_000
DEFAULT_LIMIT = 10
THREADS = 8  # requests that are in the engine at once
LARGE = 8_388_608  # bytes of a body that takes so much memory while it is read and kept
LARGE_THREADS = 1  # that others like it wait for it
_WRITES = frozenset({"POST", "DELETE"})


class _Bad(Exception):
    """A request that cannot be met, with the status that says so."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class _Asked(NamedTuple):
    """What a request is about."""

    method: str
    thread: str
    id: str | None
    limit: int
    body: bytearray


class Door:
    """Answers every request below `PREFIX`, beside the event loop.

    It is no route of the framework's: ids can hold what none of them matches, such as a line break.
    """

    def __init__(self, engine: Callable[[], Engine], zone: tzinfo) -> None:
        """`engine` gives the memory when a request needs it, and may raise Unavailable."""
        self._engine = engine
        self._zone = zone
        self._limiter: CapacityLimiter | None = None
        self._faults = FaultLog(logging.getLogger("cofio.checkpoints.checkpoints"))
        self._large: CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._limiter is None:  # made within the loop that it limits
            self._limiter, self._large = CapacityLimiter(THREADS), CapacityLimiter(LARGE_THREADS)
        try:
            asked = await _asked(scope, receive)
        except ClientDisconnect:
            raise
        except Exception as error:  # every failure has its envelope, also one that nobody thought of
            response = self._fail(scope, error)
        else:
            limiter = self._limiter if len(asked.body) < LARGE else self._large
            response = await to_thread.run_sync(partial(self._reply, asked, scope), limiter=limiter)
        await response(scope, receive, send)

    def _fail(self, scope: Scope, error: Exception) -> Response:
        status, message, headers = _told(error)
        if status >= 500:
            self._faults.report(request_id(scope), error)
        return failure(scope, status, message, self._zone, headers=headers)

    def _reply(self, asked: _Asked, scope: Scope) -> Response:
        try:
            status, answer = self._run(asked)
            content = json.dumps(answer, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        except Exception as error:  # caught here: what leaves a thread keeps the body in memory for long
            return self._fail(scope, error)
        return Response(content, status, media_type="application/json")

    def _run(self, asked: _Asked) -> tuple[int, dict[str, Any]]:
        kept = self._engine().checkpoints
        match asked.method:
            case "POST":
                return 201, {"checkpoint_id": self._save(asked)}
            case "DELETE":
                removed = kept.delete(SPACE, asked.thread, asked.id)
                return (200, {"deleted": removed}) if removed else _absent(asked)
        if asked.id is None:
            found = kept.list(SPACE, asked.thread, limit=asked.limit)
            return 200, {"checkpoints": [_heading(each) for each in found]}
        one = kept.load(SPACE, asked.thread, asked.id)
        return (200, {**_heading(one), "thread_id": one.thread, "state": one.state}) if one else _absent(asked)

    def _save(self, asked: _Asked) -> str:
        given = _object(asked.body)
        state, metadata, name = given.get("state"), given.get("metadata"), given.get("checkpoint_id")
        if not isinstance(state, dict):
            raise Invalid("state", "expected an object")
        if given.get("thread_id", asked.thread) != asked.thread:
            raise Invalid("thread_id", "is not the thread of the address")
        saved = uuid4().hex if name is None or name == "" else name
        self._engine().checkpoints.save(SPACE, asked.thread, saved, state, metadata=metadata, owned=True)
        return str(saved)


def _told(error: Exception) -> tuple[int, str, Mapping[str, str]]:
    """The status, the words and the headers for what went wrong."""
    match error:
        case _Bad():
            return error.status, str(error), error.headers
        case NotJson():
            return 415, str(error), {}
        case TooLong():
            return 413, f"the body is longer than {MAX_BODY:,} bytes", {}
        case Invalid():
            return 422, str(error), {}
        case RecursionError():
            return 422, "state: is nested too deep", {}
        case Unavailable():  # whose sentence may name a folder of this machine
            return 503, error.public or "The memory cannot be used at the moment", {}
    return 500, "Internal server error", {}


async def _asked(scope: Scope, receive: Receive) -> _Asked:
    """Take in a request; raises for one that is not understood, or not allowed."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    thread, name = _ids(scope)
    check_text("thread", thread, MAX_NAME, empty=False)
    if name is not None:
        check_text("id", name, MAX_NAME, empty=False)
    allowed = ("GET", "DELETE") if name is not None else ("GET", "POST", "DELETE")
    if method not in allowed:
        raise _Bad(405, "Method Not Allowed", Allow=", ".join(allowed))
    _check_token(scope["state"].get("token"), method)
    limit = _limit(scope["query_string"]) if method == "GET" and name is None else DEFAULT_LIMIT
    body = await read_body(scope, receive, MAX_BODY) if method == "POST" else bytearray()
    return _Asked(method, thread, name, limit, body)


def _ids(scope: Scope) -> tuple[str, str | None]:
    """Get the ids from the path as it was sent: once decoded, an id with a slash could not be told from two."""
    parts = scope["raw_path"].partition(b"?")[0].split(b"/")
    try:
        match [unquote_to_bytes(part).decode() for part in parts]:
            case ["", "threads", thread, "checkpoints"]:
                return thread, None
            case ["", "threads", thread, "checkpoints", name]:
                return thread, name
    except UnicodeDecodeError:
        raise _Bad(400, "the path is not UTF-8, percent-encoded") from None
    raise _Bad(404, "Not Found")


def _check_token(token: Token | None, method: str) -> None:
    """Let a token in that is good for every app; one for reading may read."""
    if token is None or token.limits is None:
        return
    if token.app is not None:
        raise _Bad(403, f"this token is limited to {token.limits}; checkpoints belong to no app")
    if method in _WRITES:
        raise _Bad(403, f"this token is limited to {token.limits}; it may not change anything")


def _limit(query: bytes) -> int:
    try:
        given = parse_qs(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        raise Invalid("query", "is not `limit=NUMBER`") from None
    if set(given) - {"limit"} or len(given.get("limit", ["1"])) != 1:
        raise Invalid("query", "takes `limit`, once, and nothing else")
    text = given.get("limit", [str(DEFAULT_LIMIT)])[0]
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MAX_LIMIT):
        raise Invalid("limit", f"expected a whole number from 0 to {MAX_LIMIT:,}")
    return int(text)


def _object(body: bytearray) -> dict[str, Any]:
    try:
        LIMITS.check(body)
        found = json.loads(body.decode(), parse_constant=_no_number)
    except TooComplex as error:
        raise Invalid("body", str(error).removeprefix("the body ")) from None
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, too deep, or a number that is too long
        raise Invalid("body", f"is not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise Invalid("body", f"expected an object, got {type(found).__name__}")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _heading(found: Checkpoint) -> dict[str, Any]:
    return {"checkpoint_id": found.id, "created_at": found.created_at.isoformat(), "metadata": found.metadata}


def _absent(asked: _Asked) -> NoReturn:
    raise _Bad(404, f"the thread has no checkpoint {asked.id!r}" if asked.id is not None else "there is no such thread")
