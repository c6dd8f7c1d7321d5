"""Parses JSON within limits: a body is measured before it is parsed, as a small one can be large in memory."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from ..values.records import MAX_TEXT, Json

SLICE = 262_144  # bytes that are scanned in one go; between two slices other threads get their turn
# Each alternative begins with a byte of its own: so `re` can skip to the next of them, five times as fast.
_TOKEN = re.compile(
    rb'"(?:[^"\\]++|\\.)*+(")?|' + b"|".join(each + rb"[][{},]*+" for each in (rb"\[", rb"\]", rb"\{", rb"\}", b",")),
    re.DOTALL,
)
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(")?', re.DOTALL)
_QUOTE, _COMMA = b'",'
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}


class TooComplex(ValueError):
    """JSON that would be costly to parse; the sentence says which limit it exceeds."""


class BadJson(ValueError):
    """A body that is no JSON: what is wrong with it, and the kind of error that a parser would call it."""

    def __init__(self, problem: str, kind: str) -> None:
        super().__init__(problem)
        self.kind = kind


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python's parser knows and JSON does not."""
    raise BadJson(f"{name} is not a number in JSON", ValueError.__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """Limits on what JSON may hold."""

    values: int = 200_000
    """Commas and brackets outside of strings: there are no more values than that."""
    depth: int = 64
    text: int | None = MAX_TEXT
    """Characters of a string; None for as many as the body has room for."""

    def parse(self, body: bytes | bytearray) -> Json:
        """Parse a body, once it is clear that it is of bearable depth and size.

        Raises:
            TooComplex: it would be costly to parse.
            BadJson: it is no JSON in UTF-8.
        """
        self.check(body)
        try:
            parsed: Json = json.loads(body.decode(), parse_constant=refuse_constant)  # UTF-8 alone: that was measured
        except json.JSONDecodeError as error:
            where = f"at line {error.lineno}, column {error.colno}"
            raise BadJson(f"{error.msg} {where}", type(error).__name__) from error
        except UnicodeDecodeError as error:
            raise BadJson(f"byte {error.start + 1} is not UTF-8", type(error).__name__) from error
        except BadJson:
            raise
        except (ValueError, RecursionError) as error:
            raise BadJson("a number has too many digits", type(error).__name__) from error
        return parsed

    def check(self, body: bytes | bytearray) -> None:
        """Raise TooComplex for JSON that would be costly to parse. Nothing is parsed: strings are passed over."""
        # With every character escaped as a pair, and between quotation marks.
        longest = len(body) if self.text is None else 12 * self.text + 2
        position = values = strings = depth = 0
        while position < len(body):
            stop = position + SLICE
            for match in _TOKEN.finditer(body, position, stop):
                start, end = match.span()
                if body[start] == _QUOTE:
                    strings += 1
                    if not match.lastindex:  # it is not closed within this slice
                        stop = end = _skip_string(body, end)
                    if end - start > longest:
                        raise TooComplex(f"a string is longer than {self.text:,} characters")
                    continue
                values += end - start
                if values <= self.values and (end - start > 1 or body[start] != _COMMA):
                    depth = self._descend(depth, body[start:end])
            if values > self.values or strings > 2 * self.values + 2:  # a key and a value for each comma
                raise TooComplex(f"the body has more than {self.values:,} values")
            position = stop

    def _descend(self, depth: int, brackets: bytes | bytearray) -> int:
        for byte in brackets:
            depth += _STEPS[byte]
            if depth > self.depth:
                raise TooComplex(f"the body is nested deeper than {self.depth} levels")
        return depth


def _skip_string(body: bytes | bytearray, position: int) -> int:
    """Find the end of a string that began before `position`."""
    while position < len(body):
        match = _REST_OF_STRING.match(body, position, position + SLICE)
        assert match
        if match.lastindex:
            return match.end()
        position = match.end() if match.end() > position else len(body)  # the last byte is half of an escape
    return position
