"""Reading conversations that other programs have kept: OpenAI's messages, ChatGPT's exports, and plain text.

A file is read twice, first to see that all of it is sound, so that one that is not changes nothing. What is read is the
same each time: ids are those of the file, or made of what is said and at which point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import chain
from pathlib import PurePath
from typing import IO, Literal, TypeAlias, cast

from ...extract.extractor import Message, Role
from ...secrets.policy import admit
from ...values.errors import Invalid, LimitExceeded
from . import chatgpt, transcript
from .defaults import MessageBuilder, SessionNames, fit_message, hash_values
from .file_messages import FileMessage, Tally, find_name, find_time, number_lines, parse_json
from .openai import MessageReader, is_message

__all__ = ["MAX_FILE", "Chats", "Conversation", "Format", "Options", "Tally"]

Format: TypeAlias = Literal["openai", "jsonl", "chatgpt", "text"]
MAX_FILE = 1 << 30  # bytes
MAX_JSON = 1 << 28  # bytes of JSON that has to be read in one piece
LONGEST_LINE = 64_000_000  # bytes of a line of JSON
_ARRAY = re.compile(rb"\[\s*[\[{\]]")
_HEAD = 65_536  # bytes by which a file's format is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a file is to be read."""

    date: datetime
    """When it began, where the file has no times."""
    zone: tzinfo
    """The zone of times that name none."""
    user: str = "user"
    """The id of users without a name."""
    agent: str = "assistant"
    """The id of assistants without a name."""
    session: str | None = None
    """What to call the conversations, instead of their own names."""
    format: Format | None = None
    """What the file is, where it is not to be told by its content."""
    allow_secrets: bool = False
    """Whether what looks like a secret is taken as it is, rather than masked."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation by the name of its session. Its messages are read as they are asked for, once."""

    session: str
    messages: Iterator[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileConversation:
    """A conversation as a file has it."""

    messages: Iterator[FileMessage]
    name: str | None = None
    at: datetime | None = None


class Chats:
    """The conversations of a file."""

    def __init__(self, name: str, file: IO[bytes], options: Options) -> None:
        """`file` can be read from its beginning more than once; `name` is its name, or `-` if it has none.

        Raises:
            Invalid: it is too large, or none of the formats.
        """
        self.name = "stdin" if name == "-" else name
        """What to call it in messages."""
        self._stem = None if name == "-" else PurePath(name).stem
        self._file = file
        self._options = options
        self._manner: transcript.Layout | None = None
        self._whole: object = None
        self.tally = Tally()
        """What the last reading has left out."""
        self.size = file.seek(0, 2)
        """How many bytes it has."""
        if self.size > MAX_FILE:
            raise LimitExceeded(self.name, MAX_FILE, "bytes")
        self.format: Format = self._prepare()

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._file.tell()

    def check(self, progress: Callable[[], None] | None = None) -> int:
        """Read all of it; how many messages it holds. `progress` is called on the way.

        Raises:
            Invalid: something in it cannot be taken; the error names the place.
        """
        count = 0
        for conversation in self.conversations():
            for _ in conversation.messages:
                count += 1
                if progress is not None and count % 500 == 0:
                    progress()
        return count

    def conversations(self) -> Iterator[Conversation]:
        """Each conversation that has a message; the messages of one are to be read before the next is asked for.

        Raises:
            Invalid: something in it cannot be taken; the error names the place.
        """
        self.tally = Tally()
        sessions = SessionNames(self._options.session)
        clock = self._options.date
        nameless: dict[Role, str] = {"user": self._options.user, "assistant": self._options.agent, "tool": "tool"}
        for read in self._read_conversations():
            messages = self._keep_messages(read.messages)
            first = next(messages, None)
            if first is None:
                continue
            allow = self._options.allow_secrets
            title = cast("str | None", admit("chat_import", {"title": read.name}, allow=allow)["title"])
            session = sessions.name(title, self._stem or f"chat-{hash_values(first.role, first.text)[:12]}")
            builder = MessageBuilder(session, read.at or clock, nameless, self.tally, allow_secrets=allow)
            yield Conversation(session, map(builder.build, chain([first], messages)))
            clock += timedelta(seconds=builder.count)

    def _prepare(self) -> Format:
        """Find out what the file is, and read what has to be read in one piece."""
        self._file.seek(0)
        head = self._file.read(_HEAD)
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        chosen = self._options.format
        if not start:
            raise Invalid(self.name, "is empty" if self.size <= _HEAD else "begins with too much white space")
        if head.startswith(b"PK\x03\x04"):
            if chosen not in (None, "chatgpt"):
                raise Invalid(self.name, f"is a zip, not {chosen}")
            self._file.seek(0)
            files = chatgpt.unpack(self.name, self._file, MAX_JSON)
            self._whole = [
                each for inner, packed in files for each in _to_list(parse_json(f"{self.name}, {inner}", packed))
            ]
            return "chatgpt"
        if chosen is None:
            if not start.startswith(b"{") and not _ARRAY.match(start):
                chosen = "text"
            elif self._is_in_lines():
                chosen = "jsonl"
        if chosen == "text":
            self._manner = transcript.Layout.detect(number_lines(self.name, self._file, transcript.LONGEST_LINE))
        elif chosen != "jsonl":
            self._whole = self._parse()
            if chosen is None:
                chosen = "chatgpt" if any(map(chatgpt.is_conversation, _to_list(self._whole))) else "openai"
        return chosen

    def _is_in_lines(self) -> bool:
        """Whether the first line is JSON by itself, and others come after it."""
        self._file.seek(0)
        line = b"\n"
        while line and not line.removeprefix(b"\xef\xbb\xbf").strip():
            line = self._file.readline(LONGEST_LINE)
        rest = b"\n"
        while rest and not rest.strip():
            rest = self._file.readline(_HEAD)
        if not rest:
            return False
        try:
            parse_json(self.name, line.removeprefix(b"\xef\xbb\xbf"))
        except Invalid:
            # A file whose lines are all objects is meant to be read by the line, though the first is broken.
            return line.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")
        return True

    def _parse(self) -> object:
        self._file.seek(0)
        written = self._file.read(MAX_JSON + 1)
        if len(written) > MAX_JSON:
            raise LimitExceeded(f"{self.name}, which is JSON in one piece", MAX_JSON, "bytes")
        return parse_json(self.name, written.removeprefix(b"\xef\xbb\xbf"))

    def _read_conversations(self) -> Iterator[_FileConversation]:
        zone = self._options.zone
        match self.format:
            case "text":
                lines = number_lines(self.name, self._file, transcript.LONGEST_LINE)
                assert self._manner is not None
                yield _FileConversation(messages=transcript.read_messages(lines, self._manner, self.tally, zone))
            case "jsonl":
                yield from self._read_lines()
            case "openai":
                yield from self._read_whole()
            case "chatgpt":
                yield from self._read_export()

    def _read_lines(self) -> Iterator[_FileConversation]:
        """Conversations, one a line, or one whose messages are the lines."""
        lines = ((where, line) for where, line in number_lines(self.name, self._file, LONGEST_LINE) if line.strip())
        items = ((where, parse_json(where, line)) for where, line in lines)
        first = next(items, None)
        if first is None:
            return
        if is_message(first[1]):
            yield _FileConversation(messages=self._read_messages(chain([first], items)))
            return
        for where, item in chain([first], items):
            yield self._read_conversation(where, item)

    def _read_whole(self) -> Iterator[_FileConversation]:
        """The conversation, or the conversations, of a JSON value."""
        whole = self._whole
        if not isinstance(whole, list) or all(map(is_message, whole)):
            yield self._read_conversation(self.name, whole)
            return
        several = [each for each in whole if not is_message(each)]
        if len(several) < len(whole):
            number = whole.index(several[0]) + 1
            raise Invalid(f"{self.name}, message {number}", "is not a message: it has no role")
        for number, item in enumerate(several, 1):
            yield self._read_conversation(f"{self.name}, conversation {number}", item)

    def _read_export(self) -> Iterator[_FileConversation]:
        """ChatGPT's conversations, the oldest first, as they came to be."""
        zone = self._options.zone
        found: list[tuple[datetime | None, str, Mapping[str, object]]] = []
        for number, item in enumerate(_to_list(self._whole), 1):
            where = f"{self.name}, conversation {number}"
            if not chatgpt.is_conversation(item):
                raise Invalid(where, "is not a conversation of ChatGPT: it has no mapping")
            conversation = cast(Mapping[str, object], item)
            found.append((find_time(where, conversation, zone), where, conversation))
        found.sort(key=lambda each: each[0].timestamp() if each[0] else 0.0)
        for at, where, conversation in found:
            yield _FileConversation(
                messages=chatgpt.read_messages(where, conversation, self.tally, zone),
                name=find_name(conversation),
                at=at,
            )

    def _read_conversation(self, where: str, item: object) -> _FileConversation:
        """A conversation of one JSON value: an object with messages, a list of them, or a single one."""
        zone = self._options.zone
        if isinstance(item, dict) and "messages" in item:
            messages = item["messages"]
            if not isinstance(messages, list):
                raise Invalid(where, "its messages are no list")
            return _FileConversation(
                messages=self._read_within(where, messages), name=find_name(item), at=find_time(where, item, zone)
            )
        if isinstance(item, dict) and chatgpt.is_conversation(item):
            return _FileConversation(
                messages=chatgpt.read_messages(where, item, self.tally, zone),
                name=find_name(item),
                at=find_time(where, item, zone),
            )
        if isinstance(item, list):
            return _FileConversation(messages=self._read_within(where, item))
        if is_message(item):
            return _FileConversation(messages=self._read_messages([(where, item)]))
        raise Invalid(where, "is neither a message, which has a role, nor a conversation, which has messages")

    def _read_within(self, where: str, messages: Iterable[object]) -> Iterator[FileMessage]:
        return self._read_messages((f"{where}, message {number}", each) for number, each in enumerate(messages, 1))

    def _read_messages(self, items: Iterable[tuple[str, object]]) -> Iterator[FileMessage]:
        reader = MessageReader(self.tally, self._options.zone)
        for where, item in items:
            if (message := reader.read(where, item)) is not None:
                yield message

    def _keep_messages(self, messages: Iterator[FileMessage]) -> Iterator[FileMessage]:
        """Those that say something, and can be kept."""
        for each in messages:
            fitted = fit_message(each, self.tally)
            if fitted.text.strip() or fitted.calls:
                yield fitted
            else:
                self.tally.left_out["empty messages"] += 1


def _to_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
