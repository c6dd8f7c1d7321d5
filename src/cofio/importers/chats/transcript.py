"""Conversations as plain text: lines of "Name: text", with or without the time before the name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Literal, TypeAlias

from ...extract.extractor import Role
from ...values.errors import Invalid, LimitExceeded
from ...values.records import MAX_TEXT, check_time
from .file_messages import FileMessage, Tally

LONGEST_LINE = 8_000_000  # bytes; the longest text that can be kept is shorter
Order: TypeAlias = Literal["day", "month"]

_STAMP = (
    r"(?:(?:(?P<iso>\d{4}-\d\d-\d\d)|(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4}|\d\d))"
    r"(?:,\s?|\s|T))?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<seconds>\d\d)(?:[.,]\d{1,6})?)?"
    r"(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\.?)?\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_BRACKETED = re.compile(rf"\u200e?\[{_STAMP}\]\s*(?P<rest>.*)", re.DOTALL)
_LEADING = re.compile(rf"\u200e?{_STAMP}(?:\s+[-–—]\s+|\s+)(?P<rest>.*)", re.DOTALL)
_AFTER_STAMP = re.compile(r"(?P<name>[^:\n]{1,100}):(?:\s(?P<text>.*)|$)", re.DOTALL)
# Without a time to tell, a line begins a message only when what stands before the colon looks like a name.
_ALONE = re.compile(
    r"(?P<name>[^\W_+@~][^:;,!?=<>\[\]{}\"`|\\/*#\t]{0,39}|[+@~][^:;,!?\t]{1,39}):(?:\s(?P<text>.*)|$)", re.DOTALL
)
_WORDS = 6  # of a name
_SCHEMES = ("http", "https", "ftp", "mailto", "file")
_OMITTED = re.compile(r"<(?:Media|media) omitted>|(?:image|video|audio|sticker|GIF|document) omitted")
ASSISTANTS = frozenset({"assistant", "ai", "bot", "chatgpt", "claude"})
NAMELESS = frozenset({"user", "human", "me", "you", "assistant", "ai", "bot"})
"""Words for a speaker that are no name."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file writes its messages."""

    shape: tuple[bool, bool] | None
    """Whether times stand in brackets and whether they have a date; None where there are no times."""
    order: Order | None
    """What comes first in dates such as 03/04/2026; None where nothing tells."""

    @classmethod
    def detect(cls, lines: Iterable[tuple[str, str]]) -> Layout:
        """The manner of these lines, each after its place: the first shows it, and all of them tell of the dates.

        Raises:
            Invalid: the first line is no message.
        """
        shape, begun = None, False
        tell: set[Order] = set()
        for where, line in lines:
            if not begun and line.strip():
                found = _match_stamp(line)
                shape, begun = _find_shape(found) if found else None, True
                if found is None and _match_alone(line) is None:
                    raise Invalid(where, 'is neither JSON nor a message such as "Anna: hello"')
                if found is None:
                    break
            found = _match_stamp(line)
            if found is not None and _find_shape(found) == shape and found["mark"]:
                if int(found["first"]) > 12:
                    tell.add("day")
                if int(found["second"]) > 12:
                    tell.add("month")
        return cls(shape, tell.pop() if len(tell) == 1 else None)

    def begins(self, line: str) -> tuple[re.Match[str] | None, re.Match[str] | None] | None:
        """What a line that begins a message has: its time and its name with the text; None if it begins none."""
        if self.shape is None:
            named = _match_alone(line)
            return None if named is None else (None, named)
        found = _match_stamp(line)
        if found is None or _find_shape(found) != self.shape:
            return None
        return found, _AFTER_STAMP.fullmatch(found["rest"])


def read_messages(
    lines: Iterable[tuple[str, str]], manner: Layout, tally: Tally, zone: tzinfo
) -> Iterator[FileMessage]:
    """The messages of these lines; a line that begins none belongs to the one before.

    Raises:
        Invalid: a time is none.
        LimitExceeded: a text is too long.
    """
    current: _PartialMessage | None = None
    for where, line in lines:
        begun = manner.begins(line)
        if begun is None:
            if current is not None:
                current.add(line)
            continue
        if current is not None:
            yield from current.finish(tally)
        stamp, named = begun
        if named is None:  # what the program itself tells, as that someone has joined
            tally.left_out["lines without a name"] += 1
            current = _PartialMessage(where, None, None, "")
            continue
        at = _parse_time(where, stamp, manner.order, zone, tally) if stamp is not None else None
        current = _PartialMessage(where, named["name"].strip(" \u200e~"), at, named["text"] or "")
    if current is not None:
        yield from current.finish(tally)


class _PartialMessage:
    """A message whose lines are still coming."""

    def __init__(self, where: str, name: str | None, at: datetime | None, text: str) -> None:
        self._where, self._name, self._at = where, name, at
        self._lines = [text]
        self._size = len(text)

    def add(self, line: str) -> None:
        self._size += len(line) + 1
        if line.strip() and self._size > MAX_TEXT and self._name is not None:
            raise LimitExceeded(f"{self._where}, text", MAX_TEXT)
        if self._name is not None and self._size <= MAX_TEXT:
            self._lines.append(line)

    def finish(self, tally: Tally) -> Iterator[FileMessage]:
        """The message, if it is one."""
        if self._name is None:
            return
        known = self._name.casefold()
        if known in ("system", "developer"):
            tally.left_out["system messages"] += 1
            return
        text = "\n".join(self._lines).strip()
        if _OMITTED.fullmatch(text.strip("\u200e")):
            tally.left_out["images and other parts"] += 1
            return
        role: Role = "assistant" if known in ASSISTANTS else "user"
        name = None if known in NAMELESS else self._name
        yield FileMessage(where=self._where, role=role, name=name, text=text, at=self._at)


def _match_stamp(line: str) -> re.Match[str] | None:
    return _BRACKETED.fullmatch(line) or _LEADING.fullmatch(line)


def _find_shape(found: re.Match[str]) -> tuple[bool, bool]:
    return found.re is _BRACKETED, bool(found["iso"] or found["mark"])


def _match_alone(line: str) -> re.Match[str] | None:
    found = _ALONE.fullmatch(line)
    if found is None or found["name"].casefold() in _SCHEMES or len(found["name"].split()) > _WORDS:
        return None
    return found


def _parse_time(where: str, stamp: re.Match[str], order: Order | None, zone: tzinfo, tally: Tally) -> datetime | None:
    """The time before a name; None where there is no date, or one that can be read in two ways."""
    if not stamp["iso"] and not stamp["mark"]:
        return None
    order = "day" if stamp["mark"] == "." else order
    if not stamp["iso"] and order is None:
        tally.left_out["times that can be read in two ways"] += 1
        return None
    try:
        if stamp["iso"]:
            day = date.fromisoformat(stamp["iso"])
        else:
            first, second, year = int(stamp["first"]), int(stamp["second"]), int(stamp["year"])
            month, number = (second, first) if order == "day" else (first, second)
            day = date(year if len(stamp["year"]) == 4 else 2000 + year, month, number)
        hour = int(stamp["hour"])
        if stamp["half"]:
            if not 1 <= hour <= 12:
                raise ValueError
            hour = hour % 12 + (12 if stamp["half"] in "pP" else 0)
        clock = time(hour, int(stamp["minute"]), int(stamp["seconds"] or 0))
        read = datetime.combine(day, clock, _parse_zone(stamp["zone"]) or zone).astimezone(UTC)
        check_time("time", read)
    except (ValueError, OverflowError, Invalid):
        raise Invalid(where, "begins with a time that there is not") from None
    return read


def _parse_zone(written: str | None) -> tzinfo | None:
    if not written:
        return None
    if written == "Z":
        return UTC
    offset = timedelta(hours=int(written[1:3]), minutes=int(written[-2:]))
    return timezone(-offset if written[0] == "-" else offset)
