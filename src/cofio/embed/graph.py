"""Builds the int8 graph of all-MiniLM-L6-v2 from its weights, operator by operator, and writes it as an ONNX file.

Every number here comes from operations that IEEE 754 rounds exactly, so the file is the same on every machine, byte by
byte.
"""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING

from .onnx_file import FLOAT, INT64, OnnxGraph, add_output, encode_value, find_graph

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_NAME = "all-MiniLM-L6-v2"
_DIMENSIONS = 384
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
# Eight full bits overflow the sums of processors that have AVX2 but not VNNI.
_MOST = 64
_VECTOR = re.compile(rb"LpNormalization-(\d+)")


def build_graph(weights: Path) -> bytes:
    """The ONNX file for the official `model.safetensors`: token ids (batch, length) in, vectors of length one out.

    There is no mask, so the texts of a batch must be equally long.
    """
    graph = _Graph(read_weights(weights))
    hidden = _embed_tokens(graph)
    for index in range(_LAYERS):
        hidden = _add_layer(graph, f"encoder.layer.{index}", hidden)
    mean = graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
    vector = graph.node("LpNormalization", mean, axis=1, p=2)
    return graph.encode(
        inputs=[encode_value("input_ids", INT64, "batch", "length")],
        outputs=[encode_value(vector, FLOAT, "batch", _DIMENSIONS)],
    )


def add_token_output(graph: bytes) -> bytes:
    """The file that `build_graph` made, with a second output: the vector of each token (batch, length, 384).

    They are in it anyway, as what the first output is the mean of. It is added when a graph is loaded, not when it is
    built: so the models that are installed do for every version of cofio, older ones included.
    """
    _, _, end = find_graph(graph)
    # The mean of the tokens is scaled by the last node, and so they come from the one two before.
    *_, last = _VECTOR.finditer(graph, end - 100, end)
    tokens = encode_value(f"LayerNormalization-{int(last[1]) - 2}", FLOAT, "batch", "length", _DIMENSIONS)
    return add_output(graph, tokens)


def read_weights(path: Path) -> dict[str, Floats]:
    """The float32 arrays of a safetensors file by name: a length, a table in JSON, and the numbers."""
    import numpy as np

    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        table = json.loads(file.read(length))
    numbers = np.memmap(path, np.uint8, "r", offset=8 + length)
    weights: dict[str, Floats] = {}
    for name, entry in table.items():
        if entry.get("dtype") == "F32":
            start, end = entry["data_offsets"]
            weights[name] = numbers[start:end].view("<f4").reshape(entry["shape"])
    return weights


def quantise_columns(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """The matrix in whole numbers from -64 to 64, and what each column of them is to be multiplied by."""
    import numpy as np

    largest = np.abs(matrix).max(axis=0).astype(np.float64)
    scales = np.where(largest > 0, largest / _MOST, 1).astype(np.float32)
    return np.round(matrix / scales).astype(np.int8), scales


def quantise_table(table: Floats) -> tuple[NDArray[np.uint8], Floats, NDArray[np.uint8]]:
    """The table in whole numbers from 0 to 255, what they are to be multiplied by, and which of them stands for 0."""
    import numpy as np

    least, most = min(table.min(), np.float32(0)), max(table.max(), np.float32(0))
    step = (np.float64(most) - np.float64(least)) / 255 or 1.0
    zero, scale = np.uint8(np.round(-least / step)), np.float32(step)
    numbers = np.clip(np.round(table / scale) + zero, 0, 255).astype(np.uint8)
    return numbers, np.array(scale), np.array(zero)


class _Graph(OnnxGraph):
    """The graph in the making, with the weights that it is made of."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        super().__init__(_NAME)
        self.weights = weights

    def weight(self, name: str) -> str:
        """Add one of the weights as it is."""
        return self.constant(name, self.weights[name])

    def quantise(self, hidden: str) -> tuple[str, str, str]:
        """What was computed, in whole numbers, with their scale and zero."""
        name = self.node("DynamicQuantizeLinear", hidden, outputs=3)
        return name, f"{name}.1", f"{name}.2"

    def columns(self, name: str, matrix: Floats) -> tuple[str, str, str]:
        """Add a matrix in whole numbers, with a scale and a zero for each column."""
        import numpy as np

        numbers, scales = quantise_columns(matrix)
        zeros = self.constant(f"{name}.zero", np.zeros(len(scales), np.int8))
        return self.constant(name, numbers), self.constant(f"{name}.scale", scales), zeros

    def dense(self, name: str, hidden: str) -> str:
        """The product with a layer's matrix; whatever comes next adds the bias."""
        # PyTorch keeps the matrix as (out, in); MatMul wants (in, out).
        matrix, scales, zeros = self.columns(f"{name}.weight", self.weights[f"{name}.weight"].T)
        numbers, scale, zero = self.quantise(hidden)
        both = self.node("Mul", scale, scales)
        product = self.node("Cast", self.node("MatMulInteger", numbers, matrix, zero, zeros), to=FLOAT)
        return self.node("Mul", product, both)

    def output(self, name: str, inputs: str, skipped: str) -> str:
        """The end of half a layer: a dense layer, what was skipped added to it, normalised."""
        normal = f"{name}.LayerNorm"
        dense = self.node("Add", self.dense(f"{name}.dense", inputs), self.weight(f"{name}.dense.bias"))
        # Not as one SkipLayerNormalization: a text takes a sixth less time without it.
        both = self.node("Add", dense, skipped)
        gain, bias = self.weight(f"{normal}.weight"), self.weight(f"{normal}.bias")
        return self.node("LayerNormalization", both, gain, bias, epsilon=_EPSILON)


def _embed_tokens(graph: _Graph) -> str:
    import numpy as np

    name = "embeddings.word_embeddings.weight"
    numbers, scale, zero = quantise_table(graph.weights[name])
    scales = graph.constant(f"{name}.scale", scale), graph.constant(f"{name}.zero", zero)
    words = graph.node("Gather", graph.constant(name, numbers), "input_ids", axis=0)
    words = graph.node("DequantizeLinear", words, *scales)
    # The type of a token is always 0, so it is folded into the positions.
    token_type = graph.weights["embeddings.token_type_embeddings.weight"][0]
    places = graph.constant("places", graph.weights["embeddings.position_embeddings.weight"] + token_type)
    # Slices up to the length; Range and Gather instead would trip a fusion of onnxruntime.
    zeroth, one, two = (graph.constant(str(number), np.array([number], np.int64)) for number in range(3))
    length = graph.node("Slice", graph.node("Shape", "input_ids"), one, two, zeroth)
    both = graph.node("Add", words, graph.node("Slice", places, zeroth, length, zeroth))
    gain, bias = graph.weight("embeddings.LayerNorm.weight"), graph.weight("embeddings.LayerNorm.bias")
    return graph.node("LayerNormalization", both, gain, bias, epsilon=_EPSILON)


def _add_layer(graph: _Graph, name: str, hidden: str) -> str:
    import numpy as np

    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    joined = np.concatenate([graph.weights[f"{part}.weight"].T for part in parts], 1)
    biases = np.concatenate([graph.weights[f"{part}.bias"] for part in parts])
    matrix, scales, zeros = graph.columns(f"{name}.qkv.weight", joined)
    bias = graph.constant(f"{name}.qkv.bias", biases)
    numbers, scale, zero = graph.quantise(hidden)
    terms = [numbers, matrix, bias, scale, scales, "", zero, zeros, ""]
    mixed = graph.node("QAttention", *terms, num_heads=_HEADS)
    hidden = graph.output(f"{name}.attention.output", mixed, hidden)
    wide = graph.dense(f"{name}.intermediate.dense", hidden)
    wide = graph.node("BiasGelu", wide, graph.weight(f"{name}.intermediate.dense.bias"))
    return graph.output(f"{name}.output", wide, hidden)
