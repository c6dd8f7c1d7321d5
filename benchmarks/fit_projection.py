"""Makes the matrix that tokens are projected by, of what the model makes of the words of its own vocabulary.

usage: python -m benchmarks.fit_projection [--write]

No text is needed, so none has a say in which meanings are told apart. One made of the texts of this repository found
less, in chats (nDCG by tokens alone .53, with this one .55, on LoCoMo) and in abstracts (.36 and .37 on Cranfield).

Prints how much of a token the projection keeps, and how far cosines by codes are from those of whole vectors. With
`--write`, the package's matrix is replaced, and all codes that were made with the one before are worthless.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cofio.config.settings import Settings
from cofio.embed import token_codes
from cofio.embed.minilm import GRAPH, ID, TOKENIZER, Network

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src" / "cofio" / "embed" / token_codes.FILE
TOGETHER = 8  # words that are read as one text: alone, each would be a text of a single word, which records are not
SHORTEST = 3  # letters
STEPS = np.arange(0.2, 0.6, 0.02)  # widths of a step that are tried, in standard deviations

Floats = NDArray[np.float32]


def list_texts() -> list[str]:
    """The plain words of the vocabulary, some together, in an order that has nothing to do with what they mean."""
    vocabulary = json.loads((Settings().models_folder / ID / TOKENIZER).read_bytes())["model"]["vocab"]
    words = sorted(word for word in vocabulary if word.isascii() and word.isalpha() and len(word) >= SHORTEST)
    random.Random(1).shuffle(words)
    return [" ".join(words[at : at + TOGETHER]) for at in range(0, len(words), TOGETHER)]


def embed_tokens(texts: list[str]) -> Floats:
    """The vectors, of length one, of the tokens that would have codes."""
    folder = Settings().models_folder / ID
    network = Network(folder / GRAPH, folder / TOKENIZER)
    parts = []
    for text in texts:
        _, hidden, words = network.embed_tokens(text)
        parts.append(hidden[token_codes.select_tokens(words)])
    vectors = np.concatenate(parts)
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def fit_matrix(vectors: Floats) -> Floats:
    """The directions in which tokens differ most, as columns."""
    centred = vectors.astype(np.float64) - vectors.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    matrix: Floats = directions[:, ::-1][:, : token_codes.DIMENSIONS].astype(np.float32)
    # Of each direction and its opposite always the same one, whatever the library that found it.
    return matrix * np.sign(matrix[np.abs(matrix).argmax(0), range(token_codes.DIMENSIONS)])


def project(vectors: Floats, matrix: Floats) -> Floats:
    """The numbers that are kept of each token, of length one."""
    projected = vectors @ matrix
    unit: Floats = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    return unit


def quantise(numbers: Floats, steps: Floats) -> Floats:
    """The numbers as four bits have them."""
    coarse: Floats = np.clip(np.round(numbers / steps), -8, 7) * steps
    return coarse


def fit_steps(numbers: Floats) -> Floats:
    """How wide a step of each number is, so that four bits are least wrong."""
    best = np.zeros(numbers.shape[1], np.float32)
    least = np.full(numbers.shape[1], np.inf)
    for share in STEPS:
        steps = (share * numbers.std(0)).astype(np.float32)
        errors = ((quantise(numbers, steps) - numbers) ** 2).mean(0)
        best, least = np.where(errors < least, steps, best), np.minimum(errors, least)
    return best


def main() -> None:
    """Fit on most of the texts, and measure on the rest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    texts = list_texts()
    held_out = len(texts) // 10
    fitted, others = embed_tokens(texts[held_out:]), embed_tokens(texts[:held_out])
    matrix = fit_matrix(fitted).astype(np.float16).astype(np.float32)
    steps = fit_steps(project(fitted, matrix)).astype(np.float16).astype(np.float32)
    numbers = project(others, matrix)
    half = len(others) // 2
    pairs = [(each[:half] @ each[half : 2 * half].T).ravel() for each in (others, numbers)]
    coded = (numbers[:half] @ quantise(numbers, steps)[half : 2 * half].T).ravel()
    print(f"{len(texts):,} texts, {len(fitted):,} tokens fitted on, {len(others):,} measured")
    print(f"length of the mean token: {np.linalg.norm(fitted.mean(0)):.3f}")
    centred = others - others.mean(0)
    print(f"variance kept: {((centred @ matrix) ** 2).sum() / (centred**2).sum():.3f}")
    print(f"correlation of cosines, 64 numbers with 384: {np.corrcoef(pairs[0], pairs[1])[0, 1]:.4f}")
    print(f"correlation of cosines, four bits with 64 numbers: {np.corrcoef(coded, pairs[1])[0, 1]:.4f}")
    if chosen.write:
        TARGET.write_bytes(np.concatenate([matrix, steps[None]]).astype("<f2").tobytes())
        print(f"{TARGET.relative_to(ROOT)} is written: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
