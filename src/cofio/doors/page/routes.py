"""The page's addresses: every view at `/page/NAME` as HTML and at `/api/page/NAME` as JSON, with one query string.

To add a view, write a module `NAME_view.py` with a function that takes a `ViewRequest` (view_types.py) and returns a
dict or a dataclass, and `VIEW = View(name="NAME", title="…", build=build_NAME, summary="…", parameters=(…))`; write
`templates/NAME.html`, which extends base.html and gets what the function returned as `view`; and add a line to `VIEWS`
in view_table.py. The function calls `request.get_scope()` for its bounds, so that a limited token sees its own part
alone, and reads a bounded number of records. The JSON, the navigation and the OpenAPI document follow from the table.

A form posts to `/page/ACTION` (`ACTIONS` in the same table). It has the field `form_token` with the value
`{{ form_token_value }}`, and its function is called only for a form from this server's own page, by somebody who may
change something. Scripts send the same form by `fetch` with `Accept: application/json`.

This module is imported with the server; Jinja2 and the views are when a page is first asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...http.admission import CallQueue, ServerLoad, get_client, get_gone_check
from ...http.bodies import read_pieces
from ...http.errors import FaultLog, RequestError, describe_failure, get_request_id, render_failure
from ...http.tokens import Tokens
from ...text.jsonl import dump_line
from ...values.errors import Invalid
from . import session_cookie
from .asset_files import PREFIX as ASSETS
from .asset_files import load_by_address
from .view_types import Action, Outcome, PageServer, Parameters, View, ViewRequest
from .viewer import Viewer

PAGES, JSON = "/page/", "/api/page/"
SIGN_IN, SIGN_OUT = "/page/signin", "/page/signout"
THREADS = 4  # requests of pages that are in the engine at once
MAX_FORM = 16_777_216  # bytes: the longest text, each character of which may take twelve
MAX_FIELDS = 400
FOREVER = "public, max-age=31536000, immutable"
_faults = FaultLog(logging.getLogger("cofio.page"))


def is_page(path: str) -> bool:
    """Whether a path belongs to the page, which holds tokens to their limits and takes its own sessions, too."""
    return path == "/" or path.startswith((PAGES, JSON))


def is_open(path: str) -> bool:
    """Whether a path is answered to everybody: what the form to sign in needs."""
    return path == SIGN_IN or path.startswith(ASSETS)


def describe_paths() -> dict[str, Any]:
    """The JSON of the views, for the `paths` of an OpenAPI document."""
    from . import api_description

    return api_description.describe_paths()


def wants_html(scope: Scope) -> bool:
    """Whether a request comes from a browser that wants to show the answer."""
    return not scope["path"].startswith(JSON) and "text/html" in Headers(scope=scope).get("accept", "")


class Door:
    """Answers the page's requests, beside the event loop."""

    def __init__(self, server: PageServer, tokens: Tokens, load: ServerLoad | None = None) -> None:
        self._server = server
        self._tokens = tokens
        self._zone = server.settings.zone
        self._queue = CallQueue(THREADS, "page", load or ServerLoad())

    def make_routes(self) -> list[Route]:
        """The addresses, but for `/`, which other clients than browsers ask for, too."""
        return [
            Route(f"{ASSETS}{{file}}", self._serve_asset),
            Route(SIGN_IN, self._serve_sign_in, methods=["GET", "POST"]),
            Route(SIGN_OUT, self._serve_sign_out, methods=["POST"]),
            Route(f"{PAGES}{{name}}", _Handler(self._answer_view), methods=["GET"]),
            Route(f"{PAGES}{{name}}/{{action}}", _Handler(self._answer_action), methods=["POST"]),
            Route(f"{JSON}{{name}}", _Handler(self._answer_view), methods=["GET"]),
        ]

    async def answer_home(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `/` with the search, or with how to begin where there is nothing to search."""
        await self._answer_view({**scope, "path_params": {"name": ""}}, receive, send)

    async def render_refusal(self, scope: Scope, error: RequestError) -> Response:
        """Render what a browser is shown that may not come in: a form to sign in, or why not."""
        if error.status == 401:
            work = partial(self._render_sign_in, scope, problem="")
        else:
            work = partial(self._render_error, scope, error)
        return await self._render_beside(scope, work)

    async def _render_beside(self, scope: Scope, work: Callable[[], Response]) -> Response:
        """Render beside the event loop, as whatever takes time is done."""
        try:
            return await self._queue.run(work, client=get_client(scope))
        except RequestError as error:  # there is more to do than can be done soon, so this is not rendered either
            return _render_plainly(error)

    async def _answer_view(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._run(scope, receive, send, partial(self._render_view, scope))

    async def _answer_action(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._queue.check_room()
            fields = await _read_form(scope, receive)
            session_cookie.check_form(scope, (fields.get(session_cookie.FORM_FIELD) or ("",))[0])
        except RequestError as error:
            response = await self._render_beside(scope, partial(self._render_failure, scope, error))
            await response(scope, receive, send)
            return
        await self._run(scope, receive, send, partial(self._run_action, scope, fields), reads=False)

    async def _run(
        self, scope: Scope, receive: Receive, send: Send, work: Callable[[], Response], *, reads: bool = True
    ) -> None:
        try:
            response = await self._queue.run(
                partial(self._reply, scope, work), get_gone_check(scope) if reads else None, client=get_client(scope)
            )
        except ClientDisconnect:
            raise
        except RequestError as error:
            response = _render_plainly(error) if wants_html(scope) else render_failure(scope, error, self._zone)
        await response(scope, receive, send)

    def _reply(self, scope: Scope, work: Callable[[], Response]) -> Response:
        try:
            return work()
        except Exception as error:  # every failure is told in words, also an unexpected one
            failure = describe_failure(error)
            if failure.status >= 500:
                _faults.report(f"{get_request_id(scope)} to {scope['path']}", error)
            return self._render_failure(scope, failure)

    def _make_request(self, scope: Scope, parameters: Parameters) -> ViewRequest:
        engine = self._server.engine()
        return ViewRequest(
            engine=engine, viewer=Viewer.of(scope["state"].get("token"), read_only=engine.read_only),
            parameters=parameters, server=self._server, address=_find_address(scope),
            now=datetime.now(UTC),
        )  # fmt: skip

    def _render_view(self, scope: Scope) -> Response:
        request = self._make_request(scope, _parse_fields(scope["query_string"]))
        view = _find_view(scope["path_params"]["name"], request)
        with request.engine.restrict(request.viewer.reach):
            model = request.engine.run_on_replica(partial(view.build, request))
        if scope["path"].startswith(JSON):
            return _render_json(model)
        return self._render_page(scope, view.template_name, {"view": model, "current": view.name}, request.viewer)

    def _run_action(self, scope: Scope, fields: Parameters) -> Response:
        from .view_table import ACTIONS

        name = f"{scope['path_params']['name']}/{scope['path_params']['action']}"
        action: Action | None = next((each for each in ACTIONS if each.name == name), None)
        if action is None:
            raise RequestError(404, "Not Found")
        request = self._make_request(scope, fields)
        request.viewer.check_may_change()
        with request.engine.restrict(request.viewer.reach):
            outcome = action.run(request)
        if isinstance(outcome, Outcome):
            return _render_outcome(scope, outcome)
        if not wants_html(scope):
            return render_failure(scope, RequestError(outcome.status, outcome.message), self._zone)
        return self._render_page(scope, outcome.template, {"view": outcome.model}, request.viewer, outcome.status)

    def _render_page(
        self, scope: Scope, template: str, context: Mapping[str, Any], viewer: Viewer, status: int = 200
    ) -> Response:
        from .renderer import HEADERS, render
        from .view_table import VIEWS

        cookies = session_cookie.read_cookies(scope)
        form_key = cookies.form_key or session_cookie.new_form_key()
        query = scope["query_string"].decode("latin-1")
        shared = {
            "navigation": [each for each in VIEWS if each.in_navigation], "viewer": viewer,
            "is_signed_in": bool(cookies.session) and viewer.token is not None, "path": scope["path"],
            "form_token_value": session_cookie.make_form_token(form_key, cookies.session),
            "notice": _find_notice(scope, cookies.form_key), "current": "",
            "here": scope["path"] + (f"?{query}" if query else ""), "query_string": query,
        }  # fmt: skip
        content = render(template, {**shared, **context})
        response = Response(content, status, HEADERS, media_type="text/html")
        if not cookies.form_key:
            session_cookie.set_form_key(response, scope, form_key)
        return response

    def _render_failure(self, scope: Scope, error: RequestError) -> Response:
        if wants_html(scope):
            return self._render_error(scope, error)
        return render_failure(scope, error, self._zone)

    def _render_error(self, scope: Scope, error: RequestError) -> Response:
        context = {"status": error.status, "message": str(error)}
        viewer = Viewer.of(scope["state"].get("token"))
        response = self._render_page(scope, "error.html", context, viewer, error.status)
        response.headers.update(error.headers or {})
        return response

    async def _serve_asset(self, request: Request) -> Response:
        asset = load_by_address().get(request.url.path)
        if asset is None:
            raise HTTPException(404)
        headers = {
            "Cache-Control": FOREVER, "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding",
            "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(asset.compressed, 200, headers, media_type=asset.media_type)
        return Response(asset.content, 200, headers, media_type=asset.media_type)

    async def _serve_sign_in(self, request: Request) -> Response:
        scope = request.scope
        if request.method == "GET":
            return await self._render_beside(scope, partial(self._render_sign_in, scope, problem="", status=200))
        try:
            fields = await _read_form(scope, request.receive)
            session_cookie.check_form(scope, (fields.get(session_cookie.FORM_FIELD) or ("",))[0], signs_in=True)
            text = (fields.get("token") or ("",))[0].strip()
            found = await self._queue.run(partial(self._tokens.find, text))
        except RequestError as error:
            return await self._render_beside(scope, partial(self._render_failure, scope, error))
        if found is None:
            problem = "This token is not known here, or has been ended."
            return await self._render_beside(scope, partial(self._render_sign_in, scope, problem=problem))
        response = RedirectResponse(_clean_target((fields.get("next") or ("",))[0]), 303)
        session_cookie.sign_in(response, scope, session_cookie.make_session(found, datetime.now(UTC)))
        return response

    def _render_sign_in(self, scope: Scope, *, problem: str, status: int = 401) -> Response:
        query = scope["query_string"].decode("latin-1")
        path = "/" if scope["path"] in (SIGN_IN, SIGN_OUT) else scope["path"]
        target = path + (f"?{query}" if query and scope["method"] == "GET" and path != "/page/signin" else "")
        context = {
            "problem": problem, "target": target if scope["method"] == "GET" else "/",
            "is_from_elsewhere": Headers(scope=scope).get("sec-fetch-site") == "cross-site",
        }  # fmt: skip
        return self._render_page(scope, "signin.html", context, Viewer(), status)

    async def _serve_sign_out(self, request: Request) -> Response:
        try:
            fields = await _read_form(request.scope, request.receive)
            session_cookie.check_form(request.scope, (fields.get(session_cookie.FORM_FIELD) or ("",))[0])
        except RequestError as error:
            return await self._render_beside(request.scope, partial(self._render_failure, request.scope, error))
        response = RedirectResponse(SIGN_IN, 303)
        session_cookie.sign_out(response, request.scope)
        return response


class _Handler:
    """A method as an application of its own: Starlette would take a plain function for one that is given a request."""

    def __init__(self, answer: Callable[[Scope, Receive, Send], Any]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


def _render_plainly(error: RequestError) -> Response:
    """Why a request cannot be met, without a page around it, which would take its time."""
    return PlainTextResponse(f"{str(error).capitalize()}.", error.status, error.headers)


def _find_address(scope: Scope) -> str:
    """Where the reader has found the page. A name without a port is that of a proxy, which speaks HTTPS."""
    host = Headers(scope=scope).get("host", "")
    is_proxy = ":" not in host and "." in host and not host.replace(".", "").isdigit()
    return f"{'https' if is_proxy else scope.get('scheme', 'http')}://{host}"


def _find_view(name: str, request: ViewRequest) -> View:
    """The view of a name; without one, the search, or where there is nothing to search, how to begin."""
    from .start_view import is_empty
    from .view_table import VIEWS

    wanted = name or ("start" if is_empty(request) and not request.parameters else "search")
    view = next((each for each in VIEWS if each.name == wanted), None)
    if view is None:
        raise RequestError(404, "there is no such page")
    return view


def _render_json(model: Any) -> Response:
    from .renderer import HEADERS, to_json

    content = dump_line(to_json(model), separators=(",", ":")).encode()
    return Response(content, 200, HEADERS, media_type="application/json")


def _render_outcome(scope: Scope, outcome: Outcome) -> Response:
    if not wants_html(scope):
        return JSONResponse({"location": outcome.location, "message": outcome.message, **outcome.data})
    location, notice = outcome.location, outcome.message
    if notice:
        seal = session_cookie.seal_notice(session_cookie.read_cookies(scope).form_key, notice)
        location += ("&" if "?" in location else "?") + urlencode({"notice": notice, "seal": seal})
    return RedirectResponse(location, 303)


def _clean_target(target: str) -> str:
    """Where a reader goes after signing in: an address of this server, and no other."""
    parts = urlsplit(target)
    is_own = (
        target.startswith("/") and not target.startswith(("//", "/\\")) and not parts.netloc and is_page(parts.path)
    )
    return target if is_own and target.isprintable() else "/"


def _parse_fields(query: bytes) -> dict[str, tuple[str, ...]]:
    try:
        fields = parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Invalid(
            "query", f"is not made of up to {MAX_FIELDS} names and values in UTF-8, percent-encoded"
        ) from None
    return {name: tuple(values) for name, values in fields.items()}


def _find_notice(scope: Scope, form_key: str) -> str:
    """What an action has to say on the page that comes after it; nothing that somebody else has put in the address."""
    try:
        fields = _parse_fields(scope["query_string"])
    except Invalid:
        return ""
    notice, seal = ((fields.get(name) or ("",))[0] for name in ("notice", "seal"))
    is_own = form_key and compare_digest(session_cookie.seal_notice(form_key, notice).encode(), seal.encode())
    return notice if is_own else ""


async def _read_form(scope: Scope, receive: Receive) -> dict[str, tuple[str, ...]]:
    """Read the fields of a form, which is as browsers send one without files.

    Raises:
        RequestError: it is no form, or too long.
    """
    headers = Headers(scope=scope)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise RequestError(415, "expected a form: application/x-www-form-urlencoded")
    body = bytearray()
    async for piece in read_pieces(scope, receive, MAX_FORM):
        body += piece
    try:
        return _parse_fields(bytes(body))
    except Invalid as error:
        raise RequestError(422, str(error)) from None
