"""A stretch of conversation, read by the rules and by the vectors of its sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, TypeAlias

from ..extractor import Extraction, Message, Recalled
from . import Rules
from .messages.turns import Turn, read_turns
from .senses.classifier import Sense, judge_with_vector, use_senses
from .senses.verdicts import find_told, is_judged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

MODEL = "minilm-l6-v2-int8"
"""The embedder that the weights were made with."""
MOST_SENTENCES = 400  # of one stretch, which are some hundred messages


def read_with_vectors(
    messages: Sequence[Message],
    zone: tzinfo,
    recalled: Recalled,
    vectors: Mapping[str, Vector],
    embed: Callable[[Sequence[str]], Vector],
) -> Extraction:
    """Extract what a stretch holds, judging each sentence of a user by its words and its vector.

    `vectors` are those of messages by their ids, a MODEL's: one of a single sentence needs no other. The other
    sentences are passed to `embed`, up to MOST_SENTENCES.
    """
    read = read_turns(messages, zone, recalled)
    known, missing = _find_vectors(read, vectors)
    if missing:
        known |= zip(missing, embed(missing), strict=True)
    senses: dict[str, Sense] = {text: judge_with_vector(text, vector) for text, vector in known.items()}
    with use_senses(senses):
        return Rules().extract_turns(read, messages, zone)


def _find_vectors(read: Sequence[Turn], vectors: Mapping[str, Vector]) -> tuple[dict[str, Vector], list[str]]:
    """What is judged of a stretch, with its vector where that is known; and what has none, in its order."""
    known: dict[str, Vector] = {}
    missing: dict[str, None] = {}
    for turn in read:
        if turn.message.role == "user":
            own, whole = vectors.get(turn.message.id), turn.message.text.strip()
            for told in map(find_told, filter(is_judged, turn.sentences)):
                if own is not None and told == whole:
                    known[told] = own
                else:
                    missing[told] = None
    return known, [text for text in missing if text not in known][: max(0, MOST_SENTENCES - len(known))]
