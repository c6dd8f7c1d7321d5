"""What of a message is not to be kept: what its user marks so, and what cofio or the client itself has put into it.

`#skip` anywhere in a prompt leaves the whole turn out, `<private>…</private>` what stands between, and `#remember` has
the rest of its line kept as a fact. What was recalled into a conversation is known by its fence, and never becomes
memory again.
"""

from __future__ import annotations

import re

from ..extract.rules.messages.recalled_text import strip_blocks
from ..text.fence import is_fence
from .transcripts.transcript_messages import TranscriptCall

_SKIP = re.compile(r"(?<![\w#&/])#skip\b", re.IGNORECASE)
_REMEMBER = re.compile(r"(?<![\w#&/])#remember\b[ \t]*:?[ \t]*([^\n]*)", re.IGNORECASE)
_PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.IGNORECASE | re.DOTALL)
_REMINDER = re.compile(r"<(system-reminder|hook_context)>.*?(?:</\1>|\Z)", re.DOTALL)
_FENCED = re.compile(r"[^\n]*\n<<< (?P<mark>[0-9a-f]{16})\n.*?\n(?P=mark) >>>", re.DOTALL)
_OWN_TOOL = re.compile(r"(?:^|_)cofio(?:_|$)")
_OWN_COMMAND = re.compile(r"(?:^|[;&|(]\s*|\s-m )(?:\S*/)?cofio\s")
_LONGEST = 2_000  # characters of a fact that is to be remembered


def asks_to_skip(text: str) -> bool:
    """Whether a prompt says that its turn is not to be kept."""
    return "#" in text and _SKIP.search(strip_private(text)) is not None


def strip_private(text: str) -> str:
    """A text less what its user calls private; a mark that is left open has no end."""
    return _PRIVATE.sub("", text) if "<" in text else text


def strip_injected(text: str) -> str:
    """A text less what was put into it by cofio, or by the client for the model."""
    if "<<< " in text:
        text = _FENCED.sub(lambda found: "" if is_fence(found[0]) else found[0], text)
    if "<" in text:
        text = _REMINDER.sub("", text)
    return strip_blocks(text)


def list_remembered(text: str) -> list[str]:
    """What a prompt asks to remember."""
    found = [each.strip()[:_LONGEST] for each in _REMEMBER.findall(text)] if "#" in text else []
    return [each for each in found if each]


def reads_memory(call: TranscriptCall) -> bool:
    """Whether a call asks cofio itself, so that its result is what is remembered already."""
    if _OWN_TOOL.search(call.name):
        return True
    values = call.arguments.values() if isinstance(call.arguments, dict) else (call.arguments,)
    return any(isinstance(value, str) and _OWN_COMMAND.search(value) for value in values)
