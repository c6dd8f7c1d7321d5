"""What the page keeps in a browser: the session of a reader who has signed in, and what guards forms.

Browsers send a cookie to every port of a host, so a cookie's name ends in the port that it is for.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import quote, unquote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from ...http.errors import RequestError
from ...http.tokens import Token

SESSION_SECONDS = 7 * 86_400
FORM_FIELD = "form_token"
_FORGED = (
    "this form does not come from a page that this server has sent to your browser, or that page is too old: nothing"
    " was changed. Load the page again, and send it once more"
)


class Cookies(NamedTuple):
    """The page's cookies of a request."""

    session: str
    """What a sign-in has left in the browser, which may be forged or expired; "" without one."""
    form_key: str
    """What the forms of this browser are signed with; "" before the first page."""


def read_cookies(scope: Scope) -> Cookies:
    """Read the page's cookies; those that cannot be understood count as none."""
    names = _get_names(scope)
    jar: SimpleCookie = SimpleCookie()
    for line in Headers(scope=scope).getlist("cookie"):
        try:
            jar.load(line)
        except CookieError:
            continue
    return Cookies(*(jar[name].value if name in jar else "" for name in names))


def make_session(token: Token, now: datetime) -> str:
    """Return a new session of a token: when it expires, a nonce, a signature of both, and the token's name.

    It is signed with the token's hash, so that nothing is stored, and it ends with the token.
    """
    content = f"{int(now.timestamp()) + SESSION_SECONDS}.{secrets.token_urlsafe(16)}"
    return f"{content}.{_sign(content, token)}.{quote(token.name, safe='')}"


def find_session_token(session: str, tokens: Iterable[Token], now: datetime) -> Token | None:
    """Return the token that a session is of; None if it is forged, has expired, or the token has been removed."""
    if session.count(".") < 3:
        return None
    expiry, nonce, signature, name = session.split(".", 3)
    for token in tokens:
        if token.name == unquote(name):
            expected = _sign(f"{expiry}.{nonce}", token)
            if hmac.compare_digest(expected.encode(), signature.encode()) and now.timestamp() < int(expiry):
                return token
    return None


def _sign(content: str, token: Token) -> str:
    return hmac.new(token.hash.encode(), b"session\0" + content.encode(), hashlib.sha256).hexdigest()


def new_form_key() -> str:
    """A new key for the forms of one browser."""
    return secrets.token_urlsafe(24)


def make_form_token(form_key: str, session: str) -> str:
    """What a form carries to show that it comes from a page that was sent to this browser, for this reader."""
    return hmac.new(form_key.encode(), b"form\0" + session.encode(), hashlib.sha256).hexdigest()


def seal_notice(form_key: str, notice: str) -> str:
    """What shows that a notice in an address is this server's own, for this browser: others put no words here."""
    return hmac.new(form_key.encode(), b"notice\0" + notice.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:20]


def check_form(scope: Scope, sent: str, *, signs_in: bool = False) -> None:
    """Raise RequestError unless a form comes from a page of this server in this browser.

    Both are looked at: where the browser says that it comes from, and what only a page from here could know. A form
    that signs in may be of a page to which a link of another site led: there the browser has shown no session.
    """
    cookies = read_cookies(scope)
    is_own = scope["state"].get("is_own_origin", False)
    if not is_own or not cookies.form_key:
        raise RequestError(403, _FORGED)
    tokens = [make_form_token(cookies.form_key, each) for each in (cookies.session, *([""] if signs_in else []))]
    if not any(hmac.compare_digest(each.encode(), sent.encode()) for each in tokens):
        raise RequestError(403, _FORGED)


def set_form_key(response: Response, scope: Scope, form_key: str) -> None:
    """Have the browser keep the key of its forms."""
    response.set_cookie(
        _get_names(scope)[1], form_key, max_age=SESSION_SECONDS, httponly=True, samesite="lax",
        secure=_is_secure(scope),
    )  # fmt: skip


def sign_in(response: Response, scope: Scope, session: str) -> None:
    """Have the browser keep a session, which scripts cannot read and other sites' pages cannot send."""
    response.set_cookie(
        _get_names(scope)[0], session, max_age=SESSION_SECONDS, httponly=True, samesite="strict",
        secure=_is_secure(scope),
    )  # fmt: skip


def sign_out(response: Response, scope: Scope) -> None:
    """Have the browser forget the session."""
    response.delete_cookie(_get_names(scope)[0], httponly=True, samesite="strict", secure=_is_secure(scope))


def _get_names(scope: Scope) -> tuple[str, str]:
    port = Headers(scope=scope).get("host", "").rpartition(":")[2]
    ending = port if port.isascii() and port.isdigit() else "0"
    # The first is the name under which the token itself was kept once, so that a sign-in overwrites it.
    return f"cofio-token-{ending}", f"cofio-form-{ending}"


def _is_secure(scope: Scope) -> bool:
    """Whether the browser speaks HTTPS, with a proxy before this server if not with itself."""
    origin = Headers(scope=scope).get("origin", "")
    return origin.startswith("https://") or scope.get("scheme") == "https"
