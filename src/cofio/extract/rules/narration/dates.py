"""When "yesterday" was: dates beside the words that depend on the day they were said."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import lru_cache

from ..lexicon import MONTHS, PASTS, WEEKDAYS, get_pattern

NIGHT = 4  # o'clock, before which people do not agree on what day it is

_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_NUMBER = rf"(?:\d{{1,3}}|{'|'.join(_NUMBERS)})"
_PART = r"(?: (?:morning|afternoon|evening|night))?"
_DAY = "|".join(WEEKDAYS)
_RELATIVE = re.compile(
    rf"\b(?:(?P<named>the day before yesterday|the day after tomorrow|(?:yesterday|tomorrow){_PART}|today|tonight|"
    r"last night|this (?:morning|afternoon|evening))"
    r"|(?P<which>last|next|this) (?P<span>week|weekend|month|year)"
    rf"|(?P<side>last|next|this|on|by|until|since) (?P<weekday>{_DAY}){_PART}"
    rf"|(?P<ago>{_NUMBER}) (?P<unit>day|week|month|year)s? ago"
    rf"|in (?P<ahead>{_NUMBER}) (?P<later>day|week|month|year)s?(?: time)?(?! of\b))"
    r"(?![\w'’-]| ?[(\[])",
    re.IGNORECASE,
)
_OFFSETS = {"the day before yesterday": -2, "the day after tomorrow": 2, "yesterday": -1, "tomorrow": 1, "last": -1}
_PAST = re.compile(rf"\b(?:\w{{2,20}}ed|were|{'|'.join(sorted(PASTS))})\b", re.IGNORECASE)
_HINTS = ("day", "morrow", "night", "week", "month", "year", "this ")
"""Without one of these there is no relative date."""
_QUOTED = re.compile(r'("[^"]*"|“[^”]*”)')


def format_day(moment: date) -> str:
    """A date as people write it: May 28, 2026."""
    return f"{MONTHS[moment.month - 1]} {moment.day}, {moment.year}"


def format_clock(moment: datetime) -> str:
    """The time of day with its zone: 11:30 AM UTC."""
    zone = moment.tzname() or ""
    if zone[:1] in "+-" and zone:
        zone = f"UTC{zone}"
    hour = moment.hour % 12 or 12
    return f"{hour}:{moment.minute:02} {'AM' if moment.hour < 12 else 'PM'} {zone}".rstrip()


@lru_cache(maxsize=1024)
def add_dates(text: str, said_at: datetime, brackets: str = "()", tense_of: str | None = None) -> str:
    """`text` with the date after each word such as "yesterday", as of `said_at`, the local time at which it was said.

    What stands in quotation marks was said at some other time, and is left as it is. Whether "on Friday" is past is
    seen from `tense_of`, the words that were said, where `text` has others around them.
    """
    low = text.lower()
    if not any(hint in low for hint in _HINTS) or not _RELATIVE.search(text):
        return text
    words = text if tense_of is None else tense_of
    arranged = bool(get_pattern("arranged").search(words))  # what was arranged may lie before or ahead
    past, future = arranged or bool(_PAST.search(words)), arranged or bool(get_pattern("future").search(words))
    seen: set[str] = set()

    def with_date(found: re.Match[str]) -> str:
        try:
            when = _resolve(found, said_at, past, future)
        except (OverflowError, ValueError):  # the first and the last days that there are
            when = None
        if when is None or when in seen:
            return found[0]
        seen.add(when)
        return f"{found[0]} {brackets[0]}{when}{brackets[1]}"

    parts = _QUOTED.split(text)
    parts[::2] = [_RELATIVE.sub(with_date, part) for part in parts[::2]]
    return "".join(parts)


def _resolve(found: re.Match[str], said_at: datetime, past: bool, future: bool) -> str | None:
    """The date that a relative one stands for, or None where people would differ."""
    today = said_at.date()
    if named := found["named"]:
        return _resolve_named(named.lower(), said_at)
    if found["span"]:
        return _resolve_span(found["which"].lower(), found["span"].lower(), today, past)
    if found["weekday"]:
        return _resolve_weekday(found["side"].lower(), WEEKDAYS.index(found["weekday"].lower()), today, past, future)
    if said_at.hour < NIGHT and "day" in (found["unit"], found["later"]):
        return None
    if found["ago"]:
        return _format_distance(-_parse_number(found["ago"]), found["unit"].lower(), today)
    if future and not past:  # "I read it in two days" is no date
        return _format_distance(_parse_number(found["ahead"]), found["later"].lower(), today)
    return None


def _parse_number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBERS[word.lower()]


def _resolve_named(words: str, said_at: datetime) -> str | None:
    if said_at.hour < NIGHT and words != "last night":  # late at night, people may mean the day that is over
        return None
    days = _OFFSETS.get(words, _OFFSETS.get(words.split()[0], 0))
    return format_day(said_at.date() + timedelta(days=days))


def _resolve_span(which: str, span: str, today: date, past: bool) -> str | None:
    step = {"last": -1, "this": 0, "next": 1}[which]
    if span == "year":
        return str(today.year + step)
    if span == "month":
        return _format_month(today, step)
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
    if span == "week":
        return f"the week of {format_day(monday)}"
    if which == "this" and past and today.weekday() < 5:  # on a Monday, "this weekend" may be the one just over
        return None
    saturday, sunday = monday + timedelta(days=5), monday + timedelta(days=6)
    if saturday.month == sunday.month:
        return f"{MONTHS[saturday.month - 1]} {saturday.day}–{sunday.day}, {sunday.year}"
    return f"{format_day(saturday)} to {format_day(sunday)}"


def _format_month(today: date, step: int) -> str:
    months = today.year * 12 + today.month - 1 + step
    return f"{MONTHS[months % 12]} {months // 12}"


def _resolve_weekday(side: str, weekday: int, today: date, past: bool, future: bool) -> str | None:
    ahead = (weekday - today.weekday()) % 7
    this_week = weekday > today.weekday()
    if side == "next":
        return (
            _format_either(today, ahead, ahead + 7)
            if this_week and ahead > 2
            else format_day(_find_in_next_week(today, weekday))
        )
    if side in ("last", "since") or (side == "on" and past and not future):
        back = (7 - ahead) % 7 or 7
        doubtful = side == "last" and back <= 2 and weekday < today.weekday()
        return _format_either(today, -back - 7, -back) if doubtful else format_day(today - timedelta(days=back))
    if past or not ahead or (side == "this" and not this_week) or (side == "on" and not future):
        return None
    return format_day(today + timedelta(days=ahead))


def _find_in_next_week(today: date, weekday: int) -> date:
    """That day of the next week."""
    return today + timedelta(days=7 - today.weekday() + weekday)


def _format_either(today: date, first: int, second: int) -> str:
    """Two days, where half of all people mean the one and half the other: "next Friday", said on a Monday."""
    one, other = today + timedelta(days=first), today + timedelta(days=second)
    return f"{MONTHS[one.month - 1]} {one.day} or {format_day(other).removeprefix(f'{MONTHS[one.month - 1]} ')}"


def _format_distance(number: int, unit: str, today: date) -> str:
    """Format the day, week, month or year at this distance from today, as precisely as it was said."""
    away: dict[str, Callable[[], str]] = {
        "day": lambda: format_day(today + timedelta(days=number)),
        "week": lambda: f"the week of {format_day(today - timedelta(days=today.weekday()) + timedelta(weeks=number))}",
        "month": lambda: _format_month(today, number),
        "year": lambda: str(today.year + number),
    }
    return away[unit]()
