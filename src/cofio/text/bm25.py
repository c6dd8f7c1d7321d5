"""What a match by words is worth: BM25's weights, the score of a record and its relevance. Pure functions.

A backend counts (how many records hold a word, how often, how long they are) and these say what the counts mean, so
that every backend ranks alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

K1, B = 1.2, 0.75  # tantivy's own, which cannot be set; whatever else is scored is scored with them too
# What a word counts for in a record of a given length. Absolute, not beside the store's average: the same constants fit
# turns of 28 words and messages of 300, which no k1 and b do.
NORM_BASE, NORM_WORDS, NORM_SCALE = 0.2, 200, 1.6
TELLING = 3  # how many of a query's rarest words a record should hold to be wholly relevant
MOST_WORDS = 48  # of a long query only its rarest words are looked up


class WordScore(NamedTuple):
    """What the words of a query say for a record.

    The score ranks the records of one query. The relevance is from 0 to 1 and can be compared between queries: the
    share of the query's rarest words that the record holds, whatever its length.
    """

    score: float
    relevance: float


def pick_words(words: Sequence[str], holders: Mapping[str, int]) -> Sequence[str]:
    """Return the words to look up: all of them, or the rarest where there are very many.

    `holders` says how many records hold each word; one that no record holds comes last.
    """
    if len(words) <= MOST_WORDS:
        return words
    return sorted(words, key=lambda word: (holders[word] == 0, holders[word]))[:MOST_WORDS]


def idf(holders: int, total: int) -> float:
    """Return BM25's weight of a word that `holders` of `total` records have."""
    return math.log(1 + (total - holders + 0.5) / (holders + 0.5))


def weigh_word(holders: int, total: int) -> float:
    """Return the weight of a query's word; one that no record has is no rarer than one that a single record has."""
    return idf(max(1, holders), max(total, holders, 1))


def sum_telling(weights: Sequence[float]) -> float:
    """Return the weight that makes a record wholly relevant: that of the query's rarest words, which come first."""
    return sum(weights[:TELLING])


def make_word_scorer(weight: float, average: float) -> Callable[[int, int], float]:
    """Return BM25's score of a word, by how often it stands in a record and how many words the record has.

    The `average` is how many words a record has.
    """
    most, shortest, per_word = weight * (K1 + 1), K1 * (1 - B), K1 * B / average

    def score_word(count: int, length: int) -> float:
        return most * count / (count + shortest + per_word * length)

    return score_word


def make_scorer(average: float, telling: float) -> Callable[[float, int], WordScore]:
    """Return what turns a record's BM25 score, the sum over its words, and its length into what ranking wants of it.

    Both numbers follow from the formula for a word that stands once, and are exact where no word stands twice: the
    score with a norm of the length in words, and the sum of the weights of the words that the record holds.
    """
    rest, most, base = 1 - B, K1 + 1, 1 + NORM_BASE

    def score_record(bm25: float, length: int) -> WordScore:
        weights = bm25 * (1 + K1 * (rest + B * (length / average))) / most
        relevance = weights / telling
        score = weights * NORM_SCALE / (base + length / NORM_WORDS)
        # As WordScore(…) does, without a call in Python for each record.
        return tuple.__new__(WordScore, (score, relevance if relevance < 1.0 else 1.0))

    return score_record
