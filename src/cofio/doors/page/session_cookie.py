"""What the page keeps in a browser: the token that the reader has signed in with, and what guards forms.

Browsers send a cookie to every port of a host, so a cookie's name ends in the port that it is for.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from ..web.failures import RequestError

SESSION_SECONDS = 30 * 86_400
FORM_FIELD = "form_token"
_FORGED = (
    "this form does not come from a page that this server has sent to your browser, or that page is too old: nothing"
    " was changed. Load the page again, and send it once more"
)


class Cookies(NamedTuple):
    """The page's cookies of a request."""

    token: str
    """The token that the reader has signed in with; "" without one."""
    form_key: str
    """What the forms of this browser are signed with; "" before the first page."""


def read_cookies(scope: Scope) -> Cookies:
    """Read the page's cookies; those that cannot be understood count as none."""
    token_name, form_name = _get_names(scope)
    jar: SimpleCookie = SimpleCookie()
    for line in Headers(scope=scope).getlist("cookie"):
        try:
            jar.load(line)
        except CookieError:
            continue
    values = [jar[name].value if name in jar else "" for name in (token_name, form_name)]
    return Cookies(*values)


def new_form_key() -> str:
    """A new key for the forms of one browser."""
    return secrets.token_urlsafe(24)


def make_form_token(form_key: str, token: str) -> str:
    """What a form carries to show that it comes from a page that was sent to this browser, for this reader."""
    return hmac.new(form_key.encode(), b"form\0" + token.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def seal_notice(form_key: str, notice: str) -> str:
    """What shows that a notice in an address is this server's own, for this browser: others put no words here."""
    return hmac.new(form_key.encode(), b"notice\0" + notice.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:20]


def check_form(scope: Scope, sent: str) -> None:
    """Raise RequestError unless a form comes from a page of this server in this browser.

    Both are looked at: where the browser says that it comes from, and what only a page from here could know.
    """
    cookies = read_cookies(scope)
    is_own = scope["state"].get("is_own_origin", False)
    if not is_own or not cookies.form_key:
        raise RequestError(403, _FORGED)
    if not hmac.compare_digest(make_form_token(cookies.form_key, cookies.token).encode(), sent.encode()):
        raise RequestError(403, _FORGED)


def set_form_key(response: Response, scope: Scope, form_key: str) -> None:
    """Have the browser keep the key of its forms."""
    response.set_cookie(
        _get_names(scope)[1], form_key, max_age=SESSION_SECONDS, httponly=True, samesite="lax",
        secure=_is_secure(scope),
    )  # fmt: skip


def sign_in(response: Response, scope: Scope, token: str) -> None:
    """Have the browser keep a token, which scripts cannot read and other sites' pages cannot send."""
    response.set_cookie(
        _get_names(scope)[0], token, max_age=SESSION_SECONDS, httponly=True, samesite="lax", secure=_is_secure(scope)
    )


def sign_out(response: Response, scope: Scope) -> None:
    """Have the browser forget the token."""
    response.delete_cookie(_get_names(scope)[0], httponly=True, samesite="lax", secure=_is_secure(scope))


def _get_names(scope: Scope) -> tuple[str, str]:
    port = Headers(scope=scope).get("host", "").rpartition(":")[2]
    ending = port if port.isascii() and port.isdigit() else "0"
    return f"cofio-token-{ending}", f"cofio-form-{ending}"


def _is_secure(scope: Scope) -> bool:
    """Whether the browser speaks HTTPS, with a proxy before this server if not with itself."""
    origin = Headers(scope=scope).get("origin", "")
    return origin.startswith("https://") or scope.get("scheme") == "https"
