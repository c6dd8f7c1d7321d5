"""A message as a record, and back."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import cast

from ..extract.extractor import Call, Message, Role
from ..values.errors import LimitExceeded
from ..values.records import MAX_DATA, Draft, Json, Kind, Record, Scope, encode_json
from .projects import Project

SOURCE = "rest"
ROOM = 65_536  # for what a carve adds to a message, which must be able to take in whatever was accepted


def make_message_id(session: str, message: Message, index: int) -> str:
    """The id of a message that came without one, by its position in the request that it came in."""
    return f"m_{session}_{get_millis(message)}_{index:03d}"


def digest_message(message: Message) -> str:
    """What is added to the id of a message, when another message of its moment has that id."""
    content = "\0".join((message.sender, message.role, message.text, repr(message.calls), repr(message.content)))
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def get_millis(message: Message) -> int:
    """When a message was sent, since 1970."""
    return round(message.at.timestamp() * 1000)


def make_turn_id(project: Project, session: str, message: str) -> str:
    """The id of a message's record: the same however often, and by whichever process, the message is taken in."""
    named = "\0".join((project.app, project.name, session, message))
    return f"turn-{hashlib.blake2b(named.encode(), digest_size=20).hexdigest()}"


def is_turn(id: str) -> bool:
    """Whether an id is one of a message's record."""
    return id.startswith("turn-")


def make_draft(project: Project, session: str, message: Message) -> Draft:
    """The record that keeps a message."""
    data: dict[str, Json] = {
        "message_id": message.id,
        "session_id": session,
        "sender_id": message.sender,
        "role": message.role,
        "at": get_millis(message),
        "senders": {message.sender: True},
    }
    if message.name is not None:
        data["sender_name"] = message.name
    if message.content is not None:
        data["content"] = message.content
    if message.calls:
        data["calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.calls]
    if message.answers is not None:
        data["answers"] = message.answers
    if len(encode_json(data)) > MAX_DATA - ROOM:
        raise LimitExceeded("messages", MAX_DATA - ROOM, "characters of JSON in one message, its tool calls included")
    identity = make_turn_id(project, session, message.id)
    return Draft(
        scope=project.session(session), kind=Kind.TURN, id=identity, text=message.text, data=data,
        key=None if message.text.strip() else identity,  # a record without a key needs a text
        author=message.name or message.sender, source=SOURCE, created_at=message.at,
    )  # fmt: skip


def decode_message(record: Record) -> Message:
    """The message that a record keeps."""
    data = fields(record)
    calls = cast("list[dict[str, str]]", data.get("calls") or [])
    return Message(
        id=cast(str, data["message_id"]), sender=cast(str, data["sender_id"]),
        name=cast("str | None", data.get("sender_name")), role=cast(Role, data["role"]),
        at=record.created_at, text=cast(str, data.get("said", record.text)), content=data.get("content"),
        calls=tuple(Call(id=call["id"], name=call["name"], arguments=call["arguments"]) for call in calls),
        answers=cast("str | None", data.get("answers")),
    )  # fmt: skip


def fields(record: Record) -> Mapping[str, Json]:
    """A record's data, which is always an object where conversations and documents are kept."""
    return cast("dict[str, Json]", record.data)


def distinct(names: Iterable[str]) -> list[str]:
    """Each name once, in order."""
    return list(dict.fromkeys(names))


def copy(record: Record, scope: Scope, changed: Mapping[str, object]) -> Draft:
    """The same message for one more of those who took part."""
    text = cast(str, changed.get("text", record.text))
    return Draft(
        scope=scope, kind=Kind.TURN, text=text, key=None if text.strip() else secrets.token_hex(16),
        author=record.author, source=record.source, created_at=record.created_at,
        data={**cast("dict[str, Json]", changed["data"]), "copy": True}, parent=cast("str | None", changed["parent"]),
        position=cast(int, changed["position"]),
    )  # fmt: skip
