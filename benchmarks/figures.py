"""The figures of retrieval: how well rankings agree with the gold, and scores with what is relevant. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from statistics import fmean

FIRST = 10
"""How many hits count for hit@10, nDCG@10 and the calibration."""
BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How well one answer, or the average of many, agrees with the gold: each from 0 to 1."""

    recall_5: float
    recall_10: float
    recall_20: float
    hit_10: float
    mrr: float
    ndcg_10: float


COLUMNS = ("R@5", "R@10", "R@20", "hit@10", "MRR", "nDCG@10")
"""What a table calls the figures, in their order."""


def measure(found: Sequence[str], gold: frozenset[str]) -> Figures:
    """Measure the ids found, best first, against those that answer the question."""
    ranks = [rank for rank, record in enumerate(found, 1) if record in gold]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(FIRST, len(gold)) + 1))
    return Figures(
        recall_5=sum(rank <= 5 for rank in ranks) / len(gold),
        recall_10=sum(rank <= 10 for rank in ranks) / len(gold),
        recall_20=sum(rank <= 20 for rank in ranks) / len(gold),
        hit_10=float(any(rank <= FIRST for rank in ranks)),
        mrr=1 / ranks[0] if ranks else 0.0,
        ndcg_10=sum(1 / math.log2(rank + 1) for rank in ranks if rank <= FIRST) / ideal,
    )


def average(figures: Sequence[Figures]) -> Figures:
    """Return the mean of each figure over the questions."""
    return Figures(
        recall_5=fmean(each.recall_5 for each in figures),
        recall_10=fmean(each.recall_10 for each in figures),
        recall_20=fmean(each.recall_20 for each in figures),
        hit_10=fmean(each.hit_10 for each in figures),
        mrr=fmean(each.mrr for each in figures),
        ndcg_10=fmean(each.ndcg_10 for each in figures),
    )


def render_figures(figures: Figures) -> list[str]:
    """The cells of a table, in hundredths."""
    return [f"{100 * value:.1f}" for value in astuple(figures)]


def is_in_order(found: Sequence[str], gold: frozenset[str], below: frozenset[str]) -> bool:
    """Whether a record of the gold was found, and none of `below` stands before it."""
    first = next((record for record in found if record in gold or record in below), None)
    return first is not None and first in gold


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a search said of one hit, and whether it is relevant."""

    score: float
    relevant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Hits of similar scores."""

    score: float
    """The mean of their scores."""
    share: float
    """How many of them are relevant, from 0 to 1."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far scores can be read as probabilities."""

    count: int
    share: float
    """How many of all hits are relevant."""
    by_width: tuple[Bin, ...]
    """Bins of a tenth of the scale each, from the lowest; without those that hold nothing."""
    by_count: tuple[Bin, ...]
    """Bins of a tenth of the hits each."""
    brier: float
    """The mean square of the difference between a score and what is the case: 0 is perfect."""

    @property
    def error(self) -> float:
        """The expected calibration error over bins of equal width."""
        return compute_error(self.by_width)

    @property
    def error_by_count(self) -> float:
        """The expected calibration error over bins of equal count."""
        return compute_error(self.by_count)


def calibrate(judgements: Sequence[Judgement]) -> Calibration:
    """Compare the scores of hits with how many of them are relevant; there must be at least one."""
    by_width: list[list[Judgement]] = [[] for _ in range(BINS)]
    for each in judgements:
        by_width[min(BINS - 1, max(0, int(each.score * BINS)))].append(each)
    ordered = sorted(judgements, key=lambda each: each.score)
    edges = [len(ordered) * step // BINS for step in range(BINS + 1)]
    by_count = [ordered[start:end] for start, end in pairwise(edges)]
    return Calibration(
        count=len(judgements),
        share=fmean(each.relevant for each in judgements),
        by_width=tuple(map(_fill, filter(None, by_width))),
        by_count=tuple(map(_fill, filter(None, by_count))),
        brier=fmean((each.score - each.relevant) ** 2 for each in judgements),
    )


def compute_error(bins: Sequence[Bin]) -> float:
    """Return the mean distance of score and share, each bin by the number of its hits."""
    return sum(each.count * abs(each.score - each.share) for each in bins) / sum(each.count for each in bins)


def _fill(judgements: Sequence[Judgement]) -> Bin:
    return Bin(
        score=fmean(each.score for each in judgements),
        share=fmean(each.relevant for each in judgements),
        count=len(judgements),
    )
