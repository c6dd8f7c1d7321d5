"""What the formats have in common: a message as a file has it, its time, and what is wrong with it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import IO

from ...extract.extractor import Call, Role
from ...values.errors import Invalid, LimitExceeded
from ...values.records import check_time
from ...values.times import from_millis

_MILLISECONDS = 100_000_000_000  # a number from here on, which in seconds would be the year 5138, is in milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMessage:
    """A message as a file has it, before it has a sender, a time and a unique id."""

    where: str
    """Where in the file it is, for error messages."""
    role: Role
    name: str | None = None
    text: str = ""
    at: datetime | None = None
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    id: str | None = None


@dataclass(slots=True)
class Tally:
    """What a file holds that is not taken as it is."""

    left_out: Counter[str] = field(default_factory=Counter)
    """How many of each: system messages, images, and so on; the words are in the plural."""
    mended: int = 0
    """How many texts had characters that cannot be stored."""
    masked: int = 0
    """How many messages had what looks like a secret, which is masked."""


def number_lines(name: str, file: IO[bytes], longest: int) -> Iterator[tuple[str, str]]:
    """Each line of the file from its beginning, without the line's end, after its place.

    Raises:
        Invalid: a line is no UTF-8 text, or has more than `longest` bytes.
    """
    file.seek(0)
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(line) > longest:
            raise LimitExceeded(where, longest, "bytes")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise Invalid(where, "is not UTF-8 text") from None
        yield where, text.rstrip("\r\n")


def parse_json(where: str, written: str | bytes) -> object:
    """The value that JSON text stands for; raises Invalid for anything else."""
    try:
        read: object = json.loads(written)
    except UnicodeDecodeError:
        raise Invalid(where, "is not UTF-8 text") from None
    except RecursionError:
        raise Invalid(where, "is nested too deeply") from None
    except ValueError as error:
        raise Invalid(where, f"is not JSON ({error})") from None
    return read


def parse_time(where: str, value: object, zone: tzinfo) -> datetime | None:
    """The time that a file tells: seconds or milliseconds since 1970, or ISO 8601; None for none.

    Raises:
        Invalid: it is something else.
    """
    if value is None or value == "" or (value == 0 and not isinstance(value, bool)):
        return None
    try:
        if isinstance(value, str) and not value.isdecimal():
            read = datetime.fromisoformat(value.strip())
            read = read if read.tzinfo else read.replace(tzinfo=zone)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            number = float(value)
            if not math.isfinite(number) or number < 0:
                raise ValueError
            read = from_millis(number if number >= _MILLISECONDS else number * 1000)
        else:
            raise ValueError
        read = read.astimezone(UTC)
        check_time("time", read)
    except (ValueError, OverflowError, Invalid):
        shown = f"{value!r}"[:60]
        raise Invalid(where, f"the time {shown} is neither seconds nor milliseconds since 1970, nor ISO 8601") from None
    return read.replace(microsecond=read.microsecond // 1000 * 1000)


def find_time(where: str, item: Mapping[str, object], zone: tzinfo) -> datetime | None:
    """The time of a message or a conversation, by whichever usual name it goes."""
    for name in ("timestamp", "created_at", "create_time", "created"):
        if item.get(name) is not None:
            return parse_time(where, item[name], zone)
    return None


def find_name(item: Mapping[str, object]) -> str | None:
    """What a conversation is called: its id before its title, which may change."""
    for name in ("conversation_id", "session_id", "id", "title"):
        value = item.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return None


def get_text(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None
