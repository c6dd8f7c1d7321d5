"""How text that others wrote is shown to people: nothing in it steers a terminal, or is there and not seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tabs and line breaks
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, embeddings, overrides and isolates of direction
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"  # no width
    "\u2028\u2029\ufff9-\ufffb"  # separators of lines, and annotations
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags and the like
    "\ud800-\udfff"  # bytes of a file's name that are no text
)
# These choose the look of what stands before them; a row of them is a hidden message.
_VARIANTS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
# Scripts whose letters join: Arabic to Tibetan, Burmese, Khmer, Mongolian, and others of India and its neighbours.
_JOINING_SCRIPTS = (
    "\u0600-\u0e00\u0f00-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_LEGITIMATE = (
    f"(?<=[{_JOINING_SCRIPTS}])[\u180e\u200c\u200d]"  # how Persian and Hindi are spelled
    f"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"  # a family, a flag with a rainbow
    "|\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f"  # the flag of Scotland
)


def neutralise(text: str) -> str:
    """The text with a replacement character for each one that would steer a terminal, or is not seen there.

    Tabs and line breaks stay, and so do joiners where a script or an emoji needs them.
    """
    return _replace(text, lambda _: "\N{REPLACEMENT CHARACTER}")


def neutralise_line(text: str) -> str:
    """The same, in one line: a line break is replaced, too."""
    return neutralise(text).replace("\n", "\N{REPLACEMENT CHARACTER}")


def escape_json(document: str) -> str:
    """JSON that says the same, in which the characters that `neutralise` replaces are escaped."""
    return _replace(document, _escape)


def render_size(count: float) -> str:
    """A number of bytes in the unit that a person would use."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def _replace(text: str, make_harmless: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return _compile_pattern().sub(lambda match: match[1] or make_harmless(match[0]), text)


@cache
def _compile_pattern() -> re.Pattern[str]:
    # Not before it is needed: to compile it takes longer than a server takes to load much else.
    return re.compile(f"({_LEGITIMATE})|[{_INVISIBLE}]|(?<=[{_VARIANTS}])[{_VARIANTS}]")


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
