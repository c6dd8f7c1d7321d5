"""Which of two hits that say the same of the same subject comes first: the newer one, unless the past is asked for.

Notes are compared by their words. What a user said of one subject over months has few words in common: "5 espressos a
day", "down to one since my check-up". Such turns are compared by the codes of their tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from ..backends.search_interface import Candidate, Content
from ..text.tokenizer import split_words
from ..values.query import Hit
from ..values.times import from_micros
from .named_times import find_periods, names_time, weigh_day
from .text_features import read_text

COMPARED = 30  # of the first ones, which are compared with each other
ALIKE = 0.5  # the share of their words in common that makes two texts speak of the same
CLOSE = 0.7  # the least of one's total that another must have to say the same
FEWEST = 2  # words that two texts must have in common
TOLD = 48  # of the first ones, which are looked at for what a user said last
ABOUT = 0.1
"""How near two turns must be to be about one subject, by the mean of their tokens' codes, less half of what all turns
have in common, such as their language. On lives of `benchmarks.currency`, .15 and .2 are worse by 2 and 4 points, and
the codes as they are, at .3 or .4, by 3 and 4."""
COMMON, FEW = 0.5, 8  # the share of what is common that is left out; the mean of few turns is rather these turns
LEAST = 0.4
"""The least of the best one's total that a newer turn on its subject must have to come before it."""
SUBJECT, WITHIN = 0.4, 0.5
"""The same for what is said to have taken the place of another, which has to be surer: by the codes as they are."""
_TELLERS = frozenset(split_words("said asked told"))  # how facts begin, whatever they are about
_PAST = re.compile(
    r"\b(?:used? to|formerly|previous(?:ly)?|in the past|back then|at first|original(?:ly)?|initial(?:ly)?|earlier|"
    r"before|(?<!how )old(?:er|est)?|history|over time|changed?|long ago|no longer|once|first time|"
    r"früher|vorher|damals|zuerst|ursprünglich|antes|anteriormente|al principio|avant|autrefois|auparavant)\b",
    re.IGNORECASE,
)
_PAST_TENSE = re.compile(
    r"\b(?:did|didn['’]t|was|wasn['’]t|were|weren['’]t|had|could|couldn['’]t|ago|yesterday|happened|became|"
    r"(?:who|what|which \w+) (?:\w{2,}ed|beat|bought|came|gave|got|left|lost|made|met|paid|said|sold|told|took|went|"
    r"won|wrote)|war|waren|hatten?|wurden?|gestern|era|eran|fue|fueron|tenía|había|hizo|ayer|était|étaient|avait)\b",
    re.IGNORECASE,
)
_NOW = re.compile(
    r"\b(?:now|current(?:ly)?|today|at present|at the moment|these days|nowadays|latest|still|"
    r"jetzt|heute|inzwischen|derzeit|momentan|noch|ahora|actualmente|hoy|todavía|maintenant|actuellement|encore)\b",
    re.IGNORECASE,
)


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
    """Return an order in which what a user said last on the subject of the best one comes first, or if the past is
    asked for what they said first; and for those that a newer turn has taken the place of, which one that is.

    Only what the same author said in another session counts, as a statement: what comes later in one sitting goes on
    with it, and does not correct it.
    """
    told = [at for at in order[:TOLD] if candidates[at].parent is not None]
    best = next((at for at in told if _states(contents[candidates[at].row])), None)
    if best is None:
        return order, {}
    own, least = candidates[best], LEAST * totals[best]
    stated = [at for at in told if candidates[at].author == own.author and _states(contents[candidates[at].row])]
    others = [at for at in stated if totals[at] >= least and candidates[at].parent != own.parent]
    if not others:
        return order, {}
    plain, centred = _measure_nearness([contents[candidates[at].row].codes or b"" for at in stated])
    near, nearer = dict(zip(stated, centred, strict=True)), dict(zip(stated, plain, strict=True))
    same = [best, *(at for at in others if nearer[at] >= SUBJECT and totals[at] >= WITHIN * totals[best])]
    newest = max(same, key=lambda at: (candidates[at].created_at, candidates[at].position is None))  # facts say it best
    successors = _find_successors(same, newest, frozenset(split_words(query)), candidates, contents)
    first = _choose_first([best, *(at for at in others if near[at] >= ABOUT)], totals, query, candidates)
    return ([first, *(at for at in order if at != first)] if first != best else order), successors


def _choose_first(same: Sequence[int], totals: Sequence[float], query: str, candidates: Sequence[Candidate]) -> int:
    """Return which of those on one subject comes first; their best one is the first of them.

    What was said last holds, but the last of many is often about something else: so how well each answers counts as
    much as how many sessions came after it.
    """
    best = same[0]
    if asks_for_past(query):
        return min(same, key=lambda at: candidates[at].created_at)
    if not asks_for_present(query) or totals[best] <= 0:
        return best
    began: dict[str | None, int] = {}
    for at in same:
        each = candidates[at]
        began[each.parent] = min(began.get(each.parent, each.created_at), each.created_at)
    age = {parent: number for number, parent in enumerate(sorted(began, key=began.__getitem__))}
    last = max(1, len(age) - 1)
    return max(
        same,
        key=lambda at: (
            totals[at] / totals[best] + age[candidates[at].parent] / last,
            candidates[at].position is None,  # facts say it best
        ),
    )


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


def _states(content: Content) -> bool:
    """Whether a text states something rather than asks, and can be compared."""
    return bool(content.codes) and not read_text(content.text).question


def _find_successors(
    same: Sequence[int],
    newest: int,
    asked: frozenset[str],
    candidates: Sequence[Candidate],
    contents: Mapping[int, Content],
) -> dict[int, int]:
    """Return the newest of those on one subject for each before it that speaks of the same: with a word that is asked
    for, or with two words, in common. Nearness alone would mark what is only alike.
    """
    later = candidates[newest]
    words = read_text(contents[later.row].text).words - _TELLERS - frozenset(split_words(later.author))
    successors = {}
    for at in same:
        shared = words & read_text(contents[candidates[at].row].text).words
        if candidates[at].parent != later.parent and (len(shared) >= FEWEST or shared & asked):
            successors[at] = newest
    return successors


def _measure_nearness(codes: Sequence[bytes]) -> tuple[list[float], list[float]]:
    """Return how near each text is to the first: the cosine of the means of their tokens' codes, as they are and less
    half of what is common to all.
    """
    import numpy as np

    from ..embed.token_codes import decode, load_projection

    numbers, lengths = decode(codes)
    sums = np.add.reduceat(numbers, lengths.cumsum() - lengths, dtype=np.float32) * load_projection().steps
    plain = sums / (np.sqrt(np.einsum("ij,ij->i", sums, sums)) + np.float32(1e-12))[:, None]
    centred = plain - plain.sum(axis=0) * np.float32(COMMON / (len(codes) + FEW))
    sizes = np.sqrt(np.einsum("ij,ij->i", centred, centred)) + np.float32(1e-12)
    cosines: list[float] = (plain @ plain[0]).tolist()
    others: list[float] = ((centred @ centred[0]) / (sizes * sizes[0])).tolist()
    return cosines, others
