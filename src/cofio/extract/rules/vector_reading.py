"""A stretch of conversation, read once more: by the rules, and by the vectors of its sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from ..extractor import Extraction, Message
from . import Rules
from .messages.turns import read_turns
from .senses.classifier import Sense, judge_with_vector, use_senses
from .senses.verdicts import find_told, is_judged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "minilm-l6-v2-int8"
"""The embedder that the weights were made with."""
MOST_SENTENCES = 400  # of one stretch, which are some hundred messages


def read_with_vectors(
    messages: Sequence[Message], zone: tzinfo, embed: Callable[[Sequence[str]], NDArray[np.float32]]
) -> Extraction:
    """What a stretch holds, where each sentence of a user is judged by its words and by its vector, a MODEL's."""
    turns = read_turns(messages, zone, lambda _: False)
    spoken = [one for turn in turns if turn.message.role == "user" for one in turn.sentences if is_judged(one)]
    texts = list(dict.fromkeys(find_told(one) for one in spoken))[:MOST_SENTENCES]
    senses: dict[str, Sense] = {}
    if texts:
        vectors = embed(texts)
        senses = {text: judge_with_vector(text, vector) for text, vector in zip(texts, vectors, strict=True)}
    with use_senses(senses):
        return Rules().extract(messages, zone, lambda _: False)
