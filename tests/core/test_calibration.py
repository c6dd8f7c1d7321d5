"""Probabilities in the order of a ranking."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.engine.calibration import CALIBRATION, MANY, estimate_relevance, estimate_whole, make_monotone
from cofio.engine.features import Features
from cofio.engine.weights import WEIGHTS, Evidence

chances = st.lists(st.floats(0, 1), max_size=40)


@given(given_chances=chances)
def test_no_later_hit_is_more_likely_and_nothing_is_lost_or_added(given_chances: list[float]) -> None:
    result = make_monotone(given_chances)
    assert len(result) == len(given_chances)
    assert sum(result) == pytest.approx(sum(given_chances))
    assert all(one >= other - 1e-12 for one, other in pairwise(result))
    assert all(0 <= each <= 1 for each in result)
    ordered = sorted(given_chances, reverse=True)
    assert make_monotone(ordered) == ordered


def test_neighbours_out_of_order_share_their_mean() -> None:
    assert make_monotone([0.2, 0.4, 0.1]) == pytest.approx([0.3, 0.3, 0.1])
    assert make_monotone([0.1, 0.2, 0.6]) == pytest.approx([0.3, 0.3, 0.3])


@given(chance=st.floats(0, 1), other=st.floats(0, 1))
def test_a_whole_is_at_least_as_likely_as_its_best_part_and_keeps_the_order(chance: float, other: float) -> None:
    assert chance <= estimate_whole(chance) <= 1
    low, high = sorted((chance, other))
    assert estimate_whole(low) <= estimate_whole(high)


def describe(cover: float, cosine: float | None, likeness: float | None = None) -> Features:
    """One candidate, of which this is known."""
    return Features([1], {}, None, 0.0, [cover], [cosine], [likeness], is_name=False)


@pytest.mark.parametrize("evidence", WEIGHTS)
def test_more_evidence_makes_a_hit_more_likely(evidence: Evidence) -> None:
    weak, strong = describe(0.0, 0.05, 0.2), describe(1.0, 0.8, 0.9)
    (low,), (high,) = estimate_relevance(weak, [0.5], evidence), estimate_relevance(strong, [0.5], evidence)
    assert low < 0.1 < 0.5 < high < 1
    assert CALIBRATION.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("evidence", ["vectors+tokens", "words+vectors+tokens"])
def test_to_be_near_says_more_the_fewer_there_were(evidence: Evidence) -> None:
    (usual,) = estimate_relevance(describe(0.3, 0.4, 0.4), [0.5], evidence)
    compared = [1, 2, 10, MANY - 1, MANY, 10 * MANY]
    chances = [estimate_relevance(describe(0.3, 0.4, 0.4), [0.5], evidence, each)[0] for each in compared]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > chances[3] > chances[4] == chances[5] == usual
    assert estimate_relevance(describe(0.3, 0.4, 0.4), [0.5], evidence, 0) == [usual]


def test_every_feature_that_has_a_weight_is_one_that_there_is() -> None:
    known = {
        "words", "window", "meaning", "tokens", "neighbours", "session", "author", "asker", "date", "question",
        "reply", "length", "exact", "adjacent",
    }  # fmt: skip
    for weights in WEIGHTS.values():
        for each in weights:
            assert each.keys() <= known
        assert "question" not in weights.notes
        assert weights.mix(0.0) == weights.short
        assert weights.mix(1.0) == pytest.approx(dict.fromkeys(weights.short, 0.0) | dict(weights.long))
