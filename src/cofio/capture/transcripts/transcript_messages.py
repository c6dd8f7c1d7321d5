"""What every format comes to: messages with their session and folder, and where the next reading goes on.

What is read was written by other programs, and is taken to hold anything: a field of the wrong type is a field that is
not there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, cast

from ...extract.extractor import Role
from ...values.errors import Invalid
from ...values.records import Json, check_time
from ...values.times import from_millis

Fields = Mapping[str, Json]
WINDOW = 8_000  # characters at either end of a tool's result that are looked at
SEVERAL_BREAKS = "\n\n"
_LATEST = 9000  # a later year leaves no room for what comes after
_MILLISECONDS = 100_000_000_000  # a number from here on is in milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCall:
    """A tool call as a transcript has it."""

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a message was said."""

    session: str
    cwd: str | None = None
    remote: str | None = None
    """The remote of the folder's repository, where the client notes it."""
    is_sidechain: bool = False
    """Whether it is part of what an agent gave to another agent to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMessage:
    """A message as a transcript has it, before secrets are masked and results shortened."""

    id: str
    """The same whenever the transcript is read."""
    role: Role
    origin: Origin
    text: str = ""
    at: datetime | None = None
    calls: tuple[TranscriptCall, ...] = ()
    answers: str | None = None
    """The call that this is the result of; only with the role `tool`."""
    has_failed: bool | None = None
    """Whether the call failed, where the client notes it."""


@dataclass(slots=True)
class ReadCounts:
    """What a reading has passed over."""

    records: int = 0
    unknown_types: Counter[str] = field(default_factory=Counter)
    """Records of types that are not known, by their type."""
    unreadable: int = 0
    """Lines that are no JSON object, or too long."""
    torn: int = 0
    """Last lines that are not finished: they are read next time."""
    sidechain: int = 0
    """Messages between agents."""

    def add(self, other: ReadCounts) -> None:
        """Add what another reading has counted."""
        self.records += other.records
        self.unknown_types.update(other.unknown_types)
        self.unreadable += other.unreadable
        self.torn += other.torn
        self.sidechain += other.sidechain


class RecordParser(Protocol):
    """Makes messages of a transcript's records, one after the other."""

    def parse(self, record: Fields, counts: ReadCounts) -> Iterator[TranscriptMessage]:
        """The messages that a record holds; a record of an unknown type is counted."""

    def finish(self) -> Iterator[TranscriptMessage]:
        """The messages that were held back, as later records could have changed them."""

    def dump_state(self) -> dict[str, Json]:
        """What a parser must know to go on from here, in few characters."""


def get_text(fields: Fields, name: str) -> str:
    """A text; empty if there is none."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def get_fields(fields: Fields, name: str) -> Fields:
    """An object; empty if there is none."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def get_list(fields: Fields, name: str) -> list[Fields]:
    """The objects of a list."""
    value = fields.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def parse_time(value: object) -> datetime | None:
    """The time that a record tells: ISO 8601, or seconds or milliseconds since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            read = read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            read = from_millis(value if value >= _MILLISECONDS else value * 1000)
        else:
            return None
        check_time("time", read)
        if read.year > _LATEST:
            return None
    except (ValueError, OverflowError, Invalid):
        return None
    return read


def join_parts(content: Json, *kinds: str) -> str:
    """The text of a message's content, which may be a text or parts, of which those of these types count."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, dict) and (part.get("type", "text") in kinds or "type" not in part):
            parts.append(get_text(part, "text"))
    return SEVERAL_BREAKS.join(part for part in parts if part.strip())


def cut_middle(text: str, window: int = WINDOW) -> str:
    """A long text without its middle."""
    return text if len(text) <= 2 * window else f"{text[:window]}\n…\n{text[-window:]}"


def parse_arguments(written: Json) -> Json:
    """The arguments of a call, which some clients write as JSON in a text."""
    if isinstance(written, str) and written[:1] in ("{", "["):
        try:
            return cast(Json, json.loads(written))
        except (ValueError, RecursionError):
            return written
    return written


def hash_message(*parts: object) -> str:
    """An id of what is said, for a message that has none."""
    return hashlib.blake2b(json.dumps(parts, default=str).encode(), digest_size=12).hexdigest()
