"""Which days a question names, and how well the day of a turn agrees with them. Pure functions.

A date ("8 May 2023", "2023-05", "21.01.2024"), a part of a month or year ("the first weekend of October", "late March",
"summer 2023"), or a time counted from the day of asking ("yesterday", "last week", "two months ago", "last Friday").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from functools import cache
from typing import TypeAlias

Period: TypeAlias = tuple[date, date]
"""The first day and the last."""

SOON, LATER = 7, 14  # days after the end of a period in which what happened then is likely told, and may still be
_MONTHS = {
    "january": 1, "jan": 1, "february": 2, "feb": 2, "march": 3, "mar": 3, "april": 4, "apr": 4, "may": 5, "june": 6,
    "jun": 6, "july": 7, "jul": 7, "august": 8, "aug": 8, "september": 9, "sept": 9, "sep": 9, "october": 10, "oct": 10,
    "november": 11, "nov": 11, "december": 12, "dec": 12,
}  # fmt: skip
_VERBS = frozenset({"may", "mar", "march"})  # which are more often something else than a month
_SEASONS = {"spring": (3, 5), "summer": (6, 8), "autumn": (9, 11), "fall": (9, 11), "winter": (12, 2)}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
_PARTS = {
    "early": (1, 10), "beginning of": (1, 10), "start of": (1, 10), "mid": (10, 21), "middle of": (10, 21),
    "late": (20, 31), "end of": (20, 31),
}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_NAMED = (
    rf"\b(?P<iso>(?P<iy>{_YEAR})-(?P<im>\d\d?)(?:-(?P<id>\d\d?))?)\b"
    rf"|(?<![\d./])(?P<n1>\d{{1,2}})(?P<sign>[./])(?P<n2>\d{{1,2}})(?P=sign)(?P<ny>{_YEAR})\b(?![./]\d)"
    rf"|\b(?:(?P<nth>{'|'.join(_ORDINALS)})\s+(?P<unit>week(?:end)?)\s+(?:of|in)\s+(?:the\s+month\s+of\s+)?"
    rf"|(?:(?P<part>{'|'.join(_PARTS)})[\s-]+)|(?P<before>last)\s+)?"
    rf"(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+)?(?P<month>{_MONTH})\b\.?"
    rf"(?:\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+(?:of\s+)?(?P<y1>{_YEAR}))?"
    rf"|\b(?:(?P<which>last|this|the|in|of|during)\s+)?(?P<season>{'|'.join(_SEASONS)})\b"
    rf"(?:,?\s+(?:of\s+)?(?P<y2>{_YEAR}))?"
    rf"|(?<!\d\.)\b(?P<year>{_YEAR})\b(?!\.\d)"
)
_COUNTED = (
    rf"\b(?P<day>the day before yesterday|yesterday|today)\b"
    rf"|\b(?P<how>last|this)\s+(?P<unit>weekend|week|month|year|{'|'.join(_WEEKDAYS)})\b(?!\s+(?:of|in)\b)"
    rf"|\b(?P<count>\d{{1,3}}|an?|{'|'.join(_NUMBERS[1:])})\s+(?P<of>day|week|month|year)s?\s+ago\b"
)
_HINTS = (*{name[:3] for name in _MONTHS}, *_SEASONS, "day", "week", "month", "year")
_DIGIT = re.compile(r"\d")


def names_time(query: str) -> bool:
    """Whether a question may name a time."""
    if not _may_name_time(query):
        return False
    return _compile(_NAMED).search(query) is not None or _compile(_COUNTED).search(query) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """A pattern, compiled when a question may need it: that takes longer than the rest of a short process's search."""
    return re.compile(pattern, re.IGNORECASE)


def _may_name_time(query: str) -> bool:
    """Whether a question has a number, or letters that every name of a time has."""
    return _DIGIT.search(query) is not None or any(hint in query.lower() for hint in _HINTS)


def find_periods(query: str, today: date, years: Iterable[int]) -> list[Period]:
    """Return the periods that a question of `today` names; where it names no year, that of each of `years`."""
    if not _may_name_time(query):
        return []
    any_year = sorted(set(years))
    periods = [period for period in _find_counted(query, today) if period is not None]
    for found in _compile(_NAMED).finditer(query):
        periods += _read_named(found, today, any_year)
    return periods


def weigh_day(day: date, periods: Iterable[Period]) -> float:
    """Return how well a day agrees with the best of some periods: 1 within one or soon after, less the later it is."""
    best = 0.0
    for first, last in periods:
        late = (day - last).days
        if day >= first and late <= LATER:
            best = max(best, 1.0 if late <= SOON else 1.0 - (late - SOON) / (LATER - SOON + 1))
    return best


def weigh_period(period: Period, others: Iterable[Period]) -> float:
    """Return how well a period agrees with the best of some others: 1 if they overlap and neither is much longer."""
    first, last = period
    best = 0.0
    for start, end in others:
        shared = (min(last, end) - max(first, start)).days + 1
        if shared > 0:
            longest = max((last - first).days, (end - start).days) + 1
            best = max(best, min(1.0, 0.5 + 2 * shared / longest))
    return best


def _read_named(found: re.Match[str], today: date, years: list[int]) -> Iterator[Period]:
    if found["iso"]:
        own, month, day = int(found["iy"]), int(found["im"]), found["id"]
        yield from _make([own], lambda year: _find_days(year, month, int(day) if day else None))
    elif found["ny"]:
        # With points it is the day that comes first; with slashes it may be the month.
        first, second, own = int(found["n1"]), int(found["n2"]), int(found["ny"])
        yield from _make([own], lambda year: _find_days(year, second, first))
        if found["sign"] == "/" and first != second:
            yield from _make([own], lambda year: _find_days(year, first, second))
    elif found["month"]:
        yield from _read_month(found, today, years)
    elif found["season"]:
        yield from _read_season(found, today, years)
    else:
        year = int(found["year"])
        yield date(year, 1, 1), date(year, 12, 31)


def _read_month(found: re.Match[str], today: date, years: list[int]) -> Iterator[Period]:
    name, day = found["month"], found["d1"] or found["d2"]
    is_sure = day or found["y1"] or found["nth"] or name[0].isupper()
    if name.lower() in _VERBS and not is_sure:
        return
    month = _MONTHS[name.lower()]
    if found["y1"]:
        years = [int(found["y1"])]
    elif found["before"]:
        years = [today.year if month < today.month else today.year - 1]
    if found["nth"]:
        number, unit = _ORDINALS[found["nth"].lower()], found["unit"].lower()
        yield from _make(years, lambda year: _find_week(year, month, number, is_weekend=unit == "weekend"))
    elif found["part"]:
        first, last = _PARTS[found["part"].lower()]
        yield from _make(years, lambda year: _find_part(year, month, first, last))
    else:
        yield from _make(years, lambda year: _find_days(year, month, int(day) if day else None))


def _read_season(found: re.Match[str], today: date, years: list[int]) -> Iterator[Period]:
    name, which = found["season"].lower(), (found["which"] or "").lower()
    if not which and not found["y2"]:  # to fall, to spring
        return
    first, last = _SEASONS[name]
    if found["y2"]:
        years = [int(found["y2"])]
    elif which == "this":
        years = [today.year]
    elif which == "last":
        years = [today.year if last < today.month and first <= last else today.year - 1]
    yield from _make(years, lambda year: _find_months(year, first, last))


def _find_counted(query: str, today: date) -> Iterator[Period | None]:
    for found in _compile(_COUNTED).finditer(query):
        with suppress(ValueError, OverflowError):  # before there were years
            yield _count_back(found, today)


def _count_back(found: re.Match[str], today: date) -> Period | None:
    if found["how"]:
        return _find_unit(today, found["how"].lower(), found["unit"].lower())
    if found["count"]:
        return _find_ago(today, _parse_count(found["count"].lower()), found["of"].lower())
    day = today - timedelta(days={"today": 0, "yesterday": 1}.get(found["day"].lower(), 2))
    return day, day


def _find_unit(today: date, how: str, unit: str) -> Period | None:
    """Return last week, this month and the like."""
    is_last = how == "last"
    monday = today - timedelta(days=today.weekday())
    match unit:
        case "week":
            first = monday - timedelta(days=7 * is_last)
            return first, first + timedelta(days=6)
        case "weekend":
            saturday = monday + timedelta(days=5 - 7 * is_last)
            return saturday, saturday + timedelta(days=1)
        case "month":
            last = today.replace(day=1) - timedelta(days=1) if is_last else today
            return _find_days(last.year, last.month, None)
        case "year":
            year = today.year - is_last
            return date(year, 1, 1), date(year, 12, 31)
    back = (today.weekday() - _WEEKDAYS.index(unit)) % 7
    day = today - timedelta(days=back or 7 * is_last)
    return day, day


def _find_ago(today: date, count: int, unit: str) -> Period | None:
    """Return the days that may be meant by a number of units ago: one day, or some on both sides of it."""
    try:
        match unit:
            case "day":
                middle, slack = today - timedelta(days=count), 0
            case "week":
                middle, slack = today - timedelta(days=7 * count), 3
            case "month":
                middle, slack = today - timedelta(days=round(30.44 * count)), 15
            case _:
                middle, slack = today - timedelta(days=round(365.25 * count)), 182
        return middle - timedelta(days=slack), middle + timedelta(days=slack)
    except OverflowError:  # before there were years
        return None


def _parse_count(text: str) -> int:
    if text.isdigit():
        return int(text)
    return _NUMBERS.index(text) if text in _NUMBERS else 1


def _make(years: Iterable[int], find: Callable[[int], Period | None]) -> Iterator[Period]:
    for year in years:
        with suppress(ValueError, OverflowError):  # there is no such day, or no such year
            period = find(year)
            if period is not None:
                yield period


def _count_days(year: int, month: int) -> int:
    """How many days a month has."""
    following = date(year, month, 28) + timedelta(days=4)
    return (following - timedelta(days=following.day)).day


def _find_days(year: int, month: int, day: int | None) -> Period | None:
    """Return a day, or a whole month; None where there is none."""
    try:
        if day is not None:
            only = date(year, month, day)
            return only, only
        return date(year, month, 1), date(year, month, _count_days(year, month))
    except ValueError:
        return None


def _find_months(year: int, first: int, last: int) -> Period:
    """Return some months, which may go on into the next year."""
    end = year + (last < first)
    return date(year, first, 1), date(end, last, _count_days(end, last))


def _find_part(year: int, month: int, first: int, last: int) -> Period | None:
    return date(year, month, first), date(year, month, min(last, _count_days(year, month)))


def _find_week(year: int, month: int, number: int, *, is_weekend: bool) -> Period | None:
    """Return the first, …, or last week or weekend of a month; weeks are seven days from its first, or to its last."""
    days = _count_days(year, month)
    if is_weekend:
        saturdays = [day for day in range(1, days + 1) if date(year, month, day).weekday() == 5]
        first = saturdays[min(number, len(saturdays)) - 1 if number > 0 else -1]
        return date(year, month, first), date(year, month, first) + timedelta(days=1)
    first = 7 * (number - 1) + 1 if number > 0 else days - 6
    return date(year, month, first), date(year, month, min(first + 6, days))
