"""How a message of a transcript becomes one that is kept: without secrets, and its tool calls and results in short.

Secrets are masked before anything is cut off: a part of one looks like none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from ..extract.extractor import Call, Message
from ..secrets.policy import admit
from ..values.records import MAX_ID, MAX_KEY, Json
from .transcripts.transcript_messages import TranscriptCall, TranscriptMessage, cut_middle

PROMPT = 20_000  # characters of what a user or an assistant says
RESULT, FAILURE = 300, 1_000  # and of a tool's result, at each end
COMMAND, ARGUMENT = 1_000, 300  # and of an argument
_SKEW = timedelta(minutes=1)  # by which the times of a transcript may go back
_MOST = 24  # arguments of a call, and entries of a list
_DEEPEST = 5
_COMMANDS = frozenset({"command", "cmd", "script", "query", "file_path", "path", "pattern", "url"})
_WHOLE = frozenset({"todos", "plan", "todo_list"})
"""Lists of work, of which nothing may be lost but the ends of long entries."""
_FAILED = re.compile(r"(?i)\W{0,3}(?:error|exit code|fail)")
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


@dataclass(slots=True)
class MessageMaker:
    """Makes messages, one after the other, each later than the one before: so they are in order when they are read."""

    user: str
    """The sender of what the user says."""
    agent: str
    """The sender of what the agent says."""
    agent_name: str
    """What people call the agent."""
    allow_secrets: bool
    last_at: datetime
    masked: int = 0
    """How many messages had what looks like a secret, which is masked."""
    mended: int = field(default=0)
    """How many texts had characters that cannot be stored."""

    def make(self, read: TranscriptMessage, text: str) -> Message:
        """The message with this text in place of its own."""
        arguments: list[Json] = [_fit_argument("", call.arguments, 0) for call in read.calls]
        values: dict[str, Json] = {"text": self._mend(text), "arguments": arguments}
        admitted = admit("capture", values, allow=self.allow_secrets)
        self.masked += admitted is not values
        told = cast("list[Json]", admitted["arguments"])
        at = read.at or self.last_at
        if self.last_at - _SKEW < at <= self.last_at:  # what is much earlier is read again, from the beginning
            at = self.last_at + timedelta(milliseconds=1)
        self.last_at = at
        return Message(
            id=_fit_id(read.id), role=read.role, at=at, text=_shorten(read, cast(str, admitted["text"])),
            sender=self.user if read.role == "user" else "tool" if read.role == "tool" else self.agent,
            name=self.agent_name if read.role == "assistant" else None,
            calls=tuple(self._make_call(*pair) for pair in zip(read.calls, told, strict=True)),
            answers=self._mend(read.answers)[:MAX_KEY] if read.answers else None,
        )  # fmt: skip

    def _make_call(self, call: TranscriptCall, arguments: Json) -> Call:
        text = self._mend(json.dumps(arguments, ensure_ascii=False))
        return Call(id=self._mend(call.id)[:MAX_KEY], name=self._mend(call.name)[:MAX_KEY], arguments=text)

    def _mend(self, text: str) -> str:
        if text.isascii() and "\0" not in text:
            return text
        mended = _UNSTORABLE.sub(lambda found: "" if found[0] == "\0" else "\N{REPLACEMENT CHARACTER}", text)
        self.mended += mended != text
        return mended


def _shorten(read: TranscriptMessage, text: str) -> str:
    if read.role != "tool":
        return cut_middle(text, PROMPT // 2)
    text = cut_middle(text, FAILURE if read.has_failed else RESULT)
    # What the client has noted as a failure reads as one.
    return f"Error: {text}" if read.has_failed and not _FAILED.match(text) else text


def _fit_argument(name: str, value: Json, depth: int) -> Json:
    """An argument in short: what it is about, and not the whole text of a file."""
    if isinstance(value, str):
        return value if len(value) <= ARGUMENT else cut_middle(value, (COMMAND if name in _COMMANDS else ARGUMENT) // 2)
    if depth >= _DEEPEST:
        return None if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        return {key[:ARGUMENT]: _fit_argument(key, item, depth + 1) for key, item in _take(value.items())}
    if isinstance(value, list):
        most = 10 * _MOST if name in _WHOLE else _MOST
        return [_fit_argument(name, item, depth + 1) for item in value[:most]]
    return value if not isinstance(value, int | float) or abs(value) < 2**53 else str(value)[:ARGUMENT]


def _take(items: object) -> Iterator[tuple[str, Json]]:
    for number, pair in enumerate(cast("list[tuple[str, Json]]", items)):
        if number == _MOST:
            return
        yield pair


def _fit_id(identity: str) -> str:
    if identity and len(identity) <= MAX_ID and not _UNSTORABLE.search(identity):
        return identity
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
