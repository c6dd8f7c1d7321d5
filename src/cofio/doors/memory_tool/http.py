"""The memory tool over HTTP, for agents in any language: the input of a `tool_use` comes in, its result goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ...engine.engine import Engine
from ...files.commands import Result, dispatch
from ...files.tree import home
from ...http.admission import CallQueue, IsGone, ServerLoad, get_client, get_gone_check
from ...http.bodies import BodyTooLong, read_body
from ...http.errors import RequestError, describe_failure
from ...http.json_limits import BadJson, JsonLimits, TooComplex
from ...http.tracing import CLIENT_GONE
from ...values.errors import Invalid, Unavailable
from ...values.records import Scope

PATH = "/api/v1/memory-tool"
MAX_BODY = 16_777_216  # bytes; the longest file that can be kept is shorter, also with every character escaped
LIMITS = JsonLimits(text=None)  # how long a file may be, the command says
THREADS = 8  # commands that are in the engine at once


def make_routes(engine: Callable[[], Engine], load: ServerLoad | None = None) -> list[Route]:
    """The door's one address. `engine` gives the memory when a command needs it, and may raise Unavailable.

    `load` is that of the server.
    """
    door = _Door(engine, load or ServerLoad())
    return [Route(PATH, door.answer, methods=["POST"])]


class _Door:
    """Answers commands, beside the event loop."""

    def __init__(self, engine: Callable[[], Engine], load: ServerLoad) -> None:
        self._engine = engine
        self._queue = CallQueue(THREADS, "memory_tool", load)

    async def answer(self, request: Request) -> JSONResponse:
        """The result of the command in the body; 400 when there is none in it."""
        try:
            self._queue.check_room(get_client(request.scope))  # before a body is read that would be of no use
            scope = home(_parse_owner(request.scope["query_string"]))
            body = await read_body(request.scope, request.receive, MAX_BODY)
            return await self._queue.run(
                partial(self._reply, scope, body, get_gone_check(request.scope)), client=get_client(request.scope)
            )
        except BodyTooLong as error:
            return _render_error(f"The body is longer than {MAX_BODY:,} bytes", error.status)
        except RequestError as error:
            return _render_error(str(error), error.status, error.headers)
        except Invalid as error:
            return _render_error(str(error), 400)

    def _reply(self, scope: Scope, body: bytearray, is_gone: IsGone | None) -> JSONResponse:
        try:
            command = _parse_command(body)
        except BadJson as error:
            return _render_error(f"The body is not JSON ({error.kind})", 400)
        except (Invalid, TooComplex) as error:
            return _render_error(str(error), 400)
        if command.get("command") == "view" and is_gone is not None and is_gone():
            return _render_error("nobody waits for this any more", CLIENT_GONE)
        try:
            return _render_result(dispatch(self._engine(), scope, command), 200)
        except Unavailable as error:
            failure = describe_failure(error)
            return _render_error(str(failure), failure.status)


def _parse_owner(query: bytes) -> str:
    """Whose files are meant. Nothing is guessed: a slip must not lead to someone else's."""
    try:
        parameters = parse_qs(
            query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError as error:
        raise Invalid("query", "is not `owner=NAME`, in UTF-8") from error
    if set(parameters) - {"owner"} or len(parameters.get("owner", ["default"])) != 1:
        raise Invalid("query", "takes `owner`, once, and nothing else")
    return parameters.get("owner", ["default"])[0]


def _parse_command(body: bytearray) -> dict[str, object]:
    parsed = LIMITS.parse(body)
    if not isinstance(parsed, dict):
        raise Invalid("body", f"expected an object, got {type(parsed).__name__}")
    return dict(parsed)


def _render_error(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return _render_result(Result(f"Error: {sentence}", is_error=True), status, headers)


def _render_result(result: Result, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"content": result.content, "is_error": result.is_error}, status, headers)
