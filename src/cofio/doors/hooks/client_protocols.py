"""What each coding agent says to a hook, and what it lets a hook say: its events, its names, its JSON.

As their own pages and sources had it in November 2026. An event at which a client takes no context, and at which
nothing is to be captured, is not asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ...values.records import Json

LONGEST_NAME = 4096
"""Characters of a session's name or a path."""
LONGEST_PROMPT = 20_000
"""Characters of a prompt that are looked at; more say no more of what it is about."""


class Moment(StrEnum):
    """What a hook is run for."""

    START = "start"
    PROMPT = "prompt"
    EDIT = "edit"
    COMPACT = "compact"
    STOP = "stop"
    END = "end"


TELLING = frozenset({Moment.START, Moment.PROMPT, Moment.EDIT})
"""The moments at which an agent waits to be told something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """An event of a client, in the same words for all of them."""

    moment: Moment
    name: str
    """What the client calls it."""
    session: str
    folder: str
    """Where the agent works; empty when the client does not say."""
    prompt: str = ""
    file: str = ""
    """What is about to be edited."""
    transcript: str = ""
    """Where the client keeps what was said; empty when it does not say."""
    source: str = ""
    """How a session starts: startup, resume, clear, compact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookClient:
    """A coding agent that runs hooks."""

    name: str
    events: Mapping[str, Moment]
    """The moment that each of its events is."""
    answer: Callable[[HookEvent, str], Json]
    """What it is to be told so that a text is part of its model's context."""
    heard: frozenset[Moment]
    """The moments at which it takes a text."""

    def parse(self, payload: Mapping[str, object], event: str = "") -> HookEvent | None:
        """The event of what the client wrote; None for one that is none of ours."""
        name = event or _find_text(payload, "hook_event_name", "hookEventName", "event")
        moment = self.events.get(name)
        session = _find_text(payload, "session_id", "sessionId", "conversation_id")
        if moment is None or not session or len(session) > LONGEST_NAME:
            return None
        return HookEvent(
            moment=moment, name=name, session=session, folder=_find_folder(payload),
            prompt=_make_storable(_find_text(payload, "prompt", "initial_prompt", "initialPrompt")[:LONGEST_PROMPT]),
            file=_find_file(payload.get("tool_input")),
            transcript=_find_text(payload, "transcript_path", "transcriptPath"),
            source=_find_text(payload, "source"),
        )  # fmt: skip

    def render(self, event: HookEvent, text: str) -> bytes:
        """The client's JSON that puts a text into its model's context; nothing where it takes none."""
        if not text or event.moment not in self.heard:
            return b""
        # Only ASCII goes out: a client that decodes by another code page reads the same.
        return json.dumps(self.answer(event, text)).encode("ascii")


def _find_text(payload: Mapping[str, object], *names: str) -> str:
    return next((value for name in names if isinstance(value := payload.get(name), str) and value), "")


def _make_storable(text: str) -> str:
    """A text with a sign for what cannot be looked for: halves of characters, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _find_folder(payload: Mapping[str, object]) -> str:
    """Where the agent works: as it says, or the first of the folders that an editor has open."""
    roots = payload.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else ""
    return (_find_text(payload, "cwd") or (first if isinstance(first, str) else ""))[:LONGEST_NAME]


def _find_file(arguments: object) -> str:
    """The file that a tool is to change."""
    if not isinstance(arguments, dict):
        return ""
    return _find_text(arguments, "file_path", "notebook_path", "filePath", "path")[:LONGEST_NAME]


def _answer_specifically(event: HookEvent, text: str) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _answer_cursor(event: HookEvent, text: str) -> Json:
    # At a prompt, Cursor 3.20 takes a context that its page does not mention; others pass over it, and go on.
    goes_on: dict[str, Json] = {"continue": True} if event.moment is Moment.PROMPT else {}
    return {**goes_on, "additional_context": text}


HOOK_CLIENTS: Mapping[str, HookClient] = {
    client.name: client
    for client in (
        HookClient(
            name="claude-code",
            events={
                "SessionStart": Moment.START, "UserPromptSubmit": Moment.PROMPT, "PreToolUse": Moment.EDIT,
                "PreCompact": Moment.COMPACT, "Stop": Moment.STOP, "SessionEnd": Moment.END,
            },
            answer=_answer_specifically, heard=frozenset({Moment.START, Moment.PROMPT, Moment.EDIT}),
        ),
        HookClient(
            name="codex",
            events={
                "SessionStart": Moment.START, "UserPromptSubmit": Moment.PROMPT, "PreCompact": Moment.COMPACT,
                "Stop": Moment.STOP,
            },
            answer=_answer_specifically, heard=frozenset({Moment.START, Moment.PROMPT}),
        ),
        HookClient(
            name="cursor",
            events={
                "sessionStart": Moment.START, "beforeSubmitPrompt": Moment.PROMPT, "preCompact": Moment.COMPACT,
                "stop": Moment.STOP, "sessionEnd": Moment.END,
            },
            answer=_answer_cursor, heard=frozenset({Moment.START, Moment.PROMPT}),
        ),
        # Its PreCompress fires at every prompt, whether anything is compressed or not.
        HookClient(
            name="gemini",
            events={
                "SessionStart": Moment.START, "BeforeAgent": Moment.PROMPT, "AfterAgent": Moment.STOP,
                "SessionEnd": Moment.END,
            },
            answer=_answer_specifically, heard=frozenset({Moment.START, Moment.PROMPT}),
        ),
        # What its userPromptSubmitted answers is not read.
        HookClient(
            name="copilot",
            events={
                "sessionStart": Moment.START, "preCompact": Moment.COMPACT, "agentStop": Moment.STOP,
                "sessionEnd": Moment.END,
            },
            answer=lambda event, text: {"additionalContext": text}, heard=frozenset({Moment.START}),
        ),
        # OpenCode runs no commands: a plugin of ours does, which says what we like.
        HookClient(
            name="opencode",
            events={
                "SessionStart": Moment.START, "UserPromptSubmit": Moment.PROMPT, "PreToolUse": Moment.EDIT,
                "PreCompact": Moment.COMPACT, "Stop": Moment.STOP,
            },
            answer=lambda event, text: {"additionalContext": text},
            heard=frozenset({Moment.START, Moment.PROMPT}),
        ),
    )
}  # fmt: skip
"""The coding agents that hooks can be installed into, by name."""
