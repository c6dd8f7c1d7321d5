"""Parses JSON within limits: a body is measured before it is parsed, as a small one can be large in memory."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from ..values.records import MAX_TEXT, Json

# With possessive quantifiers, so that no body makes it go back and try again.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_OTHER_BYTES = bytes(set(range(256)) - set(b"[]{},"))


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
        if self.text is not None:
            longest = 12 * self.text + 2  # with every character escaped as a pair, and between quotation marks
            if len(body) > longest and any(len(each[0]) > longest for each in _STRING.finditer(body)):
                raise TooComplex(f"a string is longer than {self.text:,} characters")
        most = 2 * self.values + 2  # strings: a key and a value for each comma
        rest, strings = _STRING.subn(b"", body, most)
        marks = rest.translate(None, _OTHER_BYTES)
        if strings == most or len(marks) > self.values:
            raise TooComplex(f"the body has more than {self.values:,} values")
        depth = 0
        for mark in marks.translate(None, b","):
            depth += 1 if mark in b"[{" else -1
            if depth > self.depth:
                raise TooComplex(f"the body is nested deeper than {self.depth} levels")
