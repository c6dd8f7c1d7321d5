"""Whether vectors that were made elsewhere are such as the embedder here makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .agent_memory_files import DIMENSIONS, Chunk
from .conversion import join_peer_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..embed import Embedder

LIKE = 0.9  # the least median cosine with which vectors count as made by the same model


def find_difference(embedder: Embedder, samples: Sequence[Chunk]) -> str:
    """Why the samples' vectors are not such as this embedder makes; empty if they are."""
    import numpy as np

    if embedder.dimensions != DIMENSIONS:
        return f"they have {DIMENSIONS} numbers, and those of {embedder.id} have {embedder.dimensions}"
    pairs = [(chunk, vector) for chunk in samples if (vector := decode_vector(chunk.embedding or b"")) is not None]
    if not pairs:
        return "those looked at are all zero or no numbers"
    vectors = embedder.embed([join_peer_text(chunk) for chunk, _ in pairs])
    cosine = float(np.median([vectors[row] @ vector for row, (_, vector) in enumerate(pairs)]))
    return "" if cosine >= LIKE else f"they are unlike those of {embedder.id} (the median cosine is {cosine:.2f})"


def decode_vector(blob: bytes) -> NDArray[np.float32] | None:
    """The vector in an embedding, of length one; None for what has no direction."""
    import numpy as np

    if len(blob) != 4 * DIMENSIONS:
        return None
    numbers = np.frombuffer(blob, "<f4").astype(np.float64)
    length = np.linalg.norm(numbers)
    if not np.isfinite(length) or not length:
        return None
    unit: NDArray[np.float32] = (numbers / length).astype(np.float32)
    return unit
