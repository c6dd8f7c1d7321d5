"""How scores become one ranking: normalising, fusing, and what a record's surroundings add. Pure functions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..values.times import from_micros

KEYWORD_WEIGHT = 0.55  # of the convex sum; the rest is the semantic signal's
RRF_KEYWORD, RRF_SEMANTIC, RRF_K = 0.4, 0.6, 60

REACH = 2  # how many positions to either side count as surroundings
WINDOW = 0.3  # the share of the keyword signal that comes from the window around a turn
SMOOTHING = 0.08  # what a turn takes of each neighbour's score
AUTHOR = 0.1
DATE = 0.3
SESSION = 0.25

_MONTHS = {
    "january": 1, "jan": 1, "february": 2, "feb": 2, "march": 3, "mar": 3, "april": 4, "apr": 4, "may": 5, "june": 6,
    "jun": 6, "july": 7, "jul": 7, "august": 8, "aug": 8, "september": 9, "sept": 9, "sep": 9, "october": 10, "oct": 10,
    "november": 11, "nov": 11, "december": 12, "dec": 12,
}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"\b(?P<iso>(?P<iy>(?:19|20)\d\d)-(?P<im>\d\d?)(?:-(?P<id>\d\d?))?)\b"
    rf"|\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+)?(?P<month>{_MONTH})\b\.?"
    rf"(?:\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+(?P<y1>(?:19|20)\d\d))?"
    rf"|\b(?P<year>(?:19|20)\d\d)\b",
    re.IGNORECASE,
)


def normalize(scores: Mapping[int, float], low: float | None = None) -> dict[int, float]:
    """Stretch the scores to 0 … 1 over the candidates, from `low` when given; all equal becomes all 1."""
    if not scores:
        return {}
    bottom = min(scores.values()) if low is None else low
    span = max(scores.values()) - bottom
    if span <= 0:
        return dict.fromkeys(scores, 1.0)
    return {row: max(0.0, score - bottom) / span for row, score in scores.items()}


def rank(scores: Mapping[int, float]) -> dict[int, int]:
    """Return the rank of each candidate, 1 for the best; ties go to the newer record."""
    ordered = sorted(zip(scores.values(), scores, strict=True), reverse=True)
    return {row: number for number, (_, row) in enumerate(ordered, 1)}


def fuse_ranks(
    keyword: Mapping[int, int], semantic: Mapping[int, int], k: int = RRF_K
) -> dict[int, tuple[float, float]]:
    """Reciprocal rank fusion with the weights .4 and .6: what each signal's rank gives each candidate."""
    return {
        row: (
            RRF_KEYWORD / (k + keyword[row]) if row in keyword else 0.0,
            RRF_SEMANTIC / (k + semantic[row]) if row in semantic else 0.0,
        )
        for row in {**keyword, **semantic}
    }


class Position(NamedTuple):
    """Where a candidate stands: in which session (None for none), at which number, by whom and when.

    A search makes hundreds, so it is cheap to make.
    """

    session: tuple[int, str] | None
    number: int | None
    author: str
    created_at: int
    """Microseconds since 1970, UTC."""


def sum_windows(scores: Mapping[int, float], positions: Mapping[int, Position]) -> dict[int, float]:
    """Return the sum of the scores in the window around each turn, itself included."""
    turns = _index_turns(positions)
    steps = [step for step in range(-REACH, REACH + 1) if step]
    result: dict[int, float] = {}
    for row, (session, number, _, _) in positions.items():
        total = scores.get(row, 0.0)
        if session is not None and number is not None:
            beside = turns[session]
            for step in steps:
                near = beside.get(number + step)
                if near is not None:
                    total += scores.get(near, 0.0)
        result[row] = total
    return result


def weigh_neighbours(scores: Mapping[int, float], positions: Mapping[int, Position]) -> dict[int, float]:
    """Return what each candidate gains from the turns beside it."""
    turns = _index_turns(positions)
    gains: dict[int, float] = {}
    for row, (session, number, _, _) in positions.items():
        if session is None or number is None:
            continue
        beside = turns[session]
        near = (beside.get(number - 1), beside.get(number + 1))
        gain = SMOOTHING * sum(scores.get(other, 0.0) for other in near if other is not None)
        if gain:
            gains[row] = gain
    return gains


def weigh_session(scores: Mapping[int, float], positions: Mapping[int, Position]) -> dict[int, float]:
    """Return what each candidate gains from the best of its session."""
    best: dict[tuple[int, str], float] = defaultdict(float)
    for row, position in positions.items():
        if position.session is not None:
            best[position.session] = max(best[position.session], scores.get(row, 0.0))
    return {row: SESSION * best[each.session] for row, each in positions.items() if each.session is not None}


def weigh_author(words: Iterable[str], authors: Mapping[int, frozenset[str]]) -> dict[int, float]:
    """Return what each candidate gains for being by the one author that the query's words name."""
    query_words = set(words)
    matching = {names for names in authors.values() if names and names & query_words}
    if len(matching) != 1:
        return {}
    (only,) = matching
    return {row: AUTHOR for row, names in authors.items() if names == only}


def weigh_date(query: str, positions: Mapping[int, Position]) -> dict[int, float]:
    """Return what each candidate of a session gains for being of a time that the query names."""
    spans = list(_find_spans(query))
    if not spans:
        return {}
    return {
        row: DATE
        for row, each in positions.items()
        if each.session is not None and any(_is_within(from_micros(each.created_at), span) for span in spans)
    }


@dataclass(frozen=True, slots=True)
class _Span:
    """A time that was named: any of year, month and day."""

    year: int | None
    month: int | None
    day: int | None


def _find_spans(query: str) -> Iterable[_Span]:
    for found in _DATE.finditer(query):
        if found["iso"]:
            yield _Span(int(found["iy"]), int(found["im"]), int(found["id"]) if found["id"] else None)
        elif found["month"]:
            # "may" is a verb more often than a month: it counts with a day or a year beside it.
            day = found["d1"] or found["d2"]
            if (
                found["month"].lower() in ("may", "mar", "march")
                and not (day or found["y1"])
                and not found["month"][0].isupper()
            ):
                continue
            year = int(found["y1"]) if found["y1"] else None
            yield _Span(year, _MONTHS[found["month"].lower()], int(day) if day else None)
        else:
            yield _Span(int(found["year"]), None, None)


def _is_within(moment: datetime, span: _Span) -> bool:
    """Whether a moment agrees with a named time; a named day also agrees with what was said in the week after."""
    if span.day is not None and span.month is not None:
        year = span.year or moment.year
        try:
            start = datetime(year, span.month, span.day, tzinfo=UTC)
        except ValueError:
            return False
        return start <= moment < start + timedelta(days=8)
    if span.month is not None:
        return moment.month == span.month and (span.year is None or moment.year == span.year)
    return moment.year == span.year


def _index_turns(positions: Mapping[int, Position]) -> dict[tuple[int, str], dict[int, int]]:
    """Return which candidate stands at each number of each session."""
    turns: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
    for row, (session, number, _, _) in positions.items():
        if session is not None and number is not None:
            turns[session][number] = row
    return turns
