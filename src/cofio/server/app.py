"""The ASGI application of a server: every door that has an address, behind one guard."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, tzinfo
from types import MappingProxyType
from typing import Any

from mcp.server.lowlevel import Server
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
from ..http.origins import Origin
from ..http.tokens import Tokens
from ..http.tracing import RequestTracer
from ..values.errors import Unavailable
from .guard import HEALTH, Guard
from .listener import is_local
from .options import ServerOptions

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
HEALTH_SECONDS = 5.0  # within which a memory that can be used answers


class Home:
    """Answers `/`: a browser with the page, and any other client with where the doors are."""

    def __init__(self, page_door: page.Door | None) -> None:
        self._page_door = page_door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self._page_door is not None and page.wants_html(scope):
            await self._page_door.answer_home(scope, receive, send)
            return
        addresses = {
            "mcp": "/mcp", "memory_tool": memory_tool.PATH, "rest": rest.PREFIX, "checkpoints": threads.PREFIX,
        }  # fmt: skip
        await JSONResponse({"name": "cofio", "version": __version__, **addresses})(scope, receive, send)


def make_app(
    mcp: Server[Any],
    *,
    routes: Iterable[Route] = (),
    calls: Sequence[Route] = (),
    under: Mapping[str, ASGIApp] = MappingProxyType({}),
    metrics: Metrics | None = None,
    hosts: Iterable[str],
    tokens: Tokens,
    strict: bool,
    proxies: Iterable[str] = (),
    origins: Collection[Origin] = (),
    zone: tzinfo = UTC,
    health: Callable[[], Mapping[str, Any]] = dict,
    load: ServerLoad | None = None,
    page_door: page.Door | None = None,
    shares_load: bool = False,
) -> RequestTracer:
    """The application: MCP and the `routes` of the other doors, the guard before them all, and an id for each request.

    The `calls` are routes too, at plain addresses: a POST there goes straight to its door, past the framework, which
    would cost as much as a short call does. Whatever begins with a key of `under` goes straight to the door there.
    `load` is what the doors were given, too. `page_door` is what browsers are shown. With `shares_load`, other
    processes take connections from the same listener.
    """
    load = load or ServerLoad()
    manager = make_session_manager(mcp)
    mcp_door = McpDoor(manager, load)
    straight = {route.path: route.app for route in calls if route.methods == {"POST"} and not route.param_convertors}

    @asynccontextmanager
    async def run_sessions(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            with load.watch():
                yield

    health_thread = ThreadPoolExecutor(1, "cofio-health")
    check: asyncio.Future[Mapping[str, Any]] | None = None

    async def show_health(_: Request) -> JSONResponse:
        # Beside the event loop, which must not wait for a database that is away. Who asks meanwhile shares the answer.
        nonlocal check
        if check is None or check.done():
            check = asyncio.get_running_loop().run_in_executor(health_thread, health)
            check.add_done_callback(lambda done: done.cancelled() or done.exception())  # which perhaps nobody waits for
        try:
            found = await asyncio.wait_for(asyncio.shield(check), HEALTH_SECONDS)
        except TimeoutError:
            return JSONResponse({"status": "unavailable", "reason": "the memory does not answer"}, 503)
        except Unavailable as error:
            return JSONResponse({"status": "unavailable", "reason": str(describe_failure(error))}, 503)
        return JSONResponse({"status": "ok", **found}, 503 if "reason" in found else 200)

    async def render_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return render_failure(request.scope, RequestError(error.status_code, error.detail, headers=error.headers), zone)

    all_routes = [
        Route("/", Home(page_door), methods=["GET"]),
        Route(HEALTH, show_health),
        Route("/mcp", mcp_door),
        *routes,
        *calls,
    ]
    if metrics is not None:
        all_routes.append(Route("/metrics", metrics.answer))
        metrics.set_routes(all_routes, under)
    inner = Starlette(routes=all_routes, lifespan=run_sessions, exception_handlers={HTTPException: render_error})
    inner.router.redirect_slashes = False

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        door = straight.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if door is None and scope["type"] == "http":
            door = next((door for start, door in under.items() if scope["path"].startswith(start)), None)
        await (door or inner)(scope, receive, send)

    app: ASGIApp = Guard(
        dispatch, hosts=hosts, tokens=tokens, strict=strict, proxies=proxies, origins=origins, zone=zone,
        page_door=page_door,
    )  # fmt: skip
    if origins:  # whose browsers ask first, without a token, and show the page nothing unless they are told to
        app = CORSMiddleware(
            app, [str(origin) for origin in origins], ("GET", "POST", "PUT", "PATCH", "DELETE"), ("*",),
            expose_headers=("x-request-id", rest.DEGRADED),
        )  # fmt: skip
    observe = None if metrics is None else metrics.observe
    return RequestTracer(app, observe, shares_load=shares_load)


def build_app(
    options: ServerOptions,
    memory: Memory,
    door: rest.Door,
    metrics: Metrics,
    load: ServerLoad,
    *,
    strict: bool,
    listener: socket.socket,
    shares_load: bool = False,
) -> RequestTracer:
    """Build the application of a server: every door on one memory, behind the guard."""
    settings, host, names = options.settings, options.host, options.names
    own = {host, listener.getsockname()[0]} | ({socket.gethostname()} if strict else set())
    surface = Surface(memory, allow_secrets=settings.allow_secrets, structured=settings.structured)

    def check_health() -> Mapping[str, Any]:
        memory.verify()
        return door.check_health()

    tokens = Tokens(memory.engine.shared_values or options.address.home)
    page_server = PageServer(
        engine=lambda: memory.engine, address=options.address, settings=settings, conversations=door.conversations,
        metrics=metrics,
    )  # fmt: skip
    page_door = page.Door(page_server, tokens, load)
    routes = [
        *page_door.make_routes(),
        *memory_tool.make_routes(lambda: memory.engine, load),
        *openapi.make_routes(
            public=(not strict) if settings.docs is None else settings.docs, describe_others=page.describe_paths
        ),
    ]
    return make_app(
        make_server(Handlers(surface, load)), routes=routes, calls=door.make_routes(),
        under={threads.PREFIX: threads.Door(lambda: memory.engine, settings.zone, load)}, metrics=metrics,
        hosts={*LOCAL, *own, *names}, tokens=tokens, strict=strict,
        proxies=[name for name in names if not is_local(name)], origins=options.origins, zone=settings.zone,
        health=check_health, load=load, page_door=page_door, shares_load=shares_load,
    )  # fmt: skip
