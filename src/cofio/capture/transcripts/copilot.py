"""Copilot CLI's transcripts: events as JSON lines, in a folder for each session (as of 1.0).

The first event tells the session and its folder. A tool's call is told by the assistant's message, and its result by an
event of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...values.records import Json
from .transcript_messages import (
    Fields,
    Origin,
    ReadCounts,
    TranscriptCall,
    TranscriptMessage,
    cut_middle,
    get_fields,
    get_list,
    get_text,
    hash_message,
    join_parts,
    parse_arguments,
    parse_time,
)

_PASSED_PREFIXES = ("session.", "hook.", "subagent.", "skill.", "permission.", "mcp.", "model.", "system.", "abort")
_PASSED = frozenset(
    {
        "assistant.turn_start",
        "assistant.turn_end",
        "assistant.message_delta",
        "assistant.reasoning",
        "assistant.reasoning_delta",
        "assistant.intent",
        "assistant.usage",
        "tool.execution_start",
        "tool.execution_progress",
        "tool.execution_partial_result",
        "tool.user_requested",
        "result",
        "pending_messages.modified",
    }
)


def find_files() -> Iterator[Path]:
    """The logs of all sessions; older versions have no folder for each."""
    states = Path(os.environ.get("COPILOT_HOME") or os.path.expanduser("~/.copilot")) / "session-state"
    yield from states.glob("*/events.jsonl")
    yield from states.glob("*.jsonl")


class CopilotParser:
    """Reads the events of a session."""

    def __init__(self, path: Path, state: dict[str, Json]) -> None:
        named = path.parent.name if path.name == "events.jsonl" else path.stem
        self._session = get_text(state, "session") or named
        self._cwd = get_text(state, "cwd")
        self._remote = get_text(state, "remote")

    def parse(self, record: Fields, counts: ReadCounts) -> Iterator[TranscriptMessage]:
        """The messages that an event holds."""
        kind, data = get_text(record, "type"), get_fields(record, "data")
        if kind in ("session.start", "session.resume", "session.context_changed"):
            self._begin(data)
        elif kind in ("user.message", "assistant.message"):
            if (found := self._read_message(kind, data, record)) is not None:
                yield found
        elif kind == "tool.execution_complete":
            yield self._read_result(data, record)
        elif kind not in _PASSED and not kind.startswith(_PASSED_PREFIXES):
            counts.unknown_types[kind or "no type"] += 1

    def finish(self) -> Iterator[TranscriptMessage]:
        """No message is held back."""
        yield from ()

    def dump_state(self) -> dict[str, Json]:
        """What the first event told."""
        return {"session": self._session, "cwd": self._cwd, "remote": self._remote}

    def _begin(self, data: Fields) -> None:
        context = get_fields(data, "context")
        self._session = get_text(data, "sessionId") or self._session
        self._cwd = get_text(context, "cwd") or get_text(data, "cwd") or self._cwd
        if name := get_text(context, "repository"):  # OWNER/NAME
            self._remote = name if "://" in name or "@" in name else f"https://github.com/{name}"

    def _read_message(self, kind: str, data: Fields, record: Fields) -> TranscriptMessage | None:
        is_user = kind == "user.message"
        text = join_parts(data.get("content"), "text")
        asked = [] if is_user else get_list(data, "toolRequests")
        calls = tuple(
            TranscriptCall(
                id=get_text(each, "toolCallId"), name=get_text(each, "name") or "tool",
                arguments=parse_arguments(each.get("arguments")),
            )
            for each in asked
        )  # fmt: skip
        # What a skill or the program itself says in the user's name has a source.
        if (is_user and get_text(data, "source") not in ("", "user")) or not (text.strip() or calls):
            return None
        return TranscriptMessage(
            id=get_text(record, "id") or hash_message(record.get("timestamp"), text),
            role="user" if is_user else "assistant", origin=self._find_origin(data), text=text, calls=calls,
            at=parse_time(record.get("timestamp")),
        )  # fmt: skip

    def _read_result(self, data: Fields, record: Fields) -> TranscriptMessage:
        result, error = get_fields(data, "result"), get_fields(data, "error")
        text = get_text(result, "content") or get_text(error, "message") or get_text(result, "detailedContent")
        return TranscriptMessage(
            id=get_text(record, "id") or hash_message(record.get("timestamp"), text), role="tool",
            origin=self._find_origin(data), text=cut_middle(text), at=parse_time(record.get("timestamp")),
            answers=get_text(data, "toolCallId") or None, has_failed=data.get("success") is False,
        )  # fmt: skip

    def _find_origin(self, data: Fields) -> Origin:
        return Origin(
            session=self._session, cwd=self._cwd or None, remote=self._remote or None,
            is_sidechain=bool(get_text(data, "parentToolCallId")),
        )  # fmt: skip
