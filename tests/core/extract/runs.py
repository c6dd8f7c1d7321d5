"""Builders of agents' runs: what is asked, what the tools are called with, what they say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cofio.extract.extractor import Call, Case, Message, Role
from cofio.extract.rules.agent_runs.cases import find_cases

START = datetime(2026, 6, 1, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What someone says, or the calls of an assistant: name, arguments and result each."""

    role: Role
    text: str = ""
    made: tuple[tuple[str, object, object], ...] = ()


def user(text: str) -> Turn:
    """A word of the user."""
    return Turn(role="user", text=text)


def says(text: str) -> Turn:
    """A word of the assistant."""
    return Turn(role="assistant", text=text)


def calls(*made: tuple[str, object, object]) -> Turn:
    """Tool calls of one message: name, arguments and result each; a result of None never comes."""
    return Turn(role="assistant", made=made)


def run(*turns: Turn) -> list[Message]:
    """The messages of a run."""
    messages: list[Message] = []

    def add(role: Role, text: str, made: Sequence[Call] = (), answers: str | None = None) -> None:
        sender = {"user": "ana", "assistant": "agent", "tool": "tools"}[role]
        at = START + timedelta(seconds=20 * len(messages))
        number = f"m{len(messages) + 1}"
        messages.append(
            Message(id=number, sender=sender, role=role, at=at, text=text, calls=tuple(made), answers=answers)
        )

    for turn in turns:
        made = [
            Call(id=f"c{len(messages)}-{number}", name=name, arguments=_text(arguments))
            for number, (name, arguments, _) in enumerate(turn.made)
        ]
        add(turn.role, turn.text, made)
        for call, (_, _, result) in zip(made, turn.made, strict=True):
            if result is not None:
                add("tool", _text(result), answers=call.id)
    return messages


def case(messages: Sequence[Message]) -> Case | None:
    """The first case of a conversation."""
    return next(iter(find_cases(messages, UTC)), None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
