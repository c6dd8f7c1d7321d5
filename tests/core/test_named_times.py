"""Which days a question names."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.engine.named_times import LATER, SOON, find_periods, names_time, weigh_day

TODAY = date(2024, 3, 13)  # a Wednesday


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("on 21.01.2024", "2024-01-21", "2024-01-21"),
        ("on 1/21/2024", "2024-01-21", "2024-01-21"),
        ("in the first weekend of October 2023", "2023-10-07", "2023-10-08"),
        ("the second week of May 2023", "2023-05-08", "2023-05-14"),
        ("the last week of February 2024", "2024-02-23", "2024-02-29"),
        ("in late March 2023", "2023-03-20", "2023-03-31"),
        ("at the end of February 2023", "2023-02-20", "2023-02-28"),
        ("summer 2023", "2023-06-01", "2023-08-31"),
        ("in the winter of 2023", "2023-12-01", "2024-02-29"),
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("2023-05", "2023-05-01", "2023-05-31"),
        ("8th of May, 2023", "2023-05-08", "2023-05-08"),
        ("in 2021", "2021-01-01", "2021-12-31"),
        ("today", "2024-03-13", "2024-03-13"),
        ("what did I eat yesterday?", "2024-03-12", "2024-03-12"),
        ("the day before yesterday", "2024-03-11", "2024-03-11"),
        ("last week", "2024-03-04", "2024-03-10"),
        ("last weekend", "2024-03-09", "2024-03-10"),
        ("last month", "2024-02-01", "2024-02-29"),
        ("last year", "2023-01-01", "2023-12-31"),
        ("last Wednesday", "2024-03-06", "2024-03-06"),
        ("last October", "2023-10-01", "2023-10-31"),
        ("last summer", "2023-06-01", "2023-08-31"),
        ("three days ago", "2024-03-10", "2024-03-10"),
        ("a week ago", "2024-03-03", "2024-03-09"),
        ("2 months ago", "2023-12-28", "2024-01-27"),
    ],
)
def test_a_named_time_is_some_days(asked: str, first: str, last: str) -> None:
    assert names_time(asked)
    periods = find_periods(asked, TODAY, [2023])
    assert periods == [(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    "asked",
    [
        "what may happen", "how to march on", "do not fall", "a spring in the clock", "31 February 2023", "2023-13-45",
        "99 May 2023", "31.02.2023", "32/13/2023", "version 1.2.2023.4", "room 2023b", "the last man", "999 years",
        "999 years ago", "weekend", "",
    ],
)  # fmt: skip
def test_what_names_no_time_is_none(asked: str) -> None:
    if asked == "999 years ago":
        assert all(last.year < 1100 for _, last in find_periods(asked, TODAY, [2023]))
    else:
        assert find_periods(asked, TODAY, [2023]) == []


def test_a_time_without_a_year_is_one_of_each_year() -> None:
    found = find_periods("What happened on 8 May?", TODAY, [2022, 2023])
    assert found == [(date(2022, 5, 8), date(2022, 5, 8)), (date(2023, 5, 8), date(2023, 5, 8))]


def test_a_day_counts_less_the_longer_it_is_past_the_end() -> None:
    period = (date(2023, 5, 1), date(2023, 5, 31))
    weights = [weigh_day(period[1] + timedelta(days=late), [period]) for late in range(LATER + 2)]
    assert weights[: SOON + 1] == [1.0] * (SOON + 1)
    assert weights[SOON:] == sorted(set(weights), reverse=True)
    assert weights[-1] == 0.0
    assert weigh_day(date(2023, 4, 30), [period]) == 0.0
    assert weigh_day(date(2023, 5, 1), [period, (date(2022, 1, 1), date(2022, 1, 1))]) == 1.0


_PIECES = st.sampled_from(
    ["last ", "yesterday ", "month ", "winter ", "first ", "week", "weekend ", " of ", "May ", "february ", "2023",
     "31", ".", "/", "-", " ago", "9", "years"]
)  # fmt: skip


@given(asked=st.lists(_PIECES, max_size=8).map("".join) | st.text(max_size=30), today=st.dates())
def test_no_question_and_no_day_breaks_it(asked: str, today: date) -> None:
    for first, last in find_periods(asked, today, [0, 1970, 2024, 9999]):
        assert first <= last


@pytest.mark.parametrize("today", [date.min, date.max])
@pytest.mark.parametrize(
    "asked", ["yesterday", "last week", "last year", "last winter", "the last week of May", "9 years ago"]
)
def test_the_first_and_the_last_day_there_are_break_nothing(asked: str, today: date) -> None:
    for first, last in find_periods(asked, today, [0, 1, 9999, 10_000]):
        assert first <= last
