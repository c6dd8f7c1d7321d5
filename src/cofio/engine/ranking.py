"""How scores become one ranking: normalising, fusing, and what a record's surroundings add. Pure functions.

A search ranks hundreds of candidates, so what is known of them is in lists, one entry for each candidate, in one order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import add

from ..values.times import from_micros
from .named_times import find_periods, names_time, weigh_day

KEYWORD_WEIGHT = 0.55  # of the convex sum; the rest is the semantic signal's
RRF_KEYWORD, RRF_SEMANTIC, RRF_K = 0.4, 0.6, 60

REACH = 2  # how many positions to either side count as surroundings
WINDOW = 0.3  # the share of the keyword signal that comes from the window around a turn
SMOOTHING = 0.08  # what a turn takes of each neighbour's score
AUTHOR = 0.15  # more finds more, but not what one said whom the question does not name
ASKER = 0.25
DATE = 0.3
SESSION = 0.25

# What a question calls the one who asks it; without words that mean something else in another of these languages.
_FIRST_PERSON = re.compile(
    r"\b(?:i|i['’](?:m|ve|d|ll)|me|my|mine|myself|ich|mich|mir|mein(?:e[mnrs]?)?"
    r"|je|j['’]\w+|moi|mon|mes|yo|mis|conmigo)\b",
    re.IGNORECASE,
)


def normalize(scores: Sequence[float], low: float | None = None) -> list[float]:
    """Stretch the scores to 0 … 1 over the candidates, from `low` when given; all equal becomes all 1."""
    if not scores:
        return []
    least = min(scores)
    bottom = least if low is None else low
    span = max(scores) - bottom
    if span <= 0:
        return [1.0] * len(scores)
    if least < bottom:
        return [max(0.0, score - bottom) / span for score in scores]
    return [(score - bottom) / span for score in scores]


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


@dataclass(frozen=True, slots=True)
class Positions:
    """Where each candidate stands: in which session, and beside which others."""

    sessions: list[int | None]
    """The number of each candidate's session; None for one that is in none."""
    count: int
    """How many sessions there are; they are numbered from 0."""
    beside: dict[int, list[int]]
    """For each step from -REACH to REACH but 0: which candidate stands so far from each, in its session.

    Where none does, it is the number of candidates, which is one past the last of them.
    """

    @classmethod
    def find(cls, sessions: Sequence[tuple[int, str | None]], numbers: Sequence[int | None]) -> Positions:
        """Find who stands where, by the scope and the parent (None for no session) and the position of each."""
        known = {each: at for at, each in enumerate(dict.fromkeys(sessions))}
        numbered: dict[tuple[int, str | None], int | None] = {
            each: None if each[1] is None else at for each, at in known.items()
        }
        of_each = list(map(numbered.__getitem__, sessions))
        placed = [number for number in numbers if number is not None]
        low, high = min(placed, default=0), max(placed, default=0)
        # Each session has a range of keys of its own, with room for a step over its end; below are those in none.
        span, apart = high - low + 2 * REACH + 1, -REACH - 1
        keys = [
            apart if session is None or number is None else session * span + number - low
            for session, number in zip(of_each, numbers, strict=True)
        ]
        place = dict(zip(keys, range(len(keys)), strict=True))
        place.pop(apart, None)
        find, nobody = place.get, len(keys)
        beside = {step: [find(key + step, nobody) for key in keys] for step in range(-REACH, REACH + 1) if step}
        return cls(of_each, len(known), beside)


def sum_windows(scores: Sequence[float], positions: Positions) -> list[float]:
    """Return the sum of the scores in the window around each turn, itself included."""
    padded = [*scores, 0.0]
    total: Iterable[float] = scores
    for beside in positions.beside.values():
        total = map(add, total, map(padded.__getitem__, beside))
    return list(total)


def weigh_neighbours(scores: Sequence[float], positions: Positions) -> list[float]:
    """Return what each candidate gains from the turns beside it."""
    padded = [*scores, 0.0]
    before, after = positions.beside[-1], positions.beside[1]
    return [SMOOTHING * (padded[one] + padded[other]) for one, other in zip(before, after, strict=True)]


def weigh_session(scores: Sequence[float], positions: Positions) -> list[float]:
    """Return what each candidate gains from the best of its session."""
    best = [0.0] * positions.count
    for session, score in zip(positions.sessions, scores, strict=True):
        if session is not None and score > best[session]:
            best[session] = score
    gains = [SESSION * score for score in best]
    return [0.0 if session is None else gains[session] for session in positions.sessions]


def is_about_asker(query: str) -> bool:
    """Whether a question speaks of the one who asks it."""
    return _FIRST_PERSON.search(query) is not None


def weigh_author(
    words: Iterable[str],
    authors: Sequence[str],
    names: Mapping[str, frozenset[str]],
    positions: Positions,
    askers: Iterable[str] = (),
) -> list[float]:
    """Return what each candidate of a session gains if its author is the only one whom the query is about.

    Those are the ones whose names are among its words, and the one who asks, if it says I: `askers` are the names that
    they may have. `names` has the words of each author's name. If the query is about none, or several, there is no
    gain: [] is returned.
    """
    asked = set(words)
    asker = frozenset[str]()  # no author who is named is without a word
    meant = {author: own for author, own in names.items() if not own.isdisjoint(asked)}
    meant |= dict.fromkeys((each for each in askers if each in names), asker)
    if not meant:
        return []
    by = [
        meant.get(author) if session is not None else None
        for author, session in zip(authors, positions.sessions, strict=True)
    ]
    matching = set(by) - {None}
    if len(matching) != 1:
        return []
    gain = ASKER if asker in matching else AUTHOR
    return [gain if own in matching else 0.0 for own in by]


def weigh_date(query: str, today: date, created_at: Sequence[int], positions: Positions) -> list[float]:
    """Return what each candidate of a session gains for being of a time that the query names; [] if it names none.

    It is asked on the day `today`; the times of the candidates are in microseconds since 1970, UTC.
    """
    if not names_time(query):
        return []
    days = [from_micros(micros).date() for micros in created_at]
    years = {day.year for day in days}
    periods = find_periods(query, today, years | {year - 1 for year in years})
    if not periods:
        return []
    of_day = {day: DATE * weigh_day(day, periods) for day in set(days)}
    return [0.0 if session is None else of_day[day] for session, day in zip(positions.sessions, days, strict=True)]
