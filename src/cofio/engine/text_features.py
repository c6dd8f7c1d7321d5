"""What ranking reads in the texts of a query and of its candidates. Pure functions, cached by the text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ..text.tokenizer import STOP_WORDS, split_words

CACHED = 8192  # texts whose features are remembered
FULL_LENGTH = 30  # words that tell something: with these, a turn has its full length
MOST_ADJACENT = 12  # pairs of words of a query that are looked for
_STOPS = frozenset(stem for word in STOP_WORDS for stem in split_words(word))
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
# Names that only make sense as a whole: OPS-1500, src/x.ts, foo_bar, v1.2.3, E0308. Not what people join by a hyphen.
_IDENTIFIER = re.compile(r"[\w@#]+(?:[-./:_@#\\]+[\w]+)+|\b(?=\w*\d)(?=\w*[a-z])\w{3,}\b", re.IGNORECASE)
_QUOTED = re.compile(r'"([^"\n]{3,120})"|“([^”\n]{3,120})”|`([^`\n]{2,120})`|«([^»\n]{3,120})»')


class TextFeatures(NamedTuple):
    """What a text is like, whatever is asked. Thousands are remembered: one string takes a fifth of a set's memory."""

    joined: str
    """Its words in their order, each between spaces, without those that tell nothing."""
    word_count: int
    length: float
    """How much of it tells something, from 0 to 1."""
    question: float
    """The share of its sentences that ask."""

    @property
    def words(self) -> frozenset[str]:
        """Its words, without those that tell nothing."""
        return frozenset(self.joined.split())


@lru_cache(maxsize=CACHED)
def read_text(text: str) -> TextFeatures:
    """Return the features of a text."""
    words = split_words(text)
    telling = [word for word in words if word not in _STOPS]
    length = min(1.0, math.log1p(len(telling)) / math.log1p(FULL_LENGTH))
    return TextFeatures(f" {' '.join(telling)} ", len(words), length, _measure_question(text))


def _measure_question(text: str) -> float:
    if "?" not in text:
        return 0.0
    sentences = [found.strip() for found in _SENTENCE.findall(text)]
    sentences = [each for each in sentences if each]
    return sum(each.endswith("?") for each in sentences) / len(sentences) if sentences else 0.0


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The words that are looked for: which of them a text holds is a number, with a bit for each."""

    weights: Mapping[str, float]
    """What each is worth, by how rare it is."""
    exact: tuple[str, ...]
    """Names and quotations that count as a whole, in lower case."""
    pairs: tuple[str, ...]
    """Words that follow each other in the query, as they stand in TextFeatures.joined."""

    @classmethod
    def read(cls, query: str, asked: Sequence[str], weights: Mapping[str, float]) -> QueryWords:
        """Read a query, whose words to look for are given, with what each is worth."""
        known = {word: weights[word] for word in asked if word in weights}
        order = [word for word in split_words(query) if word in known]
        pairs = dict.fromkeys(f" {one} {two} " for one, two in pairwise(order) if one != two)
        return cls(known, find_exact(query), tuple(pairs)[:MOST_ADJACENT])

    @property
    def is_name(self) -> bool:
        """Whether nothing is looked for but names and quotations that count as a whole."""
        return bool(self.exact) and self.weights.keys() <= {word for name in self.exact for word in split_words(name)}

    def find_held(self, joined: str) -> int:
        """Return which of them are among words that are joined as in TextFeatures."""
        held, bit = 0, 1
        for word in self.weights:
            if f" {word} " in joined:
                held |= bit
            bit <<= 1
        return held

    def sum_weights(self, held: int) -> float:
        """Return what some of the words are worth together."""
        return sum(weight for at, weight in enumerate(self.weights.values()) if held >> at & 1)

    def count_adjacent(self, features: TextFeatures) -> float:
        """Return the share of the query's pairs of words that follow each other in a text."""
        if not self.pairs:
            return 0.0
        joined = features.joined
        return sum(pair in joined for pair in self.pairs) / len(self.pairs)


@lru_cache(maxsize=512)
def find_exact(query: str) -> tuple[str, ...]:
    """Return the names and quotations of a query that count as a whole, in lower case."""
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(query)]
    names = [found for found in _IDENTIFIER.findall(query) if not found.replace("-", "").isalpha()]
    return tuple(dict.fromkeys(each.strip().lower() for each in (*quoted, *names) if each.strip()))


def measure_exact(exact: Sequence[str], text: str) -> float:
    """Return the share of names and quotations that a text holds word for word."""
    if not exact:
        return 0.0
    lower = text.lower()
    return sum(_holds(lower, each) for each in exact) / len(exact)


def _holds(text: str, name: str) -> bool:
    """Whether a name stands in a text by itself, and is not the beginning or the end of a longer one."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() and name[0].isalnum()) and not (after.isalnum() and name[-1].isalnum()):
            return True
        at = text.find(name, at + 1)
    return False
