"""How scores become one ranking: normalising, fusing, and what a record's surroundings add. Pure functions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

KEYWORD_WEIGHT = 0.55  # of the convex sum; the rest is the semantic signal's
RRF_KEYWORD, RRF_SEMANTIC, RRF_K = 0.4, 0.6, 60

REACH = 2  # how many positions to either side count as surroundings
WINDOW = 0.3  # the share of the keyword signal that comes from the window around a turn
SMOOTHING = 0.08  # what a turn takes of each neighbour's score
AUTHOR = 0.1
DATE = 0.3
SESSION = 0.25
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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


def normalised(scores: Mapping[int, float], low: float | None = None) -> dict[int, float]:
    """The scores stretched to 0 … 1 over the candidates, from `low` when given; all equal becomes all 1."""
    if not scores:
        return {}
    bottom = min(scores.values()) if low is None else low
    span = max(scores.values()) - bottom
    if span <= 0:
        return dict.fromkeys(scores, 1.0)
    return {no: max(0.0, score - bottom) / span for no, score in scores.items()}


def ranks(scores: Mapping[int, float]) -> dict[int, int]:
    """The place of each candidate, 1 for the best; ties go to the newer record."""
    ordered = sorted(scores, key=lambda no: (-scores[no], -no))
    return {no: place for place, no in enumerate(ordered, 1)}


def reciprocal(
    keyword: Mapping[int, int], semantic: Mapping[int, int], k: int = RRF_K
) -> dict[int, tuple[float, float]]:
    """Reciprocal rank fusion with the weights .4 and .6: what each signal's rank gives each candidate."""
    return {
        no: (
            RRF_KEYWORD / (k + keyword[no]) if no in keyword else 0.0,
            RRF_SEMANTIC / (k + semantic[no]) if no in semantic else 0.0,
        )
        for no in {**keyword, **semantic}
    }


class Place(NamedTuple):
    """Where a candidate stands: in which session (None for none), at which position, by whom and when.

    A search makes hundreds, so it is cheap to make.
    """

    session: tuple[int, str] | None
    position: int | None
    author: str
    at: int
    """Microseconds since 1970, UTC."""


def windowed(scores: Mapping[int, float], places: Mapping[int, Place]) -> dict[int, float]:
    """The sum of the scores in the window around each turn, itself included."""
    at = _positions(places)
    result: dict[int, float] = {}
    for no, place in places.items():
        total = scores.get(no, 0.0)
        if place.session is not None and place.position is not None:
            for step in _steps(REACH):
                near = at.get((place.session, place.position + step))
                total += scores.get(near, 0.0) if near is not None else 0.0
        result[no] = total
    return result


def smoothed(scores: Mapping[int, float], places: Mapping[int, Place]) -> dict[int, float]:
    """What each candidate gains from the turns beside it."""
    at = _positions(places)
    gains: dict[int, float] = {}
    for no, place in places.items():
        if place.session is None or place.position is None:
            continue
        near = [at.get((place.session, place.position + step)) for step in _steps(1)]
        gain = SMOOTHING * sum(scores.get(other, 0.0) for other in near if other is not None)
        if gain:
            gains[no] = gain
    return gains


def session_best(scores: Mapping[int, float], places: Mapping[int, Place]) -> dict[int, float]:
    """What each candidate gains from the best of its session."""
    best: dict[tuple[int, str], float] = defaultdict(float)
    for no, place in places.items():
        if place.session is not None:
            best[place.session] = max(best[place.session], scores.get(no, 0.0))
    return {no: SESSION * best[place.session] for no, place in places.items() if place.session is not None}


def named_author(asked: Iterable[str], authors: Mapping[int, frozenset[str]]) -> dict[int, float]:
    """What each candidate gains for being by the one author that the query names."""
    sought = set(asked)
    named = {names for names in authors.values() if names and names & sought}
    if len(named) != 1:
        return {}
    (only,) = named
    return {no: AUTHOR for no, names in authors.items() if names == only}


def dated(query: str, places: Mapping[int, Place]) -> dict[int, float]:
    """What each candidate of a session gains for being of a time that the query names."""
    spans = list(_spans(query))
    if not spans:
        return {}
    return {
        no: DATE
        for no, place in places.items()
        if place.session is not None and any(_within(_EPOCH + timedelta(microseconds=place.at), span) for span in spans)
    }


@dataclass(frozen=True, slots=True)
class _Span:
    """A time that was named: any of year, month and day."""

    year: int | None
    month: int | None
    day: int | None


def _spans(query: str) -> Iterable[_Span]:
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


def _within(moment: datetime, span: _Span) -> bool:
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


def _positions(places: Mapping[int, Place]) -> dict[tuple[tuple[int, str], int], int]:
    return {
        (place.session, place.position): no
        for no, place in places.items()
        if place.session is not None and place.position is not None
    }


def _steps(reach: int) -> Sequence[int]:
    return [step for step in range(-reach, reach + 1) if step]
