"""Makes the groups of words by which the rules judge words that no labelled message has: `senses/word_groups.bin`.

usage: python -m benchmarks.group_words

The words are those of the vocabularies of the two models that can be installed, the most frequent first, and their
vectors are the multilingual model's: "wife", "marido" and "Ehefrau" come to lie in one group. k-means, by cosine, from
a fixed seed, so that the same models give the same file. Needs both models: `cofio model install`, and the same with
`multilingual`.
"""

from __future__ import annotations

import json
import re
from array import array
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cofio import Settings
from cofio.embed import minilm, multilingual, open_embedder
from cofio.extract.rules.senses import word_groups
from cofio.extract.rules.senses.word_groups import FILE, GROUPS, hash_word

SPACED, UNSPACED, ENGLISH = 17_500, 2_500, 4_500
"""How many words are taken: of all languages, of scripts without spaces, and more of English."""
ROUNDS, SEED, BATCH = 12, 7, 500
_SPACED = re.compile("[a-zà-öø-ÿœß]{3,}")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]{1,4}")


def list_words(models: Path) -> list[str]:
    """The words to group, each once."""
    pieces = json.loads((models / multilingual.ID / multilingual.VOCABULARY).read_text(encoding="utf-8"))["pieces"]
    begin = (piece.removeprefix("▁").lower() for piece in pieces if piece.startswith("▁"))
    spaced = islice(dict.fromkeys(word for word in begin if _SPACED.fullmatch(word)), SPACED)
    bare = (piece.removeprefix("▁") for piece in pieces)
    unspaced = islice(dict.fromkeys(word for word in bare if _UNSPACED.fullmatch(word)), UNSPACED)
    found = dict.fromkeys([*spaced, *unspaced])
    tokens = json.loads((models / minilm.ID / minilm.TOKENIZER).read_text(encoding="utf-8"))["model"]["vocab"]
    english = (word for word in sorted(tokens, key=tokens.__getitem__) if _SPACED.fullmatch(word))
    found.update(dict.fromkeys(islice((word for word in english if word not in found), ENGLISH)))
    return list(found)


def group(vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """The number of the group of each word."""
    dice = np.random.default_rng(SEED)
    vectors = vectors - vectors.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    centres = vectors[dice.choice(len(vectors), GROUPS, replace=False)]
    for _ in range(ROUNDS):
        nearest = np.argmax(vectors @ centres.T, axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, vectors)
        empty = np.linalg.norm(sums, axis=1) < 1e-6
        sums[empty] = vectors[dice.choice(len(vectors), int(empty.sum()))]
        centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    numbers: NDArray[np.intp] = np.argmax(vectors @ centres.T, axis=1)
    return numbers


def main() -> None:
    """Embed, group, and write."""
    models = Settings.load(Path()).models_folder
    embedder = open_embedder("multilingual", models=models)
    assert embedder is not None
    words = list_words(models)
    vectors = np.concatenate([embedder.embed(words[at : at + BATCH]) for at in range(0, len(words), BATCH)])
    numbers = group(vectors)
    table = array("I", sorted(hash_word(word) | int(number) for word, number in zip(words, numbers, strict=True)))
    file = Path(word_groups.__file__).parent / FILE
    file.write_bytes(np.array(table, dtype="<u4").tobytes())
    print(f"{len(words)} words, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
