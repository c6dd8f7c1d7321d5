"""What a result in JSON says: what went wrong, or what it holds, as a person would note it down."""

from __future__ import annotations

import json
import re
from itertools import islice

from ....values.records import Json
from ..lines import flatten
from .vocabulary import get_phrases

EMPTY = "empty"
_ERRORS = ("error", "errors", "exception", "err", "errormessage")
_MESSAGES = (
    "message", "msg", "detail", "details", "reason", "description", "errordescription", "stderr", "summary", "body",
)  # fmt: skip
_STATUSES = ("status", "statuscode", "code", "httpstatus", "state")
_EXITS = ("exitcode", "returncode", "rc", "exitstatus")
_SUCCESSES = ("ok", "success", "succeeded", "successful")
_NOTHING = ("", "none", "null", "false", "0", "ok")
_NAMES = ("name", "title", "summary", "subject", "number", "path", "file", "id", "url", "key")
_SHOWN = 4  # fields of a result that are told
_DEEP = 3
_MANY = 500  # fields of an object that are looked at


def unwrap(value: Json) -> tuple[Json, bool]:
    """What a protocol's envelope (`content` blocks of type text, `isError`) holds, and whether it marks an error."""
    flagged = isinstance(value, dict) and (value.get("isError") is True or value.get("is_error") is True)
    blocks = value.get("content") if isinstance(value, dict) else value
    if isinstance(blocks, list) and blocks:
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        said = [text for text in texts if isinstance(text, str)]
        if len(said) == len(blocks):
            return "\n".join(said), flagged
    return value, flagged


def find_failure(value: Json) -> str | None:
    """What an object says went wrong, an exit code on a line of its own; None when it reports no failure."""
    if not isinstance(value, dict):
        return None
    fields = _normalize_keys(value)
    message = _find_message(fields)
    status = next((found for key in _STATUSES if (found := _find_bad_status(fields.get(key)))), "")
    if status and status == str(fields.get("code")) and not message:  # a number that may mean anything
        status = ""
    error = next((fields[key] for key in _ERRORS if fields.get(key)), None)
    if isinstance(error, int | float):
        return message or f"error={render_value(error)}"
    if error is not None and not (isinstance(error, str) and error.strip().lower() in _NOTHING):
        return _join_status(status if status.isdigit() else "", _unwrap_message(error))
    if exits := next((item for key in _EXITS if isinstance(item := fields.get(key), int) and item), 0):
        return f"exit code {exits}\n{fields.get('stderr') or fields.get('stdout') or fields.get('output') or ''}"
    refused = any(fields.get(key) is False for key in _SUCCESSES) or fields.get("iserror") is True
    return _join_status(status, message) if status or refused else None


def _normalize_keys(value: dict[str, Json]) -> dict[str, Json]:
    """The first fields of an object by their names in small letters, so that `statusCode` and `status_code` are one."""
    return {_normalize_key(key): item for key, item in islice(value.items(), _MANY)}


def _normalize_key(key: str) -> str:
    return re.sub(r"[^a-z]", "", key[:60].lower())


def _find_bad_status(item: Json) -> str:
    """A status that stands for a failure, as text."""
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item) if 400 <= item < 600 else ""
    is_bad = isinstance(item, str) and len(item) < 80 and get_phrases("bad status").fullmatch(item.strip())
    return str(item).strip() if is_bad else ""


def _join_status(status: str, message: str) -> str:
    return f"{status}: {message}" if status and message and status not in message else message or status


def _unwrap_message(item: Json) -> str:
    """The words of an error, however it is wrapped."""
    for _ in range(_DEEP):
        if isinstance(item, list) and item:
            item = item[0]
        if isinstance(item, dict):
            fields = _normalize_keys(item)
            keys = (key for key in (*_MESSAGES, *_ERRORS, "code", "type") if fields.get(key))
            item = next((fields[key] for key in keys), render_value(item))
    return item if isinstance(item, str) else render_value(item)


def _find_message(fields: dict[str, Json]) -> str:
    return next((item for key in _MESSAGES if isinstance(item := fields.get(key), str) and item), "")


def render_json(value: Json) -> str:
    """What says most of a value: of an object its message, how many of what it holds, and its plain values."""
    if isinstance(value, list):
        return _render_count("items", value)
    if not isinstance(value, dict):
        return render_value(value)
    parts: list[tuple[bool, str]] = []
    for key, item in islice(value.items(), 40):
        plain = _normalize_key(key)
        if (
            plain in ("message", "summary", "answer", "result", "msg", "stdout", "output")
            and isinstance(item, str)
            and item.strip()
        ):
            parts.append((False, flatten(item, 80)))
        elif isinstance(item, list):
            parts.append((True, _render_count(key, item)))
        elif item not in (None, "", {}) and plain not in (*_SUCCESSES, *_ERRORS, *_EXITS):
            parts.append((True, f"{flatten(key, 40)}={render_value(item)}"))
    if not parts:
        return "ok" if any(value.values()) else EMPTY
    return ", ".join(part for _, part in sorted(parts, key=lambda part: part[0])[:_SHOWN])


def _render_count(key: str, items: list[Json]) -> str:
    """How many there are, and the names of the first few."""
    noun = flatten(key, 40)
    if len(items) == 1 and noun.endswith("s") and not noun.endswith(("ss", "us", "is")):
        noun = noun.removesuffix("ies") + "y" if noun.endswith("ies") else noun[:-1]
    names = [name for item in items[:3] if (name := _find_item_name(item))]
    more = ", …" if names and len(items) > len(names) else ""
    return f"{len(items)} {noun}" + (f" ({', '.join(names)}{more})" if names else "")


def _find_item_name(item: Json) -> str:
    if isinstance(item, dict):
        first = (each for each in islice(item.values(), 8) if isinstance(each, str | int) and each != "")
        item = next((item[key] for key in _NAMES if isinstance(item.get(key), str | int)), next(first, None))
    return render_value(item, 30) if item else ""


def render_value(value: Json, limit: int = 80, deep: int = 0) -> str:
    """A value as a person would note it down, in at most `limit` characters."""
    if isinstance(value, str):
        return flatten(value, limit)
    if isinstance(value, dict | list) and deep >= _DEEP:
        return "…"
    if isinstance(value, dict):
        parts = [f"{flatten(key, 30)}={render_value(item, 30, deep + 1)}" for key, item in islice(value.items(), 4)]
        return flatten("{" + ", ".join(parts) + (", …" if len(value) > 4 else "") + "}", limit)
    if isinstance(value, list):
        parts = [render_value(item, 30, deep + 1) for item in value[:4]]
        return flatten("[" + ", ".join(parts) + (f", … {len(value)} in all" if len(value) > 4 else "") + "]", limit)
    return flatten(json.dumps(value), limit)
