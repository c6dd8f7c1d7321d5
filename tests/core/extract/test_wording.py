"""What someone said is told in the third person where that is certain, and quoted where it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Message, Role
from cofio.extract.rules.messages.speakers import get_name, join_names
from cofio.extract.rules.narration.dates import add_dates, format_clock
from cofio.extract.rules.narration.reported_speech import LONGEST, report, to_third_person

SAID = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)  # a Thursday


UNCERTAIN = [
    "I hurt my knee.", "I live in Oslo and work at Acme.", "My sister said I should quit.",
    "My brother and I run a bakery.", "I told them about my plan.", "I think you should go.",
    "If I were rich, I would travel.", 'I said "no".', "I dag flyttet jeg til Oslo.", "I moved to Oslo, Ana.",
    "In my novel, I am a spy.", "I'm Tom.", "I", "",
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I’m a nurse :)", "Ben is a nurse."),
        ("I'd been there before.", "Ben had been there before."),
        ("I really do not like rain.", "Ben really does not like rain."),
        ("I try new food.", "Ben tries new food."),
        ("My sister sold my car.", "Ben's sister sold Ben's car."),
        ("I bought myself a guitar.", "Ben bought themself a guitar."),
        ("Hey Ana, by the way, I moved to Oslo.", "Ben moved to Oslo."),
        ("Please remember that I'm allergic to nuts.", "Ben is allergic to nuts."),
        ("I moved to Oslo and bought a boat.", "Ben moved to Oslo and bought a boat."),
        *((said, None) for said in UNCERTAIN),
    ],
)
def test_only_certain_grammar_is_turned(said: str, expected: str | None) -> None:
    assert to_third_person(said, "Ben", frozenset({"Ana"})) == expected


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ("the day before yesterday", "May 26, 2026"),
        ("last week", "the week of May 18, 2026"),
        ("next month", "June 2026"),
        ("this year", "2026"),
        ("this weekend", "May 30–31, 2026"),
        ("next Sunday", "May 31 or June 7, 2026"),
        ("last Tuesday", "May 19 or 26, 2026"),
        ("I met Bo on Monday", "May 25, 2026"),
        ("It is on Monday", "June 1, 2026"),
        ("2 weeks ago", "the week of May 11, 2026"),
        ("six months ago", "November 2025"),
        ("I'll come in two days", "May 30, 2026"),
    ],
)
def test_a_relative_date_is_followed_by_the_day_it_stands_for(said: str, day: str) -> None:
    assert add_dates(said, SAID) == f"{said} ({day})"


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("I read it in two days", SAID),
        ("I bought tickets for Sunday, on Sunday", SAID),
        ("on Fridays, and yesterday's news", SAID),
        ("yesterday (May 27, 2026)", SAID),
        ('He wrote "see you tomorrow"', SAID),
        ("I start tomorrow", SAID.replace(hour=1)),
        ("yesterday", datetime(1, 1, 1, 12, tzinfo=UTC)),
        ("next week", datetime(9999, 12, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_date_that_is_not_certain_stays_as_it_is(said: str, at: datetime) -> None:
    assert add_dates(said, at) == said


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (UTC, "11:30 AM UTC"),
        (ZoneInfo("America/Sao_Paulo"), "8:30 AM UTC-03"),
        (timezone(timedelta(hours=12, minutes=45)), "12:15 AM UTC+12:45"),
    ],
)
def test_a_time_is_told_by_the_clock_of_its_zone(zone: ZoneInfo | timezone, expected: str) -> None:
    assert format_clock(SAID.astimezone(zone)) == expected


@pytest.mark.parametrize(
    ("sender", "name", "role", "expected"),
    [
        ("alice", "Alice Liddell", "user", "Alice Liddell"),
        ("user_42", " \n ", "user", "user_42"),
        ("assistant", None, "user", "Assistant"),
        ("gpt-4o", None, "assistant", "the assistant"),
        ("kettle-bot", None, "assistant", "kettle-bot"),
    ],
)
def test_people_are_called_by_their_names(sender: str, name: str | None, role: Role, expected: str) -> None:
    assert get_name(Message(id="m", sender=sender, name=name, role=role, at=SAID)) == expected
    assert join_names([f"P{n}" for n in range(9)]) == "P0, P1, P2, P3, P4 and 4 others"


@given(st.text(max_size=200) | st.lists(st.sampled_from(
    ["I", "my", "am", "love", "and", "work", "yesterday", "on Friday", "Oslo", "you", "'", '"', ",", ".", "?", "😀",
        "don't", "I'm"]
)).map(" ".join))  # fmt: skip
def test_whatever_is_told_names_the_speaker_and_is_not_too_long(said: str) -> None:
    found = report(said, "Ben", SAID)
    assert "Ben" in found
    assert len(found) <= LONGEST
    assert found == report(said, "Ben", SAID)
