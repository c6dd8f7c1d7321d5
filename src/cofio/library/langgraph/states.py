"""A LangGraph checkpoint as JSON that shows what did not change since the last one.

The state has these parts:

    values    each channel: a list or dictionary of packed elements, or text: a type, a line's end, and what the
              serializer made of the value
    rest      everything else in the checkpoint that JSON can hold: versions, time
    packed    everything else in it that JSON cannot hold, as text

A list of messages is packed element by element, so that the one that was added is all that a save has to write. In
MessagePack a list is a header and its elements one after the other: joined again they are, to the byte, what the
serializer would have made of the whole list, and so what is read is what it alone would have given back. Bytes are
kept as the characters with the same numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from threading import Lock
from typing import Any, TypeAlias, cast

import ormsgpack
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ...errors import Invalid

_ONE = b"\x91"  # the header of a list of one
_TYPES = frozenset({"null", "bytes", "bytearray", "msgpack"})
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = frozenset({int, float, bool, type(None)})
_MESSAGES = frozenset({AIMessage, AIMessageChunk, FunctionMessage, HumanMessage, SystemMessage, ToolMessage})
_MARKING = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
Texts: TypeAlias = dict[bytes, str]


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer, which makes no objects but of the types that are listed, and unpickles nothing.

    The list is LangGraph's own (LangChain's messages and documents, times, UUIDs, sets …) and what
    `with_msgpack_allowlist` adds.
    """

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; of the types that this class writes and no other, as the older ones can name what to import.

        Raises:
            Invalid: the type is another.
        """
        if data[0] not in _TYPES:
            raise Invalid("serde", f"a value is of the type {data[0]!r}; give the serde that it was written with")
        return super().loads_typed(data)


class Packed:
    """What the messages in the last checkpoint of each thread were packed to, so that it need not be done again.

    They are found by all that they hold, and not by which objects they are: a message that was changed is another.
    """

    LIMIT = 32 * 1024 * 1024  # bytes that messages are found by; about as many again for what they were packed to

    def __init__(self) -> None:
        self._lock = Lock()
        self._texts: OrderedDict[Hashable, Texts] = OrderedDict()
        self._size = 0

    def last(self, place: Hashable) -> Texts:
        """The messages of a place, by what they hold; not to be changed."""
        with self._lock:
            return self._texts.get(place, {})

    def keep(self, place: Hashable, texts: Texts) -> None:
        """Know these messages of a place, and no others."""
        with self._lock:
            self._size += _size(texts) - _size(self._texts.pop(place, {}))
            if texts:
                self._texts[place] = texts
            while self._size > self.LIMIT:
                _, dropped = self._texts.popitem(last=False)
                self._size -= _size(dropped)


class _Unfit(Exception):
    """The value is not of the form that was tried."""


def state_of(checkpoint: Checkpoint, serde: SerializerProtocol, known: Texts, seen: Texts) -> dict[str, Any]:
    """The state to keep for a checkpoint; it shares nothing with it. The id is kept elsewhere.

    Messages that are `known` are not packed again, and all that there are go into `seen`.
    """
    values: dict[str, Any]
    if type(serde).dumps_typed is JsonPlusSerializer.dumps_typed:
        values = {name: _parts(value, serde, known, seen) for name, value in checkpoint["channel_values"].items()}
    else:  # any other need not write a list in MessagePack, and may write the same differently each time
        values = {name: typed(value, serde) for name, value in checkpoint["channel_values"].items()}
    rest: dict[str, Any] = {}
    packed: dict[str, Any] = {}
    for key, value in checkpoint.items():
        if key not in ("id", "channel_values"):
            try:
                rest[key] = json_of(value)
            except ValueError:
                packed[key] = typed(value, serde)
    return {"values": values, "rest": rest, "packed": packed} if packed else {"values": values, "rest": rest}


def checkpoint_of(id: str, state: Mapping[str, Any], serde: SerializerProtocol) -> Checkpoint:
    """The checkpoint that a state was made of."""
    made = {**_json(state["rest"]), "id": id}  # a copy: the state stays as it is
    for key, text in state.get("packed", {}).items():
        made[key] = untyped(text, serde)
    made["channel_values"] = {name: value_of(value, serde) for name, value in state["values"].items()}
    return cast(Checkpoint, made)


def value_of(value: Any, serde: SerializerProtocol) -> Any:
    """A channel's value from what the state holds for it."""
    if isinstance(value, list):
        return serde.loads_typed(("msgpack", _array(value)))
    if isinstance(value, dict):
        return dict(zip(value, serde.loads_typed(("msgpack", _array(value.values()))), strict=True))
    return untyped(value, serde)


def typed(value: Any, serde: SerializerProtocol) -> str:
    """What the serializer makes of a value, as text."""
    kind, data = serde.dumps_typed(value)
    if "\n" in kind:
        raise Invalid("serde", f"its type {kind!r} holds a line's end")
    return f"{kind}\n{bytes(data).decode('latin-1')}"


def untyped(text: str, serde: SerializerProtocol) -> Any:
    """The value that `typed` made text of."""
    kind, _, data = text.partition("\n")
    return serde.loads_typed((kind, data.encode("latin-1")))


def json_of(value: Any) -> Any:
    """A copy of the value as JSON holds it, tuples as lists.

    Raises:
        ValueError: JSON cannot hold it.
    """
    try:
        return _json(value)
    except (_Unfit, RecursionError):
        raise ValueError("not JSON") from None


def _json(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list or kind is tuple:
        return [_json(each) for each in value]
    if not isinstance(value, dict) or not _names(value):
        raise _Unfit
    return {key: _json(inner) for key, inner in value.items()}


def _parts(value: Any, serde: SerializerProtocol, known: Texts, seen: Texts) -> Any:
    try:
        # Numbers are no longer than what it costs to set them apart.
        if type(value) is list and not (value and type(value[0]) in _NUMBERS):
            return [_element(each, serde, known, seen) for each in value]
        if type(value) is dict and _names(value):
            return {key: _element(inner, serde, known, seen) for key, inner in value.items()}
    except _Unfit:
        pass
    return typed(value, serde)


def _element(value: Any, serde: SerializerProtocol, known: Texts, seen: Texts) -> str:
    mark = b""
    if type(value) in _MESSAGES:
        try:
            mark = ormsgpack.packb((type(value).__name__, value.__dict__, value.__pydantic_extra__), option=_MARKING)
        except TypeError:  # it holds something else than plain data
            pass
        else:
            text = known.get(mark)
            if text is not None:
                seen[mark] = text
                return text
    kind, data = serde.dumps_typed([value])
    if kind != "msgpack" or not data.startswith(_ONE):
        raise _Unfit
    text = data[1:].decode("latin-1")
    if mark:
        seen[mark] = text
    return text


def _size(texts: Texts) -> int:
    return sum(map(len, texts))


def _names(value: dict[Any, Any]) -> bool:
    """Whether all keys are plain text."""
    try:
        return all(type(key) is str and (key.isascii() or key.encode()) for key in value)
    except UnicodeEncodeError:
        return False


def _array(elements: Iterable[str]) -> bytes:
    """The list of these elements, in MessagePack."""
    joined = [*elements]
    count = len(joined)
    if count < 16:
        header = bytes([0x90 | count])
    elif count < 1 << 16:
        header = b"\xdc" + count.to_bytes(2, "big")
    else:
        header = b"\xdd" + count.to_bytes(4, "big")
    return header + "".join(joined).encode("latin-1")
