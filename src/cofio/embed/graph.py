"""Builds the int8 graph of all-MiniLM-L6-v2 from its weights, operator by operator, and writes it as an ONNX file.

Exporting it would need PyTorch, and the `onnx` package is 30 MB that would serve for one second; what an ONNX file
needs of protobuf is little. Every number here comes from operations that IEEE 754 rounds exactly, so the file is the
same on every machine, byte by byte.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Array = NDArray[np.float32] | NDArray[np.int64] | NDArray[np.int8] | NDArray[np.uint8]
    Attribute = int | float | list[int]

_NAME = "all-MiniLM-L6-v2"
_DIMENSIONS = 384
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_IR_VERSION = 8
_OPSETS = {"": 17, "com.microsoft": 1}
_MICROSOFT = frozenset({"QAttention", "BiasGelu"})
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}  # TensorProto.DataType
_FLOAT, _INT64 = 1, 7
# Eight full bits overflow the sums of processors that have AVX2 but not VNNI.
_MOST = 64


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
        inputs=_encode_value("input_ids", _INT64, "batch", "length"),
        outputs=_encode_value(vector, _FLOAT, "batch", _DIMENSIONS),
    )


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


class _Graph:
    """The nodes and weights of a graph in the making; each call names what it added, for the next to use."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self.weights = weights
        self._nodes: list[bytes] = []
        self._constants: list[list[bytes]] = []

    def constant(self, name: str, values: Array) -> str:
        """Add an array as it is."""
        import numpy as np

        numbers = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
        head = b"".join(_encode_number(1, size) for size in values.shape) + _encode_number(2, _TYPES[values.dtype.name])
        # In pieces: the largest is 12 MB, and every join would copy it once more.
        self._constants.append([head + _encode_text(8, name) + _encode_head(9, len(numbers)), numbers])
        return name

    def weight(self, name: str) -> str:
        """Add one of the weights as it is."""
        return self.constant(name, self.weights[name])

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Attribute) -> str:
        """Add an operator; the name of its first output, the others' have .1, .2 and so on behind it."""
        name = f"{kind}-{len(self._nodes)}"
        named = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        fields = [_encode_text(1, each) for each in inputs] + [_encode_text(2, each) for each in named]
        fields += [_encode_text(3, name), _encode_text(4, kind)]
        fields += [_encode_nested(5, _encode_attribute(key, value)) for key, value in attributes.items()]
        if kind in _MICROSOFT:
            fields.append(_encode_text(7, "com.microsoft"))
        self._nodes.append(b"".join(fields))
        return name

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
        product = self.node("Cast", self.node("MatMulInteger", numbers, matrix, zero, zeros), to=_FLOAT)
        return self.node("Mul", product, both)

    def output(self, name: str, inputs: str, skipped: str) -> str:
        """The end of half a layer: a dense layer, what was skipped added to it, normalised."""
        normal = f"{name}.LayerNorm"
        dense = self.node("Add", self.dense(f"{name}.dense", inputs), self.weight(f"{name}.dense.bias"))
        # Not as one SkipLayerNormalization: a text takes a sixth less time without it.
        both = self.node("Add", dense, skipped)
        gain, bias = self.weight(f"{normal}.weight"), self.weight(f"{normal}.bias")
        return self.node("LayerNormalization", both, gain, bias, epsilon=_EPSILON)

    def encode(self, *, inputs: bytes, outputs: bytes) -> bytes:
        """The graph as a ModelProto."""
        parts = [_encode_nested(1, node) for node in self._nodes]
        parts.append(_encode_text(2, _NAME))
        for pieces in self._constants:
            parts += [_encode_head(5, sum(map(len, pieces))), *pieces]
        parts += [_encode_nested(11, inputs), _encode_nested(12, outputs)]
        opsets = [
            _encode_nested(8, _encode_text(1, domain) + _encode_number(2, version))
            for domain, version in _OPSETS.items()
        ]
        return b"".join(
            [
                _encode_number(1, _IR_VERSION),
                _encode_text(2, "cofio"),
                _encode_head(7, sum(map(len, parts))),
                *parts,
                *opsets,
            ]
        )


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


# Protobuf: each field is its number and kind, then a whole number, four bytes, or a length and as many bytes.


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _encode_head(field: int, length: int) -> bytes:
    return _encode_varint(field << 3 | 2) + _encode_varint(length)


def _encode_number(field: int, number: int) -> bytes:
    return _encode_varint(field << 3) + _encode_varint(number)


def _encode_nested(field: int, content: bytes) -> bytes:
    return _encode_head(field, len(content)) + content


def _encode_text(field: int, text: str) -> bytes:
    return _encode_nested(field, text.encode())


def _encode_attribute(name: str, value: Attribute) -> bytes:
    """An AttributeProto; its type comes last."""
    if isinstance(value, list):
        return _encode_text(1, name) + b"".join(_encode_number(8, each) for each in value) + _encode_number(20, 7)
    if isinstance(value, float):
        return _encode_text(1, name) + _encode_varint(2 << 3 | 5) + struct.pack("<f", value) + _encode_number(20, 1)
    return _encode_text(1, name) + _encode_number(3, value) + _encode_number(20, 2)


def _encode_value(name: str, kind: int, *shape: str | int) -> bytes:
    """A ValueInfoProto: a tensor of this kind, each side of which is a number or a name."""
    sides = b"".join(
        _encode_nested(1, _encode_text(2, side) if isinstance(side, str) else _encode_number(1, side)) for side in shape
    )
    return _encode_text(1, name) + _encode_nested(
        2, _encode_nested(1, _encode_number(1, kind) + _encode_nested(2, sides))
    )
