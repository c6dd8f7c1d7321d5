"""The memory tool over HTTP, for agents in any language: the input of a `tool_use` comes in, its result goes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ...engine.engine import Engine
from ...files.commands import Result, dispatch
from ...files.tree import home
from ...values.errors import Invalid, Unavailable
from ...values.records import Scope
from ..web.http import NotJson, TooLong, read_body
from ..web.json_limits import JsonLimits, TooComplex

PATH = "/api/v1/memory-tool"
MAX_BODY = 16_777_216  # bytes; the longest file that can be kept is shorter, also with every character escaped
LIMITS = JsonLimits(text=None)  # how long a file may be, the command says
THREADS = 8  # commands that are in the engine at once


def routes(engine: Callable[[], Engine]) -> list[Route]:
    """The door's one address. `engine` gives the memory when a command needs it, and may raise Unavailable."""
    door = _Door(engine)
    return [Route(PATH, door.answer, methods=["POST"])]


class _Door:
    """Answers commands, beside the event loop."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._limiter: CapacityLimiter | None = None

    async def answer(self, request: Request) -> JSONResponse:
        """The result of the command in the body; 400 when there is none in it."""
        try:
            scope = home(_owner(request.scope["query_string"]))
            body = await read_body(request.scope, request.receive, MAX_BODY)
        except Invalid as error:
            return _answer(Result(f"Error: {error}", is_error=True), 400)
        except NotJson as error:
            return _answer(Result(f"Error: {error}", is_error=True), 415)
        except TooLong:
            return _answer(Result(f"Error: The body is longer than {MAX_BODY:,} bytes", is_error=True), 413)
        if self._limiter is None:  # made within the loop that it limits
            self._limiter = CapacityLimiter(THREADS)
        return await to_thread.run_sync(partial(self._reply, scope, body), limiter=self._limiter)

    def _reply(self, scope: Scope, body: bytearray) -> JSONResponse:
        try:
            command = _command(body)
        except (Invalid, TooComplex) as error:
            return _answer(Result(f"Error: {error}", is_error=True), 400)
        except (ValueError, RecursionError) as error:  # not JSON, or not in UTF-8
            return _answer(Result(f"Error: The body is not JSON ({type(error).__name__})", is_error=True), 400)
        try:
            return _answer(dispatch(self._engine(), scope, command), 200)
        except Unavailable as error:  # whose sentence may name a folder of this machine
            said = error.public or "The memory cannot be used at the moment"
            return _answer(Result(f"Error: {said}", is_error=True), 503)


def _owner(query: bytes) -> str:
    """Whose files are meant. Nothing is guessed: a slip must not lead to someone else's."""
    try:
        given = parse_qs(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as error:
        raise Invalid("query", "is not `owner=NAME`, in UTF-8") from error
    if set(given) - {"owner"} or len(given.get("owner", ["default"])) != 1:
        raise Invalid("query", "takes `owner`, once, and nothing else")
    return given.get("owner", ["default"])[0]


def _command(body: bytearray) -> dict[str, object]:
    LIMITS.check(body)
    found = json.loads(body.decode())  # UTF-8 alone: that is what was measured
    if not isinstance(found, dict):
        raise Invalid("body", f"expected an object, got {type(found).__name__}")
    return found


def _answer(result: Result, status: int) -> JSONResponse:
    return JSONResponse({"content": result.content, "is_error": result.is_error}, status)
