"""Messages as a door may keep them, by what it does with secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from ..secrets.policy import Door, admit
from ..values.records import MAX_AUTHOR, MAX_TEXT, Json
from .extractor import Message


def admit_messages(door: Door, messages: Sequence[Message], *, allow: bool) -> Sequence[Message]:
    """The messages as the door may keep them: what was said, the names and the tool calls, but not the ids.

    Raises:
        Invalid: the door refuses secrets, and there is one.
    """
    encoded: dict[str, Json] = {"messages": [_encode_message(message) for message in messages]}
    admitted = admit(door, encoded, allow=allow)
    if admitted is encoded:
        return messages
    return [
        _decode_message(*pair)
        for pair in zip(messages, cast("list[dict[str, Json]]", admitted["messages"]), strict=True)
    ]


def _encode_message(message: Message) -> dict[str, Json]:
    calls: list[Json] = [{"name": call.name, "arguments": call.arguments} for call in message.calls]
    return {"text": message.text, "content": message.content, "sender": message.name, "calls": calls}


def _decode_message(message: Message, fields: Mapping[str, Json]) -> Message:
    name, calls = cast("str | None", fields["sender"]), cast("list[dict[str, str]]", fields["calls"])
    return replace(
        message, text=cast(str, fields["text"])[:MAX_TEXT], content=fields["content"], name=name and name[:MAX_AUTHOR],
        calls=tuple(replace(call, **each) for call, each in zip(message.calls, calls, strict=True)),
    )  # fmt: skip
