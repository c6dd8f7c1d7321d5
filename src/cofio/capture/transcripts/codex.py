"""Codex's transcripts: a rollout of JSON lines a session, in folders by day (as of 0.169).

The first record tells the session, its folder and the repository's remote; later ones may change the folder. Messages,
calls and results are `response_item`s. Each thing is told again as an `event_msg` for the screen, which is passed over.
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
    parse_arguments,
    parse_time,
)

_PASSED = frozenset({"event_msg", "compacted", "world_state", "token_usage_record", "ghost_snapshot"})
_NO_MESSAGE = frozenset(
    {
        "reasoning",
        "ghost_snapshot",
        "web_search_call",
        "compaction",
        "compaction_summary",
        "image_generation_call",
        "other",
    }
)
_NO_PROMPT = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions|turn_aborted|user_shell_command|skill|subagent_\w+"
    r"|collaboration_mode|hook_\w+)[\s>]|# AGENTS\.md instructions for )"
)
_HEADER = re.compile(r"\A(?:[A-Z][\w ]{2,30}(?:: | with code )[^\n]{0,80}\n){1,6}Output:\n")
_EXIT = re.compile(r"(?:Process exited with code|[Ee]xit(?:ed with)? code:?) (-?\d{1,10})\b")


def find_files() -> Iterator[Path]:
    """The rollouts, archived ones too."""
    home = Path(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"))
    yield from (home / "sessions").glob("*/*/*/rollout-*.jsonl")
    yield from (home / "archived_sessions").glob("rollout-*.jsonl")


class CodexParser:
    """Reads the records of a rollout."""

    def __init__(self, path: Path, state: dict[str, Json]) -> None:
        self._session = get_text(state, "session") or path.stem[-36:]
        self._cwd = get_text(state, "cwd")
        self._remote = get_text(state, "remote")
        self._is_sidechain = state.get("sidechain") is True

    def parse(self, record: Fields, counts: ReadCounts) -> Iterator[TranscriptMessage]:
        """The messages that a record holds."""
        kind, payload = get_text(record, "type"), get_fields(record, "payload")
        if kind == "session_meta":
            self._begin(payload)
        elif kind == "turn_context":
            self._cwd = get_text(payload, "cwd") or self._cwd
        elif kind == "response_item":
            if (found := self._read_item(payload, record, counts)) is not None:
                yield found
        elif kind not in _PASSED:
            counts.unknown_types[kind or "no type"] += 1

    def finish(self) -> Iterator[TranscriptMessage]:
        """No message is held back."""
        yield from ()

    def dump_state(self) -> dict[str, Json]:
        """What the first records told."""
        return {
            "session": self._session, "cwd": self._cwd, "remote": self._remote, "sidechain": self._is_sidechain,
        }  # fmt: skip

    def _begin(self, meta: Fields) -> None:
        self._session = get_text(meta, "id") or self._session
        self._cwd = get_text(meta, "cwd") or self._cwd
        self._remote = get_text(get_fields(meta, "git"), "repository_url") or self._remote
        # A thread that another thread has started names it.
        self._is_sidechain = isinstance(meta.get("source"), dict) and "subagent" in get_fields(meta, "source")

    def _read_item(self, item: Fields, record: Fields, counts: ReadCounts) -> TranscriptMessage | None:
        kind = get_text(item, "type")
        at = record.get("timestamp")
        call = get_text(item, "call_id")
        origin = Origin(
            session=self._session, cwd=self._cwd or None, remote=self._remote or None, is_sidechain=self._is_sidechain
        )
        identity = get_text(item, "id") or hash_message(at, kind, call, item.get("content"))
        if kind == "message":
            role, text = get_text(item, "role"), join_parts(item.get("content"), "input_text", "output_text", "text")
            is_theirs = role == "assistant" or (role == "user" and not _is_from_harness(item, text))
            if not is_theirs or not text.strip():
                return None
            return TranscriptMessage(
                id=identity, role="user" if role == "user" else "assistant", text=text, at=parse_time(at), origin=origin
            )  # fmt: skip
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            return TranscriptMessage(
                id=f"{call or identity}-c", role="assistant", at=parse_time(at), origin=origin,
                calls=(TranscriptCall(id=call, name=get_text(item, "name") or kind, arguments=_read_arguments(item)),),
            )  # fmt: skip
        if kind in ("function_call_output", "custom_tool_call_output"):
            text, failed = _read_output(item.get("output"))
            return TranscriptMessage(
                id=f"{call or identity}-r", role="tool", text=cut_middle(text), at=parse_time(at), answers=call or None,
                has_failed=failed, origin=origin,
            )  # fmt: skip
        if kind not in _NO_MESSAGE:
            counts.unknown_types[f"response_item {kind or 'without a type'}"] += 1
        return None


def _is_from_harness(item: Fields, text: str) -> bool:
    """Whether Codex itself wrote a message in the user's name."""
    told = get_fields(item, "internal_chat_message_metadata_passthrough")
    origins = [get_text(get_fields(each, "provenance"), "type") for each in get_list(told, "content_item_metadata")]
    return (bool(origins) and "user" not in origins) or _NO_PROMPT.match(text) is not None


def _read_arguments(item: Fields) -> Json:
    if "arguments" in item:
        return parse_arguments(item["arguments"])
    return item["input"] if "input" in item else dict(get_fields(item, "action"))


def _read_output(output: Json) -> tuple[str, bool | None]:
    """The text of a result, and whether the call failed."""
    failed: bool | None = None
    if isinstance(output, dict):
        failed = output["success"] is False if isinstance(output.get("success"), bool) else None
        output = output.get("content", "")
    text = join_parts(parse_arguments(output), "input_text", "output_text", "text") or join_parts(output, "input_text")
    if isinstance(inner := parse_arguments(text), dict) and "output" in inner:  # as older versions have it
        code = get_fields(inner, "metadata").get("exit_code")
        failed = code != 0 if isinstance(code, int) else failed
        text = get_text(inner, "output")
    if failed is None and (code_told := _EXIT.search(text, 0, 300)):
        failed = code_told[1] != "0"
        # What Codex says of the run itself comes before what the command said.
        text = f"Exit code {code_told[1]}\n{_HEADER.sub('', text)}" if failed else _HEADER.sub("", text)
    return text, failed
