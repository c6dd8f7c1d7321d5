"""JSON out of what a model said: in fences, between prose, with commas too many, or cut off before its end."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from itertools import islice

from ..values.records import Json

READ = 400_000  # characters of an answer
_MOST = 40  # places at which an object is looked for
_DEEPEST = 60

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_BEFORE = re.compile(r"^.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_THOUGHT_ON = re.compile(r"<(?:think|thinking|reasoning)>.*$", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\r?\n(.*?)(?:```|$)", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*\\?$|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_LITERAL = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def strip_thoughts(answer: str) -> str:
    """An answer without what the model thought on the way; nothing if it never came to an end."""
    text = _THOUGHT.sub("", answer[:READ])
    return _THOUGHT_ON.sub("", _THOUGHT_BEFORE.sub("", text)).strip()


def find_objects(answer: str) -> Iterator[dict[str, Json]]:
    """The objects that an answer may be meant to hold, the likeliest first.

    Of several the last comes first: what stands before it was thinking aloud. What had to be mended comes at the end.
    """
    text = strip_thoughts(answer)
    pieces = [text, *reversed(_FENCE.findall(text))]
    for piece in pieces:
        yield from _parse(piece)
    yield from reversed(list(_find_within(text)))
    for piece in reversed(pieces):
        yield from _mend(piece)


def _parse(text: str) -> Iterator[dict[str, Json]]:
    try:
        value = json.loads(text, strict=False)  # a line break within a text is forgiven
    except (ValueError, RecursionError):
        return
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        yield value


def _find_within(text: str) -> Iterator[dict[str, Json]]:
    """The objects between other words, from left to right, none of them within another."""
    decoder = json.JSONDecoder(strict=False)
    start = -1
    for _ in range(_MOST):
        start = text.find("{", start + 1)
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value
        start = end - 1


def _mend(text: str) -> Iterator[dict[str, Json]]:
    """What the outermost object says once slips are forgiven; nothing of it is guessed."""
    start = text.find("{")
    if start < 0:
        return
    body = text[start:]
    outermost = body[: body.rfind("}") + 1]
    yield from _parse(_drop_trailing_commas(outermost))
    yield from _parse_python(outermost)
    yield from _parse(_close(body))


def _drop_trailing_commas(text: str) -> str:
    parts: list[str] = []
    end = 0
    for match in _STRING.finditer(text):
        parts += [_TRAILING_COMMA.sub("", text[end : match.start()]), match[0]]
        end = match.end()
    # A comma and the bracket after it may only have space between them, so that no string can come between.
    return "".join([*parts, _TRAILING_COMMA.sub("", text[end:])])


def _parse_python(text: str) -> Iterator[dict[str, Json]]:
    """An object that was written as Python would: with single quotes, True and None."""
    if "'" not in text or text.count("{") + text.count("[") > 10_000:
        return
    try:
        value = ast.literal_eval(text)
        parsed = json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    if isinstance(parsed, dict):
        yield parsed


def _close(text: str) -> str:
    """The object up to the last value that was complete, closed: half a text and half a number are dropped."""
    end, keep, open_ = 0, "", ""
    expects_key = wants_value = False
    for match in islice(_PIECE.finditer(text), 200_000):
        piece = match[0]
        if piece in "{[":
            if len(open_) >= _DEEPEST:
                return ""
            open_ += piece
            expects_key, wants_value = piece == "{", False
            end, keep = match.end(), open_
        elif piece in "}]":
            open_ = open_[:-1]
            end, keep = match.end(), open_
            expects_key = wants_value = False
            if not open_:
                break
        elif piece == ",":
            expects_key = open_.endswith("{")
        elif piece == ":":
            wants_value = True
        elif expects_key and not wants_value:
            expects_key = False
        elif _is_whole(piece, is_last=match.end() == len(text)):
            wants_value = False
            end, keep = match.end(), open_
        else:
            break
    return _drop_trailing_commas(text[:end] + "".join("}" if each == "{" else "]" for each in reversed(keep)))


def _is_whole(piece: str, *, is_last: bool) -> bool:
    if piece.startswith('"'):
        return _STRING.fullmatch(piece) is not None
    return _LITERAL.fullmatch(piece) is not None and not (is_last and piece[-1].isdigit())
