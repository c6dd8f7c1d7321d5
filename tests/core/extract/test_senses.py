"""What people type as they type it is kept in their words, and what tells nothing is not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cofio.extract.extractor import Extraction, Message
from cofio.extract.profiles import INSTRUCTION_CATEGORY
from cofio.extract.rules import Rules


def _extract(text: str) -> Extraction:
    message = Message(id="m", sender="kim", name="Kim", at=datetime(2026, 5, 11, 9, tzinfo=UTC), text=text)
    return Rules().extract([message], UTC, lambda _: False)


@pytest.mark.parametrize(
    ("said", "category", "description"),
    [
        ("gym mon wed fri before work", "Habits", "Gym mon wed fri before work."),
        ("I take metformin for diabetes", "Health", "Takes metformin for diabetes."),
        ("mein hund heißt krümel", "Pets", "Mein hund heißt krümel."),
        ("我不吃辣", "Diet", "我不吃辣。"),
    ],
)
def test_a_statement_stands_in_the_profile_as_it_was_said(said: str, category: str, description: str) -> None:
    (entry,) = _extract(said).profiles["kim"]
    assert (entry.category, entry.description, entry.ended) == (category, description, False)


def test_what_ended_is_known_as_ended() -> None:
    (entry,) = _extract("quit the gym, too packed").profiles["kim"]
    assert entry.ended


@pytest.mark.parametrize("said", ["bullet points pls, always", "Don't use emojis when you talk to me."])
def test_an_instruction_is_kept_word_for_word(said: str) -> None:
    (entry,) = _extract(said).profiles["kim"]
    assert (entry.category, entry.description) == (INSTRUCTION_CATEGORY, said)


@pytest.mark.parametrize(
    "said", ["write me a limerick", "if i won the lottery id buy an island", "so bored rn", "鸡蛋要煮几分钟？"]
)
def test_requests_hypotheses_moods_and_questions_leave_nothing(said: str) -> None:
    found = _extract(said)
    assert not found.facts
    assert not found.profiles


def test_what_was_given_up_for_something_else_leaves_both() -> None:
    past, present = _extract("ditched notion for anytype").profiles["kim"]
    assert (past.description, past.ended) == ("Ditched notion.", True)
    assert (present.description, present.ended) == ("Anytype.", False)


def test_what_is_told_before_a_question_reaches_the_profile_without_it() -> None:
    (entry,) = _extract("I own a harpsichord, does one insure it separately?").profiles["kim"]
    assert (entry.category, entry.description) == ("Possessions", "Owns a harpsichord.")


def test_a_text_that_is_shown_gives_no_entry() -> None:
    assert not _extract("FOR SALE: walnut bedroom set, gently used. I live in Phoenix.").profiles


def test_what_is_on_one_day_is_no_entry() -> None:
    assert not _extract("I have two tickets for the show on Saturday.").profiles
