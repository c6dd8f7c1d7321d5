"""Gemini CLI's transcripts: a log of JSON lines a session, or one JSON value as older versions wrote (as of 0.61).

A message is written again, whole, each time something is added to it; `$rewindTo` takes back a message and all after
it; `$set` replaces fields, and the messages with them when the context is compressed. So what was read is held until
the end.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ...extract.extractor import Role
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
    join_parts,
    parse_time,
)

_PASSED = frozenset({"info", "error", "warning"})
_FINAL = frozenset({"success", "error", "cancelled"})
_REGISTRY = 1 << 20  # bytes of the file that names the projects' folders
_SIGNS = ("/", "?", "<session_context>")  # with which begins what is no prompt


def find_files() -> Iterator[Path]:
    """The logs of all projects, sub-agents' aside; the older form only where there is no newer."""
    for chats in (_find_home() / "tmp").glob("*/chats"):
        yield from chats.glob("session-*.jsonl")
        yield from (old for old in chats.glob("session-*.json") if not old.with_suffix(".jsonl").exists())


def _find_home() -> Path:
    return Path(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def find_folder(path: Path) -> str | None:
    """The folder of the project whose log it is: by the name that Gemini gave it, or by a digest of the folder."""
    project = path.parent.parent
    try:
        root = read_file(project / ".project_root", limit=_REGISTRY, follow=True)
        if root is not None and os.path.isabs(folder := os.fsdecode(root.strip())):
            return folder
        registry = json.loads(read_file(_find_home() / "projects.json", limit=_REGISTRY, follow=True) or b"{}")
    except (OSError, ValueError, RecursionError, Unavailable):
        return None
    projects = registry.get("projects") if isinstance(registry, dict) else None
    for folder, name in projects.items() if isinstance(projects, dict) else ():
        if project.name in (name, hashlib.sha256(folder.encode()).hexdigest()):
            return str(folder)
    return None


class GeminiParser:
    """Reads the records of a log."""

    def __init__(self, path: Path, state: dict[str, Json]) -> None:
        self._session = get_text(state, "session") or path.stem
        self._cwd = get_text(state, "cwd") or find_folder(path) or ""
        self._is_sidechain = state.get("sidechain") is True
        self._messages: dict[str, Fields] = {}

    def parse(self, record: Fields, counts: ReadCounts) -> Iterator[TranscriptMessage]:
        """Nothing yet: a later record may change what this one holds."""
        if isinstance(target := record.get("$rewindTo"), str):
            names = [*self._messages]
            for name in names[names.index(target) :] if target in self._messages else names:
                del self._messages[name]
        elif isinstance(record.get("id"), str):
            if get_text(record, "type") in ("user", "gemini"):
                self._messages[get_text(record, "id")] = record
            elif get_text(record, "type") not in _PASSED:
                counts.unknown_types[get_text(record, "type") or "no type"] += 1
        elif "$set" in record or "sessionId" in record:
            self._set_fields(get_fields(record, "$set") or record)
        else:
            counts.unknown_types["no type"] += 1
        yield from ()

    def finish(self) -> Iterator[TranscriptMessage]:
        """Each message as it was last written, with its calls that have ended."""
        for message in self._messages.values():
            yield from self._read_message(message)
        self._messages.clear()

    def dump_state(self) -> dict[str, Json]:
        """What the first record told."""
        return {"session": self._session, "cwd": self._cwd, "sidechain": self._is_sidechain}

    def _set_fields(self, fields: Fields) -> None:
        self._session = get_text(fields, "sessionId") or self._session
        self._is_sidechain = self._is_sidechain or get_text(fields, "kind") == "subagent"
        folders = fields.get("directories")
        if not self._cwd and isinstance(folders, list) and folders and isinstance(folders[0], str):
            self._cwd = folders[0]
        # A compressed context is the model's own words, in which what was said before is lost: what was read stays.
        for message in get_list(fields, "messages"):
            if "$set" not in fields and get_text(message, "id") and get_text(message, "type") in ("user", "gemini"):
                self._messages.setdefault(get_text(message, "id"), message)

    def _read_message(self, message: Fields) -> Iterator[TranscriptMessage]:
        origin = Origin(session=self._session, cwd=self._cwd or None, is_sidechain=self._is_sidechain)
        identity, at = get_text(message, "id"), parse_time(message.get("timestamp"))
        is_user = get_text(message, "type") == "user"
        text = join_parts(message.get("content"), "text")
        if text.strip() and not (is_user and text.lstrip().startswith(_SIGNS)):
            role: Role = "user" if is_user else "assistant"
            yield TranscriptMessage(id=identity, role=role, origin=origin, text=text, at=at)
        for call in get_list(message, "toolCalls"):
            status, name = get_text(call, "status"), get_text(call, "id") or get_text(call, "name")
            if status not in _FINAL:
                continue
            when = parse_time(call.get("timestamp")) or at
            asked = TranscriptCall(id=name, name=get_text(call, "name") or "tool", arguments=call.get("args"))
            yield TranscriptMessage(id=f"{identity}-{name}-c", role="assistant", origin=origin, calls=(asked,), at=when)
            yield TranscriptMessage(
                id=f"{identity}-{name}-r", role="tool", origin=origin, at=when, answers=name,
                text=cut_middle(_read_result(call)), has_failed=status == "error",
            )  # fmt: skip


def _read_result(call: Fields) -> str:
    """The text of a call's result: what the model was given, else what the screen was."""
    texts: list[str] = []
    for part in get_list(call, "result"):
        response = get_fields(get_fields(part, "functionResponse"), "response")
        texts.append(get_text(response, "output") or get_text(response, "error") or get_text(part, "text"))
    return "\n".join(each for each in texts if each) or get_text(call, "resultDisplay")
