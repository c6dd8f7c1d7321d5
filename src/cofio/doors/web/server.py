"""The HTTP server: every door that has an address, behind one guard."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import sys
from asyncio import BaseProtocol, get_running_loop
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

import uvicorn
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import __version__
from ...content import FetchPolicy
from ...system.processes import share_heaps
from ...values.errors import Invalid, Unavailable
from ...vault.lifecycle import AttachedVault
from .. import threads
from ..lazy_memory import Memory
from ..mcp.http import Door as McpDoor
from ..mcp.http import Handlers, OtherSessions, make_server, make_session_manager
from ..mcp.surface import Surface
from ..memory_tool import http as memory_tool
from ..page import routes as page
from ..page.session_cookie import read_cookies
from ..page.view_types import PageServer
from ..rest import http as rest
from ..rest import openapi
from ..rest.assistant import open_assistant
from ..search_file import SearchFile
from .acceptor import Acceptor
from .connections import LEAST_BODIES, MAX_BODIES, MAX_CONNECTIONS, Capacity, ConnectionPool
from .failures import RequestError, describe_failure, render_failure
from .listener import check_exposure, is_address, is_local, open_listener, render_url
from .logs import log_to_stderr, say
from .membership import Membership
from .metrics import Metrics
from .open_streams import OpenStreams
from .options import ServerOptions
from .origins import Origin
from .overload import ServerLoad
from .search_log import BoardSearches, LocalSearches, SearchLog
from .tokens import Token, Tokens, open_tokens
from .tracing import RequestTracer
from .workers import Workers

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
GRACE = 5  # seconds that open requests have to end when the server is stopped
HEALTH = "/health"
TOKEN_PATIENCE = 5.0  # seconds that a request waits until it is known which tokens there are
HEALTH_PATIENCE = 5.0  # seconds within which a memory that can be used answers
PATIENCE = GRACE / 2  # of them, those in which a model may yet answer


class SessionSharing(OtherSessions, Protocol):
    """How several processes share the sessions of MCP."""

    def wrap(self, door: McpDoor) -> ASGIApp:
        """Put before the door of this process what has each request answered by the process that holds its session."""


class Guard:
    """Lets a request through to any door only if it is meant for this server and comes from someone who may.

    A page in a browser can send requests to a server on the same machine, under a name of its own that it points here;
    what it cannot do is to choose the Host and Origin that the browser sends with them.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str],
        tokens: Tokens,
        strict: bool,
        proxies: Iterable[str] = (),
        origins: Iterable[Origin] = (),
        zone: tzinfo = UTC,
        clock: Callable[[], datetime] | None = None,
        page_door: page.Door | None = None,
    ) -> None:
        """`hosts` are the names by which the server may be addressed; `strict`: a token is needed in any case.

        The token that was shown, or None, is `scope["state"]["token"]` to the doors. `zone` is the one of the times
        that are told. Pages may use the server if they are its own, as it is addressed, those of one of the `proxies`
        before it (their names), or of one of the `origins`. `page_door` renders what browsers are shown that are
        refused; to it, `scope["state"]["is_own_origin"]` is whether a page of the server's own asks.
        """
        self._app = app
        self._zone = zone
        self._clock = clock or (lambda: datetime.now(UTC))
        self._hosts = frozenset(name.lower() for name in hosts)
        self._proxies = frozenset(name.lower() for name in proxies)
        self._origins = frozenset(origins)
        self._tokens = tokens
        self._strict = strict
        self._refresh: asyncio.Future[None] | None = None
        self._page_door = page_door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if scope["path"] != HEALTH:
                await self._refresh_tokens()
            token = self._admit(scope)
        except RequestError as error:
            response = await self._render_refusal(scope, error)
            await response(scope, receive, send)
            return
        # In a copy: a server need not make one of what the lifespan left, and the next request is someone else's.
        state = {**scope.get("state", {}), "token": token}
        if page.is_page(scope["path"]):
            state["is_own_origin"] = self._is_own_origin(scope)
        await self._app({**scope, "state": state}, receive, send)

    async def _refresh_tokens(self) -> None:
        """See to it that the tokens are known as they are now, which may take a question to the database.

        Raises:
            RequestError: they cannot be read soon.
        """
        if self._tokens.is_current:
            return
        if self._refresh is None or self._refresh.done():  # all requests that wait for it share one
            self._refresh = asyncio.ensure_future(asyncio.to_thread(self._tokens.refresh))
            self._refresh.add_done_callback(_take_error)
        try:
            await asyncio.wait_for(asyncio.shield(self._refresh), TOKEN_PATIENCE)
        except TimeoutError as error:
            raise RequestError(503, "the tokens cannot be read: the database does not answer") from error
        except Unavailable as error:
            raise RequestError(503, str(describe_failure(error))) from error

    def _admit(self, scope: Scope) -> Token | None:
        """Return the token that a request may pass with; None when it shows none and needs none.

        Raises:
            RequestError: it may not pass.
        """
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._answers_to(_parse_host(f"//{hosts[0]}")):
            names = ", ".join(hosts) or "nothing"
            raise RequestError(
                421, f"this server does not answer to {names}; its owner can add a name with --allow-host"
            )
        for origin in headers.getlist("origin"):
            if not self._lets_in(origin, f"{scope.get('scheme', 'http')}://{hosts[0]}"):
                sentence = f"pages of {origin} may not use this server; its owner can let them with --allow-origin"
                raise RequestError(403, sentence)
        if scope["path"] == HEALTH or page.is_open(scope["path"]):
            return None
        token = self._find_token(scope, headers)
        if token is not None and token.limits is not None and not _checks_tokens(scope):
            sentence = f"this token is limited to {token.limits}; it may use nothing but the REST API and the page"
            raise RequestError(403, sentence)
        return token

    def _answers_to(self, name: str | None) -> bool:
        # An address of numbers cannot be pointed here by someone else's name server.
        return name in self._hosts or (self._strict and name is not None and is_address(name))

    def _lets_in(self, origin: str, address: str) -> bool:
        """Whether pages of the origin may use the server, which is asked for at this address."""
        try:
            return self._is_own(origin, address) or Origin.parse(origin) in self._origins
        except Invalid:
            return False

    def _is_own(self, origin: str, address: str) -> bool:
        """Whether the origin is the server's own, as it is addressed or as a proxy before it is."""
        asking, own = Origin.parse(origin), Origin.parse(address)
        # A proxy may speak HTTPS, and ask for this server by another name.
        return asking == own or (asking.host in self._proxies and (asking.is_default_port or asking.port == own.port))

    def _is_own_origin(self, scope: Scope) -> bool:
        """Whether a request says that it comes from a page of the server's own."""
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        try:
            return len(origins) == 1 and self._is_own(origins[0], f"{scope.get('scheme', 'http')}://{headers['host']}")
        except Invalid:
            return False

    def _find_token(self, scope: Scope, headers: Headers) -> Token | None:
        """The token that is shown; None when there is none, and none is needed. The page keeps it in a cookie."""
        kind, _, text = headers.get("authorization", "").partition(" ")
        if not kind and page.is_page(scope["path"]) and (cookie := read_cookies(scope).token):
            kind, text = "bearer", cookie
        try:
            token = self._tokens.find(text.strip()) if kind.lower() == "bearer" else None
            if token is not None or not (self._strict or self._tokens.are_required):
                return token
        except Unavailable as error:
            raise RequestError(503, str(error)) from error
        problem = "the token is not known here" if kind else "a token is needed"
        raise RequestError(
            401,
            f"{problem}: send `Authorization: Bearer TOKEN`; `cofio token add NAME` makes one",
            headers={"WWW-Authenticate": 'Bearer realm="cofio"' + (', error="invalid_token"' if kind else "")},
        )

    async def _render_refusal(self, scope: Scope, error: RequestError) -> Response:
        """Return why not, in the form of the door that was asked for."""
        is_seen = page.is_page(scope["path"]) and page.wants_html(scope)
        if self._page_door is not None and is_seen and error.status != 421:
            return await self._page_door.render_refusal(scope, error)
        if scope["path"] in ("/mcp", memory_tool.PATH):
            return JSONResponse({"error": str(error)}, error.status, error.headers)
        return render_failure(scope, error, self._zone, now=self._clock())


def _take_error(refresh: asyncio.Future[None]) -> None:
    """Take the error of a question that no request waits for any more."""
    if not refresh.cancelled():
        refresh.exception()


def _checks_tokens(scope: Scope) -> bool:
    """Whether the door that is asked for holds tokens to their limits; no other is open to one that is limited."""
    path = scope["path"]
    if rest.checks_tokens(path) or path.startswith(threads.PREFIX):  # where a token for reading may read
        return True
    return page.is_page(path) and (path != "/" or page.wants_html(scope))


def _parse_host(address: str) -> str | None:
    """The host's name in an address, without its port; None when there is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


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
    share_sessions: SessionSharing | None = None,
    page_door: page.Door | None = None,
) -> ASGIApp:
    """The application: MCP and the `routes` of the other doors, the guard before them all, and an id for each request.

    The `calls` are routes too, at plain addresses: a POST there goes straight to its door, past the framework, which
    would cost as much as a short call does. Whatever begins with a key of `under` goes straight to the door there.
    `load` is what the doors were given, too. Where several processes serve, `share_sessions` puts before MCP what finds
    the one that holds a session. `page_door` is what browsers are shown.
    """
    load = load or ServerLoad()
    manager = make_session_manager(mcp)
    own_mcp_door = McpDoor(manager, load, share_sessions)
    mcp_door: ASGIApp = own_mcp_door if share_sessions is None else share_sessions.wrap(own_mcp_door)
    straight = {route.path: route.app for route in calls if route.methods == {"POST"} and not route.param_convertors}

    @asynccontextmanager
    async def run_sessions(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            with load.lag.measure():
                yield

    health_workers = Workers(1, "cofio-health")

    async def show_health(_: Request) -> JSONResponse:
        # Beside the event loop, for which a database that is away must not be a reason to wait.
        try:
            found = await asyncio.wait_for(health_workers.run(health), HEALTH_PATIENCE)
        except TimeoutError:
            return JSONResponse({"status": "unavailable", "reason": "the memory does not answer"}, 503)
        except Unavailable as error:
            return JSONResponse({"status": "unavailable", "reason": str(describe_failure(error))}, 503)
        return JSONResponse({"status": "ok", **found})

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
            expose_headers=("mcp-session-id", "x-request-id", rest.DEGRADED),
        )  # fmt: skip
    return RequestTracer(app, None if metrics is None else metrics.observe)


def run(options: ServerOptions, *, ready: Callable[[str], None]) -> int:
    """Serve in one process until stopped; `ready` is told the address once requests are taken. The exit code.

    Raises:
        Unavailable: the address is taken, others could reach it and there is no token, or the store cannot be used.
    """
    log_to_stderr()
    share_heaps()
    settings, home = options.settings, options.address.home
    with open_tokens(options.address) as tokens:
        strict = check_exposure(tokens, home, options.host, options.names)
    fetch_policy = FetchPolicy.parse(settings.fetch)  # refused before a store is made
    memory = Memory(options.address, settings, say=say)
    assistant = open_assistant(settings, home, lambda: memory.engine)
    # Calls and jobs end before the memory that they write to is closed.
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        vault = stack.enter_context(closing(AttachedVault(home, settings)))
        listener = stack.enter_context(open_listener(options.host, options.port))
        engine = memory.engine  # what is wrong with the store is said now, not to the first client
        load = ServerLoad()
        door = rest.Door.open(
            engine,
            settings.zone,
            assistant=assistant,
            fetch_policy=fetch_policy,
            mirror=vault.mirror(engine),
            quiet=timedelta(minutes=settings.quiet_after),
            folder=home,
            load=load,
        )
        stack.enter_context(closing(door))
        door.jobs.resume()
        vault.watch(door.conversations)
        metrics = Metrics(lambda: memory.engine, None if assistant is None else assistant.spending, load)
        streams = OpenStreams()
        application = build_application(
            options, memory, door, metrics, load, strict=strict, listener=listener, streams=streams
        )
        announce = partial(ready, render_url(options.host, listener))
        HttpServer(application, announce, door.stop_waiting, streams=streams).run(sockets=[listener])
    return 0


def build_application(
    options: ServerOptions,
    memory: Memory,
    door: rest.Door,
    metrics: Metrics,
    load: ServerLoad,
    *,
    strict: bool,
    listener: socket.socket,
    share_sessions: SessionSharing | None = None,
    member: Membership | None = None,
    streams: OpenStreams | None = None,
) -> ASGIApp:
    """Build the application of a server: every door on one memory, behind the guard.

    `streams` is what ends the answers that do not end by themselves.
    """
    settings, host, names = options.settings, options.host, options.names
    own = {host, listener.getsockname()[0]} | ({socket.gethostname()} if strict else set())
    surface = Surface(memory, allow_secrets=settings.allow_secrets, structured=settings.structured)

    def check_health() -> Mapping[str, Any]:
        memory.verify()
        return door.check_health()

    tokens = Tokens(memory.engine.shared_values or options.address.home)
    own_searches = LocalSearches() if member is None else BoardSearches(member.board, member.number)
    others = None if memory.engine.read_only else SearchFile(options.address.home)
    if others is not None:
        others.remove_stale()
    searches = SearchLog(own_searches, others)
    searches.attach(memory.engine)
    page_server = PageServer(
        engine=lambda: memory.engine, address=options.address, settings=settings, conversations=door.conversations,
        metrics=metrics, member=member, searches=searches, streams=streams,
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
        health=check_health, share_sessions=share_sessions, load=load,
        page_door=page_door,
    )  # fmt: skip


class HttpServer(uvicorn.Server):
    """uvicorn, which says when it has started, and when whatever it still has to do should wait no longer."""

    def __init__(
        self,
        application: ASGIApp,
        announce: Callable[[], None],
        hurry: Callable[[], None],
        *,
        streams: OpenStreams | None = None,
        processes: int = 1,
    ) -> None:
        """`streams` are ended when the server begins to stop. `processes` share the limits of the server."""
        capacity = Capacity.measure()
        self._pool = pool = ConnectionPool(
            min(capacity.connections, -(-MAX_CONNECTIONS // processes)),
            bodies=max(LEAST_BODIES, MAX_BODIES // processes),
        )
        super().__init__(
            uvicorn.Config(
                application,
                http=pool.protocol(),
                ws="none",
                backlog=capacity.backlog,
                log_config=None,  # as for all else here
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=GRACE,
                timeout_keep_alive=math.ceil(pool.timeouts.idle),
                server_header=False,
                proxy_headers=False,
            )
        )
        self._tell = announce
        self._hurry = hurry
        self._streams = streams or OpenStreams()
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, and say so."""
        if sys.platform == "win32":  # whose loop cannot be told to look at a listener, but takes all that there is
            await super().startup(sockets)
            self._tell()
            return
        await super().startup([])
        for listener in sockets or ():
            self._acceptors.append(self._make_acceptor(listener))
            self._acceptors[-1].start(self.config.backlog)
        self._tell()

    def _make_acceptor(self, listener: socket.socket) -> Acceptor:
        return Acceptor(listener, self._make_protocol)

    def _make_protocol(self) -> BaseProtocol:
        protocol: BaseProtocol = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn makes it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, and end those that are open."""
        self._streams.end_all()
        late = get_running_loop().call_later(PATIENCE, self._hurry)
        for acceptor in self._acceptors:
            acceptor.stop()
        await super().shutdown(sockets)
        late.cancel()
        # Else uvicorn sends itself the signal once more, which ends the process before the memory is closed.
        self._captured_signals = [each for each in self._captured_signals if each != signal.SIGTERM]
