"""The ASGI application of a server: every door that has an address, behind one guard."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import __version__
from ..doors import threads
from ..doors.lazy_memory import Memory
from ..doors.mcp.http import Door as McpDoor
from ..doors.mcp.http import Handlers, make_server, make_session_manager
from ..doors.mcp.surface import Surface
from ..doors.memory_tool import http as memory_tool
from ..doors.page import routes as page
from ..doors.page.view_types import PageServer
from ..doors.rest import http as rest
from ..doors.rest import openapi
from ..http.admission import ServerLoad
from ..http.errors import RequestError, describe_failure, render_failure
from ..http.metrics import Metrics
from ..http.tokens import Tokens
from ..http.tracing import RequestTracer
from ..values.errors import Unavailable
from .guard import HEALTH, Guard
from .listener import is_local
from .options import ServerOptions

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
HEALTH_SECONDS = 5.0  # within which a memory that can be used answers


class HealthCheck:
    """Answers `/health`, beside the event loop, which must not wait for a database that is away."""

    def __init__(self, memory: Memory, door: rest.Door) -> None:
        self._memory = memory
        self._door = door
        self._thread = ThreadPoolExecutor(1, "cofio-health")
        self._check: asyncio.Future[Mapping[str, Any]] | None = None

    async def answer(self, _: Request) -> JSONResponse:
        """Answer a request. All who ask while a check runs share its result."""
        if self._check is None or self._check.done():
            self._check = asyncio.get_running_loop().run_in_executor(self._thread, self._examine)
            self._check.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits
        try:
            found = await asyncio.wait_for(asyncio.shield(self._check), HEALTH_SECONDS)
        except TimeoutError:
            return JSONResponse({"status": "unavailable", "reason": "the memory does not answer"}, 503)
        except Unavailable as error:
            return JSONResponse({"status": "unavailable", "reason": str(describe_failure(error))}, 503)
        return JSONResponse({"status": "ok", **found}, 503 if "reason" in found else 200)

    def _examine(self) -> Mapping[str, Any]:
        self._memory.verify()
        return self._door.check_health()


def build_app(
    options: ServerOptions,
    memory: Memory,
    door: rest.Door,
    metrics: Metrics,
    load: ServerLoad,
    *,
    shares_load: bool = False,
) -> RequestTracer:
    """Build the application of a server: every door on one memory, behind the guard.

    With `shares_load`, other processes take connections from the same listener.
    """
    settings, strict = options.settings, options.is_public
    tokens = Tokens(memory.engine.shared_values or options.address.home)
    surface = Surface(memory, allow_secrets=settings.allow_secrets, structured=settings.structured)
    manager = make_session_manager(make_server(Handlers(surface, load)))
    page_server = PageServer(
        engine=lambda: memory.engine, address=options.address, settings=settings, conversations=door.conversations,
        metrics=metrics,
    )  # fmt: skip
    page_door = page.Door(page_server, tokens, load)
    threads_door = threads.Door(lambda: memory.engine, settings.zone, load)
    has_docs = (not strict) if settings.docs is None else settings.docs
    calls = door.make_routes()

    async def show_home(request: Request) -> ASGIApp:
        """Return the page for a browser, and the addresses of the doors for any other client."""
        addresses = {"memory_tool": memory_tool.PATH, "rest": rest.PREFIX, "checkpoints": threads.PREFIX}
        others = JSONResponse({"name": "cofio", "version": __version__, "mcp": "/mcp", **addresses})
        return page_door.answer_home if page.wants_html(request.scope) else others

    routes = [
        Route("/", show_home),
        Route(HEALTH, HealthCheck(memory, door).answer),
        Route("/mcp", McpDoor(manager, load)),
        *page_door.make_routes(),
        *memory_tool.make_routes(lambda: memory.engine, load),
        *openapi.make_routes(public=has_docs, describe_others=page.describe_paths),
        *calls,
        Route("/metrics", metrics.answer),
    ]
    metrics.set_routes(routes, (threads.PREFIX,))

    @asynccontextmanager
    async def run_sessions(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            with load.watch():
                yield

    async def render_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        failure = RequestError(error.status_code, error.detail, headers=error.headers)
        return render_failure(request.scope, failure, settings.zone)

    inner = Starlette(routes=routes, lifespan=run_sessions, exception_handlers={HTTPException: render_error})
    inner.router.redirect_slashes = False
    # The framework would cost as much as a short call does, so these go past it.
    direct = {route.path: route.app for route in calls if route.methods == {"POST"} and not route.param_convertors}

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        target: ASGIApp = inner
        if scope["type"] == "http":
            if scope["path"].startswith(threads.PREFIX):
                target = threads_door
            elif scope["method"] == "POST":
                target = direct.get(scope["path"], inner)
        await target(scope, receive, send)

    own_name = (socket.gethostname(),) if strict else ()
    app: ASGIApp = Guard(
        dispatch, hosts={*LOCAL, options.host, *options.names, *own_name}, tokens=tokens, strict=strict,
        proxies=[name for name in options.names if not is_local(name)], origins=options.origins, zone=settings.zone,
        page_door=page_door,
    )  # fmt: skip
    if options.origins:  # whose browsers ask first, without a token, and show the page nothing unless they are told to
        app = CORSMiddleware(
            app, [str(origin) for origin in options.origins], ("GET", "POST", "PUT", "PATCH", "DELETE"), ("*",),
            expose_headers=("x-request-id", rest.DEGRADED),
        )  # fmt: skip
    return RequestTracer(app, metrics.observe, shares_load=shares_load)
