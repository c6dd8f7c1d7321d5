"""Secrets in what was said: a key or a password is told as three stars."""

from __future__ import annotations

import re
from bisect import bisect_left

from ....secrets.scanner import find_secret

MASK = "\ue000"
"""What stands for a secret while a text is read: unlike stars, it is no mark of stress."""
SHOWN = "***"
MOST = 20  # secrets of a message that are looked for one by one

_WORD = re.compile(r"[^\s\"'`,;<>(){}\[\]]{8,}")
_NAMED = re.compile(  # in talk, unlike in code, a password may be as short as people make them
    r"(?i)(\b(?:pass(?:word|code|phrase|wort)|passwd|pwd|pin(?: code)?|contraseña|senha)(?: (?:for|to|of"
    r"|on) [\w' -]{1,30}?)?"
    r" ?(?:is|was|=|:) ?[\"'`]?)(?=[^\s\"'`]*\d)[^\s\"'`]{4,200}?([.!?,;:\"'`)]*(?=\s|$|[\"'`]))"
)
_HINT = re.compile(r"(?i)pass|pwd|pin|senha|contrase|secret|token|key|bearer|basic|authori|://|[\w./+=-]{16}|BEGIN ")


def hide_secrets(text: str) -> str:
    """`text` with a mark in the place of what looks like a password, a key or a token."""
    if not _HINT.search(text):
        return text
    shown = text
    for _ in range(MOST):
        found = find_secret(shown)
        if found is None:
            break
        lines = shown.split("\n")
        at = found.line - 1
        lines[at] = _hide_first(lines[at])
        # What no single word tells is a key of many lines.
        shown = "\n".join(lines if lines[at] else (*lines[:at], MASK))
    else:
        return MASK
    return _NAMED.sub(rf"\1{MASK}\2", shown)


def _hide_first(line: str) -> str:
    """A line without the first word of it that tells a secret; empty when no single word does."""
    words = list(_WORD.finditer(line))
    at = bisect_left(words, True, key=lambda word: find_secret(line[: word.end()]) is not None)
    if at == len(words):
        return ""
    word = words[at][0].rstrip(".!?:")
    return line.replace(word, MASK) if word else ""
