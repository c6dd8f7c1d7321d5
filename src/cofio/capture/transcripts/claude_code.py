"""Claude Code's transcripts: a file of JSON lines a session, in a folder for each project (as of 2.1).

A record has its own `uuid`, and the session, folder and time. Tool results stand in records of the user's. What goes
between agents has `isSidechain`, or is in the folder `subagents` beside.
"""

from __future__ import annotations

import os
import re
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
    parse_time,
)

_PASSED = frozenset(
    {
        "summary",
        "system",
        "file-history-snapshot",
        "queue-operation",
        "attachment",
        "last-prompt",
        "progress",
        "custom-title",
        "ai-title",
        "tag",
        "agent-name",
        "agent-color",
        "agent-setting",
        "mode",
        "pr-link",
        "speculation-accept",
        "content-replacement",
        "permission-mode",
        "worktree-state",
        "task-summary",
        "marble-origami-commit",
        "marble-origami-snapshot",
    }
)
"""Types of records that hold no message."""
_TAGS = re.compile(r"</?tool_use_error>")
_NO_PROMPT = re.compile(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-\w+|bash-(?:input|stdout|stderr)|task-notification"
    r"|user-memory-input|teammate-message)[\s>]|Caveat: The messages below|\[Request interrupted by user)"
)


def find_files() -> Iterator[Path]:
    """The transcripts, sub-agents' aside."""
    home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    yield from Path(home, "projects").glob("*/*.jsonl")


class ClaudeCodeParser:
    """Reads the records of Claude Code. Each is whole, so that nothing need be known of those before."""

    def __init__(self, path: Path, state: dict[str, Json]) -> None:
        self._session = path.stem

    def parse(self, record: Fields, counts: ReadCounts) -> Iterator[TranscriptMessage]:
        """The messages that a record holds."""
        kind = get_text(record, "type")
        if kind not in ("user", "assistant"):
            if kind not in _PASSED:
                counts.unknown_types[kind or "no type"] += 1
            return
        if record.get("isMeta") is True or record.get("isCompactSummary") is True:
            return
        message = get_fields(record, "message")
        content = message.get("content")
        parts = get_list(message, "content")
        calls = tuple(_read_call(part) for part in parts if part.get("type") == "tool_use")
        # A session that was forked begins with another's messages, which belong to that.
        fork = get_fields(record, "forkedFrom")
        origin = Origin(
            session=get_text(fork, "sessionId") or get_text(record, "sessionId") or self._session,
            cwd=get_text(record, "cwd") or None, is_sidechain=record.get("isSidechain") is True,
        )  # fmt: skip
        identity = get_text(fork, "messageUuid") or get_text(record, "uuid")
        at = parse_time(record.get("timestamp"))
        found = TranscriptMessage(
            id=identity or hash_message(record.get("timestamp"), kind, content), origin=origin, at=at,
            role="assistant" if kind == "assistant" else "user", text=join_parts(content, "text"),
            calls=calls if kind == "assistant" else (),
        )  # fmt: skip
        for number, part in enumerate(part for part in parts if part.get("type") == "tool_result"):
            yield TranscriptMessage(
                id=f"{found.id}-r{number or ''}", role="tool", origin=origin, at=at,
                text=cut_middle(_TAGS.sub("", join_parts(part.get("content"), "text"))),
                answers=get_text(part, "tool_use_id") or None,
                has_failed=part.get("is_error") is True,
            )  # fmt: skip
        if (found.text.strip() and not _NO_PROMPT.match(found.text)) or found.calls:
            yield found

    def finish(self) -> Iterator[TranscriptMessage]:
        """No message is held back."""
        yield from ()

    def dump_state(self) -> dict[str, Json]:
        """Nothing is needed."""
        return {}


def _read_call(part: Fields) -> TranscriptCall:
    return TranscriptCall(id=get_text(part, "id"), name=get_text(part, "name") or "tool", arguments=part.get("input"))
