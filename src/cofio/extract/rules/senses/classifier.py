"""The judgement of what a sentence is, by weights that `benchmarks.fit_extraction` makes of labelled messages."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from .cues import count_features, list_features

WEIGHTS = Path(__file__).parent / "weights.bin"
LABELS = ("knowledge", "instruction", "world", "noise")
CLASSES = (
    "name", "home", "work", "family", "pet", "diet", "health", "like", "routine", "language", "tool", "schedule",
    "possession", "plan",
)  # fmt: skip


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
    """A row of small whole numbers for each feature, and what a step of each column is worth."""

    columns: int
    scales: tuple[float, ...]
    rows: tuple[Sequence[int], ...]


@cache
def _load_weights() -> _Weights:
    head, _, body = WEIGHTS.read_bytes().partition(b"\n")
    scales = json.loads(head)["scales"]
    columns = len(scales)
    numbers = memoryview(body).cast("b").tolist()
    rows = tuple(tuple(numbers[start : start + columns]) for start in range(0, len(numbers), columns))
    assert len(rows) == count_features(), "the weights were made for other features: run benchmarks.fit_extraction"
    return _Weights(columns=columns, scales=tuple(scales), rows=rows)


@lru_cache(maxsize=2048)
def judge_sentence(sentence: str) -> Sense:
    """What a sentence is; the same words always give the same answer."""
    weights = _load_weights()
    sums = map(sum, zip(*(weights.rows[each] for each in list_features(sentence)), strict=True))
    scores = [total * scale for total, scale in zip(sums, weights.scales, strict=True)]
    labels = _to_shares(scores[: len(LABELS)])
    kinds = _to_shares(scores[len(LABELS) : -2])
    best = max(range(len(CLASSES)), key=kinds.__getitem__)
    knowledge, instruction, world, noise = labels
    return Sense(
        knowledge=knowledge, instruction=instruction, world=world, noise=noise, kind=CLASSES[best],
        certainty=kinds[best], ended=_to_shares(scores[-2:])[1],
    )  # fmt: skip


def _to_shares(scores: Sequence[float]) -> list[float]:
    most = max(scores)
    powers = [math.exp(score - most) for score in scores]
    return [power / sum(powers) for power in powers]
