"""The door over HTTP: the same surface, on the official SDK, which speaks both eras of the protocol.

No request depends on another: any process of a server answers any of them. A client of the 2025 era that sends a
session id is answered as if it had sent none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from ...http.admission import CallQueue, Overload, ServerLoad, get_client, get_gone_check
from ...http.bodies import read_body
from ...http.errors import RequestError
from ...http.json_limits import JsonLimits, TooComplex
from ...values.errors import CofioError
from ...values.records import Json
from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MAX_FRAME
from .surface import INFO, INSTRUCTIONS, STATELESS, Surface, describe_error
from .tools import TOOLS

NAME = "mcp"  # of the door, in the numbers of the server
IS_REFUSED = "is_refused"  # in a request's state: that it was refused after it had been taken in
THREADS = 8  # calls that are in the engine at once; each holds a connection of its own
MAX_CALLS = 256  # that the SDK has in hand at once: it costs the event loop some two milliseconds for each
# A state of full length, unless it is a list of single digits. The SDK parses in the event loop, where all others wait.
LIMITS = JsonLimits(values=400_000, depth=1000, text=None)
Context: TypeAlias = ServerRequestContext[Any]


class Handlers:
    """What the SDK calls: each asks the surface, beside the event loop where it may take time."""

    def __init__(self, surface: Surface, load: ServerLoad | None = None) -> None:
        """`load` is that of the server."""
        self._surface = surface
        self._queue = CallQueue(THREADS, NAME, load or ServerLoad())

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate(self._surface.list_tools())

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        work = partial(self._surface.call_tool, params.name, params.arguments or {})
        tool = TOOLS.get(params.name)
        reads = tool is not None and tool.reads
        return types.CallToolResult.model_validate(await self._run(context, "tools/call", work, reads=reads))

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        work = partial(self._surface.list_resources, params.cursor if params else None)
        return types.ListResourcesResult.model_validate(await self._run(context, "resources/list", work))

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate(self._surface.list_templates())

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        work = partial(self._surface.read_resource, str(params.uri))
        return types.ReadResourceResult.model_validate(await self._run(context, "resources/read", work))

    async def list_prompts(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult.model_validate(self._surface.list_prompts())

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        work = partial(self._surface.get_prompt, params.name, params.arguments or {})
        return types.GetPromptResult.model_validate(await self._run(context, "prompts/get", work))

    async def _run(
        self, context: Context, method: str, work: Callable[[], dict[str, Json]], *, reads: bool = True
    ) -> dict[str, Json]:
        scope: Scope = {"state": {}} if context.request is None else context.request.scope
        try:
            return await self._queue.run(work, get_gone_check(scope) if reads else None, client=get_client(scope))
        except Overload as error:
            scope["state"][IS_REFUSED] = True  # which gives the answer its status
            raise MCPError(INTERNAL_ERROR, str(error)) from None
        except ClientDisconnect:
            raise MCPError(INTERNAL_ERROR, "nobody waits for this any more") from None
        except CofioError as error:
            failure = describe_error(error, method=method, stateless=context.protocol_version == STATELESS)
        raise MCPError(failure.code, failure.message, failure.data)


def make_server(handlers: Handlers) -> Server[Any]:
    """The SDK's server with these handlers."""
    return Server(
        str(INFO["name"]), version=str(INFO["version"]), title=str(INFO["title"]), instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools, on_call_tool=handlers.call_tool, on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates, on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )  # fmt: skip


def make_session_manager(server: Server[Any]) -> StreamableHTTPSessionManager:
    """Return what answers requests with the SDK's server: it has to be run for as long as they are handled."""
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=MAX_FRAME)


class Door:
    """The SDK's application, behind what it does not do: bodies are measured before they are parsed."""

    def __init__(self, manager: StreamableHTTPSessionManager, load: ServerLoad | None = None) -> None:
        """`load` is that of the server, which the handlers of the calls have, too."""
        self._manager = manager
        self._load = load or ServerLoad()
        self._calls = 0
        self._queue = CallQueue(THREADS, NAME, self._load)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] == "DELETE":  # a client ends its session, of which nothing is kept
            await Response(status_code=200)(scope, receive, send)
            return
        if scope["method"] != "POST":  # there is nothing to listen to
            await Response(status_code=405, headers={"Allow": "POST, DELETE"})(scope, receive, send)
            return
        try:
            self._check_room(scope)  # before a body is read that would be of no use
            body = bytes(await read_body(scope, receive, MAX_FRAME))
            await self._check(body, get_client(scope))
            self._check_room(scope)
        except RequestError as error:
            await _render_refusal(error)(scope, receive, send)
            return
        self._calls += 1
        try:
            await self._manager.handle_request(scope, _replay(body, receive), _Answer(send, scope))
        finally:
            self._calls -= 1

    def _check_room(self, scope: Scope) -> None:
        """Raise Overload if the SDK, or the threads behind it, have as many calls as they can answer soon."""
        if self._calls >= MAX_CALLS:
            raise self._load.refuse(NAME)
        self._load.check_room(NAME, get_client(scope))

    async def _check(self, body: bytes, client: str) -> None:
        """Raise RequestError for a body that would be costly to parse."""
        if len(body) > LIMITS.values:  # a shorter one cannot hold as many, and how deep it is, the parser sees
            problem = await self._queue.run(partial(_measure, body), client=client)
            if problem is not None:
                raise RequestError(400, problem)


class _Answer:
    """Passes an answer on. The SDK answers a call that failed with 200: for one that was refused that is put right."""

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._scope["state"].get(IS_REFUSED):
            refusal = Overload()
            headers = Headers(refusal.headers).raw
            message = {**message, "status": refusal.status, "headers": [*message["headers"], *headers]}
        await self._send(message)


def _measure(body: bytes) -> str | None:
    """What is wrong with a body; not raised, for what leaves a thread keeps the body in memory for long."""
    try:
        LIMITS.check(body)
    except TooComplex as error:
        return str(error)
    return None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body, which was read already, before anything else."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _render_refusal(error: RequestError) -> JSONResponse:
    failure = {"code": INVALID_REQUEST if error.status < 500 else INTERNAL_ERROR, "message": str(error)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": failure}, error.status, error.headers)
