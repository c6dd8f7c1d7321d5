"""Secrets are masked in all that is made of what was said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cofio.extract.extractor import Message
from cofio.extract.rules import Rules

KEY = "sk-proj-Zk3vQ8mB2xT7nLw9RfYc4HdJ6sPa1Gu0"
TOKEN = "ghp_A8kd72LmQz0VbXy91RtWc4EfGh56JiKlMnOp"  # drawn by chance


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (f"My keys are {KEY} and {TOKEN}.", "Sid's keys are *** and ***."),
        ("My wifi password is Tr0ub4dor&3x.", "Sid's wifi password is ***."),
        (f"I pushed {TOKEN} to the repository by mistake.", "Sid pushed *** to the repository by mistake."),
        ("My password is hard to remember.", "Sid's password is hard to remember."),
        ("My pin is 4821.", "Sid's pin is ***."),
    ],
)
def test_a_secret_is_told_as_stars(text: str, fact: str) -> None:
    at = datetime(2026, 5, 28, tzinfo=UTC)
    found = Rules().extract([Message(id="m", sender="sid", at=at, text=text)], UTC, lambda _: False)
    assert [one.text for one in found.facts] == [fact]
    assert found.episode is not None
    assert fact in found.episode.text
    for secret in (KEY, TOKEN, "Tr0ub4dor", "3x"):
        assert secret not in repr(found)
    many = " ".join(f"sk-proj-Zk3vQ8mB2xT7nLw9RfYc4HdJ6sPa1G{n:02}x" for n in range(60))
    found = Rules().extract([Message(id="m", sender="sid", at=at, text=f"I use {many}.")], UTC, lambda _: False)
    assert "Zk3vQ8" not in repr(found)
