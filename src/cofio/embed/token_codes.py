"""What is kept of the vectors of a text's tokens, so that texts can be compared word by word. Pure functions.

A token's vector of 384 numbers is projected to 64 by a matrix that `benchmarks/fit_projection.py` made, scaled to
length one, and kept in four bits a number: 32 bytes a token. A query is not cut down to four bits: its numbers are
multiplied by the width of a step beforehand, so that their product with the whole numbers of a code is a cosine.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..text.tokenizer import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

FILE = "projection.bin"
WIDTH, DIMENSIONS = 384, 64  # of a token's vector, and of what is kept of it
BYTES = DIMENSIONS // 2  # a token
MOST_TOKENS = 96  # of a text that have codes: the first that tell anything
SKIPS_STOP_WORDS = True  # whether tokens of words such as "the" have none, where a text has other words
_LEAST, _MOST = -8, 7
_ALONE = 1 << 18
"""How many multiplications a product may have for OpenBLAS not to hand it to all cores. They would save some tens of
microseconds, but on a busy machine each waits for its turn: 40 ms were measured where 0.1 are enough."""
_CONTRACTIONS = frozenset({"s", "t", "d", "m", "ll", "re", "ve"})  # what is left of "it's" after the apostrophe
_APOSTROPHES = frozenset("'’")


class Projection(NamedTuple):
    """How the numbers of a token become those of its code."""

    matrix: Floats
    """Of 384 rows and 64 columns."""
    steps: Floats
    """How wide a step of each of the 64 numbers is."""


@cache
def load_projection() -> Projection:
    """The projection that comes with the package."""
    numbers = np.frombuffer(files("cofio.embed").joinpath(FILE).read_bytes(), "<f2").astype(np.float32)
    matrix, steps = np.split(numbers.reshape(-1, DIMENSIONS), [WIDTH])
    return Projection(matrix, steps[0])


def select_tokens(words: Sequence[str]) -> list[int]:
    """The places of the tokens that have codes, where each token is a piece of the word at its place.

    Punctuation has none, nor have stop words, unless a text is made of them.
    """
    plain = [place for place, word in enumerate(words) if word.isalnum() or any(map(str.isalnum, word))]
    telling = [place for place in plain if not _is_stop_word(words, place)] if SKIPS_STOP_WORDS else plain
    return (telling or plain)[:MOST_TOKENS]


def _is_stop_word(words: Sequence[str], place: int) -> bool:
    word = words[place]
    return word in STOP_WORDS or (word in _CONTRACTIONS and place > 0 and words[place - 1] in _APOSTROPHES)


def encode(hidden: Floats, keep: Sequence[int]) -> bytes:
    """The codes of a text, one token after the other; `keep` says of which of the rows of `hidden`."""
    if not keep:
        return b""
    numbers = np.round(_project(hidden[list(keep)]) / load_projection().steps)
    low, high = np.split(np.clip(numbers, _LEAST, _MOST).astype(np.int8).view(np.uint8), 2, axis=1)
    return ((low & 15) | (high << 4)).tobytes()


def prepare_query(hidden: Floats) -> Floats:
    """What codes are multiplied with, of each token of a query: their product is the cosine."""
    return _project(hidden) * load_projection().steps


def decode(codes: Sequence[bytes]) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
    """The numbers of all tokens of some texts, one after the other, and how many tokens each text has."""
    lengths = np.fromiter(map(len, codes), np.intp, len(codes)) // BYTES
    packed = np.frombuffer(b"".join(codes), np.int8).reshape(-1, BYTES)
    numbers = np.empty((len(packed), DIMENSIONS), np.int8)
    np.right_shift(np.left_shift(packed, 4), 4, out=numbers[:, :BYTES])  # keeps the sign
    np.right_shift(packed, 4, out=numbers[:, BYTES:])
    return numbers, lengths


def score(query: Floats, weights: Floats, codes: Sequence[bytes]) -> Floats:
    """How well each text answers a query, from -1 to 1: for each token of the query the best of the text, on average.

    `query` is what `prepare_query` made, and `weights` says how much each of its tokens counts. A text without any
    tokens, and every text where nothing counts, has 0.
    """
    scores, total = np.zeros(len(codes), np.float32), float(weights.sum())
    numbers, lengths = decode(codes)
    if not len(numbers) or not total:
        return scores
    has_tokens = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[has_tokens]
    best = np.maximum.reduceat(_multiply(numbers, np.ascontiguousarray(query.T)), starts, axis=0)
    scores[has_tokens] = best @ (weights / total).astype(np.float32)
    return scores


def _multiply(rows: Floats | NDArray[np.int8], matrix: Floats) -> Floats:
    """The product, some rows at a time."""
    product = np.empty((len(rows), matrix.shape[1]), np.float32)
    step = max(1, _ALONE // max(1, matrix.size))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        np.matmul(rows[some].astype(np.float32, copy=False), matrix, out=product[some])
    return product


def _project(hidden: Floats) -> Floats:
    """The 64 numbers of each token, of length one."""
    projected = _multiply(hidden, load_projection().matrix)
    lengths = np.sqrt(np.einsum("ij,ij->i", projected, projected))[:, None]
    unit: Floats = projected / np.maximum(lengths, np.float32(1e-12))
    return unit
