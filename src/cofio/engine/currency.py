"""Which of two hits that say the same of the same subject comes first: the newer one, unless the past is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date

from ..backends.search_interface import Content
from ..values.times import from_micros
from .named_times import find_periods, names_time, weigh_day
from .text_features import read_text

COMPARED = 30  # of the first ones, which are compared with each other
ALIKE = 0.5  # the share of their words in common that makes two texts speak of the same
CLOSE = 0.7  # the least of one's total that another must have to say the same
FEWEST = 2  # words that two texts must have in common
_PAST = re.compile(
    r"\b(?:used? to|formerly|previous(?:ly)?|in the past|back then|at first|original(?:ly)?|initial(?:ly)?|earlier|"
    r"before|old(?:er|est)?|history|over time|changed?|long ago|no longer|once|first time)\b",
    re.IGNORECASE,
)
_NOW = re.compile(r"\b(?:now|current(?:ly)?|today|at present|these days|nowadays|latest|still)\b", re.IGNORECASE)


def asks_for_past(query: str) -> bool:
    """Whether a question is about how things were, or how they came to be, rather than how they are."""
    return _NOW.search(query) is None and _PAST.search(query) is not None


def order_alike(
    order: list[int],
    totals: Sequence[float],
    query: str,
    today: date,
    rows: Sequence[int],
    contents: Mapping[int, Content],
) -> list[int]:
    """Return an order of candidates in which, of those that say the same about the same, the newest comes first.

    Where the question names a time it is the one of that time, and where it asks for the past the oldest. They share
    the places that they had: nothing else moves. `rows` has the row of each place; it is asked on the day `today`.
    """
    first = order[:COMPARED]
    groups = _group_alike(first, totals, {at: read_text(contents[rows[at]].text).words for at in first})
    if not groups:
        return order
    times = {at: contents[rows[at]].created_at for group in groups for at in group}
    if names_time(query):
        days = {at: from_micros(micros).date() for at, micros in times.items()}
        periods = find_periods(query, today, {day.year for day in days.values()})
        agreement = {at: weigh_day(day, periods) for at, day in days.items()}
    else:
        sign = -1 if asks_for_past(query) else 1
        agreement = {at: sign * micros for at, micros in times.items()}
    moved: dict[int, int] = {}
    for group in groups:
        moved.update(zip(group, sorted(group, key=agreement.__getitem__, reverse=True), strict=True))
    return [moved.get(at, at) for at in order]


def _group_alike(places: Sequence[int], totals: Sequence[float], said: Mapping[int, frozenset[str]]) -> list[list[int]]:
    """Return those that say the same together, best first; what nothing else is like is in no group.

    What answers the query much worse than another says something else, however many words they have in common.
    """
    numbers: dict[str, int] = {}
    # Each with each: so the words of a text become bits of a number, of which the common ones are soon counted.
    bits = {at: sum([1 << numbers.setdefault(word, len(numbers)) for word in said[at]]) for at in places}
    groups: list[list[int]] = []
    firsts: list[tuple[int, float, int, list[int]]] = []
    for at in places:
        own, count, total = bits[at], len(said[at]), totals[at]
        for words, least, size, group in firsts:
            shared = (words & own).bit_count()
            if total >= least and shared >= FEWEST and shared >= ALIKE * (size + count - shared):
                group.append(at)
                break
        else:
            group = [at]
            groups.append(group)
            firsts.append((own, CLOSE * total, count, group))
    return [group for group in groups if len(group) > 1]
