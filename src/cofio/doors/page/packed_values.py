"""LangGraph's states as people can read them, without LangGraph: nothing is made of what they name, and nothing is run.

`cofio.library.langgraph` stores what its serializer writes, which is MessagePack: each channel as text of the
characters with the numbers of its bytes, a list or a dictionary element by element. An object is an extension that
holds the module, the name and the fields of its class; it becomes a dictionary with its name under `type`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

from ...values.records import Json

Found: TypeAlias = tuple[Any, int]
"""A value, and where the next one begins."""
MAX_DEPTH = 60
NOT_READ = "(cannot be shown)"
_NUMBERS = {
    0xCA: struct.Struct(">f"), 0xCB: struct.Struct(">d"), 0xCC: struct.Struct(">B"), 0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"), 0xCF: struct.Struct(">Q"), 0xD0: struct.Struct(">b"), 0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"), 0xD3: struct.Struct(">q"),
}  # fmt: skip
_CONSTANTS: Mapping[int, object] = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZED = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4), 0xD9: ("text", 1), 0xDA: ("text", 2), 0xDB: ("text", 4),
    0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("map", 2), 0xDF: ("map", 4), 0xC7: ("object", 1), 0xC8: ("object", 2),
    0xC9: ("object", 4),
}  # fmt: skip
_FIXED_OBJECTS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_EMPTY = ("additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls", "usage_metadata", "example")
"""Fields of messages that say nothing where they are empty."""


class _Unreadable(Exception):
    """The bytes are not what they should be."""


def read_state(state: Json) -> Json:
    """The channels of a LangGraph state, as JSON that can be read; any other state as it is."""
    if not isinstance(state, dict) or not isinstance(state.get("values"), dict) or "rest" not in state:
        return state
    values = state["values"]
    assert isinstance(values, dict)
    return {name: _read_channel(value) for name, value in values.items()}


def _read_channel(value: Json) -> Json:
    if isinstance(value, list):
        return [_read_packed(each) for each in value]
    if isinstance(value, dict):
        return {name: _read_packed(each) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    kind, _, data = value.partition("\n")
    if kind == "msgpack":
        return _read_packed(data)
    return None if kind == "null" else f"({kind or 'data'}, {len(data):,} bytes)"


def _read_packed(text: Json) -> Json:
    """What a text stands for whose characters are bytes."""
    try:
        data = str(text).encode("latin-1")
        value, end = _read_value(data, 0, 0)
    except (_Unreadable, UnicodeError, IndexError, struct.error):
        return NOT_READ
    if end != len(data):
        return NOT_READ
    readable: Json = value
    return readable


def _read_value(data: bytes, at: int, depth: int) -> Found:
    """The value that begins at a place."""
    if depth > MAX_DEPTH:
        raise _Unreadable
    code, at = data[at], at + 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 0x100, at
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code in _NUMBERS:
        number = _NUMBERS[code]
        return number.unpack_from(data, at)[0], at + number.size
    if code in _FIXED_OBJECTS:
        return _read_sized("object", _FIXED_OBJECTS[code], data, at, depth)
    if code < 0xC0:  # what is short has its size in the same byte
        kind, size = (
            ("map", code & 0x0F) if code < 0x90 else ("list", code & 0x0F) if code < 0xA0 else ("text", code & 0x1F)
        )
        return _read_sized(kind, size, data, at, depth)
    if code not in _SIZED:
        raise _Unreadable
    kind, width = _SIZED[code]
    return _read_sized(kind, int.from_bytes(data[at : at + width], "big"), data, at + width, depth)


def _read_sized(kind: str, size: int, data: bytes, at: int, depth: int) -> Found:
    if size > len(data):
        raise _Unreadable
    if kind == "list":
        return _read_many(size, data, at, depth)
    if kind == "map":
        flat, at = _read_many(2 * size, data, at, depth)
        return {str(key): value for key, value in zip(flat[::2], flat[1::2], strict=True)}, at
    if kind == "object":
        return _read_object(data[at + 1 : at + 1 + size], depth), at + 1 + size
    content = data[at : at + size]
    return (content.decode(errors="replace") if kind == "text" else f"({size:,} bytes)"), at + size


def _read_many(count: int, data: bytes, at: int, depth: int) -> Found:
    values = []
    for _ in range(count):
        value, at = _read_value(data, at, depth + 1)
        values.append(value)
    return values, at


def _read_object(content: bytes, depth: int) -> Any:
    """An object by the name of its class and what it was made of."""
    value, _ = _read_value(content, 0, depth + 1)
    if not (isinstance(value, list) and len(value) >= 3 and isinstance(value[1], str)):
        return value
    name, made_of = value[1], value[2]
    if not isinstance(made_of, dict):
        return {"type": name, "value": made_of}
    shown = {key: each for key, each in made_of.items() if each is not None and (each or key not in _EMPTY)}
    return {"type": name} | shown | {"type": name}
