"""Texts without the disguises that keep a secret from being seen: invisible characters, and letters of other widths."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from unicodedata import normalize

from .patterns import Span

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_STYLED = "\u00a0\u2000-\u200a\u202f\u205f\u2070-\u209c\u2100-\u214f\u2460-\u24ff\u3000\ufe50-\ufe6b\uff01-\uff5e"
_FAR = "\U0001d400-\U0001d7ff\U000e0000-\U000e0fff"


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text without disguises, and where each part of it stood."""

    text: str
    _starts: list[int]
    """Where the parts begin in `text` whose distance from the original differs from the one before."""
    _shifts: list[int]

    def restore(self, span: Span) -> Span:
        """Where a span stands in the original, with the disguises within it."""
        return Span(self._restore_offset(span.start), self._restore_offset(span.end - 1) + 1, span.what)

    def _restore_offset(self, at: int) -> int:
        return at + self._shifts[bisect_right(self._starts, at) - 1]


def fold(text: str) -> FoldedText | None:
    """The text in plain letters, without what cannot be seen; None when it is so already."""
    if text.isascii() or not _compile_disguises().search(text):
        return None
    parts: list[str] = []
    starts, shifts, at, length = [0], [0], 0, 0
    for found in _compile_disguises().finditer(text):
        plain = _to_plain(found[0])
        parts += [text[at : found.start()], plain]
        length += found.start() - at + len(plain)
        at = found.end()
        if at - length != shifts[-1]:
            starts.append(length)
            shifts.append(at - length)
    return FoldedText("".join([*parts, text[at:]]), starts, shifts)


@cache
def _to_plain(character: str) -> str:
    """The character of ASCII that one stands for, or nothing for one that cannot be seen."""
    plain = normalize("NFKC", character)
    if plain.isascii() and len(plain) == 1:
        return plain
    return "" if re.fullmatch(f"[{_INVISIBLE}\U000e0000-\U000e0fff]", character) else character


@cache
def _compile_disguises() -> re.Pattern[str]:
    return re.compile(f"[{_INVISIBLE}{_STYLED}{_FAR}]")
