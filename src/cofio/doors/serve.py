"""The HTTP server: every door that has an address, behind one guard."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import __version__
from ..errors import Unavailable
from ..settings import Settings
from .mcp.http import Handlers, server, sessions
from .mcp.surface import Surface
from .memory import Memory
from .memory_tool import http as memory_tool
from .tokens import Tokens

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
GRACE = 2  # seconds that open requests have to end when the server is stopped
BACKLOG = 128


class Guard:
    """Lets a request through to any door only if it is meant for this server and comes from someone who may.

    A page in a browser can send requests to a server on the same machine, under a name of its own that it points here;
    what it cannot do is to choose the Host and Origin that the browser sends with them.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], tokens: Tokens, strict: bool) -> None:
        """`hosts` are the names by which the server may be addressed; `strict`: a token is needed in any case."""
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._tokens = tokens
        self._strict = strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with why not."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._answers_to(_name(f"//{hosts[0]}")):
            asked = ", ".join(hosts) or "nothing"
            return _refused(421, f"this server does not answer to {asked}; its owner can add a name with --allow-host")
        origin = headers.get("origin")
        if origin is not None and not self._answers_to(_name(origin)):
            return _refused(403, f"pages of {origin} may not use this server")
        if scope["path"] == "/health":
            return None
        return self._unknown(headers)

    def _answers_to(self, name: str | None) -> bool:
        # An address of numbers cannot be pointed here by someone else's name server.
        return name in self._hosts or (self._strict and name is not None and _is_address(name))

    def _unknown(self, headers: Headers) -> JSONResponse | None:
        """Why whoever asks is not let in; None when a token is shown, or none is needed."""
        try:
            if not self._strict and not self._tokens.wanted:
                return None
            kind, _, shown = headers.get("authorization", "").partition(" ")
            if kind.lower() == "bearer" and self._tokens.owner(shown.strip()) is not None:
                return None
        except Unavailable as error:
            return _refused(503, str(error))
        known = "the token is not known here" if kind else "a token is needed"
        response = _refused(401, f"{known}: send `Authorization: Bearer TOKEN`; `cofio token add NAME` makes one")
        response.headers["WWW-Authenticate"] = 'Bearer realm="cofio"' + (', error="invalid_token"' if kind else "")
        return response


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status)


def _name(address: str) -> str | None:
    """The host's name in an address, without its port; None when there is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def app(
    mcp: Server[Any], *, routes: Iterable[Route] = (), hosts: Iterable[str], tokens: Tokens, strict: bool
) -> ASGIApp:
    """The application: MCP and the `routes` of the other doors, and the guard before them."""
    manager = sessions(mcp)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    async def home(_: Request) -> JSONResponse:
        return JSONResponse({"name": "cofio", "version": __version__, "mcp": "/mcp", "memory_tool": memory_tool.PATH})

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    served = [Route("/", home), Route("/health", health), Route("/mcp", StreamableHTTPASGIApp(manager)), *routes]
    return Guard(Starlette(routes=served, lifespan=running), hosts=hosts, tokens=tokens, strict=strict)


def run(
    folder: Path,
    settings: Settings,
    *,
    host: str,
    port: int,
    names: tuple[str, ...] = (),
    allow_secrets: bool = False,
    ready: Callable[[str], None],
) -> int:
    """Serve until stopped; `ready` is told the address once requests are taken. The exit code.

    Raises:
        Unavailable: the address is taken, others could reach it and there is no token, or the store cannot be used.
    """
    tokens = Tokens(folder)
    strict = not _is_local(host) or not all(_is_local(name) for name in names)
    if strict and not tokens.all():
        reached = next((name for name in (host, *names) if not _is_local(name)), host)
        raise Unavailable(f"others can reach {reached}, so a token is needed: make one with `cofio token add NAME`")
    memory = Memory(folder, settings, say=lambda line: print(f"cofio: {line}", file=sys.stderr, flush=True))
    with closing(memory), _listening(host, port) as listening:
        _ = memory.engine  # what is wrong with the store is said now, not to the first client
        address = listening.getsockname()
        shown = f"[{host}]" if ":" in host else host
        own = {host, address[0]} | ({socket.gethostname(), socket.getfqdn()} if strict else set())
        mcp = server(Handlers(Surface(memory, allow_secrets=allow_secrets)))
        files = memory_tool.routes(lambda: memory.engine)
        application = app(mcp, routes=files, hosts={*LOCAL, *own, *names}, tokens=tokens, strict=strict)
        _Server(application, lambda: ready(f"http://{shown}:{address[1]}")).run(sockets=[listening])
    return 0


class _Server(uvicorn.Server):
    """uvicorn, which says when it has started."""

    def __init__(self, application: ASGIApp, started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                application, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE, server_header=False
            )
        )
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()


def _is_local(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _listening(host: str, port: int) -> socket.socket:
    # With its protocol named: only then does asyncio send small answers at once, rather than 40 ms later.
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _unusable(host, port, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _unusable(host, port, error) from error
    return listening


def _unusable(host: str, port: int, error: OSError) -> Unavailable:
    reason = error.strerror or str(error)
    return Unavailable(f"cannot listen on {host} port {port} ({reason}): choose another with --host or --port")
