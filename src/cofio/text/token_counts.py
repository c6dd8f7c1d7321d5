"""How much a text costs a model, and how texts are cut so that they fit."""

from __future__ import annotations

from collections.abc import Sequence

CUT = " […] "
_HEAD = 0.7  # of what is kept of a text that is cut stands at its beginning


def count_tokens(text: str) -> int:
    """Estimate the tokens that a model counts: one for four letters of English, or for one of another script."""
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // 4) + len(text) - plain


def trim(text: str, most: int) -> str:
    """Cut a text to at most `most` tokens: of a longer one, the beginning and the end are left."""
    if count_tokens(text) <= most:
        return text
    size = max(1, len(text) * most // count_tokens(text) - len(CUT))
    while True:
        head = int(size * _HEAD)
        short = f"{text[:head].rstrip()}{CUT}{text[len(text) - (size - head) :].lstrip()}"
        if count_tokens(short) <= most or size <= 1:
            return short
        size = size * 9 // 10


def fit(texts: Sequence[str], most: int) -> list[str]:
    """Cut texts to at most `most` tokens together: only the longest are cut, all of them to the same length."""
    costs = [count_tokens(text) for text in texts]
    if sum(costs) <= most:
        return list(texts)
    room, cap = most, 0
    for index, cost in enumerate(sorted(costs)):
        cap = room // (len(costs) - index)
        if cost > cap:
            break
        room -= cost
    return [trim(text, cap) for text in texts]
