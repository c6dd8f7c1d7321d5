"""What the words that a memory shares with a prompt tell: how much speaks for it that the memory is of use there.

A word counts one, or less if it stands in any prompt (`common_words.py`), or in many of the memories that were found. A
memory may say it in another word (`related_words.py`), and two words that stand together in both tell more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ..text.tokenizer import split_words
from .common_words import list_common_weights
from .related_words import find_related

RELATED_WEIGHT, VAGUE_WEIGHT = 0.7, 0.4
"""What it counts that a memory has a word like the prompt's: a telling one, or a common one."""
PAIR_WEIGHT = 0.4
"""What two words add that stand together in both."""
_RARITY = ((6, 1.0), (12, 0.8))  # up to how many memories that have a word it counts how much
_OFTEN = 0.5  # what it counts in more
_MOST = 12.0  # what a prompt tells at most: a long one is about many things


class PromptWords:
    """The words of one prompt, and what they tell of a memory that has some of them."""

    def __init__(self, words: Sequence[str]) -> None:
        common = list_common_weights()
        self.words = words
        self._weights = {word: common.get(word, 1.0) for word in words}
        self._pairs = frozenset(pairwise(words))
        self._related = find_related(words)
        self._likes = {
            word: {like: VAGUE_WEIGHT if like in common else RELATED_WEIGHT for like in split_words(likes)}
            for word, likes in self._related.items()
        }

    @property
    def total(self) -> float:
        """What the prompt tells itself."""
        return min(sum(self._weights.values()), _MOST)

    def expand(self, text: str) -> str:
        """What to look for: the text of the prompt, and what memories may say instead."""
        return " ".join((text, *dict.fromkeys(self._related.values())))

    def weigh(self, memories: Sequence[Sequence[str]]) -> list[float]:
        """What the words of each of some memories tell, among these."""
        held = [set(memory) for memory in memories]
        counts = Counter(word for memory in held for word in self.words if word in memory)
        weights = {word: weight * _weigh_rarity(counts[word]) for word, weight in self._weights.items()}
        return [
            sum(self._weigh_word(word, memory, weights) for word in self.words)
            + PAIR_WEIGHT * len(self._pairs.intersection(pairwise(sequence)))
            for memory, sequence in zip(held, memories, strict=True)
        ]

    def _weigh_word(self, word: str, memory: set[str], weights: dict[str, float]) -> float:
        if word in memory:
            return weights[word]
        likes = self._likes.get(word, {})
        return max((weight for like, weight in likes.items() if like in memory), default=0.0)


def _weigh_rarity(count: int) -> float:
    return next((weight for most, weight in _RARITY if count <= most), _OFTEN)
