"""Names and topics that a model gives, brought into one form."""

from __future__ import annotations

import hashlib
import re
import unicodedata


def make_slug(text: str, longest: int) -> str:
    """The words of a text in small letters, with hyphens between them; empty if there are none."""
    plain = unicodedata.normalize("NFKD", text[: longest * 8]).casefold()
    bare = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return "-".join(re.findall(r"[^\W_]+", bare))[:longest].strip("-")


def make_topic(text: str, description: str) -> str:
    """What an entry is about, in the form of the rules' topics, such as "home" or "likes:sailing"."""
    head, _, rest = text.partition(":")
    parts = [part for part in (make_slug(head, 40), make_slug(rest, 60)) if part]
    if parts:
        return ":".join(parts)
    return f"other:{make_slug(description, 60) or hashlib.sha256(description.encode()).hexdigest()[:8]}"
