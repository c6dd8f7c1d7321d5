"""Of what says the same about the same, the newer comes first, unless the past is asked for."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.backends.search_interface import Content
from cofio.engine.currency import asks_for_past, order_alike


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
