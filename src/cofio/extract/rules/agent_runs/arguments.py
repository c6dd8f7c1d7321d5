"""The arguments of a tool call: kept as short JSON without secrets, and shown on one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from ....values.records import Json
from ...extractor import Step
from ..lines import MASK, cut, flatten, names_secret
from .json_results import render_value

VALUE = 120  # characters of an argument that are kept
RAW = 160
SHOWN = 60
ARGUMENTS = 160  # characters of all arguments in a line
MOST = 12  # arguments of a call that are kept
SHORT = 16_000  # characters of arguments that are worth a place in a cache
COMMANDS = ("command", "cmd", "args", "arguments", "script", "")
_REMARKS = frozenset({"description", "explanation", "thought", "timeout", "is_background", "run_in_background"})
"""What is said beside a command, and tells nothing of it."""


def encode_arguments(text: str) -> str:
    """Arguments as JSON text of plain values, cut and masked; what is no JSON object is kept as a text."""
    try:
        value: Json = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return flatten(text, RAW)
    if not isinstance(value, dict):
        return render_value(value, RAW)
    arguments = {flatten(key, 40): _simplify_value(key, item) for key, item in list(value.items())[:MOST]}
    if len(value) > MOST:
        arguments["…"] = f"{len(value) - MOST} more"
    return json.dumps(arguments, ensure_ascii=False)


def _simplify_value(key: str, value: Json) -> Json:
    if names_secret(key) and value is not None and not isinstance(value, bool):
        return MASK
    if isinstance(value, bool) or value is None:
        return value
    return value if isinstance(value, int) and abs(value) < 2**53 else _mask_value(value)


def _mask_value(value: Json) -> str:
    """A value as it is shown; what stands under the name of a secret, however deep, is masked."""
    waiting: list[tuple[Json, int]] = [(value, 0)]
    while waiting:
        item, deep = waiting.pop()
        inside: list[Json] = []
        if isinstance(item, dict):
            for key in list(item)[:MOST]:
                if names_secret(key):
                    item[key] = MASK
            inside = list(item.values())[:MOST]
        elif isinstance(item, list):
            inside = item[:MOST]
        if deep < 5:
            waiting += [(each, deep + 1) for each in inside]
    return render_value(value, VALUE)


def get_fields(step: Step) -> Mapping[str, str]:
    """A step's arguments by name, as they are shown; one that has no name stands under the empty one."""
    read = _cached_fields if len(step.arguments) <= SHORT else _parse_fields
    return read(step.arguments)


def _parse_fields(arguments: str) -> Mapping[str, str]:
    try:
        value: Json = json.loads(arguments) if arguments.startswith("{") else arguments
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict):
        is_command = any(key in value for key in COMMANDS)
        return {
            flatten(key, 40): render_value(item, VALUE)
            for key, item in value.items()
            if not (is_command and key in _REMARKS)
        }
    return {"": flatten(arguments, RAW)} if arguments.strip() else {}


_cached_fields = lru_cache(maxsize=1024)(_parse_fields)


def render_call(step: Step, limit: int = ARGUMENTS) -> str:
    """A step as a call: `book_flight(flight=DY1310, seats=2)`."""
    return f"{flatten(step.tool, 80)}({render_arguments(get_fields(step), limit)})"


def render_arguments(arguments: Mapping[str, str], limit: int = ARGUMENTS) -> str:
    """Arguments on one line of at most `limit` characters: as many as fit, and the first in any case."""
    each = limit if len(arguments) == 1 else SHOWN if len(arguments) == 2 else SHOWN * 2 // 3
    line = ""
    for key, item in arguments.items():
        part = f"{key}={cut(item, each)}" if key else cut(item, each)
        if line and len(line) + len(part) > limit:
            return f"{line}, …"
        line = f"{line}, {part}" if line else part
    return line
