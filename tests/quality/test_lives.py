"""A question about a life gets what holds now, what held before where that is asked for, and no answer where none is.

The lives are those of `python -m benchmarks.currency`, which prints every figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.currency import DATA, HALVES, NONE, Verdict, load, measure

FIRST = {"development": 0.70, "held back": 0.43}
AMONG_THREE = {"development": 0.86, "held back": 0.70}
MOST_STALE = {"development": 0.12, "held back": 0.14}
REFUSED, UNSURE = 0.8, 0.3
"""The least share of questions without an answer that are refused, and the most of those that are answered rightly."""


@pytest.fixture(scope="module")
def verdicts(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Verdict]:
    """What came of each question."""
    return measure(load(DATA), tmp_path_factory.mktemp("lives") / "store")


def _share(cases: Sequence[bool]) -> float:
    return sum(cases) / len(cases)


@pytest.mark.parametrize("half", HALVES)
def test_what_holds_now_comes_first_and_what_nobody_said_is_refused(verdicts: Sequence[Verdict], half: str) -> None:
    own = [each for each in verdicts if each.life.half == half]
    answerable = [each for each in own if each.question.kind != NONE]
    right = [each for each in answerable if each.is_right(1)]
    assert _share([each.is_right(1) for each in answerable]) >= FIRST[half]
    assert _share([each.is_right(3) for each in answerable]) >= AMONG_THREE[half]
    assert _share([each.is_stale for each in answerable]) <= MOST_STALE[half]
    assert _share([each.is_refused for each in own if each.question.kind == NONE]) >= REFUSED
    assert _share([each.is_refused for each in right]) <= UNSURE
