"""What a hit reports: the probability that it is relevant, comparable between queries. Pure functions.

The numbers are made by `python -m benchmarks.fit_ranking`, from what was found for questions whose answers are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .features import Features
from .weights import Evidence

# Without tokens, the constant was fitted as -4.92 and -6.03. It is higher, so that less is silenced: cosines of other
# embedders, which these are for, are spread in other ways than MiniLM's, on which they were fitted.
CALIBRATION: Mapping[Evidence, Mapping[str, float]] = {
    "words": {"": -4.67, "cover": 2.73, "standing": 2.23},
    "vectors": {"": -4.3, "cosine": 5.5, "standing": 0.8},
    "vectors+tokens": {"": -7.67, "cosine": 2.98, "likeness": 3.48, "standing": 2.46},
    "words+vectors": {"": -5.2, "cosine": 3.67, "cover": 1.71, "standing": 2.23},
    "words+vectors+tokens": {"": -7.17, "cosine": 2.61, "likeness": 2.82, "cover": 0.29, "standing": 2.85},
}

MANY, CROWD = 60, 1 / 3
"""From how many records on, that vectors are compared with, their number says nothing; and what it says below.

The best of many is near to a question by chance more often than the best of a few: how near it is says more where there
are few. With the third root, 1 to 4 records of which one answers find nothing for 0 to 11 % of the questions of each
development set (2 to 53 % without it), and a question about something else still finds nothing in them. Where there are
no tokens, the constants above are high already.
"""

WHOLE, WHOLE_ODDS = 2.4, 1.5
"""What the logarithm of the odds of the best part becomes for the whole.

Fitted on the first session that is found for 300 questions of LoCoMo and 142 of BEAM, and for the same questions asked
of another conversation, which count a fifth: of those whose best turn had .1 to .2, .2 to .3 and .3 to .4, 70 %, 68 %
and 78 % held the answer somewhere.
"""


def list_signals(features: Features, totals: Sequence[float]) -> dict[str, Sequence[float]]:
    """Return what is known of each candidate that says something of its relevance, whatever the query.

    Its standing is how its total compares with that of the best: what is far behind another is rarely the answer.
    """
    best = max(totals, default=0.0)
    unknown = 0.0
    return {
        "cover": features.cover,
        "cosine": [unknown if each is None else each for each in features.cosine],
        "likeness": [unknown if each is None else each for each in features.likeness],
        "standing": [max(0.0, total / best) if best > 0 else 0.0 for total in totals],
    }


def estimate_relevance(
    features: Features, totals: Sequence[float], evidence: Evidence, compared: int | None = None
) -> list[float]:
    """Return the probability that each candidate is relevant; `compared` is how many a vector was compared with."""
    signals, factors = list_signals(features, totals), CALIBRATION[evidence]
    few = CROWD * math.log(MANY / compared) if "tokens" in evidence and compared and compared < MANY else 0.0
    sums = [factors[""] + few] * len(features.rows)
    for name, factor in factors.items():
        if name:
            sums = [total + factor * value for total, value in zip(sums, signals[name], strict=True)]
    return [1 / (1 + math.exp(-total)) for total in sums]


def estimate_whole(chance: float) -> float:
    """Return the probability that a whole answers, as a session, which is the first hit by the best of its parts.

    That the very part answers is less likely: often it is the turn beside it. Of those that come after the first, what
    their best part has is right as it is.
    """
    odds = math.log(max(chance, 1e-9) / max(1 - chance, 1e-9))
    return max(chance, 1 / (1 + math.exp(-(WHOLE + WHOLE_ODDS * odds))))


def make_monotone(chances: Sequence[float]) -> list[float]:
    """Return probabilities, which come in the order of the ranking, such that none is above one that comes before it.

    Neighbours that are out of order share their mean, as isotonic regression has it: the sum stays the same.
    """
    groups: list[tuple[float, int]] = []
    for chance in chances:
        total, count = chance, 1
        while groups and groups[-1][0] * count < total * groups[-1][1]:
            before, size = groups.pop()
            total, count = total + before, count + size
        groups.append((total, count))
    return [total / count for total, count in groups for _ in range(count)]
