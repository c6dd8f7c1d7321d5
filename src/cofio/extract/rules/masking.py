"""Secrets in what was said: a key or a password is told as three stars."""

from __future__ import annotations

import re

from ...secrets import find_secret
from .lines import masked

MASK = "\ue000"
"""What stands for a secret while a text is read: unlike stars, it is no mark of stress."""
SHOWN = "***"
MOST = 20  # secrets of a message that are looked for one by one

_WORD = re.compile(r"[^\s\"'`,;<>(){}\[\]]{8,}")
_STOP = "\ue001"  # keeps the end of a sentence out of the secret before it
_LAST_STOP = re.compile(r"(?<=\S{8})(?=[.!?](?:\s|$))")
_REST = re.compile(rf"{MASK}[^\s\"',;.!?)\]}}{MASK}]*\w")
_HINT = re.compile(r"(?i)pass|pwd|secret|token|key|bearer|basic|authori|://|[\w./+=-]{16}|BEGIN ")


def without_secrets(text: str) -> str:
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
        hidden = _hidden(lines[at])
        if hidden is None:  # a key of many lines
            return "\n".join((*lines[:at], MASK))
        lines[at] = hidden
        shown = "\n".join(lines)
    shown = masked(_LAST_STOP.sub(rf" {_STOP}", shown)).replace(SHOWN, MASK).replace(f" {_STOP}", "")
    return _REST.sub(MASK, shown)


def _hidden(line: str) -> str | None:
    """A line without the word that makes it tell a secret; None when no single word does."""
    for word in sorted(_WORD.findall(line), key=len, reverse=True)[:MOST]:
        without = line.replace(word.rstrip(".!?:"), MASK)
        if find_secret(without) is None:
            return without
    return None
