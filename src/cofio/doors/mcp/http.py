"""The door over HTTP: the same surface, on the official SDK, which speaks both eras of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import mcp_types as types
from anyio import CapacityLimiter, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from ...errors import CofioError, Invalid, NotFound
from ...model import Json
from ..jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, MAX_FRAME
from .surface import INFO, INSTRUCTIONS, RESOURCE_NOT_FOUND, STATELESS, Surface

SESSIONS = 1000  # at once; one costs some 40 KB, and is ended after half an hour without a request
THREADS = 8  # calls that are in the engine at once; each holds a connection of its own
Context: TypeAlias = ServerRequestContext[Any]


class Handlers:
    """What the SDK calls: each asks the surface, beside the event loop where it may take time."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._limiter: CapacityLimiter | None = None

    async def tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate(self._surface.tools())

    async def call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        asked = partial(self._surface.call, params.name, params.arguments or {})
        return types.CallToolResult.model_validate(await self._aside(asked))

    async def resources(self, _: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        asked = partial(self._surface.resources, params.cursor if params else None)
        try:
            return types.ListResourcesResult.model_validate(await self._aside(asked))
        except CofioError as error:
            code = INVALID_PARAMS if isinstance(error, Invalid) else INTERNAL_ERROR
            raise MCPError(code, str(error)) from None

    async def templates(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate(self._surface.templates())

    async def read(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            return types.ReadResourceResult.model_validate(await self._aside(partial(self._surface.read, uri)))
        except NotFound:
            code = INVALID_PARAMS if context.protocol_version == STATELESS else RESOURCE_NOT_FOUND
            raise MCPError(code, f"there is no {uri}", {"uri": uri}) from None
        except CofioError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from None

    async def prompts(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult.model_validate(self._surface.prompts())

    async def prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            return types.GetPromptResult.model_validate(self._surface.prompt(params.name))
        except NotFound as error:
            raise MCPError(INVALID_PARAMS, f"there is no {error.what}") from None

    async def _aside(self, asked: Callable[[], dict[str, Json]]) -> dict[str, Json]:
        if self._limiter is None:  # made within the loop that it limits
            self._limiter = CapacityLimiter(THREADS)
        return await to_thread.run_sync(asked, limiter=self._limiter)


def server(on: Handlers) -> Server[Any]:
    """The SDK's server with these handlers."""
    return Server(
        str(INFO["name"]), version=str(INFO["version"]), title=str(INFO["title"]), instructions=INSTRUCTIONS,
        on_list_tools=on.tools, on_call_tool=on.call, on_list_resources=on.resources,
        on_list_resource_templates=on.templates, on_read_resource=on.read, on_list_prompts=on.prompts,
        on_get_prompt=on.prompt,
    )  # fmt: skip


def sessions(served: Server[Any]) -> StreamableHTTPSessionManager:
    """What holds the clients' sessions: it has to be run for as long as its requests are handled.

    Whose requests come this far is settled before, for all doors at once.
    """
    return StreamableHTTPSessionManager(
        served, json_response=True, max_request_body_size=MAX_FRAME, max_sessions=SESSIONS
    )
