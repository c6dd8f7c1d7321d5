"""The names by which speakers are called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...extractor import Message

ASSISTANT = "the assistant"
_GENERIC = re.compile(
    r"(?:ai|assistant|bot|chatbot|agent|system|model|llm|gpt|chatgpt|claude|gemini)(?:[-_ .\d].*)?", re.I
)
_SPACE = re.compile(r"\s+")
LONGEST_NAME = 80


def get_name(message: Message) -> str:
    """The name to tell of the sender by, as it stands within a sentence."""
    name = _SPACE.sub(" ", (message.name or "").replace('"', "")).strip()
    if name:
        return name[:LONGEST_NAME]
    sender = _SPACE.sub(" ", message.sender).strip()[:LONGEST_NAME]
    if message.role == "assistant" and (not sender or _GENERIC.fullmatch(sender)):
        return ASSISTANT
    if sender.isascii() and sender.isalpha() and sender.islower():
        return sender.capitalize()
    return sender or "someone"


def capitalize_name(name: str) -> str:
    """The name as a sentence begins with it."""
    return name[:1].upper() + name[1:] if name.startswith((ASSISTANT, "someone")) else name


def join_names(names: Sequence[str]) -> str:
    """Several names as one phrase: Ana, Bo and the assistant."""
    shown = list(names) if len(names) <= 6 else [*names[:5], f"{len(names) - 5} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def list_people(messages: Sequence[Message]) -> list[str]:
    """Those who spoke, in the order in which they first did."""
    return list(dict.fromkeys(get_name(message) for message in messages if message.role != "tool"))
