"""Cursor's transcripts: JSON lines of an agent's session, in a folder for each project (as of 2026).

A line has a role and parts, and neither an id nor a time: an id is made of what is said and of all that was said
before, and the time is that of the file. The folder's name tells the project's folder ambiguously, so it counts only if
a file beside it, or the disk, says which one is meant.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...system.safe_files import read_file
from ...values.errors import Unavailable
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

_TRUST = 1 << 16  # bytes of the file that names a project's folder
_DEEPEST, _MOST = 24, 5_000  # folders that are looked at for one name
_SLUG = re.compile(r"[^A-Za-z0-9]+")
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_TIME = re.compile(r"<timestamp>[^<]{0,200}</timestamp>\s*")


def find_files() -> Iterator[Path]:
    """The transcripts of all projects, sub-agents' aside."""
    projects = Path(os.environ.get("CURSOR_CONFIG_DIR") or os.path.expanduser("~/.cursor")) / "projects"
    yield from projects.glob("*/agent-transcripts/*.jsonl")
    yield from projects.glob("*/agent-transcripts/*/*.jsonl")


def find_folder(path: Path) -> str | None:
    """The folder of the project whose transcript it is; None if that cannot be told."""
    project = next((each for each in path.parents if each.parent.name == "projects"), None)
    if project is None:
        return None
    try:
        trusted = json.loads(read_file(project / ".workspace-trusted", limit=_TRUST, follow=True) or b"{}")
    except (OSError, ValueError, RecursionError, Unavailable):
        trusted = {}
    named = trusted.get("workspacePath") if isinstance(trusted, dict) else None
    return named if isinstance(named, str) and os.path.isabs(named) else _find_on_disk(project.name)


def _find_on_disk(name: str) -> str | None:
    """The one folder whose path becomes this name when all but letters and digits become `-`."""
    found: list[str] = []
    waiting = [os.sep]
    for _ in range(_MOST):
        if not waiting or len(found) > 1:
            break
        folder = waiting.pop()
        try:
            entries = [each.path for each in os.scandir(folder) if each.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for each in entries:
            slug = _SLUG.sub("-", each).strip("-")
            if slug == name:
                found.append(each)
            elif name.startswith(f"{slug}-") and each.count(os.sep) < _DEEPEST:
                waiting.append(each)
    return found[0] if len(found) == 1 else None


class CursorParser:
    """Reads the lines of a session."""

    def __init__(self, path: Path, state: dict[str, Json]) -> None:
        self._session = path.stem
        self._last = get_text(state, "last")
        self._cwd = get_text(state, "cwd") or find_folder(path) or ""
        try:
            self._at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except (OSError, ValueError, OverflowError):
            self._at = datetime.now(UTC)

    def parse(self, record: Fields, counts: ReadCounts) -> Iterator[TranscriptMessage]:
        """The messages that a line holds."""
        role, message = get_text(record, "role"), get_fields(record, "message")
        if role not in ("user", "assistant", "tool"):
            if get_text(record, "type") != "turn_ended":
                counts.unknown_types[role or get_text(record, "type") or "no role"] += 1
            return
        content = message.get("content", record.get("content"))
        parts = get_list({"content": content}, "content")
        self._last = hash_message(self._last, role, content)
        self._at += timedelta(milliseconds=1)
        at = parse_time(record.get("timestamp")) or self._at
        text = join_parts(content, "text")
        origin = Origin(session=self._session, cwd=self._cwd or None)
        for number, part in enumerate(part for part in parts if part.get("type") == "tool_result"):
            yield TranscriptMessage(
                id=f"{self._last}-{number}", role="tool", origin=origin, at=at,
                text=cut_middle(join_parts(part.get("content"), "text")), answers=get_text(part, "tool_use_id") or None,
                has_failed=part.get("is_error") is True,
            )  # fmt: skip
        calls = tuple(
            TranscriptCall(
                id=get_text(part, "id") or f"{self._last}-{number}", name=get_text(part, "name") or "tool",
                arguments=part.get("input"),
            )
            for number, part in enumerate(part for part in parts if part.get("type") == "tool_use")
        )  # fmt: skip
        if role == "user":
            text = "\n\n".join(_QUERY.findall(text)) or _TIME.sub("", text)
        if role != "tool" and (text.strip() or calls):
            yield TranscriptMessage(
                id=self._last, role="user" if role == "user" else "assistant", origin=origin, text=text, at=at,
                calls=calls if role == "assistant" else (),
            )  # fmt: skip

    def finish(self) -> Iterator[TranscriptMessage]:
        """No message is held back."""
        yield from ()

    def dump_state(self) -> dict[str, Json]:
        """The id that the next is made with."""
        return {"last": self._last, "cwd": self._cwd}
