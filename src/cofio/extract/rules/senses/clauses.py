"""The parts of a sentence that say different things: what is told before a question, what ended, what replaced it."""

from __future__ import annotations

import re
from dataclasses import dataclass

SHORTEST = 2  # words of a part that can tell something

_ASKED = (
    r"(?:what|how|where|when|who|why|which|whose|can|could|do|does|did|is|are|am|should|would|will|any|anyone|got any"
    r"|was|wie|wo|wer|warum|kann|soll|qué|cómo|dónde|cuándo|puedo|que|quel|quelle|comment|est-ce|où|puis-je|cosa|come"
    r"|dove|quando|posso|qual|como|onde)"
)
_REQUEST_TAIL = re.compile(
    r",? (?:so |and |but |then )?(?:please|pls|plz|(?:can|could|would|will) (?:you|u))\b.*$", re.IGNORECASE | re.DOTALL
)
_QUESTION_TAIL = re.compile(
    r"(?:\s*[,;:–—]+\s*|\s+-+\s+|\s+(?=(?:so|and|but)\b))(?:(?:so|and|but|then|ok|okay|also)\b,? )*"
    rf"{_ASKED}\b[^;]*\?\W*$",
    re.IGNORECASE,
)
_SWAP = re.compile(
    r"\b(?:swapped|traded|switched|ditched|dropped|replaced|exchanged|changed|moved|migrated|went|jumped|came over)\b"
    r"(?: over| everything| all)?(?: from| out of)? (?P<old>.+?),? (?:for|to|with|in for|over to) (?P<new>[^,;.]+)",
    re.IGNORECASE,
)
_SWAP_NEEDS_FROM = re.compile(
    r"\b(?:moved|went|jumped|came|changed|migrated)\b(?! (?:over |everything |all )?(?:from|out of)\b)", re.I
)
_PART = re.compile(
    r"\s*[;,–—]+\s*(?:(?:and|but|so|n|aber|und|pero|y|mais|et|ma|e) )?|\s+-+\s+|[，；、]|\.\.+\s*"
    r"|\s+(?:but|so|and now|n now|jetzt|ahora|maintenant|adesso|agora)\s+"
    r"|\s+(?:and|n|&|und|y|et|e)\s+(?=(?:now|i|i'm|im|just|ich|jetzt|ahora|maintenant)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """What someone has no longer, and what they have in its place."""

    old: str
    new: str


def strip_request(text: str) -> str:
    """A sentence less what it asks for or about at its end: "I'm allergic to nuts, so what can I eat?" """
    head = _REQUEST_TAIL.sub("", text)
    if head == text and text.rstrip(" !)\"'”").endswith("?"):
        head = _QUESTION_TAIL.sub("", text)
    return head


def find_swap(text: str) -> Swap | None:
    """What was given up for what: "ditched notion for anytype"."""
    found = _SWAP.search(text)
    if found is None or _SWAP_NEEDS_FROM.search(text):
        return None
    return Swap(old=text[: found.end("old")].strip(" ,"), new=found["new"].strip())


def split_clauses(text: str) -> list[str]:
    """The parts of a sentence between its commas, and before "but" and "so"; those that are too short join the next."""
    parts: list[str] = []
    waiting = ""
    for part in _PART.split(text):
        joined = f"{waiting}, {part}" if waiting else part
        if len(joined.split()) >= SHORTEST or not joined.isascii():
            parts.append(joined.strip())
            waiting = ""
        else:
            waiting = joined
    if waiting:
        parts = [*parts[:-1], f"{parts[-1]}, {waiting}"] if parts else [waiting]
    return [part for part in parts if part]
