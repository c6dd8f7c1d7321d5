"""Which of two hits that say the same of the same subject comes first: the newer one, unless the past is asked for.

Notes are compared by their words. What a user said of one subject over months has few words in common: "5 espressos a
day", "down to one since my check-up". Such turns are compared by the codes of their tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from ..backends.search_interface import Candidate, Content
from ..values.query import Hit
from ..values.times import from_micros
from .named_times import find_periods, names_time, weigh_day
from .text_features import read_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

COMPARED = 30  # of the first ones, which are compared with each other
ALIKE = 0.5  # the share of their words in common that makes two texts speak of the same
CLOSE = 0.7  # the least of one's total that another must have to say the same
FEWEST = 2  # words that two texts must have in common
SUBJECT = 0.4
"""How near two turns must be, by the mean of their tokens' codes, to be about one subject. On the lives of
`benchmarks.currency`, .3 and .5 are worse by 3 and 9 points."""
SAME = 0.6
"""How near they must be for the newer to take the other's place, so that a hit says so."""
WITHIN = 0.5
"""The least of the best one's total that a newer turn on its subject must have to come before it."""
_PAST = re.compile(
    r"\b(?:used? to|formerly|previous(?:ly)?|in the past|back then|at first|original(?:ly)?|initial(?:ly)?|earlier|"
    r"before|old(?:er|est)?|history|over time|changed?|long ago|no longer|once|first time)\b",
    re.IGNORECASE,
)
_PAST_TENSE = re.compile(
    r"\b(?:did|didn['’]t|was|wasn['’]t|were|weren['’]t|had|ago|yesterday|happened)\b", re.IGNORECASE
)
_NOW = re.compile(r"\b(?:now|current(?:ly)?|today|at present|these days|nowadays|latest|still)\b", re.IGNORECASE)


def asks_for_past(query: str) -> bool:
    """Whether a question is about how things were, or how they came to be, rather than how they are."""
    return _NOW.search(query) is None and _PAST.search(query) is not None


def asks_for_present(query: str) -> bool:
    """Whether a question is about how things are, and names no time of its own."""
    if _NOW.search(query) is not None:
        return True
    return _PAST.search(query) is None and _PAST_TENSE.search(query) is None and not names_time(query)


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


def order_current(
    order: list[int],
    totals: Sequence[float],
    query: str,
    candidates: Sequence[Candidate],
    contents: Mapping[int, Content],
) -> tuple[list[int], dict[int, int]]:
    """Return an order in which the newest turn on the subject of the best one comes first, or if the past is asked for
    the oldest; and for those that a newer turn has taken the place of, which one that is.

    Only what the same author said in another session counts, as a statement: what comes later in one sitting goes on
    with it, and does not correct it.
    """
    spoken = [
        at
        for at in order[:COMPARED]
        if candidates[at].parent is not None
        and (content := contents[candidates[at].row]).codes
        and not read_text(content.text).question
    ]
    if len(spoken) < 2:
        return order, {}
    near = _measure_nearness([contents[candidates[at].row].codes or b"" for at in spoken])
    successors = _find_successors(spoken, near, candidates)
    wants_past = asks_for_past(query)
    if not wants_past and not asks_for_present(query):
        return order, successors
    best = spoken[0]
    same = [
        at
        for at, nearness in zip(spoken, near[0].tolist(), strict=True)
        if nearness >= SUBJECT and totals[at] >= WITHIN * totals[best] and _are_apart(candidates[at], candidates[best])
    ]
    choose = min if wants_past else max
    first = choose([best, *same], key=lambda at: candidates[at].created_at)
    return ([first, *(at for at in order if at != first)] if first != best else order), successors


def name_successors(
    hits: Sequence[Hit], successors: Mapping[int, int], candidates: Sequence[Candidate]
) -> tuple[Hit, ...]:
    """Return the hits, of which those that a newer record has taken the place of say which, and since when."""
    by_id = {candidates[at].id: candidates[later] for at, later in successors.items()}
    return tuple(
        hit
        if (later := by_id.get(hit.record.id)) is None
        else replace(hit, superseded_by=later.id, superseded_at=from_micros(later.created_at))
        for hit in hits
    )


def _are_apart(one: Candidate, other: Candidate) -> bool:
    """Whether both were said by the same author, in two sessions."""
    return one.author == other.author and one.parent != other.parent


def _find_successors(spoken: Sequence[int], near: Floats, candidates: Sequence[Candidate]) -> dict[int, int]:
    """Return the newest of those that say the same as each, for those that have one."""
    successors: dict[int, int] = {}
    for one, other in zip(*(near >= SAME).nonzero(), strict=True):
        at, later = spoken[one], spoken[other]
        if _are_apart(candidates[later], candidates[at]):
            newest = candidates[successors.get(at, at)].created_at
            if candidates[later].created_at > newest:
                successors[at] = later
    return successors


def _measure_nearness(codes: Sequence[bytes]) -> Floats:
    """Return how near each text is to each: the cosine of the means of their tokens' codes."""
    import numpy as np

    from ..embed.token_codes import decode, load_projection

    numbers, lengths = decode(codes)
    sums = np.add.reduceat(numbers.astype(np.float32), np.cumsum(lengths) - lengths) * load_projection().steps
    sums /= np.sqrt(np.einsum("ij,ij->i", sums, sums))[:, None] + np.float32(1e-12)
    return sums @ sums.T
