"""Messages of conversations as programs have them: a text, or a dict as OpenAI's and Anthropic's APIs take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast

from ..extract.extractor import Call, Message, Role
from ..values.errors import Invalid
from ..values.records import Json, encode_json

Content: TypeAlias = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A text, a message, or several messages."""
SHAPES = 'expected a text, a message such as {"role": "user", "content": "..."}, or a list of messages'
_IGNORED_ROLES = ("system", "developer")  # which the user has not said


def parse_messages(content: Content, *, user: str, agent: str, at: datetime) -> list[Message]:
    """Return the messages of a conversation, the first of which was said at a time unless it says when.

    Raises:
        Invalid: the content is none of these, or holds no message of a user, an assistant or a tool.
    """
    items: object = [{"role": "user", "content": content}] if isinstance(content, str) else content
    items = [items] if isinstance(items, Mapping) else items
    if not isinstance(items, Sequence) or isinstance(items, bytes | bytearray):
        raise Invalid("content", SHAPES)
    messages: list[Message] = []
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise Invalid(f"content.{index}", SHAPES)
        senders = {"user": user, "assistant": agent, "tool": agent}
        moment = at + timedelta(milliseconds=len(messages))
        messages += _parse_message(f"content.{index}", item, senders, moment)
    if not messages:
        raise Invalid("content", "holds no message of a user, an assistant or a tool")
    return messages


def _parse_message(where: str, item: Mapping[str, Any], senders: Mapping[str, str], at: datetime) -> list[Message]:
    role, content = str(item.get("role")), item.get("content")
    if role in _IGNORED_ROLES:
        return []
    if role not in senders:
        raise Invalid(f"{where}.role", f"{role!r} is not one of user, assistant, tool, system, developer")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if not isinstance(parts, Sequence) or not all(isinstance(part, Mapping) for part in parts):
        raise Invalid(f"{where}.content", "expected a text or a list of content parts")
    calls = [_parse_call(f"{where}.tool_calls", call) for call in item.get("tool_calls") or ()]
    calls += [
        Call(id=str(part.get("id", "")), name=str(part.get("name", "")), arguments=encode_json(part.get("input")))
        for part in parts
        if part.get("type") == "tool_use"
    ]
    results = [_make_result(part, senders["tool"], at) for part in parts if part.get("type") == "tool_result"]
    text = _join_texts(parts)
    if not text and not calls:
        return results
    answers = str(item.get("tool_call_id") or "") or None if role == "tool" else None
    kept = cast(Json, list(parts)) if any(part.get("type") not in ("text", "tool_use") for part in parts) else None
    message = Message(
        id="", sender=senders[role], role=cast(Role, role), at=at, text=text, calls=tuple(calls), answers=answers,
        content=None if results else kept,
    )  # fmt: skip
    return [*results, message]


def _make_result(part: Mapping[str, Any], sender: str, at: datetime) -> Message:
    text, answers = _join_texts(part.get("content")), str(part.get("tool_use_id", ""))
    return Message(id="", sender=sender, role="tool", at=at, text=text, answers=answers)


def _parse_call(where: str, call: object) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise Invalid(where, 'expected calls such as {"id": "...", "function": {"name": "...", "arguments": "{}"}}')
    return Call(
        id=str(call.get("id", "")), name=str(function.get("name", "")), arguments=str(function.get("arguments", ""))
    )


def _join_texts(content: object) -> str:
    """Return the texts among content parts; what else there is, as a picture, says nothing here."""
    if isinstance(content, str):
        return content
    parts: Iterable[object] = content if isinstance(content, Sequence) else ()
    texts = (part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str))
    return "\n".join(text for text in texts if text)
