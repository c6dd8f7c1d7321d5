"""What each feature of a candidate is worth. The numbers are made by `python -m benchmarks.fit_ranking`.

There are three sets of weights for each kind of search: for records without a session (notes, documents), for the short
turns of people, and for the long ones of a chat with an assistant. A chat in between has a mixture of the two. Where
tokens are not compared, `length` was fitted as .53 and 1.2, and is .3: long turns would win whatever they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Weights = Mapping[str, float]
Evidence = Literal["words", "vectors", "vectors+tokens", "words+vectors", "words+vectors+tokens"]
"""What there is to go by."""


class WeightSet(NamedTuple):
    """Weights for one kind of search."""

    notes: Weights
    short: Weights
    long: Weights

    def mix(self, length: float) -> Weights:
        """Return the weights for a chat whose turns are so long, from 0 to 1."""
        if length <= 0:
            return self.short
        names = self.short.keys() | self.long.keys()
        return {
            name: (1 - length) * self.short.get(name, 0.0) + length * self.long.get(name, 0.0) for name in sorted(names)
        }


NAME = 3.0
"""What a name or a quotation is worth where nothing else is asked for: more than all else together."""
_USUAL = ("words", "window", "meaning", "tokens", "neighbours", "session")
"""What speaks for nearly every good answer; the other features are about few of them."""


def scale_weights(together: Weights, alone: Weights) -> Weights:
    """Return the weights of turns such that a good turn reaches as much as a good record without a session does.

    They were fitted apart from each other, and only what they are worth beside each other was: where both kinds are
    found, the sum of the turns' features, of which there are more, would leave every note behind.
    """
    factor = sum(alone.get(name, 0.0) for name in _USUAL) / sum(together.get(name, 0.0) for name in _USUAL)
    return {name: factor * weight if name != "exact" else weight for name, weight in together.items()}


WEIGHTS: Mapping[Evidence, WeightSet] = {
    "words": WeightSet(
        notes={"words": 1.0, "exact": 0.5, "adjacent": 0.1},
        short={
            "words": 0.45, "window": 0.55, "neighbours": 0.10, "session": 0.52, "author": 0.30, "asker": 0.30,
            "date": 0.90, "question": -0.25, "reply": 0.73, "length": 0.32, "exact": 0.50, "adjacent": 0.19,
        },
        long={
            "words": 0.90, "window": 0.10, "neighbours": 0.49, "session": 0.36, "author": 0.30, "asker": 0.53,
            "exact": 0.50, "adjacent": 0.67,
        },
    ),
    "words+vectors": WeightSet(
        notes={"words": 0.4, "meaning": 0.6, "exact": 0.5, "adjacent": 0.05},
        short={
            "words": 0.21, "window": 0.41, "meaning": 0.38, "neighbours": 0.16, "session": 0.75, "author": 0.23,
            "asker": 0.23, "date": 0.70, "question": -0.18, "reply": 0.52, "length": 0.30, "exact": 0.50,
            "adjacent": 0.19,
        },
        long={
            "words": 0.37, "window": 0.13, "meaning": 0.50, "neighbours": 0.10, "session": 0.36, "author": 0.23,
            "asker": 0.34, "exact": 0.50, "adjacent": 0.31,
        },
    ),
    "words+vectors+tokens": WeightSet(
        notes={"words": 0.4, "meaning": 0.6, "tokens": 0.2, "exact": 0.5, "adjacent": 0.05},
        short={
            "window": 0.34, "meaning": 0.22, "tokens": 0.45, "neighbours": 0.09, "session": 0.55, "author": 0.23,
            "asker": 0.23, "date": 0.72, "question": -0.21, "reply": 0.70, "length": 0.16, "exact": 0.50,
            "adjacent": 0.15,
        },
        long={
            "words": 0.32, "window": 0.09, "meaning": 0.47, "tokens": 0.11, "neighbours": 0.18, "session": 0.42,
            "author": 0.2, "asker": 0.35, "exact": 0.50, "adjacent": 0.30,
        },
    ),
    "vectors": WeightSet(
        notes={"meaning": 1.0},
        short={
            "meaning": 1.00, "neighbours": 0.37, "session": 1.04, "author": 0.26, "asker": 0.26, "date": 0.79,
            "question": -0.11, "reply": 0.31, "length": 0.30, "exact": 0.50,
        },
        long={"meaning": 1.00, "neighbours": 0.08, "session": 0.44, "author": 0.26, "asker": 0.33, "exact": 0.50},
    ),
    "vectors+tokens": WeightSet(
        notes={"meaning": 1.0, "tokens": 0.4},
        short={
            "meaning": 0.11, "tokens": 0.89, "neighbours": 0.22, "session": 1.28, "author": 0.23, "asker": 0.23,
            "date": 0.77, "question": -0.22, "reply": 0.78, "length": 0.07, "exact": 0.5,
        },
        long={
            "meaning": 0.50, "tokens": 0.50, "neighbours": 0.19, "session": 0.67, "author": 0.23, "asker": 0.35,
            "exact": 0.5,
        },
    ),
}  # fmt: skip
