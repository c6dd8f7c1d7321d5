"""What someone said is told in the third person where that is certain, and quoted where it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Message
from cofio.extract.rules.messages.speakers import get_name, join_names
from cofio.extract.rules.narration.dates import add_dates, format_clock
from cofio.extract.rules.narration.reported_speech import LONGEST, report, to_third_person

SAID = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I love climbing in Yosemite every spring.", "Ben loves climbing in Yosemite every spring."),
        ("My favorite coffee shop is Blue Bottle in SOMA.", "Ben's favorite coffee shop is Blue Bottle in SOMA."),
        ("I'm a nurse!", "Ben is a nurse."),
        ("I’m a nurse :)", "Ben is a nurse."),
        ("I've lived in Bergen for years", "Ben has lived in Bergen for years."),
        ("I'd love to visit Japan.", "Ben would love to visit Japan."),
        ("I'd been there before.", "Ben had been there before."),
        ("I'll call my mom.", "Ben will call their mom."),
        ("I don't eat meat.", "Ben doesn't eat meat."),
        ("I have never been to Rome.", "Ben has never been to Rome."),
        ("I really do not like rain.", "Ben really does not like rain."),
        ("I also play the cello.", "Ben also plays the cello."),
        ("I watch birds, fix clocks.", None),
        ("I try new food.", "Ben tries new food."),
        ("I go home early.", "Ben goes home early."),
        ("I was ill.", "Ben was ill."),
        ("I hurt my knee.", None),
        ("My sister calls me every Sunday.", "Ben's sister calls Ben every Sunday."),
        ("My sister sold my car.", "Ben's sister sold Ben's car."),
        ("I bought myself a guitar.", "Ben bought themself a guitar."),
        ("Actually, no, I moved to Oslo.", "Ben moved to Oslo."),
        ("Hey Ana, by the way, I moved to Oslo.", "Ben moved to Oslo."),
        ("Please remember that I'm allergic to nuts.", "Ben is allergic to nuts."),
        ("Last year I moved to Oslo.", "Last year Ben moved to Oslo."),
        ("I live in Oslo and work at Acme.", None),
        ("I live in Oslo and volunteer at a shelter.", None),
        ("I am a nurse and live in Oslo.", None),
        ("I love coffee and tea.", "Ben loves coffee and tea."),
        ("I moved to Oslo and bought a boat.", "Ben moved to Oslo and bought a boat."),
        ("My sister said I should quit.", None),
        ("My brother and I run a bakery.", None),
        ("I told them about my plan.", None),
        ("I think you should go.", None),
        ("We should meet at noon.", None),
        ("If I were rich, I would travel.", None),
        ("I wish it were June.", None),
        ('I said "no".', None),
        ("I grok it.", None),
        ("I dag flyttet jeg til Oslo.", None),
        ("I fred og ro drikker jeg te.", None),
        ("I Danmark er det fint.", None),
        ("I moved to Oslo, Ana.", None),
        ("I moved to Oslo, Norway.", "Ben moved to Oslo, Norway."),
        ("In my novel, I am a spy.", None),
        ("I'm Tom.", None),
        ("I", None),
        ("", None),
    ],
)
def test_only_certain_grammar_is_turned(said: str, expected: str | None) -> None:
    assert to_third_person(said, "Ben", frozenset({"Ana"})) == expected


def test_what_is_not_about_the_speaker_is_quoted() -> None:
    assert report("The meeting is on Friday.", "Ana", SAID) == 'Ana said: "The meeting is on Friday [May 29, 2026]."'
    assert report("We meet tomorrow.", "Ana", SAID) == 'Ana said: "We meet tomorrow [May 29, 2026]."'
    assert report('I said "go".', "Ana", SAID) == "Ana said: \"I said 'go'.\""
    assert report("jeg bor i Oslo", "Ana", SAID) == 'Ana said: "jeg bor i Oslo".'
    assert report("I booked it.", "the assistant", SAID) == "The assistant booked it."


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("today", "today (May 28, 2026)"),
        ("the day before yesterday", "the day before yesterday (May 26, 2026)"),
        ("last night", "last night (May 27, 2026)"),
        ("tomorrow morning", "tomorrow morning (May 29, 2026)"),
        ("last week", "last week (the week of May 18, 2026)"),
        ("next month", "next month (June 2026)"),
        ("last month", "last month (April 2026)"),
        ("this year", "this year (2026)"),
        ("this weekend", "this weekend (May 30–31, 2026)"),
        ("last Friday", "last Friday (May 22, 2026)"),
        ("next Friday", "next Friday (June 5, 2026)"),
        ("next Sunday", "next Sunday (May 31 or June 7, 2026)"),
        ("next Monday", "next Monday (June 1, 2026)"),
        ("last Tuesday", "last Tuesday (May 19 or 26, 2026)"),
        ("I met Bo on Monday", "I met Bo on Monday (May 25, 2026)"),
        ("It is on Monday", "It is on Monday (June 1, 2026)"),
        ("red since Monday", "red since Monday (May 25, 2026)"),
        ("three days ago", "three days ago (May 25, 2026)"),
        ("2 weeks ago", "2 weeks ago (the week of May 11, 2026)"),
        ("six months ago", "six months ago (November 2025)"),
        ("I'll come in two days", "I'll come in two days (May 30, 2026)"),
        ("I read it in two days", "I read it in two days"),
        ("I bought tickets for Sunday, on Sunday", "I bought tickets for Sunday, on Sunday"),
        ("on Fridays", "on Fridays"),
        ("yesterday's news", "yesterday's news"),
        ("yesterday (May 27, 2026)", "yesterday (May 27, 2026)"),
        ('He wrote "see you tomorrow"', 'He wrote "see you tomorrow"'),
        ("yesterday and yesterday", "yesterday (May 27, 2026) and yesterday"),
    ],
)
def test_a_relative_date_is_followed_by_the_day_it_stands_for(said: str, expected: str) -> None:
    assert add_dates(said, SAID) == expected


def test_after_midnight_nobody_knows_which_day_is_meant() -> None:
    assert add_dates("I start tomorrow", SAID.replace(hour=1)) == "I start tomorrow"


def test_the_first_and_the_last_days_that_there_are_have_no_neighbours() -> None:
    assert add_dates("yesterday", datetime(1, 1, 1, 12, tzinfo=UTC)) == "yesterday"
    assert add_dates("next week", datetime(9999, 12, 31, 12, tzinfo=UTC)) == "next week"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (UTC, "11:30 AM UTC"),
        (ZoneInfo("Europe/Oslo"), "1:30 PM CEST"),
        (ZoneInfo("America/Sao_Paulo"), "8:30 AM UTC-03"),
        (timezone(timedelta(hours=5, minutes=30)), "5:00 PM UTC+05:30"),
        (timezone(timedelta(hours=12, minutes=45)), "12:15 AM UTC+12:45"),
    ],
)
def test_a_time_is_told_by_the_clock_of_its_zone(zone: ZoneInfo | timezone, expected: str) -> None:
    assert format_clock(SAID.astimezone(zone)) == expected


@pytest.mark.parametrize(
    ("sender", "name", "role", "expected"),
    [
        ("alice", None, "user", "Alice"),
        ("alice", "Alice Liddell", "user", "Alice Liddell"),
        ("user_42", None, "user", "user_42"),
        ("assistant", None, "user", "Assistant"),
        ("assistant", None, "assistant", "the assistant"),
        ("gpt-4o", None, "assistant", "the assistant"),
        ("claude", None, "assistant", "the assistant"),
        ("kettle-bot", None, "assistant", "kettle-bot"),
        ("assistant", "Max", "assistant", "Max"),
        ("a", " \n ", "user", "A"),
    ],
)
def test_people_are_called_by_their_names(sender: str, name: str | None, role: str, expected: str) -> None:
    message = Message(id="m", sender=sender, name=name, role="user" if role == "user" else "assistant", at=SAID)
    assert get_name(message) == expected


def test_many_names_are_not_all_listed() -> None:
    assert join_names(["A", "B", "C"]) == "A, B and C"
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
