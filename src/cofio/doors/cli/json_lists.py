"""How elements get into, and out of, the lists of a JSON file that is someone else's, and every other byte stays.

As in `client_config.py`, the text is edited where the element belongs and then read again: if anything else has
changed, the edit is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...values.errors import Invalid
from ...values.records import Json
from .client_config import blank_comments, canonicalize, dump, find_member, merge_json, read_json, set_in

_BOM = "\ufeff"
_REFUSAL = "cannot be changed without changing something else in it; please edit it by hand"


@dataclass(frozen=True, slots=True)
class _Part:
    """An element of a list or a member of an object: its name, where it begins, and where its value does and ends."""

    name: str | int
    start: int
    value: int
    end: int


def add_element(text: str, names: Sequence[str], element: Json, *, where: str) -> str:
    """The text with one more element at the end of the list that `names` lead to, which is made if it is not there.

    Raises:
        Invalid: the text is no JSON object, or the names lead to something else than a list.
    """
    before = read_json(text, where)
    current = find_member(before, names)
    if current is None:
        return merge_json(text, names[:-1], {names[-1]: [element]}, new=_nest(names, [element]), where=where).text
    if not isinstance(current, list):
        raise Invalid(where, f"its {'.'.join(names)} is not a list; nothing was changed")
    bom = _BOM if text.startswith(_BOM) else ""
    after = bom + _insert(text.removeprefix(_BOM), names, element)
    _check(after, set_in(before, names, [*current, element]), where)
    return after


def remove_elements(text: str, names: Sequence[str], is_meant: Callable[[Json], bool], *, where: str) -> str:
    """The text without the elements that are meant of the list that `names` lead to, and without lists and objects on
    the way that are empty then.

    Raises:
        Invalid: the text is no JSON.
    """
    before = read_json(text, where)
    current = find_member(before, names)
    if not isinstance(current, list):
        return text
    meant = [at for at, element in enumerate(current) if is_meant(element)]
    if not meant:
        return text
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    for at in reversed(meant):
        body = _cut(body, [*names, at])
    left = [element for at, element in enumerate(current) if at not in meant]
    expected = set_in(before, names, left)
    for depth in range(len(names), 0, -1):
        if find_member(expected, names[:depth]) not in ([], {}):
            break
        body = _cut(body, names[:depth])
        expected = _remove_at(expected, names[:depth])
    _check(bom + body, expected, where)
    return bom + body


def _check(text: str, expected: Json, where: str) -> None:
    if canonicalize(read_json(text, where)) != canonicalize(expected):
        raise Invalid(where, _REFUSAL)


def _nest(names: Sequence[str], value: Json) -> Json:
    for name in reversed(names):
        value = {name: value}
    return value


def _remove_at(document: Json, names: Sequence[str]) -> Json:
    members = document if isinstance(document, dict) else {}
    if len(names) == 1:
        return {name: value for name, value in members.items() if name != names[0]}
    return {**members, names[0]: _remove_at(members.get(names[0]), names[1:])}


def _insert(text: str, names: Sequence[str], element: Json) -> str:
    plain, commas = blank_comments(text)
    path = _find_path(plain, names)
    start, end = path[-1].value, path[-1].end
    eol = "\r\n" if "\r\n" in text else "\n"
    elements = list(_read_parts(plain, start))
    outer = _get_indent(text, path[-1].start)
    unit = _find_unit(text, path)
    if not elements:
        is_spread = "\n" in text[start:end]
        head = text[: end - 1].rstrip() if is_spread else text[: end - 1]
        return f"{head}{eol}{_lay_out(element, outer + unit, unit, eol)}{eol}{outer}{text[end - 1 :]}"
    last = elements[-1]
    comma = next((each for each in commas if last.end <= each < end), None)
    if "\n" not in text[start:end]:
        return f"{text[: last.end]}, {json.dumps(element, ensure_ascii=False)}{text[last.end :]}"
    indent = _get_indent(text, last.start)
    # What is said beside the last element stays beside it.
    spot = text.find("\n", last.end if comma is None else comma)
    spot = end - 1 if spot == -1 or spot >= end else spot - (text[spot - 1] == "\r")
    beside = text[last.end : spot] if comma is None else text[comma + 1 : spot]
    new = f"{eol}{_lay_out(element, indent, unit, eol)}{'' if comma is None else ','}"
    return f"{text[: last.end]},{beside.rstrip()}{new}{text[spot:]}"


def _cut(text: str, names: Sequence[str | int]) -> str:
    """The text without what `names` lead to, its comma, and its line if nothing else is on it."""
    plain, commas = blank_comments(text)
    path = _find_path(plain, names)
    parts = list(_read_parts(plain, path[-2].value))
    at = next(number for number, part in enumerate(parts) if part.start == path[-1].start)
    part = parts[at]
    spans = [(part.start, part.end)]
    if at + 1 < len(parts):
        comma = plain.index(",", part.end)
        spans.append(_widen(text, comma, parts[at + 1].start))
    else:
        spans += [(each, each + 1) for each in commas if part.end <= each < path[-2].end]
        if at and len(spans) == 1:  # the one before is the last now; a comma that trailed may go on trailing
            spans.append(_widen(text, plain.index(",", parts[at - 1].end), part.start))
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    shift = sum(end - start for start, end in spans if start < part.start)
    return _drop_empty_line(text, part.start - shift)


def _widen(text: str, comma: int, following: int) -> tuple[int, int]:
    """Where a comma stands with the space behind it, if what follows is on the same line."""
    is_beside = not text[comma + 1 : following].strip(" \t")
    return comma, following if is_beside else comma + 1


def _drop_empty_line(text: str, at: int) -> str:
    """The text without the line of this place, if there is nothing on it; a bracket moves up to the one that opened."""
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    end = len(text) if end == -1 else end
    if text[start:end].strip():
        return text
    if start == 0:
        return text
    text = text[:start] + text[end + 1 :]
    head, tail = text[:start].rstrip(), text[start:].lstrip()
    is_empty = (head[-1:], tail[:1]) in (("[", "]"), ("{", "}"))
    return head + tail if is_empty else text


def _find_path(plain: str, names: Sequence[str | int]) -> list[_Part]:
    """The parts that lead to what is named, the document first."""
    start = len(plain) - len(plain.lstrip())
    _, end = json.JSONDecoder().raw_decode(plain, start)
    path = [_Part("", start, start, end)]
    for name in names:
        # A parser takes the last of members with the same name.
        path.append([part for part in _read_parts(plain, path[-1].value) if part.name == name][-1])
    return path


def _read_parts(plain: str, start: int) -> Iterator[_Part]:
    """The members of the object, or the elements of the list, that begins there."""
    decoder = json.JSONDecoder()
    is_object = plain[start] == "{"
    at, number = _skip(plain, start + 1), 0
    while plain[at] not in "}]":
        begin = _skip(plain, at + 1) if plain[at] == "," else at
        name: str | int = number
        value = begin
        if is_object:
            name, colon = decoder.raw_decode(plain, begin)
            value = _skip(plain, _skip(plain, colon) + 1)
        _, end = decoder.raw_decode(plain, value)
        yield _Part(name, begin, value, end)
        at, number = _skip(plain, end), number + 1


def _skip(plain: str, at: int) -> int:
    while plain[at] in " \t\r\n":
        at += 1
    return at


def _get_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find_unit(text: str, path: Sequence[_Part]) -> str:
    """How much further the document indents what is within something."""
    indents = [_get_indent(text, part.start) for part in path]
    for outer, inner in pairwise(indents):
        if inner.startswith(outer) and len(inner) > len(outer):
            return inner[len(outer) :]
    return "  "


def _lay_out(element: Json, indent: str, unit: str, eol: str) -> str:
    return indent + dump(element, unit).replace("\n", eol + indent)
