"""Messages as OpenAI's chat completions have them, with the calls of older and newer editions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import tzinfo

from ...extract.extractor import Call, Role
from ...values.errors import Invalid
from .file_messages import FileMessage, Tally, find_time, get_text

_TEXTS = ("text", "input_text", "output_text")
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}


def is_message(item: object) -> bool:
    """Whether this is a message, or an item of the Responses API that stands for one."""
    return isinstance(item, dict) and ("role" in item or item.get("type") in ("function_call", "function_call_output"))


class MessageReader:
    """Reads the messages of one conversation, in order."""

    def __init__(self, tally: Tally, zone: tzinfo) -> None:
        self._tally = tally
        self._zone = zone
        self._tools: dict[str, str] = {}  # the names of the tools that were called, by the calls' ids
        self._unnamed: tuple[str, str] | None = None  # the last call of a kind that has no id: its id here, its name

    def read(self, where: str, item: object) -> FileMessage | None:
        """What a message says; None for one that is left out.

        Raises:
            Invalid: it is no message.
        """
        if not isinstance(item, dict):
            raise Invalid(where, f"is not a message but {_name_kind(item)}")
        if "role" not in item:
            item = _convert_item(where, item)
        role = item["role"]
        if role in ("system", "developer"):
            self._tally.left_out["system messages"] += 1
            return None
        if not isinstance(role, str) or role not in _ROLES:
            shown = f"{role!r}"[:60]
            raise Invalid(where, f"the role {shown} is none of user, assistant, tool, function, system and developer")
        name, answers = get_text(item.get("name")), None
        if _ROLES[role] == "tool":
            answers = get_text(item.get("tool_call_id"))
            if answers is None and self._unnamed is not None and name in (None, self._unnamed[1]):
                answers, self._unnamed = self._unnamed[0], None
            name = name or self._tools.get(answers or "")
        return FileMessage(
            where=where, role=_ROLES[role], name=name, text=self._read_text(where, item.get("content")),
            at=find_time(where, item, self._zone), calls=self._read_calls(where, item) if role == "assistant" else (),
            answers=answers, id=get_text(item.get("id")),
        )  # fmt: skip

    def _read_text(self, where: str, content: object) -> str:
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            raise Invalid(where, f"its content is neither a text nor a list of parts but {_name_kind(content)}")
        texts = []
        for part in content:
            text = part if isinstance(part, str) else None
            if isinstance(part, dict) and part.get("type") in _TEXTS:
                text = part.get("text")
                text = text.get("value") if isinstance(text, dict) else text
            if isinstance(text, str):
                texts.append(text)
            else:
                self._tally.left_out["images and other parts"] += 1
        return "\n".join(texts)

    def _read_calls(self, where: str, item: Mapping[str, object]) -> tuple[Call, ...]:
        calls_given = item.get("tool_calls") or []
        if not isinstance(calls_given, list):
            raise Invalid(where, f"its tool_calls are no list but {_name_kind(calls_given)}")
        calls = [
            _parse_call(where, each, f"call_{number}") for number, each in enumerate(calls_given, len(self._tools) + 1)
        ]
        legacy = item.get("function_call")
        if isinstance(legacy, dict):
            call = _parse_call(where, {"function": legacy}, f"call_{len(self._tools) + len(calls) + 1}")
            self._unnamed = call.id, call.name
            calls.append(call)
        elif legacy is not None:
            raise Invalid(where, f"its function_call is no object but {_name_kind(legacy)}")
        self._tools.update((call.id, call.name) for call in calls)
        return tuple(calls)


def _parse_call(where: str, item: object, otherwise: str) -> Call:
    """One call, of a function or of a tool that takes free text."""
    called = item.get("function") or item.get("custom") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(called, dict) or not isinstance(called.get("name"), str):
        raise Invalid(where, "one of its tool calls names no function")
    arguments = called.get("arguments", called.get("input"))
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return Call(id=get_text(item.get("id")) or otherwise, name=called["name"], arguments=arguments)


def _convert_item(where: str, item: Mapping[str, object]) -> dict[str, object]:
    """An item of the Responses API as the message that it would be."""
    if item.get("type") == "function_call":
        call = {"id": item.get("call_id"), "function": item}
        return {**item, "role": "assistant", "content": None, "tool_calls": [call], "name": None}
    if item.get("type") == "function_call_output":
        return {**item, "role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
    raise Invalid(where, "is not a message: it has no role")


def _name_kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
