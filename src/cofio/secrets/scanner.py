"""What looks like a secret in a text: keys, tokens and passwords that have no place in a memory.

A kind of secret is found by a literal that it cannot do without, then by the shape around that literal, then by
whether its value could be a real one. Texts about secrets, placeholders, look-ups and digests are let through.
The work grows with the length of the text and no faster, whatever the text is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..values.records import Json
from .disguises import fold
from .named_values import WORDS, find_named, name_secret, to_plain
from .patterns import SPACED, UNBROKEN, Span, find_shape

__all__ = ["Secret", "find_in_json", "find_secret", "mask_in_json", "mask_secrets", "mask_with_offsets"]

LONG_WORD = 16  # characters that a token or an address with a password has at least, with no space among them
ROUNDS = 4  # of masking; a text that still holds a secret then is made for that, and nothing of it is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What was found and the line where it starts, counted from 1; never the secret itself."""

    what: str
    line: int


def find_secret(text: str) -> Secret | None:
    """The first thing in `text` that looks like a secret, or None."""
    found = _find_first(text)
    folded = fold(text)
    if folded is not None and (other := _find_first(folded.text)) is not None:
        other = folded.restore(other)
        found = other if found is None or other.start < found.start else found
    return Secret(what=found.what, line=text.count("\n", 0, found.start) + 1) if found else None


def mask_secrets(text: str) -> str:
    """`text` with a mark that names its kind in the place of each secret; the same text gives the same result."""
    return mask_with_offsets(text, ())[0]


def mask_with_offsets(text: str, offsets: Sequence[int]) -> tuple[str, list[int]]:
    """The masked text, and where places of `text` are in it; one inside of a secret is at the end of its mark."""
    masked, moved, found = text, list(offsets), find_secret(text)
    for _ in range(ROUNDS):
        if found is None:
            return masked, moved
        spans = list(_find_all(masked))
        folded = fold(masked)
        if folded is not None:
            spans += map(folded.restore, _find_all(folded.text))
        masked, moved = _replace(masked, list(_merge(spans)), moved)
        found = find_secret(masked)
    if found is None:
        return masked, moved
    return _replace(masked, [Span(0, len(masked), found.what)], moved)


def find_in_json(value: Json) -> Secret | None:
    """The first secret in the strings of `value`, or a telling string under a key that names a secret."""
    strings = list(_list_strings(value))
    # One look at all of them is many times cheaper than one look at each, and nearly always finds nothing.
    suspect = find_secret("\n".join(string for _, string in strings)) is not None
    for name, string in strings:
        found = find_secret(string) if suspect else None
        if found is None and name and (what := name_secret(name, string)):
            found = Secret(what=what, line=1)
        if found is not None:
            return found
    return None


def mask_in_json(value: Json) -> Json:
    """`value` with its secrets masked, in keys and strings; the very same object when there are none."""
    return value if find_in_json(value) is None else _mask_json("", value)


def _mask_json(name: str, value: Json) -> Json:
    if isinstance(value, str):
        what = name_secret(name, value) if name else ""
        return _render_mark(what) if what else mask_secrets(value)
    if isinstance(value, list):
        return [_mask_json(name, each) for each in value]
    if not isinstance(value, dict):
        return value
    masked: dict[str, Json] = {}
    for key, each in value.items():
        unique, number = (masked_key := mask_secrets(key)), 1
        while unique in masked or (unique != key and unique in value):
            number += 1
            unique = f"{masked_key} {number}"
        masked[unique] = _mask_json(_find_name(value, key), each)
    return masked


def _list_strings(value: Json) -> Iterator[tuple[str, str]]:
    """Every key and every string in the order of the document, a string with the key that it stands under."""
    waiting: list[tuple[str, Json]] = [("", value)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, str):
            yield name, item
        elif isinstance(item, list):
            waiting.extend((name, each) for each in reversed(item))
        elif isinstance(item, dict):
            for key in reversed(item):
                waiting.append((_find_name(item, key), item[key]))
                waiting.append(("", key))


def _find_name(item: dict[str, Json], key: str) -> str:
    """What the value under a key is called: by the key, or as in `{"name": "DB_PASSWORD", "value": …}`."""
    label = item.get("name")
    return label if key == "value" and isinstance(label, str) else key


def _find_first(text: str) -> Span | None:
    """The secret that starts first; what comes after one that was found is not looked at."""
    first, end = None, len(text)
    for find in _list_finders(text):
        span = next(find(end), None)
        if span is not None and span.start < end:
            first, end = span, span.start
    return first


def _find_all(text: str) -> Iterator[Span]:
    """Every secret, in no order; some may overlap."""
    for find in _list_finders(text):
        yield from find(len(text))


def _list_finders(text: str) -> Iterator[Callable[[int], Iterator[Span]]]:
    """What to look with, for each kind of secret that the text could hold: it is told where to end."""
    long_words = "\n".join([word for word in text.split() if len(word) >= LONG_WORD])
    for shapes, seen in ((UNBROKEN, long_words), (SPACED, text)):
        for last, pairs in shapes.items():
            for anchor, shape in pairs if last in seen else ():
                if anchor in seen:
                    yield partial(find_shape, shape, anchor, text)
    plain = to_plain(text)
    for word in WORDS:
        yield partial(find_named, word, text, plain)


def _merge(spans: list[Span]) -> Iterator[Span]:
    """The spans in order; of those that overlap, one that covers them, named for the first."""
    last: Span | None = None
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if last is not None and span.start < last.end:
            last = Span(last.start, max(last.end, span.end), last.what)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _replace(text: str, spans: Sequence[Span], offsets: Sequence[int]) -> tuple[str, list[int]]:
    """The text with marks for these spans, which are in order and apart; and where places of it are then."""
    parts: list[str] = []
    ends: list[int] = []  # of the marks, in the new text
    at = length = 0
    for span in spans:
        parts += [text[at : span.start], _render_mark(span.what)]
        length += len(parts[-2]) + len(parts[-1])
        ends.append(length)
        at = span.end
    starts = [span.start for span in spans]
    moved = []
    for offset in offsets:
        number = bisect_left(starts, offset) - 1  # of the last span that begins before it
        moved.append(offset if number < 0 else ends[number] + max(0, offset - spans[number].end))
    return "".join([*parts, text[at:]]), moved


def _render_mark(what: str) -> str:
    """What stands in the place of a secret."""
    return f"[secret removed: {what.partition(' ')[2]}]"
