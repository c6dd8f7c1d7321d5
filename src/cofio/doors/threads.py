"""The states of agents over HTTP: `/threads/{thread}/checkpoints`, as HTTPCheckpointer asks for them.

Save with POST, list with GET, and forget a thread with DELETE; below it, GET and DELETE one by its id. These are the
checkpoints that `CofioCheckpointer` keeps in the same store. A part of the path is an id, percent-encoded as a whole:
`a%2Fb` is `a/b`, and no two ids have the same address.

`GET …?limit=N` lists the newest N, 10 unless told otherwise. More than 10,000 at once are refused (422) and not cut, so
that a part is never taken for the whole. Answers are ASCII: every other character is escaped, also half of a surrogate
pair, for which UTF-8 has no bytes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs, unquote_to_bytes
from uuid import uuid4

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..checkpoints.checkpoints import MAX_NAME, Checkpoint
from ..engine.engine import Engine
from ..http.admission import MAX_LARGE_CALL_SECONDS, CallQueue, Overload, ServerLoad, get_client, get_gone_check
from ..http.bodies import read_body
from ..http.errors import FaultLog, RequestError, describe_failure, get_request_id, render_failure
from ..http.json_limits import BadJson, JsonLimits, TooComplex
from ..http.tokens import Token
from ..values.errors import Invalid
from ..values.records import check_text

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


class _ThreadRequest(NamedTuple):
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

    def __init__(self, engine: Callable[[], Engine], zone: tzinfo, load: ServerLoad | None = None) -> None:
        """`engine` gives the memory when a request needs it, and may raise Unavailable. `load` is the server's."""
        self._engine = engine
        self._zone = zone
        self._faults = FaultLog(logging.getLogger("cofio.checkpoints"))
        load = load or ServerLoad()
        self._queue = CallQueue(THREADS, "checkpoints", load)
        self._large_queue = CallQueue(LARGE_THREADS, "checkpoints", load, max_seconds=MAX_LARGE_CALL_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._queue.check_room(get_client(scope))  # before a body is read that would be of no use
            request = await _read_request(scope, receive)
            queue = self._queue if len(request.body) < LARGE else self._large_queue
            is_gone = get_gone_check(scope) if request.method == "GET" else None
            response = await queue.run(partial(self._reply, request, scope), is_gone, client=get_client(scope))
        except ClientDisconnect:
            raise
        except Overload as error:  # which is no fault
            response = render_failure(scope, error, self._zone)
        except Exception as error:  # every failure has its envelope, also an unexpected one
            response = self._fail(scope, error)
        await response(scope, receive, send)

    def _fail(self, scope: Scope, error: Exception) -> Response:
        failure = describe_failure(error)
        if failure.status >= 500:
            self._faults.report(get_request_id(scope), error)
        return render_failure(scope, failure, self._zone)

    def _reply(self, request: _ThreadRequest, scope: Scope) -> Response:
        try:
            status, answer = self._run(request)
            content = json.dumps(answer, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        except RecursionError:
            return self._fail(scope, Invalid("state", "is nested too deep"))
        except Exception as error:  # caught here: what leaves a thread keeps the body in memory for long
            return self._fail(scope, error)
        return Response(content, status, media_type="application/json")

    def _run(self, request: _ThreadRequest) -> tuple[int, dict[str, Any]]:
        checkpoints = self._engine().checkpoints
        match request.method:
            case "POST":
                return 201, {"checkpoint_id": self._save(request)}
            case "DELETE":
                removed = checkpoints.delete(SPACE, request.thread, request.id)
                return (200, {"deleted": removed}) if removed else _raise_absent(request)
        if request.id is None:
            headings = checkpoints.list(SPACE, request.thread, limit=request.limit)
            return 200, {"checkpoints": [_render_heading(each) for each in headings]}
        one = checkpoints.load(SPACE, request.thread, request.id)
        return (
            (200, {**_render_heading(one), "thread_id": one.thread, "state": one.state})
            if one
            else _raise_absent(request)
        )

    def _save(self, request: _ThreadRequest) -> str:
        body = _parse_object(request.body)
        state, metadata, name = body.get("state"), body.get("metadata"), body.get("checkpoint_id")
        if not isinstance(state, dict):
            raise Invalid("state", "expected an object")
        if body.get("thread_id", request.thread) != request.thread:
            raise Invalid("thread_id", "is not the thread of the address")
        checkpoint_id = uuid4().hex if name is None or name == "" else name
        self._engine().checkpoints.save(SPACE, request.thread, checkpoint_id, state, metadata=metadata, owned=True)
        return str(checkpoint_id)


async def _read_request(scope: Scope, receive: Receive) -> _ThreadRequest:
    """Read a request; raises for one that is not understood, or not allowed."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    thread, name = _parse_ids(scope)
    check_text("thread", thread, MAX_NAME, empty=False)
    if name is not None:
        check_text("id", name, MAX_NAME, empty=False)
    allowed = ("GET", "DELETE") if name is not None else ("GET", "POST", "DELETE")
    if method not in allowed:
        raise RequestError(405, "Method Not Allowed", headers={"Allow": ", ".join(allowed)})
    _check_token(scope["state"].get("token"), method)
    limit = _parse_limit(scope["query_string"]) if method == "GET" and name is None else DEFAULT_LIMIT
    body = await read_body(scope, receive, MAX_BODY) if method == "POST" else bytearray()
    return _ThreadRequest(method, thread, name, limit, body)


def _parse_ids(scope: Scope) -> tuple[str, str | None]:
    """Get the ids from the path as it was sent: once decoded, an id with a slash could not be told from two."""
    parts = scope["raw_path"].partition(b"?")[0].split(b"/")
    try:
        match [unquote_to_bytes(part).decode() for part in parts]:
            case ["", "threads", thread, "checkpoints"]:
                return thread, None
            case ["", "threads", thread, "checkpoints", name]:
                return thread, name
    except UnicodeDecodeError:
        raise RequestError(400, "the path is not UTF-8, percent-encoded") from None
    raise RequestError(404, "Not Found")


def _check_token(token: Token | None, method: str) -> None:
    """Let a token in that is good for every app; one for reading may read."""
    if token is None or token.limits is None:
        return
    if token.app is not None:
        raise RequestError(403, f"this token is limited to {token.limits}; checkpoints belong to no app")
    if method in _WRITES:
        raise RequestError(403, f"this token is limited to {token.limits}; it may not change anything")


def _parse_limit(query: bytes) -> int:
    try:
        fields = parse_qs(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        raise Invalid("query", "is not `limit=NUMBER`") from None
    if set(fields) - {"limit"} or len(fields.get("limit", ["1"])) != 1:
        raise Invalid("query", "takes `limit`, once, and nothing else")
    text = fields.get("limit", [str(DEFAULT_LIMIT)])[0]
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MAX_LIMIT):
        raise Invalid("limit", f"expected a whole number from 0 to {MAX_LIMIT:,}")
    return int(text)


def _parse_object(body: bytearray) -> dict[str, Any]:
    try:
        parsed = LIMITS.parse(body)
    except TooComplex as error:
        raise Invalid("body", str(error).removeprefix("the body ")) from None
    except BadJson as error:
        raise Invalid("body", f"is not JSON ({error.kind})") from None
    if not isinstance(parsed, dict):
        raise Invalid("body", f"expected an object, got {type(parsed).__name__}")
    return parsed


def _render_heading(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "checkpoint_id": checkpoint.id,
        "created_at": checkpoint.created_at.isoformat(),
        "metadata": checkpoint.metadata,
    }


def _raise_absent(request: _ThreadRequest) -> NoReturn:
    raise RequestError(
        404, f"the thread has no checkpoint {request.id!r}" if request.id is not None else "there is no such thread"
    )
