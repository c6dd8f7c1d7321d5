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

import marshal
import math
from collections.abc import Iterable, Mapping
from operator import is_
from sys import getsizeof
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, cast

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
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer

from ...checkpoints.deltas import same
from ...values.errors import Invalid

_ONE = b"\x91"  # the header of a list of one
_TYPES = frozenset({"null", "bytes", "bytearray", "msgpack"})
_SCALARS = frozenset({str, int, float, bool, type(None)})
_TEXTS = frozenset({str, type(None)})
_GROWING = frozenset({list, dict})
_NUMBERS = frozenset({int, float, bool, type(None)})
_MESSAGES = frozenset({AIMessage, AIMessageChunk, FunctionMessage, HumanMessage, SystemMessage, ToolMessage})
_PLAIN_MESSAGES = frozenset({AIMessage, HumanMessage, SystemMessage})  # what they validate are types, and no values
_MARKING = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
_KINDS = {(kind.__module__, kind.__name__): kind for kind in _MESSAGES}  # all are on LangGraph's own list
_UNVALIDATED = frozenset({"response_metadata", "usage_metadata"})
_shapes: dict[tuple[Any, ...], tuple[str, ...]] = {}
"""Of which messages the type is known to keep all fields as they are, if these ones are empty."""
SHAPES = 1000
_new = object.__new__
_set = object.__setattr__
OBJECTS = 4096  # messages that are known by which object they are, twice
LARGE = 64 * 1024  # characters of packed text: a message with more is not kept for which object it is


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
        if data[0] != "msgpack":
            return super().loads_typed(data)
        return ormsgpack.unpackb(data[1], ext_hook=self._read_object, option=ormsgpack.OPT_NON_STR_KEYS)

    def _read_object(self, code: int, data: bytes) -> Any:
        """What LangGraph makes of an object of MessagePack's; of a message, sooner."""
        if code != EXT_PYDANTIC_V2:
            return self._unpack_ext_hook(code, data)
        try:
            module, name, fields, *_ = ormsgpack.unpackb(
                data, ext_hook=self._unpack_ext_hook, option=ormsgpack.OPT_NON_STR_KEYS
            )
            return _make_message(_KINDS[module, name], fields)
        except Exception:  # of whatever kind: LangGraph has a rule for each
            return self._unpack_ext_hook(code, data)


def _make_message(kind: type, fields: dict[str, Any]) -> Any:
    """A message of its fields. Its type validates them, which takes most of the time that it takes to read a chat,
    unless it was seen to change nothing in a message of the same shape: one that differs only in texts, and in what
    it says of the answer's model.
    """
    usage = fields.get("usage_metadata")
    counts = None if usage is None else _find_counts(usage)
    shape = kind, fields.get("type"), counts, (*fields,), (*map(type, fields.values()),)
    empty = _shapes.get(shape)
    if empty is not None and not any(map(fields.get, empty)):
        return _assemble(kind, fields, {*fields}, {})
    made = kind(**fields)
    if empty is None and kind in _PLAIN_MESSAGES and (usage is None or counts is not None):
        _learn_shape(shape, made, fields)
    return made


def _learn_shape(shape: tuple[Any, ...], made: Any, fields: dict[str, Any]) -> None:
    """Note the shape of a message, if its type kept all fields as they are and would so for others of this shape."""
    loose = [name for name, value in fields.items() if type(value) not in _TEXTS and name not in _UNVALIDATED]
    if all(type(fields[name]) in _GROWING and not fields[name] for name in loose) and _holds_exactly(made, fields):
        if len(_shapes) >= SHAPES:
            _shapes.clear()
        _shapes[shape] = (*loose,)


def _find_counts(usage: Any) -> tuple[Any, ...] | None:
    """The names of counts and of groups of counts, in their order; None if there is something else."""
    if type(usage) is not dict:
        return None
    names: list[Any] = []
    for name, value in usage.items():
        if type(value) is int:
            names.append(name)
        elif type(value) is dict and all(type(each) is int for each in value.values()):
            names.append((name, *value))
        else:
            return None
    return (*names,)


def _holds_exactly(message: Any, fields: dict[str, Any]) -> bool:
    """Whether a message holds these fields as they are, in this order, and nothing else."""
    try:
        is_same = same(message.__dict__, fields)
    except ValueError:  # there is something in the metadata that is no plain data
        return False
    return (
        is_same
        and message.__pydantic_fields_set__ == fields.keys()
        and message.__pydantic_extra__ == {}
        and message.__pydantic_private__ is None
    )


class Messages:
    """Messages and what they are packed to, so that neither is made twice.

    A graph reads its whole conversation at each turn, and puts it several times. A message is packed once, found again
    by being the same object with the same fields, or by all that it holds: one that was changed is another. One
    that is read again is a copy, which costs a quarter of making it: what a caller does to it is done to it alone.
    """

    LIMIT = 32 * 1024 * 1024  # bytes of texts and fields; all is forgotten when there is more

    def __init__(self, serde: SerializerProtocol) -> None:
        self._lock = Lock()
        # With a serializer that does more than make values, as one that decrypts or counts, nothing is copied.
        self._copies = type(serde).loads_typed in (JsonPlusSerializer.loads_typed, StrictSerializer.loads_typed)
        self._forget()

    def _forget(self) -> None:
        self._size = 0
        self._cached_messages = 0
        self._by_object: dict[int, _CachedMessage] = {}
        self._older: dict[int, _CachedMessage] = {}
        """Whole messages by their ids; the older half goes when there are too many, or too large: they stay in
        memory."""
        self._by_mark: dict[bytes, tuple[str, bool]] = {}
        """By all that a message holds its text, and whether it is whole."""
        self._by_text: dict[str, _Template | None] = {}
        """What a text that was read more than once is copied from; None when it was read once, or cannot be copied."""

    def encode(self, values: Iterable[Any], serde: SerializerProtocol) -> list[str]:
        """The elements of a list, each as text.

        Raises:
            _Unfit: the serializer does not write one as a part of a list.
        """
        by_object, older = self._by_object.get, self._older.get
        texts = []
        for value in values:
            message, before, empty, text = by_object(id(value)) or older(id(value)) or _UNKNOWN
            if (
                message is not value
                or any(empty)
                or len(value.__dict__) != len(before)
                or not all(map(is_, value.__dict__.values(), before))
                or value.__pydantic_extra__
            ):
                text = self._encode_one(value, serde)
            texts.append(text)
        return texts

    def _encode_one(self, value: Any, serde: SerializerProtocol) -> str:
        if type(value) not in _MESSAGES:
            return _encode_array_item(value, serde)
        try:
            mark = ormsgpack.packb((type(value).__name__, value.__dict__, value.__pydantic_extra__), option=_MARKING)
        except TypeError:  # it holds something else than plain data
            return _encode_array_item(value, serde)
        text, whole = self._by_mark.get(mark, ("", False))
        if not text:
            text = _encode_array_item(value, serde)
            whole = _is_whole(value) and len(text) <= LARGE
            self._by_mark[mark] = text, whole
            self._grow(len(mark) + len(text))
        if whole:
            inner = (*value.__dict__.values(),)
            self._by_object[id(value)] = value, inner, [each for each in inner if type(each) in _GROWING], text
            self._age(2 * getsizeof(text))  # its fields hold about as much
        return text

    def decode(self, texts: list[str], serde: SerializerProtocol, *, once: bool = False) -> list[Any]:
        """The list of what the elements are. With `once`, they are not expected to be put again."""
        if not self._copies:
            return cast("list[Any]", serde.loads_typed(("msgpack", _array(texts))))
        by_object = self._by_object
        kept = [*map(self._by_text.get, texts)]
        missing = [at for at, each in enumerate(kept) if each is None]
        read = iter(serde.loads_typed(("msgpack", _array(texts[at] for at in missing))) if missing else ())
        values = []
        size = 0
        for each in kept:
            if each is None:
                values.append(next(read))
                continue
            growing = marshal.loads(each.contents)  # noqa: S302  # what this process made, and keeps in memory only
            copy = _fill_template(each, growing)
            values.append(copy)
            if each.whole and not once:
                by_object[id(copy)] = copy, (*copy.__dict__.values(),), growing, each.text
                size += each.size
        if size:
            self._age(size)
        self._note([(texts[at], values[at]) for at in missing])
        return values

    def _note(self, read: list[tuple[str, Any]]) -> None:
        """Remember what was read: for the first time that it was, and then what copies are made from."""
        size = 0
        for text, value in read:
            if text not in self._by_text:
                self._by_text[text] = None
                size += len(text)
            elif type(value) in _MESSAGES and (template := _make_template(value, text)) is not None:
                self._by_text[text] = template
                size += template.size
        self._grow(size)

    def _grow(self, size: int) -> None:
        with self._lock:
            self._size += size
            if self._size > self.LIMIT:
                self._forget()  # new dictionaries: another thread may be reading those that there were

    def _age(self, size: int) -> None:
        with self._lock:
            self._cached_messages += size
            if len(self._by_object) > OBJECTS or self._cached_messages > self.LIMIT // 2:
                self._older, self._by_object, self._cached_messages = self._by_object, {}, 0


_CachedMessage: TypeAlias = tuple[Any, tuple[Any, ...], list[Any], str]
"""A message that is whole, the very objects in its fields, those of them that are lists and dictionaries, its text."""
_UNKNOWN: _CachedMessage = (object(), (), [], "")


class _Template(NamedTuple):
    """What copies of a message are made from. It holds nothing that others can change."""

    kind: type
    fields: dict[str, Any]
    """What is in its fields; the lists and dictionaries are put in their places."""
    field_names: frozenset[str]
    """The fields that it was made with."""
    is_open: bool
    """Whether it may have others than its type says."""
    growing: tuple[str, ...]
    """The fields that hold lists and dictionaries."""
    contents: bytes
    """What these hold."""
    text: str
    size: int
    """The bytes of its text and fields."""
    whole: bool
    """Whether it is small, and its fields are texts, and empty lists and dictionaries."""


def _make_template(message: Any, text: str) -> _Template | None:
    """What copies of a message are made from; None when it holds something that cannot be copied so."""
    if message.__pydantic_extra__ or message.__pydantic_private__:
        return None
    fields = message.__dict__.copy()
    growing: list[str] = []
    size = getsizeof(text)
    for name, value in fields.items():
        kind = type(value)
        if kind in _SCALARS:
            size += getsizeof(value)
        elif kind in _GROWING:
            growing.append(name)
        else:
            return None
    try:
        if not all(_is_plain(fields[name]) for name in growing):
            return None
        contents = marshal.dumps([fields[name] for name in growing], 2)
    except (ValueError, RecursionError):  # it is too deep
        return None
    whole = len(text) <= LARGE and _is_whole(message)
    fields.update(dict.fromkeys(growing))
    names = frozenset(message.__pydantic_fields_set__)
    is_open = message.__pydantic_extra__ is not None
    return _Template(type(message), fields, names, is_open, (*growing,), contents, text, size + len(contents), whole)


def _fill_template(template: _Template, growing: list[Any]) -> Any:
    """A message as it was, with these lists and dictionaries: what its `__copy__` does, in a third of the time."""
    fields = template.fields.copy()
    for name, value in zip(template.growing, growing, strict=True):
        fields[name] = value
    return _assemble(template.kind, fields, {*template.field_names}, {} if template.is_open else None)


def _is_whole(message: Any) -> bool:
    """Whether a message holds nothing but texts, and empty lists and dictionaries."""
    for each in message.__dict__.values():  # a generator would take twice as long
        if type(each) not in _TEXTS and (each or type(each) not in _GROWING):
            return False
    return True


def _assemble(kind: type, fields: dict[str, Any], names: set[str], extra: dict[str, Any] | None) -> Any:
    """A message of these very parts."""
    made: Any = _new(kind)
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_fields_set__", names)
    _set(made, "__pydantic_extra__", extra)
    _set(made, "__pydantic_private__", None)
    return made


def _is_plain(value: Any) -> bool:
    """Whether a value is made of Python's own plain types, and no type like them: `marshal` would make it one. It
    takes any buffer for bytes, and so bytes are none of them.
    """
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        return all(type(key) in _SCALARS and _is_plain(inner) for key, inner in value.items())
    return (kind is list or kind is tuple) and all(map(_is_plain, value))


class _Unfit(Exception):
    """The value is not of the form that was tried."""


def encode_checkpoint(checkpoint: Checkpoint, serde: SerializerProtocol, messages: Messages) -> dict[str, Any]:
    """The state to keep for a checkpoint; it shares nothing with it. The id is kept elsewhere."""
    values: dict[str, Any]
    if type(serde).dumps_typed is JsonPlusSerializer.dumps_typed:
        values = {name: _parts(value, serde, messages) for name, value in checkpoint["channel_values"].items()}
    else:  # any other need not write a list in MessagePack, and may write the same differently each time
        values = {name: encode_typed(value, serde) for name, value in checkpoint["channel_values"].items()}
    rest: dict[str, Any] = {}
    packed: dict[str, Any] = {}
    for key, value in checkpoint.items():
        if key not in ("id", "channel_values"):
            try:
                rest[key] = to_json(value)
            except ValueError:
                packed[key] = encode_typed(value, serde)
    return {"values": values, "rest": rest, "packed": packed} if packed else {"values": values, "rest": rest}


def decode_checkpoint(
    id: str, state: Mapping[str, Any], serde: SerializerProtocol, messages: Messages, *, once: bool = False
) -> Checkpoint:
    """The checkpoint that a state was made of. With `once`, its messages are not expected to be put again."""
    whole = {**_json(state["rest"]), "id": id}  # a copy: the state stays as it is
    for key, text in state.get("packed", {}).items():
        whole[key] = decode_typed(text, serde)
    whole["channel_values"] = {
        name: decode_value(value, serde, messages, once=once) for name, value in state["values"].items()
    }
    return cast(Checkpoint, whole)


def decode_value(value: Any, serde: SerializerProtocol, messages: Messages, *, once: bool = False) -> Any:
    """A channel's value from what the state holds for it."""
    if isinstance(value, list):
        return messages.decode(value, serde, once=once)
    if isinstance(value, dict):
        return dict(zip(value, serde.loads_typed(("msgpack", _array(value.values()))), strict=True))
    return decode_typed(value, serde)


def encode_typed(value: Any, serde: SerializerProtocol) -> str:
    """What the serializer makes of a value, as text."""
    kind, data = serde.dumps_typed(value)
    if "\n" in kind:
        raise Invalid("serde", f"its type {kind!r} holds a line's end")
    return f"{kind}\n{bytes(data).decode('latin-1')}"


def decode_typed(text: str, serde: SerializerProtocol) -> Any:
    """The value that `typed` made text of."""
    kind, _, data = text.partition("\n")
    return serde.loads_typed((kind, data.encode("latin-1")))


def to_json(value: Any) -> Any:
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
    if kind is str:
        if not value.isascii() and not _encodes(value):
            raise _Unfit
        return value
    if kind in _SCALARS:
        if kind is float and not math.isfinite(value):
            raise _Unfit
        return value
    if kind is list or kind is tuple:
        return [each if type(each) is str and each.isascii() else _json(each) for each in value]
    if not isinstance(value, dict):
        raise _Unfit
    copy = {}
    for key, inner in value.items():
        if type(key) is not str or not (key.isascii() or _encodes(key)):
            raise _Unfit
        copy[key] = inner if type(inner) is str and inner.isascii() else _json(inner)  # as most are: no call for them
    return copy


def _parts(value: Any, serde: SerializerProtocol, messages: Messages) -> Any:
    try:
        # Numbers are no longer than what it costs to set them apart.
        if type(value) is list and not (value and type(value[0]) in _NUMBERS):
            return messages.encode(value, serde)
        if type(value) is dict and _has_names(value):
            return dict(zip(value, messages.encode(value.values(), serde), strict=True))
    except _Unfit:
        pass
    return encode_typed(value, serde)


def _encode_array_item(value: Any, serde: SerializerProtocol) -> str:
    kind, data = serde.dumps_typed([value])
    if kind != "msgpack" or not data.startswith(_ONE):
        raise _Unfit
    return data[1:].decode("latin-1")


def _has_names(value: dict[Any, Any]) -> bool:
    """Whether all keys are plain text."""
    for key in value:  # noqa: SIM110  # a generator would take twice as long
        if type(key) is not str or not (key.isascii() or _encodes(key)):
            return False
    return True


def _encodes(text: str) -> bool:
    """Whether a text holds no halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
