"""The door over HTTP: the same surface, on the official SDK, which speaks both eras of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from ...values.errors import CofioError
from ...values.records import Json
from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MAX_FRAME
from ..web.bodies import read_body
from ..web.failures import RequestError
from ..web.json_limits import JsonLimits, TooComplex
from ..web.overload import Overload, ServerLoad
from ..web.workers import Workers, get_gone_check
from .surface import INFO, INSTRUCTIONS, STATELESS, Surface, describe_error
from .tools import TOOLS

NAME = "mcp"  # of the door, in the numbers of the server
IS_REFUSED = "is_refused"  # in a request's state: that it was refused after it had been taken in
SESSIONS = 1000  # at once; one costs some 40 KB, and is ended after half an hour without a request
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
        self._workers = Workers(THREADS, "cofio-mcp", (load or ServerLoad()).find_door(NAME))

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
            return await self._workers.run(work, get_gone_check(scope) if reads else None)
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
    """What holds the clients' sessions: it has to be run for as long as its requests are handled.

    Whose requests come this far is settled before, for all doors at once.
    """
    return StreamableHTTPSessionManager(
        server, json_response=True, max_request_body_size=MAX_FRAME, max_sessions=SESSIONS
    )


class OtherSessions(Protocol):
    """The sessions that other processes of the same server hold."""

    def report(self, own: int) -> None:
        """Tell the others how many this process holds."""

    def count(self) -> int:
        """How many the others hold."""

    def end_one(self, own: int) -> bool:
        """Have the process that holds the most end an idle one; whether it holds more than the `own` of this one."""


class Door:
    """The SDK's application, behind what it does not do: bodies are measured, and idle sessions make room."""

    def __init__(
        self,
        manager: StreamableHTTPSessionManager,
        load: ServerLoad | None = None,
        others: OtherSessions | None = None,
    ) -> None:
        """`load` is that of the server, which the handlers of the calls have, too."""
        self._manager = manager
        self._others = others
        self._load = (load or ServerLoad()).find_door(NAME)
        self._requests: dict[str, int] = {}
        """How many requests of each session are under way; the session whose last one ended first stands first."""
        self._streams: dict[str, int] = {}
        """How many streams of each session stand open, if any does."""
        self._openings = 0
        self._calls = 0
        self._workers = Workers(THREADS, "cofio-mcp-measure", self._load)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] != "POST":
            await self._pass_on(b"", scope, receive, send)
            return
        try:
            self._check_room()  # before a body is read that would be of no use
            body = bytes(await read_body(scope, receive, MAX_FRAME))
            await self._check(body)
            self._check_room()
        except RequestError as error:
            await _render_refusal(error)(scope, receive, send)
            return
        self._calls += 1
        try:
            await self._pass_on(body, scope, _replay(body, receive), send)
        finally:
            self._calls -= 1

    def _check_room(self) -> None:
        """Raise Overload if the SDK, or the threads behind it, have as many calls as they can answer soon."""
        if self._calls >= MAX_CALLS:
            raise self._load.refuse()
        self._load.check_room()

    async def _pass_on(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK answer a request, whose body was read."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._open(body, scope, receive, send)
        else:
            await self._continue(session, scope, receive, send)

    async def _check(self, body: bytes) -> None:
        """Raise RequestError for a body that would be costly to parse."""
        if len(body) > LIMITS.values:  # a shorter one cannot hold as many, and how deep it is, the parser sees
            problem = await self._workers.run(partial(_measure, body))
            if problem is not None:
                raise RequestError(400, problem)

    async def _continue(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a session, which is not idle meanwhile."""
        if session not in self._requests:
            await self._manager.handle_request(scope, receive, send)
            return
        answer = _Answer(send, scope)
        if scope["method"] == "GET":  # a stream that stands open: its session is idle all the same
            self._streams[session] = self._streams.get(session, 0) + 1
            try:
                await self._manager.handle_request(scope, receive, answer)
            finally:
                self._close_stream(session)
            return
        self._requests[session] += 1
        try:
            await self._manager.handle_request(scope, receive, answer)
        finally:
            if session in self._requests:
                self._requests[session] = self._requests.pop(session) - 1
        if answer.status == 404 or (scope["method"] == "DELETE" and answer.status == 200):
            self._requests.pop(session, None)
            self._report()

    def _close_stream(self, session: str) -> None:
        self._streams[session] -= 1
        if not self._streams[session]:
            del self._streams[session]

    async def _open(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without a session, which may open one; for that, room is made."""
        answer = _Answer(send, scope)
        opens = b'"initialize"' in body  # for a client that writes it in another way there may be no room
        self._openings += opens
        try:
            if opens:
                await self._make_room()
            await self._manager.handle_request(scope, receive, answer)
        finally:
            self._openings -= opens
        if answer.session is not None and answer.status < 400:
            self._requests[answer.session] = 0
            self._report()

    def _report(self) -> None:
        if self._others is not None:
            self._others.report(len(self._requests))

    async def _make_room(self) -> None:
        """End sessions until there is one to spare, here or where there are more of them."""
        most, others = self._manager.max_sessions, self._others
        while most is not None:
            elsewhere = 0 if others is None else others.count()
            if len(self._requests) + self._openings + elsewhere <= most:
                return
            if others is not None and others.end_one(len(self._requests)):
                return
            if not await self.end_idle():
                return

    async def end_idle(self) -> bool:
        """End the session that has been idle longest, of those without a listener if there is one; whether one was
        ended. None with a call under way is.

        A session that the SDK has ended by itself was idle for longer than any other, so it is among the first.
        """
        idle = [session for session, under_way in self._requests.items() if not under_way]
        if not idle:
            return False
        oldest = next((session for session in idle if session not in self._streams), idle[0])
        del self._requests[oldest]
        self._report()
        await self._end(oldest)
        return True

    async def _end(self, session: str) -> None:
        """End a session, as its client does."""
        headers = [(MCP_SESSION_ID_HEADER.encode(), session.encode()), (b"accept", b"application/json")]

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            pass

        scope = {"type": "http", "method": "DELETE", "path": "/mcp", "query_string": b"", "headers": headers}
        await self._manager.handle_request(scope, receive, send)


class _Answer:
    """Passes an answer on, and keeps its status and the session that it names.

    The SDK answers a call that failed with 200: for one that was refused that is put right.
    """

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self.status = 0
        self.session: str | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self._scope["state"].get(IS_REFUSED):
                refusal = Overload()
                headers = Headers(refusal.headers).raw
                message = {**message, "status": refusal.status, "headers": [*message["headers"], *headers]}
            self.status = message["status"]
            self.session = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
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
