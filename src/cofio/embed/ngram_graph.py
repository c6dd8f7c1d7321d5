"""Builds the graph of the multilingual Universal Sentence Encoder from its weights, and the table of its tokens.

The encoder is convolutions over two, three and five tokens on top of the tokens' own vectors, their mean, and a few
dense layers. The table of tokens is most of it: it stays outside of the graph, in a file of which a text needs only a
few rows, so that it takes no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .onnx_file import FLOAT, INT64, UINT8, OnnxGraph, encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Weights = Mapping[str, NDArray[np.float32]]

DIMENSIONS = 512
_NAME = "universal-sentence-encoder-multilingual"
_CHUNKS = 17  # parts of the table, each with a scale of its own; token n is in part n modulo 17
_WIDTH = 256
_FEATURES = DIMENSIONS + 3 * _WIDTH
_ORDERS = {2: 0, 3: 1, 5: 2}  # how many tokens a convolution sees, and how many of them come before


def build_table(weights: Path) -> NDArray[np.uint8]:
    """One row for each token, in whole numbers that the graph scales."""
    import numpy as np

    with np.load(weights, allow_pickle=False) as arrays:
        table = np.empty((_CHUNKS * len(arrays["q1"]), DIMENSIONS), np.uint8)
        for chunk in range(_CHUNKS):
            table[chunk::_CHUNKS] = arrays[f"q{chunk + 1}"]
    return table


def build_graph(weights: Path) -> bytes:
    """The ONNX file: the tokens of one text and their rows of the table in, a vector of length one out."""
    import numpy as np

    with np.load(weights, allow_pickle=False) as arrays:
        read = {name: np.asarray(arrays[name]) for name in arrays.files if not name.startswith("q")}
    graph = _Graph(read)
    words = _scale_rows(graph)
    features = _add_convolutions(graph, words)
    axis = graph.constant("axis", np.array([0], np.int64))
    total = graph.dense(graph.node("ReduceSum", features, axis, keepdims=1), "cnn_W")
    length = graph.node("Cast", graph.node("Shape", "tokens"), to=FLOAT)
    total = graph.node("Add", total, graph.node("Mul", length, graph.weight("cnn_b")))
    mean = graph.node("Div", total, graph.node("Sqrt", length))
    first = graph.node("Relu", graph.dense(mean, "d0"))
    second = graph.node("Relu", graph.node("Add", graph.dense(mean, "p1"), graph.dense(first, "d1")))
    third = graph.node("Relu", graph.dense(second, "d2"))
    last = graph.node("Tanh", graph.node("Add", graph.dense(second, "p3"), graph.dense(third, "d3")))
    vector = graph.node("LpNormalization", last, axis=1, p=2)
    return graph.encode(
        inputs=[encode_value("rows", UINT8, "length", DIMENSIONS), encode_value("tokens", INT64, "length")],
        outputs=[encode_value(vector, FLOAT, 1, DIMENSIONS)],
    )


class _Graph(OnnxGraph):
    """The graph in the making, with the weights that it is made of."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(_NAME)
        self.weights = weights
        self._epsilon = float(weights["eps"])

    def weight(self, name: str) -> str:
        """Add one of the weights as it is."""
        return self.constant(name, self.weights[name])

    def dense(self, hidden: str, name: str) -> str:
        """The product with one of the matrices."""
        return self.node("MatMul", hidden, self.weight(name))

    def normalize(self, hidden: str, gain: str, bias: str) -> str:
        """Each row with a mean of 0 and a spread of 1, times the gain, plus the bias."""
        return self.node("LayerNormalization", hidden, gain, bias, epsilon=self._epsilon)

    def convolve(self, hidden: str, name: str, size: int) -> str:
        """What `size` tokens around each say, added to what the token itself does."""
        number = f"{name}_{size}"
        # (tokens and channels, out) becomes (out, channels, tokens).
        kernel = self.weights[f"w{number}"].reshape(size, _WIDTH, _WIDTH).transpose(2, 1, 0)
        weight, bias = self.constant(f"w{number}", kernel), self.weight(f"b{number}")
        before = _ORDERS[size]
        mixed = self.node("Conv", hidden, weight, bias, kernel_shape=[size], pads=[before, size - 1 - before])
        return self.node("Add", self.node("Relu", mixed), hidden)


def _scale_rows(graph: _Graph) -> str:
    import numpy as np

    chunk = graph.node("Mod", "tokens", graph.constant("chunks", np.array([_CHUNKS], np.int64)))
    scale, least = (
        graph.node("Gather", graph.constant(name, graph.weights[name].reshape(-1, 1)), chunk, axis=0)
        for name in ("scale", "lo")
    )
    return graph.node("Add", graph.node("Mul", graph.node("Cast", "rows", to=FLOAT), scale), least)


def _add_convolutions(graph: _Graph, words: str) -> str:
    """Return the features of each token: its own vector, and those of the tokens around it by each convolution."""
    import numpy as np

    def join(prefix: str) -> str:
        parts = [graph.weights[f"{prefix}{size}"] for size in _ORDERS]
        return graph.constant(prefix, np.concatenate(parts, axis=-1))

    projected = graph.node("Add", graph.node("MatMul", words, join("proj")), join("proj_b"))
    projected = graph.normalize(projected, join("ln_g"), join("ln_b"))
    front = graph.constant("front", np.array([0], np.int64))
    sizes = graph.constant("sizes", np.full(len(_ORDERS), _WIDTH, np.int64))
    # A convolution wants (text, channels, tokens).
    turned = graph.node("Unsqueeze", graph.node("Transpose", projected, perm=[1, 0]), front)
    split = graph.node("Split", turned, sizes, outputs=len(_ORDERS), axis=1)
    parts = []
    for number, size in enumerate(_ORDERS):
        part = f"{split}.{number}" if number else split
        parts.append(graph.convolve(graph.convolve(part, "1", size), "2", size))
    around = graph.node("Squeeze", graph.node("Concat", *parts, axis=1), front)
    features = graph.node("Concat", words, graph.node("Transpose", around, perm=[1, 0]), axis=1)
    gain, bias = (graph.constant(f"all.{name}", graph.weights[name]) for name in ("ln_g", "ln_b"))
    return graph.normalize(features, gain, bias)
