"""What a message gets that its file does not give: a session, a sender, a time and an id, the same each time."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta

from ...extract.admission import admit_messages
from ...extract.extractor import Call, Message, Role
from ...values.errors import Invalid, LimitExceeded
from ...values.records import MAX_AUTHOR, MAX_DATA, MAX_ID, MAX_KEY, MAX_TEXT, check_time
from .file_messages import FileMessage, Tally
from .senders import make_sender_id

MAX_SESSION = 128
MAX_CALLS = MAX_DATA - 65_536  # characters of the calls of a message; the rest of a record's data is for other fields
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(slots=True)
class SessionNames:
    """The names that have been given to conversations: each is given once."""

    fixed_name: str | None
    _used: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)

    def name(self, own: str | None, otherwise: str) -> str:
        """The name of one more conversation."""
        wanted = (self.fixed_name or _clean_name(own) or _clean_name(otherwise) or "chat")[:MAX_SESSION]
        name, number = wanted, self._numbers.get(wanted, 1)
        while name in self._used:
            number += 1
            name = f"{wanted[: MAX_SESSION - len(str(number)) - 1]}-{number}"
        self._used.add(name)
        self._numbers[wanted] = number
        return name


class MessageBuilder:
    """Makes messages of what was said in one conversation: each gets a sender, a later time and an id of its own."""

    def __init__(
        self, session: str, date: datetime, nameless: Mapping[Role, str], tally: Tally, *, allow_secrets: bool = False
    ) -> None:
        """`date` is when it began, unless its messages tell; `nameless` has the ids of those without a name."""
        self._tally = tally
        self._allow_secrets = allow_secrets
        self._session = session
        self._at = date - timedelta(seconds=1)
        self._nameless = nameless
        self._ids: set[str] = set()
        self.count = 0
        """How many there have been."""
        self._begun = False

    def build(self, message: FileMessage) -> Message:
        """The message.

        Raises:
            Invalid: it would be later than there is time.
        """
        sent = Message(
            id="", sender="", name=message.name, role=message.role, at=self._choose_time(message), text=message.text,
            calls=message.calls, answers=message.answers,
        )  # fmt: skip
        (admitted,) = admit_messages("chat_import", [sent], allow=self._allow_secrets)
        self._tally.masked += admitted is not sent
        name = admitted.name[:MAX_AUTHOR] if admitted.name else None
        sender = self._nameless[message.role] if name is None else make_sender_id(admitted.name or "", message.role)
        # Of what was said, not of what is kept of it: a message is the same whether its secrets were masked or not.
        calls = [[call.id, call.name, call.arguments] for call in message.calls]
        content = [self._session, self.count, message.role, sender, message.text, calls, message.answers]
        identity = message.id
        if not identity or len(identity) > MAX_ID or identity in self._ids or _UNSTORABLE.search(identity):
            identity = f"im_{hash_values(*content)}"
        else:
            self._ids.add(identity)
        self.count += 1
        return replace(admitted, id=identity, sender=sender, name=name)

    def _choose_time(self, message: FileMessage) -> datetime:
        """The message's own time; but what was said later is later, for that is how it will be read."""
        try:
            at = message.at or self._at + timedelta(seconds=1)
            if self._begun and at <= self._at:
                at = self._at + timedelta(milliseconds=1)
            check_time("time", at)
        except (OverflowError, Invalid):
            raise Invalid(message.where, "its time is outside the years 1 to 9999") from None
        self._at, self._begun = at, True
        return at


def fit_message(message: FileMessage, tally: Tally) -> FileMessage:
    """The message without characters that cannot be stored; raises LimitExceeded for more than a record holds."""

    def clean(text: str) -> str:
        if text.isascii() and "\0" not in text:
            return text
        cleaned = _UNSTORABLE.sub(lambda found: "" if found[0] == "\0" else "\N{REPLACEMENT CHARACTER}", text)
        tally.mended += cleaned != text
        return cleaned

    if len(message.text) > MAX_TEXT:
        raise LimitExceeded(f"{message.where}, text", MAX_TEXT)
    calls = tuple(
        Call(id=clean(call.id), name=clean(call.name), arguments=clean(call.arguments)) for call in message.calls
    )  # fmt: skip
    if calls and len(json.dumps([asdict(call) for call in calls], ensure_ascii=False)) > MAX_CALLS:
        raise LimitExceeded(f"{message.where}, tool calls", MAX_CALLS)
    for part in (message.answers or "", *(text for call in calls for text in (call.id, call.name))):
        if len(part) > MAX_KEY:
            raise LimitExceeded(f"{message.where}, a tool call's id or name", MAX_KEY)
    return FileMessage(
        where=message.where, role=message.role, name=(clean(message.name).strip() or None) if message.name else None,
        text=clean(message.text), at=message.at, calls=calls,
        answers=clean(message.answers) if message.answers else None, id=message.id,
    )  # fmt: skip


def _clean_name(name: str | None) -> str:
    """A name as it can be a session's: one line, without what cannot be stored or seen."""
    return "".join(each for each in " ".join((name or "").split()) if each.isprintable())[:MAX_SESSION].strip()


def hash_values(*values: object) -> str:
    """The same digits for the same values."""
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()
