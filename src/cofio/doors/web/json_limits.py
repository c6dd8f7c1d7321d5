"""How much JSON a door takes in: a body is measured before it is parsed, as a small one can be large in memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...values.records import MAX_TEXT

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """How much JSON may hold."""

    values: int = 200_000
    """Commas and brackets outside of strings: there are no more values than that."""
    depth: int = 64
    text: int | None = MAX_TEXT
    """Characters of a string; None for as many as the body has room for."""

    def check(self, body: bytes | bytearray) -> None:
        """Raise TooComplex for JSON that would be costly to parse. Nothing is parsed: strings are passed over."""
        # With every character escaped as a pair, and between quotation marks.
        longest = len(body) if self.text is None else 12 * self.text + 2
        place = values = strings = depth = 0
        while place < len(body):
            stop = place + SLICE
            for found in _TOKEN.finditer(body, place, stop):
                start, end = found.span()
                if body[start] == _QUOTE:
                    strings += 1
                    if not found.lastindex:  # it is not closed within this slice
                        stop = end = _skip_string(body, end)
                    if end - start > longest:
                        raise TooComplex(f"a string is longer than {self.text:,} characters")
                    continue
                values += end - start
                if values <= self.values and (end - start > 1 or body[start] != _COMMA):
                    depth = self._descend(depth, body[start:end])
            if values > self.values or strings > 2 * self.values + 2:  # a key and a value for each comma
                raise TooComplex(f"the body has more than {self.values:,} values")
            place = stop

    def _descend(self, depth: int, brackets: bytes | bytearray) -> int:
        for byte in brackets:
            depth += _STEPS[byte]
            if depth > self.depth:
                raise TooComplex(f"the body is nested deeper than {self.depth} levels")
        return depth


def _skip_string(body: bytes | bytearray, place: int) -> int:
    """Find the end of a string that began before `place`."""
    while place < len(body):
        found = _REST_OF_STRING.match(body, place, place + SLICE)
        assert found
        if found.lastindex:
            return found.end()
        place = found.end() if found.end() > place else len(body)  # the last byte is half of an escape
    return place
