"""An embedder without a model: texts that share words or parts of words come out near each other."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

from . import embed_in_turn, replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

_DIMENSIONS = 384
_WORD = re.compile(r"\w+")


class HashedEmbedder:
    """Hashes words and their trigrams into 384 signed buckets, in the same way on every machine."""

    @property
    def id(self) -> str:
        """Changes when the same text would give another vector."""
        return "hashed-384"

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        return _DIMENSIONS

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question."""
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """One row for each of the first texts, as many as about `seconds` allow."""
        return embed_in_turn(self.embed, texts, seconds)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one for each text."""
        import numpy as np

        vectors = np.zeros((len(texts), _DIMENSIONS), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for feature in _list_features(text.lower()):
                digest = int.from_bytes(blake2b(replace_surrogates(feature).encode(), digest_size=8).digest())
                vector[digest % _DIMENSIONS] += 1 if digest >> 63 else -1
            # Opposite signs in one bucket may cancel out to nothing, which has no direction.
            vector[0] += not vector.any()
            vector /= np.linalg.norm(vector)
        return vectors


def _list_features(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    if not words:
        yield text
    for word in words:
        yield word
        padded = f"^{word}$"
        for start in range(len(padded) - 2):
            yield padded[start : start + 3]
