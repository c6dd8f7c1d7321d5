"""The judgement of what a sentence is, by weights that `benchmarks.fit_extraction` makes of labelled messages.

There are two sets of weights: one over the words alone, which costs a flush next to nothing, and one over the words and
the sentence's vector, which is right more often and is used where MiniLM is installed.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .cues import count_features, list_features

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS = Path(__file__).parent / "weights.bin"
VECTOR_WEIGHTS = Path(__file__).parent / "vector_weights.bin"
LABELS = ("knowledge", "instruction", "world", "noise")
CLASSES = (
    "name", "home", "work", "family", "pet", "diet", "health", "like", "routine", "language", "tool", "schedule",
    "possession", "plan",
)  # fmt: skip
COLUMNS = len(LABELS) + len(CLASSES) + 2

_LANE, _MIDDLE = 4, 128
"""The bytes that a column's sum has room for, and what a weight is stored higher by, so that no lane is below zero."""
_RAISED = bytes(number ^ _MIDDLE for number in range(256))
"""The byte of each small number with a sign, raised by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sense:
    """What a sentence is, each as a probability."""

    knowledge: float
    """Something lasting about the speaker."""
    instruction: float
    """What an assistant is to do from now on."""
    world: float
    """Something that is so, of someone or something else."""
    noise: float
    kind: str
    """The class of knowledge that it would be."""
    certainty: float
    """How sure the class is."""
    ended: float
    """Whether it says that something no longer holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """The weights of each feature, side by side in one number, and what a step of each column is worth.

    The numbers of all features of a sentence are added at once: a lane holds a column's sum.
    """

    scales: tuple[float, ...]
    rows: tuple[int, ...]
    dimensions: bytes
    """A row of small whole numbers for each dimension of the sentence's vector, where there are weights for it."""
    steps: tuple[float, ...]
    """What a step of each column of these is worth."""

    def add_up(self, features: Sequence[int]) -> list[float]:
        """The sum of each column over these features."""
        total = sum(map(self.rows.__getitem__, features))
        lanes = array("I")
        lanes.frombytes(total.to_bytes(_LANE * COLUMNS, sys.byteorder))
        middle = _MIDDLE * len(features)
        return [(lane - middle) * scale for lane, scale in zip(lanes, self.scales, strict=True)]


@cache
def _load_weights(file: Path) -> _Weights:
    head, _, body = file.read_bytes().partition(b"\n")
    told = json.loads(head)
    assert told["features"] == count_features(), (
        "the weights were made for other features: run benchmarks.fit_extraction"
    )
    named = told["features"] * COLUMNS
    lanes = array("I", list(body[:named].translate(_RAISED))).tobytes()
    size = _LANE * COLUMNS
    return _Weights(
        scales=tuple(told["scales"]),
        rows=tuple(int.from_bytes(lanes[at : at + size], sys.byteorder) for at in range(0, len(lanes), size)),
        dimensions=body[named:],
        steps=tuple(told.get("steps", ())),
    )


_read_before: ContextVar[Mapping[str, Sense] | None] = ContextVar("senses_of_vectors", default=None)


@contextmanager
def use_senses(senses: Mapping[str, Sense]) -> Iterator[None]:
    """Judge these sentences as given, on this thread, until the block ends."""
    before = _read_before.set(senses)
    try:
        yield
    finally:
        _read_before.reset(before)


def judge_sentence(sentence: str) -> Sense:
    """What a sentence is; the same words always give the same answer, unless it was read with its vector before."""
    given = _read_before.get()
    if given is not None and (sense := given.get(sentence)) is not None:
        return sense
    return judge_words(sentence)


@lru_cache(maxsize=256)
def judge_words(sentence: str) -> Sense:
    """What a sentence is by its words alone."""
    return _decide(_load_weights(WEIGHTS).add_up(list_features(sentence)))


def judge_with_vector(sentence: str, vector: NDArray[np.float32]) -> Sense:
    """What a sentence is by its words and its vector, which is one of MiniLM's."""
    import numpy as np

    weights = _load_weights(VECTOR_WEIGHTS)
    rows = np.frombuffer(weights.dimensions, dtype=np.int8).reshape(-1, COLUMNS)
    scores = weights.add_up(list_features(sentence)) + (vector @ rows) * weights.steps
    return _decide(scores.tolist())


def _decide(scores: Sequence[float]) -> Sense:
    knowledge, instruction, world, noise = _to_shares(scores[: len(LABELS)])
    kinds = _to_shares(scores[len(LABELS) : -2])
    best = kinds.index(max(kinds))
    return Sense(
        knowledge=knowledge, instruction=instruction, world=world, noise=noise, kind=CLASSES[best],
        certainty=kinds[best], ended=_to_shares(scores[-2:])[1],
    )  # fmt: skip


def _to_shares(scores: Sequence[float]) -> list[float]:
    most = max(scores)
    powers = [math.exp(score - most) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]
