"""What the memory gave back is known in whatever form it comes, and what is left of a message is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cofio.extract.extractor import Extraction, Message, Role
from cofio.extract.rules import Rules

HELD = frozenset({"Rec lives in Oslo.", "Rec loves tea.", "Is allergic to nuts."})


def _extract(text: str, role: Role = "user") -> Extraction:
    at = datetime(2026, 5, 28, tzinfo=UTC)
    messages = [
        Message(id="m", sender="rec" if role == "user" else "bot", role=role, at=at, text=text),
        Message(id="n", sender="rec", at=at, text="I bought a kayak in Bergen."),
    ]
    return Rules().extract(messages, UTC, HELD.__contains__)


@pytest.mark.parametrize(
    "text",
    [
        "Rec lives in Oslo.", "- Rec lives in Oslo", "[Memory] Rec lives in Oslo.", "* **Lives in Oslo.**",
        "1. is allergic to nuts!", "Rec lives in Oslo; Rec loves tea; is allergic to nuts.",
        "## Relevant memories\n- Owns a castle\n- Is a king", "What I know about the user:\n\n- Owns a castle",
        "<memory>Owns a castle.</memory>",
    ],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_was_recalled_is_in_no_record(text: str, role: Role) -> None:
    found = _extract(text, role)
    assert [fact.text for fact in found.facts] == ["Rec bought a kayak in Bergen."]
    assert found.episode is not None
    assert not any(word in found.episode.text for word in ("Oslo", "castle", "nuts", "tea"))
    assert found.own_texts == {"m": ""}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Rec lives in Oslo. I moved to Rome.", "I moved to Rome."),
        ("Known facts:\n- Owns a castle\n## Task\nI moved to Rome.", "## Task\nI moved to Rome."),
        ("Known facts:\n- Owns a castle\n- Is a king\nI moved to Rome.", "I moved to Rome."),
        ("Rec loves tea; I moved to Rome.", "I moved to Rome."),
        ("Look:\n```\nx = 1\n```\nRec loves tea.", "Look:\n```\nx = 1\n```"),
    ],
)
def test_what_is_left_of_a_message_is_told(text: str, left: str) -> None:
    assert _extract(text).own_texts == {"m": left}


@pytest.mark.parametrize(
    "text", ["I moved to Rome.", "What do you know about me?", "Memories:", "I have good memories of Rome."]
)
def test_a_message_that_recalls_nothing_is_not_among_them(text: str) -> None:
    assert "m" not in _extract(text).own_texts or not _extract(text).own_texts["m"]
