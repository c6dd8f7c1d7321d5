"""What people show, quote or play is not taken for what they say of themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cofio.extract.extractor import Extraction, Message
from cofio.extract.rules import Rules

START = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)
OWN = "My name is Robert and I am a soldier. I live in Verdun."


def _extract(*said: tuple[str, str]) -> Extraction:
    messages = [
        Message(
            id=f"m{n}", sender=who, role="assistant" if who == "assistant" else "user", at=START + timedelta(minutes=n),
            text=text,
        )
        for n, (who, text) in enumerate(said)
    ]  # fmt: skip
    return Rules().extract(messages, UTC, lambda _: False)


@pytest.mark.parametrize(
    "cue",
    ["Can you check my essay?", "Translate this into French.", "Here's the transcript.", "Paul wrote:", "Lyrics:",
     "---------- Forwarded message ---------", "Make a table of the following:", "Dear Mr. Hill,", "Subject: Hello"],
)  # fmt: skip
def test_a_text_that_someone_shows_tells_nothing_of_them(cue: str) -> None:
    found = _extract(("sue", f"{cue}\n\n{OWN}"))
    assert not found.profiles
    assert not [fact.text for fact in found.facts if "Robert" in fact.text or "Verdun" in fact.text]
    assert found.episode is not None
    assert f'Sue shared a text: "{OWN}"' in found.episode.text


def test_a_text_may_stand_before_the_request_or_come_in_the_next_message() -> None:
    assert not _extract(("sue", f"{OWN}\n\nCan you proofread this?")).profiles
    sent = _extract(("sue", "Can you check my essay?"), ("assistant", "Sure, please paste it."), ("sue", OWN))
    assert not sent.profiles
    assert not sent.facts
    long = _extract(("sue", f"Translate this:\n{OWN * 20}")).episode
    assert long is not None
    assert len(long.text) < 400


@pytest.mark.parametrize(
    "said",
    ["Can you check my calendar? I live in Oslo.", "Please remember the following:\nI live in Oslo.",
     "Fix this bug. I live in Oslo.", "Translate it please", "You are the best and I'm the worst. I live in Oslo.",
     "Facts about me:\n- I live in Oslo.", "I'm in Oslo and you are in Rome. I live in Oslo."],
)  # fmt: skip
def test_other_requests_leave_the_words_of_the_speaker_alone(said: str) -> None:
    found = _extract(("ben", said), ("assistant", "Done."), ("ben", "I live in Oslo."))
    assert [entry.description for entry in found.profiles["ben"]][-1] == "Lives in Oslo."
    assert "Ben lives in Oslo." in [fact.text for fact in found.facts]


@pytest.mark.parametrize(
    "cue",
    [
        "Let's role-play!",
        "Pretend you are a dragon.",
        "You are a captain, I am a pirate.",
        "Imagine you are my teacher.",
    ],
)
def test_a_part_that_someone_plays_tells_nothing_until_the_game_is_over(cue: str) -> None:
    play = (("kim", f"{cue} I live in Tortuga."), ("assistant", "Ahoy!"), ("kim", "I have a parrot called Coins."))
    found = _extract(*play)
    assert not found.profiles
    assert not found.facts
    assert found.episode is not None
    assert 'Kim said: "I have a parrot called Coins."' in found.episode.text
    over = _extract(*play, ("kim", "Back to reality. I live in Ghent."), ("eva", "I live in Bonn."))
    assert [fact.text for fact in over.facts] == ["Kim lives in Ghent.", "Eva lives in Bonn."]
