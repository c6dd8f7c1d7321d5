"""The guard before all doors: a request passes only if it is meant for this server and comes from someone who may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, tzinfo

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..doors import threads
from ..doors.memory_tool import http as memory_tool
from ..doors.page import routes as page
from ..doors.page.session_cookie import find_session_token, read_cookies
from ..doors.rest import http as rest
from ..http.admission import CLIENT
from ..http.errors import RequestError, describe_failure, render_failure
from ..http.origins import Origin
from ..http.tokens import Token, Tokens
from ..values.errors import Invalid, Unavailable
from .listener import is_address

HEALTH = "/health"
TOKEN_SECONDS = 5.0  # that a request waits until it is known which tokens there are


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
            admitted = self._admit(scope)
        except RequestError as error:
            response = await self._render_refusal(scope, error)
            await response(scope, receive, send)
            return
        # In a copy: a server need not make one of what the lifespan left, and the next request is someone else's.
        await self._app({**scope, "state": {**scope.get("state", {}), **admitted}}, receive, send)

    async def _refresh_tokens(self) -> None:
        """Bring the tokens up to date, for which a database may have to be asked.

        Raises:
            RequestError: they cannot be read soon.
        """
        if self._tokens.is_current:
            return
        if self._refresh is None or self._refresh.done():  # all requests that wait for it share one
            self._refresh = asyncio.ensure_future(asyncio.to_thread(self._tokens.refresh))
            # Its error is taken here, too: there may be no request left that waits for it.
            self._refresh.add_done_callback(lambda refresh: refresh.cancelled() or refresh.exception())
        done, _ = await asyncio.wait([self._refresh], timeout=TOKEN_SECONDS)
        if not done:
            raise RequestError(503, "the tokens cannot be read: the database does not answer")
        try:
            self._refresh.result()
        except Unavailable as error:
            raise describe_failure(error) from error

    def _admit(self, scope: Scope) -> dict[str, object]:
        """Return what a request that may pass adds to its state.

        Raises:
            RequestError: it may not pass.
        """
        headers = Headers(scope=scope)
        is_own = self._check_origin(headers, self._check_host(headers, scope.get("scheme", "http")))
        if scope["path"] == HEALTH or page.is_open(scope["path"]):
            return {"token": None, "is_own_origin": is_own}
        token = self._find_token(scope, headers)
        if token is not None and token.limits is not None and not _checks_tokens(scope):
            sentence = f"this token is limited to {token.limits}; it may use nothing but the REST API and the page"
            raise RequestError(403, sentence)
        client = token.name if token is not None and self._tokens.are_several else ""
        return {"token": token, CLIENT: client, "is_own_origin": is_own}

    def _check_host(self, headers: Headers, scheme: str) -> Origin:
        """Return the server's own origin, as it is addressed. Raises RequestError if it does not answer to that."""
        hosts = headers.getlist("host")
        with suppress(Invalid):
            own = Origin.parse(f"{scheme}://{', '.join(hosts)}")  # several are none
            # An address of numbers cannot be pointed here by someone else's name server.
            if own.host in self._hosts or (self._strict and is_address(own.host)):
                return own
        names = ", ".join(hosts) or "nothing"
        raise RequestError(421, f"this server does not answer to {names}; its owner can add a name with --allow-host")

    def _check_origin(self, headers: Headers, own: Origin) -> bool:
        """Return whether a page of the server's own asks. Raises RequestError if a page asks that may not."""
        origins = headers.getlist("origin")
        if not origins:
            return False
        with suppress(Invalid):
            asking = Origin.parse(", ".join(origins))  # several are none
            # A proxy may speak HTTPS, and ask for this server by another name.
            is_proxy = asking.host in self._proxies and (asking.is_default_port or asking.port == own.port)
            if asking == own or is_proxy:
                return True
            if asking in self._origins:
                return False
        sentence = f"pages of {', '.join(origins)} may not use this server; its owner can let them with --allow-origin"
        raise RequestError(403, sentence)

    def _find_token(self, scope: Scope, headers: Headers) -> Token | None:
        """Return the token that is shown, at the page also by a session; None if none is shown, and none is needed."""
        kind, _, text = headers.get("authorization", "").partition(" ")
        try:
            token = self._tokens.find(text.strip()) if kind.lower() == "bearer" else None
            if not kind and page.is_page(scope["path"]) and (session := read_cookies(scope).session):
                token = find_session_token(session, self._tokens.all(), self._clock())
            if token is not None or not (self._strict or self._tokens.are_required):
                return token
        except Unavailable as error:
            raise describe_failure(error) from error
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


def _checks_tokens(scope: Scope) -> bool:
    """Return whether the door that is asked for holds tokens to their limits."""
    path = scope["path"]
    if rest.checks_tokens(path) or path.startswith(threads.PREFIX):  # where a token for reading may read
        return True
    return page.is_page(path) and (path != "/" or page.wants_html(scope))
