"""The hashed embedder, with codes of its tokens: a word is near to itself and to no other."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cofio.embed import QueryTokens
from cofio.embed.hashed import HashedEmbedder
from cofio.embed.token_codes import BYTES, decode


class CodedEmbedder(HashedEmbedder):
    """An embedder whose texts can be compared word by word, without a model."""

    def embed_with_codes(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[bytes]]:
        """Return the vectors, and the codes of each text's words."""
        return self.embed(texts), [encode_words(text) for text in texts]

    def embed_query_with_tokens(self, text: str) -> tuple[NDArray[np.float32], QueryTokens]:
        """Return the vector, and what is 1 with the code of the same word."""
        numbers = decode([encode_words(text)])[0].astype(np.float32)
        matrix: NDArray[np.float32] = numbers / (numbers * numbers).sum(1, keepdims=True)
        return self.embed_query(text), QueryTokens(tuple(text.lower().split()), matrix)


def encode_words(text: str) -> bytes:
    """Return the codes of a text's words."""
    return b"".join(blake2b(word.encode(), digest_size=BYTES).digest() for word in text.lower().split())
