"""The nouns: Scope, Kind, Importance, Record and Draft, each of which checks itself when it is made."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeVar, cast

from .errors import Invalid, LimitExceeded
from .times import to_micros

E = TypeVar("E", bound=StrEnum)
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_SCOPE_DEPTH = 16
MAX_SCOPE_NAME = 256
MAX_ID = 128
MAX_KEY = 1024
MAX_TITLE = 1000
MAX_TEXT = 1_048_576
MAX_DATA = 1_048_576
MAX_DATA_DEPTH = 64
MAX_DIGITS = 4300  # Python neither writes nor reads a longer number
MAX_TAGS = 64
MAX_TAG = 100
MAX_AUTHOR = 256
MAX_SOURCE = 64
MAX_PARENT = 256
MAX_POSITION = 2**53
MAX_PARTS = 1000
MAX_PART = 1024
MAX_DIMENSIONS = 65_536

_LARGEST = 10**MAX_DIGITS
_LONGEST = 1e15  # a vector's length is of no account, but its square must be a number
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
# What is encoded was checked, so it is no circle.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)


class Kind(StrEnum):
    """What a record is: its name, its number in the files of vectors, whether a search finds it, and also by meaning.

    A new kind is one more line here. Numbers are stored, so none is changed or given to another kind.
    """

    _value_: str
    number: int
    is_searchable: bool
    has_vector: bool

    def __new__(cls, name: str, number: int = -1, is_searchable: bool = True, has_vector: bool = True) -> Kind:
        # It makes the members below; that `Kind(name)` gives one of them, without a number, is for type checkers.
        if number < 0:
            raise TypeError(f"the kind {name} has no number")
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.number = number
        kind.is_searchable = is_searchable
        kind.has_vector = is_searchable and has_vector
        return kind

    NOTE = "note", 0
    STATE = "state", 1
    ITEM = "item", 2
    FILE = "file", 3
    MEMORY = "memory", 4
    TURN = "turn", 5
    EPISODE = "episode", 6
    FACT = "fact", 7
    PROFILE = "profile", 8, True, False
    """What is known of a user, on one page: found by words. What it says, facts say, each with a vector of its own;
    the page is longer than what a model reads at once, and changes with every stretch of conversation."""
    CASE = "case", 9
    SKILL = "skill", 10
    REVISION = "revision", 11, False
    """An earlier state of a record: listed and read, but never found by words or by meaning."""
    LEDGER = "ledger", 12, False
    """What a door keeps for its own use, such as the last number it gave out; never found, as a revision is not."""
    DOCUMENT = "document", 13
    """A document of the knowledge base: its title and its summary."""
    TOPIC = "topic", 14
    """A section of such a document."""


NOT_SEARCHABLE = frozenset(kind for kind in Kind if not kind.is_searchable)
"""The kinds that no search finds."""
WITHOUT_VECTOR = frozenset(kind for kind in Kind if not kind.has_vector)
"""The kinds that no search finds by meaning."""


class Importance(StrEnum):
    """How much a record matters to its writer."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, init=False, order=True)
class Scope:
    """A path of names. A scope sees itself and what is under it, by whole names, and nothing else."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        if len(names) > MAX_SCOPE_DEPTH:
            raise LimitExceeded("scope", MAX_SCOPE_DEPTH, "names")
        for name in names:
            check_text("scope", name, MAX_SCOPE_NAME, empty=False)
        object.__setattr__(self, "names", names)

    def __str__(self) -> str:
        return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in self.names)

    def __repr__(self) -> str:
        return f"Scope({', '.join(map(repr, self.names))})"

    def __truediv__(self, name: str) -> Scope:
        return Scope(*self.names, name)

    def __contains__(self, other: Scope) -> bool:
        return other.names[: len(self.names)] == self.names

    @property
    def path(self) -> bytes:
        """The stored form: each name followed by NUL, so that a subtree is a range of bytes."""
        return b"".join(name.encode() + b"\0" for name in self.names)

    @classmethod
    def from_path(cls, path: bytes) -> Scope:
        """The scope with this stored form."""
        return cls(*path.decode().split("\0")[:-1])

    @classmethod
    def parse(cls, written: str) -> Scope:
        """The scope that prints as `written`: names with slashes between, %2F for a slash in a name."""
        names = [name for name in written.split("/") if name]
        return cls(*(name.replace("%2F", "/").replace("%2f", "/").replace("%25", "%") for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A record whose words nearly equal those just written: its id, and the share of words in common."""

    id: str
    title: str
    likeness: float
    contradicts: bool = False
    """Whether it seems to say something else of the same thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One remembered thing, as it is stored."""

    id: str
    scope: Scope
    kind: Kind
    key: str | None
    title: str
    text: str
    data: Json
    tags: tuple[str, ...]
    importance: Importance
    author: str
    source: str
    parent: str | None
    position: int | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    version: int
    existed: bool = field(default=False, compare=False, repr=False)
    """Set on what `write(dedupe=True)` returns when the same text was already there."""
    similar: tuple[Similar, ...] = field(default=(), compare=False, repr=False)
    """Set on what `write` returns with `similar` or `related`: records that it comes near to."""
    given: Mapping[str, tuple[float, ...]] | None = field(default=None, compare=False, repr=False)
    """Set on what `export` returns: the vectors that came with the record, by the part of it that each is of."""


_RECORD_SLOTS = [getattr(Record, each.name).__set__ for each in fields(Record)]
_RECORD_END = (False, (), None)  # existed, similar, given


def make_record(values: tuple[object, ...]) -> Record:
    """Make a record of the values of its fields up to `version`, in half the time that the class itself takes.

    A frozen class assigns each field by name, which is a good part of a search that returns records.
    """
    record = object.__new__(Record)
    for set_slot, value in zip(_RECORD_SLOTS, values + _RECORD_END, strict=True):
        set_slot(record, value)
    return record


class Heading(NamedTuple):
    """A record as a list shows it, without its text and data. A page has hundreds, so it is cheap to make."""

    id: str
    scope: Scope
    kind: Kind
    key: str | None
    title: str
    tags: tuple[str, ...]
    importance: Importance
    author: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a caller wants remembered: a record before it has a version and times."""

    scope: Scope
    kind: Kind = Kind.NOTE
    key: str | None = None
    title: str = ""
    text: str = ""
    data: Json = None
    tags: tuple[str, ...] = ()
    importance: Importance = Importance.MEDIUM
    author: str = ""
    source: str = "python"
    parent: str | None = None
    position: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    id: str | None = None
    version: int | None = None
    given: Mapping[str, tuple[float, ...]] | None = None
    """Vectors that the caller made, of any size, by the part of the record that each is of. They are kept with it until
    it is put again or what it says is edited, and found by `Engine.nearest`."""

    def __post_init__(self) -> None:
        check_scope(self.scope)
        if not isinstance(self.kind, Kind):
            object.__setattr__(self, "kind", member(Kind, "kind", self.kind))
        if not isinstance(self.importance, Importance):
            object.__setattr__(self, "importance", member(Importance, "importance", self.importance))
        if self.key is not None:
            check_text("key", self.key, MAX_KEY)
        check_text("title", self.title, MAX_TITLE)
        check_text("text", self.text, MAX_TEXT)
        if isinstance(self.tags, list):
            object.__setattr__(self, "tags", tuple(self.tags))
        check_tags(self.tags)
        check_text("author", self.author, MAX_AUTHOR)
        check_text("source", self.source, MAX_SOURCE)
        if self.parent is not None:
            check_text("parent", self.parent, MAX_PARENT, empty=False)
        if self.position is not None:
            check_int("position", self.position, -MAX_POSITION, MAX_POSITION)
        check_time("created_at", self.created_at)
        check_time("updated_at", self.updated_at)
        check_time("expires_at", self.expires_at)
        if self.id is not None:
            check_text("id", self.id, MAX_ID, empty=False)
        if self.version is not None:
            check_int("version", self.version, 1, 2**53)
        if self.key is None and not self.text.strip() and not self.title.strip():
            raise Invalid("text", "is empty; a record without a key needs text or a title to be found by")
        check_json(self.data)
        if self.given is not None:
            object.__setattr__(self, "given", _checked_given(self.given))


def check_scope(scope: object) -> None:
    """Raise Invalid unless `scope` is a Scope."""
    if not isinstance(scope, Scope):
        raise Invalid("scope", f"expected a Scope, got {type(scope).__name__}")


def check_text(name: str, value: object, limit: int, *, empty: bool = True) -> None:
    """Raise Invalid unless `value` is a string that can be stored, of at most `limit` characters."""
    if not isinstance(value, str):
        raise Invalid(name, f"expected a string, got {type(value).__name__}")
    if not value and not empty:
        raise Invalid(name, f"is empty; it takes 1 to {limit:,} characters")
    if len(value) > limit:
        raise LimitExceeded(name, limit)
    if "\0" in value:
        raise Invalid(name, "holds a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Invalid(name, "holds half of a surrogate pair, which is not text") from None


def member(kind: type[E], name: str, value: object) -> E:
    """The member of an enumeration that `value` is or names; raises Invalid when there is none."""
    if isinstance(value, kind):
        return value
    try:
        return kind(cast(str, value))
    except ValueError:
        raise Invalid(name, f"{value!r} is not one of {', '.join(kind)}") from None


def check_tags(tags: object) -> None:
    """Raise Invalid unless `tags` is a tuple of at most MAX_TAGS short strings."""
    if not isinstance(tags, tuple):
        raise Invalid("tags", f"expected a list of strings, got {type(tags).__name__}")
    if len(tags) > MAX_TAGS:
        raise LimitExceeded("tags", MAX_TAGS, "tags")
    for tag in tags:
        check_text("tags", tag, MAX_TAG, empty=False)


def normalize_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags as a tuple, each once; raises Invalid for what is no list of strings."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise Invalid("tags", f"expected a list of strings, got {type(tags).__name__}")
    distinct = tuple(tags)
    for tag in distinct:
        if not isinstance(tag, str):
            raise Invalid("tags", f"expected strings, got {type(tag).__name__}")
    return tuple(dict.fromkeys(distinct))


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raise Invalid unless `value` is a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(name, f"expected a whole number, got {type(value).__name__}")
    if not low <= value <= high:
        raise Invalid(name, f"{value} is not within {low:,} to {high:,}")


def check_bool(name: str, value: object) -> None:
    """Raise Invalid unless `value` is True or False."""
    if not isinstance(value, bool):
        raise Invalid(name, f"expected True or False, got {type(value).__name__}")


def check_time(name: str, value: object) -> None:
    """Raise Invalid unless `value` is None or a datetime that knows its time zone."""
    if value is None:
        return
    if not isinstance(value, datetime):
        raise Invalid(name, f"expected a datetime, got {type(value).__name__}")
    if value.tzinfo is None:
        raise Invalid(name, "has no time zone; use datetime.now(UTC) or add tzinfo")
    if not _EARLIEST <= value <= _LATEST:
        raise Invalid(name, "is outside the years 1 to 9999")


def checked_vector(name: str, vector: Iterable[float]) -> tuple[float, ...]:
    """A vector as plain numbers; raises Invalid for what has no direction or cannot be compared."""
    try:
        numbers = () if isinstance(vector, str | bytes) else tuple(map(float, vector))
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    if not 1 / _LONGEST < math.hypot(*numbers) < _LONGEST:
        raise Invalid(name, "is not a list of finite numbers that are not all zero")
    return numbers


def _checked_given(given: object) -> dict[str, tuple[float, ...]]:
    if not isinstance(given, Mapping):
        raise Invalid("given", f"expected vectors by the name of a part, got {type(given).__name__}")
    if len(given) > MAX_PARTS:
        raise LimitExceeded("given", MAX_PARTS, "vectors")
    for part in given:
        check_text("given", part, MAX_PART)
    vectors = {part: checked_vector("given", vector) for part, vector in given.items()}
    if any(len(vector) > MAX_DIMENSIONS for vector in vectors.values()):
        raise LimitExceeded("given", MAX_DIMENSIONS, "numbers")
    return vectors


def encode_json(data: Json) -> str:
    """Checked `data` as compact JSON text."""
    return "null" if data is None else _encode(data)


def check_json(data: Json) -> None:
    """Raise Invalid for what JSON cannot hold, and LimitExceeded for too much of it."""
    if data is None:
        return
    if _check_json(data, 0) > MAX_DATA and len(_encode(data)) > MAX_DATA:
        raise LimitExceeded("data", MAX_DATA, "characters of JSON")


def _check_json(value: object, depth: int) -> int:
    """Raise Invalid for NaN, for keys that are not strings, and for anything that JSON would change.

    Return a number of characters that it does not take more than, written as JSON.
    """
    if depth > MAX_DATA_DEPTH:
        raise LimitExceeded("data", MAX_DATA_DEPTH, "levels")
    if isinstance(value, str):
        check_text("data", value, MAX_DATA)
        return 6 * len(value) + 2  # each character may be written by its number
    if isinstance(value, dict):
        size = 2
        for key, inner in value.items():
            if not isinstance(key, str):
                raise Invalid("data", f"the key {key!r} is not a string")
            check_text("data", key, MAX_DATA)
            size += 6 * len(key) + 4 + _check_json(inner, depth + 1)
        return size
    if isinstance(value, list):
        return 2 + sum([1 + _check_json(inner, depth + 1) for inner in value])
    if isinstance(value, int | float):
        return _check_number(value)
    if value is not None:
        raise Invalid("data", f"{type(value).__name__} is not JSON")
    return 4


def _check_number(value: int | float) -> int:
    if isinstance(value, int):
        if not -_LARGEST < value < _LARGEST:
            raise LimitExceeded("data", MAX_DIGITS, "digits")
        return 5 + value.bit_length() // 3
    if not math.isfinite(value):
        raise Invalid("data", f"{value} is not JSON")
    return 32


def new_id(moment: datetime) -> str:
    """A new id of that moment: 26 characters that sort by it (a ULID in lower case)."""
    number = (max(0, to_micros(moment)) // 1000 << 80) | int.from_bytes(os.urandom(10), "big")
    # Two characters at a time: an id is made for every write.
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def json_words(data: Json) -> list[str]:
    """Every word that a person would look for in `data`: its keys, strings and numbers."""
    words: list[str] = []
    _add_words(data, words)
    return words


def _add_words(data: Json, words: list[str]) -> None:
    if isinstance(data, str):
        words.append(data)
    elif isinstance(data, dict):
        for key, value in data.items():
            words.append(key)
            _add_words(value, words)
    elif isinstance(data, list):
        for value in data:
            _add_words(value, words)
    elif data is not None and not isinstance(data, bool):
        words.append(str(data))
