"""Of what says the same about the same, the newer comes first, unless the past is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.backends.search_interface import Candidate, Content
from cofio.engine.currency import asks_for_past, asks_for_present, order_alike, order_current


def arrange(query: str, *said: tuple[str, int]) -> list[int]:
    """The order of candidates that come best first, each with its text and when it was said."""
    rows = [10 * at for at, _ in enumerate(said, 1)]
    year = 365 * 24 * 3600 * 1_000_000
    contents = {row: Content(text, (50 + at) * year, None) for row, (text, at) in zip(rows, said, strict=True)}
    totals = [1.0 - 0.02 * at for at in range(len(said))]
    return order_alike(list(range(len(said))), totals, query, date(2024, 3, 1), rows, contents)


OLD = ("Sam drinks two cups of coffee a day", 1)
NEW = ("Sam drinks four cups of coffee a day", 2)
OTHER = ("The build server was moved to Lyon", 3)


def test_the_newer_of_two_that_say_the_same_comes_first() -> None:
    assert arrange("how much coffee does Sam drink", OLD, OTHER, NEW) == [2, 1, 0]
    assert arrange("how much coffee does Sam drink", NEW, OTHER, OLD) == [0, 1, 2]


def test_what_speaks_of_something_else_stays_where_it_is() -> None:
    assert arrange("coffee", OLD, OTHER) == [0, 1]
    assert arrange("coffee", OLD, ("coffee is bitter", 9)) == [0, 1]


def test_who_asks_for_the_past_gets_the_older_first() -> None:
    assert arrange("how much coffee did Sam use to drink", NEW, OLD) == [1, 0]
    assert arrange("how much coffee did Sam use to drink", OLD, NEW) == [0, 1]


def test_who_names_a_time_gets_what_is_of_that_time_first() -> None:
    assert arrange("how much coffee did Sam drink in 2020", NEW, OLD) == [1, 0]
    assert arrange("how much coffee did Sam drink in 2021", OLD, NEW) == [1, 0]
    assert arrange("how much coffee did Sam drink in 1999", OLD, NEW) == [0, 1]


def test_what_answers_much_worse_says_something_else() -> None:
    contents = {1: Content(OLD[0], 0, None), 2: Content(NEW[0], 9, None)}
    assert order_alike([0, 1], [1.0, 0.9], "coffee", date(2024, 3, 1), [1, 2], contents) == [1, 0]
    assert order_alike([0, 1], [1.0, 0.2], "coffee", date(2024, 3, 1), [1, 2], contents) == [0, 1]


@pytest.mark.parametrize(
    ("query", "past"),
    [
        ("how much coffee does she drink now", False), ("what does Sam like", False), ("what was the old port", True),
        ("where did she live before", True), ("which port did we use originally", True), ("the current port", False),
        ("what was the port, and what is it now", False), ("", False),
    ],
)  # fmt: skip
def test_a_question_about_the_past_is_recognised(query: str, past: bool) -> None:
    assert asks_for_past(query) is past


@given(said=st.lists(st.tuples(st.sampled_from([OLD[0], NEW[0], OTHER[0], "", "x"]), st.integers(0, 5)), max_size=8))
def test_nobody_is_lost_or_named_twice(said: list[tuple[str, int]]) -> None:
    assert sorted(arrange("coffee", *said)) == list(range(len(said)))


COFFEE, RENT = bytes([0x17] * 32), bytes([0x91] * 32)  # the codes of a token of each subject
DAY = 24 * 3600 * 1_000_000


def arrange_lives(
    query: str, *said: tuple[str, int, bytes], totals: Sequence[float] = ()
) -> tuple[list[int], dict[int, int]]:
    """The order of turns that come best first, each with its text, its day and codes, and a session for each day."""
    candidates = [
        Candidate(row=at, id=f"r{at}", parent=f"s{day}", position=at, author="Tess", created_at=day * DAY)
        for at, (_, day, _) in enumerate(said)
    ]
    contents = {at: Content(text, day * DAY, codes) for at, (text, day, codes) in enumerate(said)}
    reached = totals or [1.0 - 0.1 * at for at in range(len(said))]
    return order_current(list(range(len(said))), reached, query, candidates, contents)


FIVE = ("five coffees a day", 1, COFFEE)
ONE = ("down to one coffee, the doctor says", 2, COFFEE)
FLAT = ("the flat costs 800", 3, RENT)


def test_what_a_user_said_last_on_a_subject_comes_first_though_in_other_words() -> None:
    assert arrange_lives("how much coffee does she drink", FIVE, FLAT, ONE) == ([2, 0, 1], {0: 2})
    assert arrange_lives("how much coffee does she drink", ONE, FLAT, FIVE) == ([0, 1, 2], {2: 0})


def test_who_asks_for_the_past_of_a_life_gets_the_oldest_first_and_is_told_that_there_is_a_newer() -> None:
    assert arrange_lives("how much coffee did she use to drink", ONE, FLAT, FIVE) == ([2, 0, 1], {2: 0})
    assert arrange_lives("what coffee did she drink", ONE, FIVE) == ([0, 1], {1: 0})


def test_the_last_of_many_comes_first_only_if_it_answers_about_as_well() -> None:
    lake = ("coffee at the lake", 3, COFFEE)
    assert arrange_lives("how much coffee does she drink", FIVE, ONE, lake, totals=[1.0, 0.95, 0.42])[0] == [1, 0, 2]
    assert arrange_lives("how much coffee does she drink", FIVE, ONE, lake, totals=[1.0, 0.95, 0.9])[0] == [2, 0, 1]
    assert arrange_lives("how much coffee does she drink", FIVE, lake, totals=[1.0, 0.3])[0] == [0, 1]


def test_a_sitting_a_question_and_another_speaker_correct_nobody() -> None:
    same_day = ("one espresso", 1, COFFEE)
    assert arrange_lives("coffee", FIVE, same_day) == ([0, 1], {})
    assert arrange_lives("coffee", FIVE, ("one espresso?", 2, COFFEE)) == ([0, 1], {})
    assert arrange_lives("coffee", FIVE, ("one espresso", 2, b"")) == ([0, 1], {})
    assert arrange_lives("coffee") == ([], {})


def test_what_shares_no_word_comes_first_and_is_not_said_to_take_a_place() -> None:
    before, after = ("spinning on mondays", 1, COFFEE), ("at the climbing hall", 2, COFFEE)
    assert arrange_lives("what sport does she do", before, after) == ([1, 0], {})


@pytest.mark.parametrize(
    ("query", "present"),
    [
        ("where does she work", True), ("where did she work", False), ("where is he now, he was in Oslo", True),
        ("what was her rent before", False), ("what happened in May 2021", False), ("her rent", True),
        ("how old is her daughter", True), ("why could he not run", False), ("who won the race", False),
        ("wo wohnt sie jetzt", True), ("wo war sie", False), ("¿dónde vivía antes?", False),
    ],
)  # fmt: skip
def test_a_question_about_the_present_is_recognised(query: str, present: bool) -> None:
    assert asks_for_present(query) is present
