"""Writes ONNX files, operator by operator: what such a file needs of protobuf is little.

Exporting a model would need PyTorch, and the `onnx` package is 30 MB that would serve for one second.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32] | NDArray[np.int64] | NDArray[np.int8] | NDArray[np.uint8]
    Attribute = int | float | list[int]

FLOAT, UINT8, INT64 = 1, 2, 7  # TensorProto.DataType
_IR_VERSION = 8
_PRODUCER = "cofio"
_OPSETS = {"": 17, "com.microsoft": 1}
_MICROSOFT = frozenset({"QAttention", "BiasGelu"})
_TYPES = {"float32": FLOAT, "uint8": UINT8, "int8": 3, "int64": INT64}


class OnnxGraph:
    """The nodes and constants of a graph in the making; each call names what it added, for the next to use."""

    def __init__(self, name: str) -> None:
        """Begin a graph of that name."""
        self._name = name
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

    def encode(self, *, inputs: Sequence[bytes], outputs: Sequence[bytes]) -> bytes:
        """The graph as a ModelProto; `encode_value` makes an input or output."""
        parts = [_encode_nested(1, node) for node in self._nodes]
        parts.append(_encode_text(2, self._name))
        for pieces in self._constants:
            parts += [_encode_head(5, sum(map(len, pieces))), *pieces]
        parts += [_encode_nested(11, each) for each in inputs] + [_encode_nested(12, each) for each in outputs]
        opsets = [
            _encode_nested(8, _encode_text(1, domain) + _encode_number(2, version))
            for domain, version in _OPSETS.items()
        ]
        return b"".join(
            [
                _encode_number(1, _IR_VERSION),
                _encode_text(2, _PRODUCER),
                _encode_head(7, sum(map(len, parts))),
                *parts,
                *opsets,
            ]
        )


def find_graph(file: bytes) -> tuple[int, int, int]:
    """Where in a file that `encode` made the field of the graph begins, and where its content begins and ends."""
    start = len(_encode_number(1, _IR_VERSION) + _encode_text(2, _PRODUCER))
    length, begin = _decode_varint(file, start + 1)
    return start, begin, begin + length


def add_output(file: bytes, value: bytes) -> bytes:
    """The file with one more output, which is the name of something that a node makes."""
    start, begin, end = find_graph(file)
    output = _encode_nested(12, value)
    view = memoryview(file)  # of 23 MB, which need not be copied twice
    return b"".join([view[:start], _encode_head(7, end - begin + len(output)), view[begin:end], output, view[end:]])


def encode_value(name: str, kind: int, *shape: str | int) -> bytes:
    """A ValueInfoProto: a tensor of this kind, each side of which is a number or a name."""
    sides = b"".join(
        _encode_nested(1, _encode_text(2, side) if isinstance(side, str) else _encode_number(1, side)) for side in shape
    )
    return _encode_text(1, name) + _encode_nested(
        2, _encode_nested(1, _encode_number(1, kind) + _encode_nested(2, sides))
    )


# Protobuf: each field is its number and kind, then a whole number, four bytes, or a length and as many bytes.


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _decode_varint(encoded: bytes, start: int) -> tuple[int, int]:
    """The number that begins there, and where it ends."""
    number, end = 0, start
    while True:
        number |= (encoded[end] & 0x7F) << 7 * (end - start)
        end += 1
        if encoded[end - 1] < 0x80:
            return number, end


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
