"""How what is known of candidates becomes one ranking: normalising, fusing, what surrounds a turn. Pure functions.

A search ranks hundreds of candidates, so what is known of them is in lists, one entry for each candidate, in one order.
A *feature* is such a list of numbers from 0 to 1; `weights.py` says what each is worth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import add

from ..text.tokenizer import split_words
from ..values.times import from_micros
from .named_times import Period, find_periods, names_time, weigh_day, weigh_period

RRF_KEYWORD, RRF_SEMANTIC, RRF_K = 0.4, 0.6, 60
REACH = 2  # how many positions to either side count as surroundings
# A window's length in words counts as a record's own does (text/bm25.py), but less: it is long for everyone.
WINDOW_BASE, WINDOW_WORDS = 1.2, 400
SHORT, LONG = 40, 120  # the mean words of the turns of a chat between people, and of one with an assistant

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


def normalize_known(scores: Sequence[float | None], others: Sequence[float], low: float, full: float) -> list[float]:
    """Stretch the scores that there are from `low` to 0 … 1; a candidate that has none gets what `others` say of it.

    If the best is below `full`, it is not stretched all the way: the best of nothing is not good.
    """
    high = max((score for score in scores if score is not None), default=low)
    if high <= low:
        return [0.0] * len(scores)
    share = min(1.0, high / full)
    scale = share / (high - low)
    return [
        share * other if score is None else max(0.0, score - low) * scale
        for score, other in zip(scores, others, strict=True)
    ]


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


def join_windows(held: Sequence[int], positions: Positions) -> list[int]:
    """Return which of a query's words stand in the window around each turn, itself included: a bit for each word."""
    padded = [*held, 0]
    windows = list(held)
    for beside in positions.beside.values():
        windows = [own | padded[other] for own, other in zip(windows, beside, strict=True)]
    return windows


def sum_windows(scores: Sequence[float], positions: Positions) -> list[float]:
    """Return the sum of the scores in the window around each turn, itself included."""
    padded = [*scores, 0.0]
    total: Iterable[float] = scores
    for beside in positions.beside.values():
        total = map(add, total, map(padded.__getitem__, beside))
    return list(total)


def score_windows(weights: Sequence[float], words: Sequence[float], positions: Positions) -> list[float]:
    """Return what the words of each window are worth beside how many words it has."""
    lengths = sum_windows(words, positions)
    return [
        weight / (WINDOW_BASE + length / WINDOW_WORDS) if weight else 0.0
        for weight, length in zip(weights, lengths, strict=True)
    ]


def measure_neighbours(scores: Sequence[float], positions: Positions) -> list[float]:
    """Return how good the turns beside each candidate are."""
    padded = [*scores, 0.0]
    before, after = positions.beside[-1], positions.beside[1]
    return [0.5 * (padded[one] + padded[other]) for one, other in zip(before, after, strict=True)]


def measure_reply(scores: Sequence[float], questions: Sequence[float], positions: Positions) -> list[float]:
    """Return how good the turn before each candidate is, as far as it asks: who is asked the question answers it."""
    padded = [*(score * share for score, share in zip(scores, questions, strict=True)), 0.0]
    return [padded[before] for before in positions.beside[-1]]


def measure_session(scores: Sequence[float], positions: Positions) -> list[float]:
    """Return how good the best of each candidate's session is; 0 for one that is in none."""
    best = [0.0] * positions.count
    for session, score in zip(positions.sessions, scores, strict=True):
        if session is not None and score > best[session]:
            best[session] = score
    return [0.0 if session is None else best[session] for session in positions.sessions]


def is_about_asker(query: str) -> bool:
    """Whether a question speaks of the one who asks it."""
    return _FIRST_PERSON.search(query) is not None


def match_author(
    words: Iterable[str],
    authors: Sequence[str],
    names: Mapping[str, frozenset[str]],
    positions: Positions,
    askers: Iterable[str] = (),
) -> tuple[str, list[float]]:
    """Return whether each candidate of a session is by the only one whom the query is about, and who that is.

    Those are the ones whose names are among its words ("author"), and the one who asks, if it says I ("asker"):
    `askers` are the names that they may have. `names` has the words of each author's name. If the query is about none,
    or several, [] is returned.
    """
    asked = set(words)
    asker = frozenset[str]()  # no author who is named is without a word
    meant = {author: own for author, own in names.items() if not own.isdisjoint(asked)}
    meant |= dict.fromkeys((each for each in askers if each in names), asker)
    if not meant:
        return "author", []
    by = [
        meant.get(author) if session is not None else None
        for author, session in zip(authors, positions.sessions, strict=True)
    ]
    matching = set(by) - {None}
    if len(matching) != 1:
        return "author", []
    return "asker" if asker in matching else "author", [float(own in matching) for own in by]


def match_dates(
    query: str, today: date, texts: Sequence[str], created_at: Sequence[int], positions: Positions
) -> list[float]:
    """Return how well each candidate of a session agrees with a time that the query names; [] if it names none.

    It does by the day on which it was said, or by a time that it speaks of ("last week", counted from that day). The
    query is asked on the day `today`; the times of the candidates are in microseconds since 1970, UTC.
    """
    if not names_time(query):
        return []
    days = [from_micros(micros).date() for micros in created_at]
    years = {day.year for day in days}
    periods = find_periods(query, today, years | {year - 1 for year in years})
    if not periods:
        return []
    of_day = {day: weigh_day(day, periods) for day in set(days)}
    return [
        0.0 if session is None else max(of_day[day], _match_mention(text, day, periods))
        for session, day, text in zip(positions.sessions, days, texts, strict=True)
    ]


def _match_mention(text: str, day: date, periods: Sequence[Period]) -> float:
    """Return how well a time that a text of a day speaks of agrees with some periods."""
    if not names_time(text):
        return 0.0
    spoken_of = find_periods(text, day, (day.year,))
    return max((weigh_period(each, periods) for each in spoken_of), default=0.0)


def measure_length(counts: Sequence[int]) -> float:
    """Return how far the texts of a chat are from those of people (0) to those of an assistant (1), by their words."""
    if not counts:
        return 0.0
    mean = sum(counts) / len(counts)
    return min(1.0, max(0.0, math.log(max(1.0, mean) / SHORT) / math.log(LONG / SHORT)))


def split_name(name: str) -> frozenset[str]:
    """Return the words of an author's name."""
    return frozenset(split_words(name))
