"""How the page's views become HTML and JSON: Jinja2 that escapes everything, and the headers that go with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from markupsafe import Markup, escape

from ... import __version__
from ...text.display import neutralise, neutralise_line
from ...text.tokenizer import split_words
from ...values.records import Scope
from .asset_files import find_address
from .view_types import make_link

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
        "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
    )
)  # fmt: skip
"""What a page may load and do: its own scripts, styles and requests, and nothing that stands in the page itself."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with none at all, a browser would not say either where a form comes from
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""The headers of every page and of its JSON."""

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_MARK, _MARK_END = Markup("<mark>"), Markup("</mark>")
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def render(template: str, context: Mapping[str, Any]) -> str:
    """Render a template. What it is given is text, never HTML."""
    return _open_environment().get_template(template).render(context)


@cache
def _open_environment() -> Environment:
    # Not before a page is asked for: a server that none looks at need not load it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cofio.doors.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    environment.finalize = _clean
    environment.filters |= {
        "when": render_time, "day": render_day, "number": render_number, "size": render_size, "percent": render_percent,
        "mark": mark_words, "exact": escape, "plain": neutralise, "line": neutralise_line, "scope_path": render_scope,
    }  # fmt: skip
    environment.globals |= {"asset": find_address, "link": make_link, "version": __version__, "query": urlencode}
    return environment


def _clean(value: Any) -> Any:
    """What a template shows of a value: of text, nothing that turns its direction or is there and not seen.

    What a form sends back has to be `exact`: escaped, and else as it is.
    """
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return neutralise(value) if isinstance(value, str) else value


def render_time(moment: datetime | str | None, empty: str = "") -> Markup:
    """A time in UTC, which the script turns into the reader's zone."""
    if moment is None or moment == "":
        return escape(empty)
    at = (datetime.fromisoformat(moment) if isinstance(moment, str) else moment).astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        at.isoformat(timespec="seconds"), at.strftime("%Y-%m-%d %H:%M:%S"), at.strftime("%Y-%m-%d %H:%M")
    )


def render_day(day: date | str) -> str:
    """A day as people write it: `Tue 3 March 2026`."""
    at = date.fromisoformat(day) if isinstance(day, str) else day
    return f"{at:%a} {at.day} {at:%B %Y}"


def render_number(value: float) -> str:
    """A number with its thousands apart."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def render_size(value: float) -> str:
    """A number of bytes, in the unit that a person would choose."""
    size, unit = float(value), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def render_percent(share: float) -> str:
    """A share of one, in percent."""
    return f"{share * 100:.0f} %"


def render_scope(names: Iterable[str]) -> str:
    """The scope of these names, as it is written."""
    return str(Scope(*names))


def mark_words(text: str, words: Iterable[str]) -> Markup:
    """The text, escaped, in which each word that is one of `words` (as an index knows them) is in a <mark>."""
    wanted = frozenset(words)
    shown = neutralise(text)  # as long as it was: each character that is replaced is replaced by one
    parts: list[Markup] = []
    end = 0
    for start, stop in _find_words(text, wanted) if wanted else ():
        parts += (escape(shown[end:start]), _MARK, escape(shown[start:stop]), _MARK_END)
        end = stop
    return Markup("").join([*parts, escape(shown[end:])])


def _find_words(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where the wanted words begin and end. Of a script without spaces, only what is wanted of a run of letters."""
    for match in _WORD.finditer(text):
        found = wanted.intersection(_split_word(match[0]))
        inside = [each for each in found if each in match[0] and not each.isascii() and len(each) < len(match[0]) - 1]
        if not inside:
            if found:
                yield match.span()
            continue
        end = 0
        for each in re.finditer("|".join(map(re.escape, inside)), match[0]):
            if each.start() >= end:
                end = each.end()
                yield match.start() + each.start(), match.start() + end


@lru_cache(4096)
def _split_word(word: str) -> frozenset[str]:
    """What an index knows a word by; most words of a page stand there more than once."""
    return frozenset(split_words(word))


def to_json(value: Any) -> Any:
    """The value as JSON can hold it: times in ISO 8601, scopes as they are written, dataclasses as objects."""
    if value is None or isinstance(value, bool | int | float):
        return value
    converters: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
        (Enum, lambda each: each.value),
        (str, str),
        ((datetime, date), lambda each: each.isoformat()),
        (Scope, str),
        (Mapping, lambda each: {str(key): to_json(inner) for key, inner in each.items()}),
        ((list, tuple, set, frozenset), lambda each: [to_json(inner) for inner in each]),
    )
    for kinds, convert in converters:
        if isinstance(value, kinds):
            return convert(value)
    if is_dataclass(value):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON")
