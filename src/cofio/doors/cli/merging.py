"""How one entry gets into a configuration that is someone else's, and every other byte of it stays as it is.

The text is edited where the entry belongs, never written anew, so comments, order, indentation and line endings
survive. Whatever the edit did is then read again: if anything but the entry has changed, the edit is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NoReturn

from ...errors import Invalid
from ...model import Json

Change = Literal["added", "replaced", "unchanged"]

_BOM = "\ufeff"
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|[^\s"/,\[\]{}:]+|\S', re.DOTALL)
_COMMENTS = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*.*?\*/))*", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")

_TOML = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'|#[^\n]*|[\[\]{}\n]",
    re.DOTALL,
)
_TOML_IDLE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_TOML_KEY = re.compile(r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[ \t.])+""")
_TOML_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Merged:
    """A configuration with the entry in it, and what that changed."""

    text: str
    change: Change


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: where its key begins, and where its value begins and ends."""

    name: str
    key: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Statement:
    """A header or a line `key = value` of TOML: the full name that it sets, and the lines that it takes."""

    names: tuple[str, ...]
    header: bool
    start: int
    end: int


def read_json(text: str, where: str) -> Json:
    """The value that JSON with comments and trailing commas stands for; None if there is nothing but comments.

    Raises:
        Invalid: It is not such JSON; `where` says what, for the message.
    """
    plain, _ = _blanked(text.removeprefix(_BOM))
    return _parsed(plain, where) if plain.strip() else None


def merge_json(text: str, names: Sequence[str], entry: Json, *, new: Json, where: str) -> Merged:
    """Set the member that `names` lead to, from the outermost in; a text that holds no value gets `new`.

    Raises:
        Invalid: The text is no JSON object, or one of `names` leads to something else than an object.
    """
    if text.startswith(_BOM):
        merged = merge_json(text.removeprefix(_BOM), names, entry, new=new, where=where)
        return Merged(_BOM + merged.text, merged.change)
    eol = "\r\n" if "\r\n" in text else "\n"
    plain, commas = _blanked(text)
    if not plain.strip():
        gap = eol if text.strip() and not text.endswith("\n") else ""
        return Merged(text + gap + dump(new).replace("\n", eol) + eol, "added")
    before = _parsed(plain, where)
    try:
        merged = _Document(text, plain, commas, eol, where).set(names, entry)
        same = _canonical(read_json(merged.text, where)) == _canonical(_with(before, names, entry))
    except RecursionError:
        same = False
    if not same:
        raise Invalid(where, "cannot be changed without changing something else in it; please edit it by hand")
    return merged


def dump(value: Json, indent: str = "  ") -> str:
    """JSON as people lay it out."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _blanked(text: str) -> tuple[str, list[int]]:
    """The text with spaces for its comments and trailing commas, every other character where it was; those commas."""
    spans: list[tuple[int, int]] = []
    commas: list[int] = []
    comma, last = None, ""
    for token in _JSON.finditer(text):
        word = token.group()
        if word.startswith(("//", "/*")):
            spans.append(token.span())
            continue
        if word in ("]", "}") and comma is not None:
            commas.append(comma)
        # A comma that follows no value is a mistake, not a trailing comma: it stays, and is refused.
        comma = token.start() if word == "," and last not in ("", ",", "[", "{", ":") else None
        last = word
    pieces, done = [], 0
    for start, end in sorted(spans + [(comma, comma + 1) for comma in commas]):
        pieces += [text[done:start], " " * (end - start)]
        done = end
    return "".join(pieces) + text[done:], commas


def _parsed(plain: str, where: str) -> Json:
    try:
        value: Json = json.loads(plain, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise Invalid(where, f"is not valid JSON (line {error.lineno}: {error.msg}); nothing was changed") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(where, f"is not valid JSON ({error}); nothing was changed") from None
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Document:
    """A JSON text that is to take in an entry; `plain` is the same text with spaces for all that is not JSON."""

    def __init__(self, text: str, plain: str, commas: Sequence[int], eol: str, where: str) -> None:
        self._text = text
        self._plain = plain
        self._commas = commas
        self._eol = eol
        self._where = where
        self._unit = "  "

    def set(self, names: Sequence[str], entry: Json) -> Merged:
        """Put the entry where `names` lead to, with the objects on the way that are missing."""
        start = self._skip(0)
        self._object(start, "it")
        first = next(iter(self._members(start)), None)
        self._unit = (self._alone(first.key) if first else None) or self._unit
        for depth, name in enumerate(names):
            # A parser takes the last of members with the same name, so that is the one to change.
            found = [member for member in self._members(start) if member.name == name]
            if not found:
                for outer in reversed(names[depth + 1 :]):
                    entry = {outer: entry}
                return Merged(self._inserted(start, name, entry), "added")
            member = found[-1]
            if depth + 1 < len(names):
                start = member.value
                self._object(start, f'its "{name}"')
        value = json.loads(self._plain[member.value : member.end])
        if _canonical(value) == _canonical(entry):
            return Merged(self._text, "unchanged")
        return Merged(self._replaced(start, member, entry), "replaced")

    def _inserted(self, start: int, name: str, value: Json) -> str:
        members = self._members(start)
        if not members:
            return self._filled(start, name, value)
        last = members[-1]
        comma = next((comma for comma in self._commas if last.end <= comma < self._skip(last.end)), None)
        after = last.end if comma is None else comma + 1
        # What is said beside the last member stays beside it.
        spot = self._comments(after)
        if self._spread(start):
            indents = [indent for each in members if (indent := self._alone(each.key)) is not None]
            indent = indents[-1] if indents else self._indent(start) + self._unit
            member = f"{self._eol}{indent}{self._laid(name, value, indent)}"
        else:
            member = f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        between, rest = self._text[after:spot], self._text[spot:]
        if comma is None:
            return f"{self._text[:after]},{between}{member}{rest}"
        return f"{self._text[:after]}{between}{member},{rest}"

    def _filled(self, start: int, name: str, value: Json) -> str:
        """The text with the first member of an object that has none; comments in it stay above the member."""
        close = self._skip(start + 1)
        inside = [token.end() for token in _JSON.finditer(self._text, start + 1, close)]
        spot = inside[-1] if inside else start + 1
        outer = self._indent(start)
        indent = outer + self._unit
        ends = "" if _breaks(self._text[spot:close]) else self._eol + outer
        member = f"{self._eol}{indent}{self._laid(name, value, indent)}{ends}"
        return self._text[:spot] + member + self._text[spot:]

    def _replaced(self, start: int, member: _Member, value: Json) -> str:
        if self._spread(start):
            new = dump(value, self._unit).replace("\n", self._eol + self._indent(member.key))
        else:
            new = json.dumps(value, ensure_ascii=False)
        return self._text[: member.value] + new + self._text[member.end :]

    def _laid(self, name: str, value: Json, indent: str) -> str:
        laid = f"{json.dumps(name, ensure_ascii=False)}: {dump(value, self._unit)}"
        return laid.replace("\n", self._eol + indent)

    def _members(self, start: int) -> list[_Member]:
        """The members of the object that begins at `start`."""
        decoder = json.JSONDecoder()
        members: list[_Member] = []
        at = self._skip(start + 1)
        while self._plain[at] != "}":
            key = self._skip(at + 1) if self._plain[at] == "," else at
            name, colon = decoder.raw_decode(self._plain, key)
            value = self._skip(self._skip(colon) + 1)
            _, end = decoder.raw_decode(self._plain, value)
            members.append(_Member(name, key, value, end))
            at = self._skip(end)
        return members

    def _object(self, start: int, what: str) -> None:
        if self._plain[start] != "{":
            raise Invalid(self._where, f"{what} is not an object; nothing was changed")

    def _spread(self, start: int) -> bool:
        """Whether the object has its members on lines of their own."""
        members = self._members(start)
        head, tail = self._text[start : members[0].key], self._text[members[-1].end : self._skip(members[-1].end)]
        return _breaks(head) or _breaks(tail)

    def _skip(self, at: int) -> int:
        """Where the next character of JSON is; behind the last value of an object, its brace."""
        found = _SPACE.match(self._plain, at)
        assert found is not None  # it matches nothing, too
        return found.end()

    def _comments(self, at: int) -> int:
        """Where the comments end that begin on the line of `at`, right behind it."""
        found = _COMMENTS.match(self._text, at)
        assert found is not None
        return found.end()

    def _line(self, at: int) -> str:
        """What stands before `at` on its line."""
        return self._text[max(self._text.rfind("\n", 0, at), self._text.rfind("\r", 0, at)) + 1 : at]

    def _indent(self, at: int) -> str:
        line = self._line(at)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _alone(self, key: int) -> str | None:
        """How far a key is indented that begins its line; None for one that does not."""
        line = self._line(key)
        return None if line.strip(" \t") else line


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _with(value: Json, names: Sequence[str], entry: Json) -> Json:
    """The value with the entry where `names` lead to."""
    if not names:
        return entry
    members = dict(value) if isinstance(value, dict) else {}
    return {**members, names[0]: _with(members.get(names[0]), names[1:], entry)}


def _canonical(value: object) -> str:
    """The same text for the same value: NaN is itself here, and 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True, default=repr)


def merge_toml(text: str, names: tuple[str, str], entry: Mapping[str, str | list[str]], *, where: str) -> Merged:
    """Set the table of that name, in place of what the file says of it now.

    Raises:
        Invalid: The text is no TOML, or says of that name what cannot be taken out as lines.
    """
    eol = "\r\n" if "\r\n" in text else "\n"
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    before = _toml(body, where)
    outer = before.get(names[0], {})
    if not isinstance(outer, dict):
        raise Invalid(where, f"its {names[0]} is not a table; nothing was changed")
    if names[1] in outer and _canonical(outer[names[1]]) == _canonical(entry):
        return Merged(text, "unchanged")
    new = _tabled(body, names, toml_table(names, entry).replace("\n", eol), eol)
    try:
        same = _canonical(tomllib.loads(new)) == _canonical({**before, names[0]: {**outer, names[1]: dict(entry)}})
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise Invalid(where, f"says of {'.'.join(names)} what cannot be replaced safely; please edit it by hand")
    return Merged(bom + new, "replaced" if names[1] in outer else "added")


def toml_table(names: Sequence[str], entry: Mapping[str, str | list[str]]) -> str:
    """A table of strings and lists of strings, with its header."""
    lines = [f"[{'.'.join(_toml_key(name) for name in names)}]"]
    for key, value in entry.items():
        written = _toml_string(value) if isinstance(value, str) else f"[{', '.join(map(_toml_string, value))}]"
        lines.append(f"{_toml_key(key)} = {written}")
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    return name if _TOML_BARE.fullmatch(name) else _toml_string(name)


def _toml_string(value: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON lets through.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(where, f"is not valid TOML ({error}); nothing was changed") from None


def _tabled(text: str, names: tuple[str, str], table: str, eol: str) -> str:
    """The text with the table in place of all lines about it, else at the end."""
    pieces: list[str] = []
    done, placed = 0, False
    for ours, run in groupby(_statements(text), lambda statement: statement.names[:2] == names):
        if not ours:
            continue
        lines = list(run)
        pieces.append(text[done : lines[0].start])
        done = lines[-1].end
        # Lines of `[mcp_servers]` itself may follow a mere key; behind a header of ours, nothing but headers can.
        if not placed and any(line.header for line in lines):
            pieces.append(table if text[:done].endswith("\n") else table.removesuffix(eol))
            placed = True
    rest = "".join(pieces) + text[done:]
    if placed:
        return rest
    gap = "" if not rest or rest.endswith("\n") else eol
    return rest + gap + (eol if rest.strip() else "") + table


def _statements(text: str) -> Iterator[_Statement]:
    """Every header and every `key = value` of a valid TOML text, in order."""
    table: tuple[str, ...] = ()
    at = 0
    while True:
        idle = _TOML_IDLE.match(text, at)
        assert idle is not None  # it matches nothing, too
        begin = idle.end()
        if begin == len(text):
            return
        start = text.rfind("\n", 0, begin) + 1
        at = _statement_end(text, begin)
        if text[begin] == "[":
            table = _names(tomllib.loads(text[begin:at]))
            yield _Statement(table, True, start, at)
        else:
            key = _TOML_KEY.match(text, begin)
            assert key is not None
            yield _Statement(table + _names(tomllib.loads(f"{key.group()}= []")), False, start, at)


def _statement_end(text: str, at: int) -> int:
    """Behind the line break that ends the statement: one that no string and no bracket holds."""
    depth = 0
    for token in _TOML.finditer(text, at):
        word = token.group()
        if word in ("[", "{"):
            depth += 1
        elif word in ("]", "}"):
            depth -= 1
        elif word == "\n" and depth == 0:
            return token.end()
    return len(text)


def _names(read: object) -> tuple[str, ...]:
    """The names on the way down to the innermost value, of which each holds the next alone."""
    names: list[str] = []
    while read:
        if isinstance(read, list):
            read = read[0]
        else:
            assert isinstance(read, dict)
            ((name, read),) = read.items()
            names.append(name)
    return tuple(names)
