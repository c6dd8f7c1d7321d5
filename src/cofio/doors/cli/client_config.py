"""How one entry gets into a configuration that is someone else's, and every other byte of it stays as it is.

The text is edited where the entry belongs, never rewritten as a whole, so comments, order, indentation and line endings
survive. Of an entry that is there already, only those members change that are set. Whatever the edit did is then read
again: if anything else has changed, the edit is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeVar

from ...values.errors import Invalid
from ...values.records import Json

T = TypeVar("T")
Change = Literal["added", "changed", "unchanged"]

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
class MergeResult:
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
    """A header or a `key = value` of TOML, in its table: the full name that it sets, and where it stands."""

    table: tuple[str, ...]
    names: tuple[str, ...]
    start: int
    value: int
    """Where the value begins; in a header there is none, and it is where that ends."""
    stop: int
    """Where the value, or the header, ends."""
    end: int
    """Behind its line, or its lines."""


def read_json(text: str, where: str) -> Json:
    """The value that JSON with comments and trailing commas stands for; None if there is nothing but comments.

    Raises:
        Invalid: It is not such JSON; `where` says what, for the message.
    """
    plain, _ = blank_comments(text.removeprefix(_BOM))
    return _parse_json(plain, where) if plain.strip() else None


def merge_json(text: str, names: Sequence[str], entry: Mapping[str, Json], *, new: Json, where: str) -> MergeResult:
    """Set the members of the object that `names` lead to, from the outermost in, and leave its others as they are.

    Anything else that stands there gives way to the entry; a text that holds no value gets `new`.

    Raises:
        Invalid: The text is no JSON object, or a name before the last leads to something else than an object.
    """
    if text.startswith(_BOM):
        merged = merge_json(text.removeprefix(_BOM), names, entry, new=new, where=where)
        return MergeResult(_BOM + merged.text, merged.change)
    before = read_json(text, where)
    if before is None and not blank_comments(text)[0].strip():
        eol = "\r\n" if "\r\n" in text else "\n"
        gap = eol if text.strip() and not text.endswith("\n") else ""
        return MergeResult(text + gap + dump(new).replace("\n", eol) + eol, "added")
    current = find_member(before, names)
    try:
        if isinstance(current, dict):
            merged = MergeResult(text, "unchanged")
            for name, value in _find_differences(current, entry).items():
                merged = MergeResult(_Document(merged.text, where).set((*names, name), value).text, "changed")
        else:
            merged = _Document(text, where).set(names, dict(entry))
        expected = {**(current if isinstance(current, dict) else {}), **entry}
        same = canonicalize(read_json(merged.text, where)) == canonicalize(set_in(before, names, expected))
    except RecursionError:
        same = False
    if not same:
        raise Invalid(where, "cannot be changed without changing something else in it; please edit it by hand")
    return merged


def find_member(document: object, names: Sequence[str]) -> object:
    """What `names` lead to in what was read of a file, from the outermost in; None if there is nothing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def dump(value: Json, indent: str = "  ") -> str:
    """JSON as people lay it out."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def blank_comments(text: str) -> tuple[str, list[int]]:
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


def _parse_json(plain: str, where: str) -> Json:
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
    """A JSON text that is to take in a value; `_plain` is the same text with spaces for all that is not JSON."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._plain, self._commas = blank_comments(text)
        self._eol = "\r\n" if "\r\n" in text else "\n"
        self._where = where
        self._unit = "  "

    def set(self, names: Sequence[str], value: Json) -> MergeResult:
        """Put the value where `names` lead to, with the objects on the way that are missing."""
        start = self._skip(0)
        self._check_object(start, "it")
        first = next(iter(self._read_members(start)), None)
        self._unit = (self._find_own_indent(first.key) if first else None) or self._unit
        for depth, name in enumerate(names):
            # A parser takes the last of members with the same name, so that is the one to change.
            matches = [member for member in self._read_members(start) if member.name == name]
            if not matches:
                for outer in reversed(names[depth + 1 :]):
                    value = {outer: value}
                return MergeResult(self._insert(start, name, value), "added")
            member = matches[-1]
            if depth + 1 < len(names):
                start = member.value
                self._check_object(start, f'its "{name}"')
        return MergeResult(self._replace(start, member, value), "changed")

    def _insert(self, start: int, name: str, value: Json) -> str:
        members = self._read_members(start)
        if not members:
            return self._fill(start, name, value)
        last = members[-1]
        comma = next((comma for comma in self._commas if last.end <= comma < self._skip(last.end)), None)
        after = last.end if comma is None else comma + 1
        # What is said beside the last member stays beside it.
        spot = self._skip_comments(after)
        if self._is_spread(start):
            indents = [indent for each in members if (indent := self._find_own_indent(each.key)) is not None]
            indent = indents[-1] if indents else self._get_indent(start) + self._unit
            member = f"{self._eol}{indent}{self._lay_out(name, value, indent)}"
        else:
            member = f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        between, rest = self._text[after:spot], self._text[spot:]
        if comma is None:
            return f"{self._text[:after]},{between}{member}{rest}"
        return f"{self._text[:after]}{between}{member},{rest}"

    def _fill(self, start: int, name: str, value: Json) -> str:
        """The text with the first member of an object that has none; comments in it stay above the member."""
        close = self._skip(start + 1)
        inside = [token.end() for token in _JSON.finditer(self._text, start + 1, close)]
        spot = inside[-1] if inside else start + 1
        outer = self._get_indent(start)
        indent = outer + self._unit
        ends = "" if _has_line_break(self._text[spot:close]) else self._eol + outer
        member = f"{self._eol}{indent}{self._lay_out(name, value, indent)}{ends}"
        return self._text[:spot] + member + self._text[spot:]

    def _replace(self, start: int, member: _Member, value: Json) -> str:
        old = self._text[member.value : member.end]
        is_compact = len(old) > 2 and old[0] in "[{" and not _has_line_break(old)
        if self._is_spread(start) and not is_compact:
            new = dump(value, self._unit).replace("\n", self._eol + self._get_indent(member.key))
        else:
            new = json.dumps(value, ensure_ascii=False)
        return self._text[: member.value] + new + self._text[member.end :]

    def _lay_out(self, name: str, value: Json, indent: str) -> str:
        text = f"{json.dumps(name, ensure_ascii=False)}: {dump(value, self._unit)}"
        return text.replace("\n", self._eol + indent)

    def _read_members(self, start: int) -> list[_Member]:
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

    def _check_object(self, start: int, what: str) -> None:
        if self._plain[start] != "{":
            raise Invalid(self._where, f"{what} is not an object; nothing was changed")

    def _is_spread(self, start: int) -> bool:
        """Whether the object has its members on lines of their own."""
        members = self._read_members(start)
        head, tail = self._text[start : members[0].key], self._text[members[-1].end : self._skip(members[-1].end)]
        return _has_line_break(head) or _has_line_break(tail)

    def _skip(self, at: int) -> int:
        """Where the next character of JSON is; behind the last value of an object, its brace."""
        match = _SPACE.match(self._plain, at)
        assert match is not None  # it matches nothing, too
        return match.end()

    def _skip_comments(self, at: int) -> int:
        """Where the comments end that begin on the line of `at`, right behind it."""
        match = _COMMENTS.match(self._text, at)
        assert match is not None
        return match.end()

    def _get_line_before(self, at: int) -> str:
        """What stands before `at` on its line."""
        return self._text[max(self._text.rfind("\n", 0, at), self._text.rfind("\r", 0, at)) + 1 : at]

    def _get_indent(self, at: int) -> str:
        line = self._get_line_before(at)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _find_own_indent(self, key: int) -> str | None:
        """How far a key is indented that begins its line; None for one that does not."""
        line = self._get_line_before(key)
        return None if line.strip(" \t") else line


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def set_in(value: Json, names: Sequence[str], entry: Json) -> Json:
    """The value with the entry where `names` lead to."""
    if not names:
        return entry
    members = dict(value) if isinstance(value, dict) else {}
    return {**members, names[0]: set_in(members.get(names[0]), names[1:], entry)}


def _find_differences(current: Mapping[str, object], entry: Mapping[str, T]) -> dict[str, T]:
    """The members of the entry that `current` has not, or has with another value."""
    return {
        name: value
        for name, value in entry.items()
        if name not in current or canonicalize(current[name]) != canonicalize(value)
    }


def canonicalize(value: object) -> str:
    """The same text for the same value: NaN is itself here, and 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True, default=repr)


def read_toml(text: str, where: str) -> dict[str, object]:
    """The document that TOML stands for.

    Raises:
        Invalid: It is no TOML; `where` says what, for the message.
    """
    try:
        return tomllib.loads(text.removeprefix(_BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(where, f"is not valid TOML ({error}); nothing was changed") from None


def merge_toml(text: str, names: tuple[str, str], entry: Mapping[str, object], *, where: str) -> MergeResult:
    """Set the members of the table of that name, and leave its others as they are.

    Raises:
        Invalid: The text is no TOML, or says of that name what cannot be changed in its place.
    """
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    before = read_toml(body, where)
    outer = before.get(names[0], {})
    if not isinstance(outer, dict):
        raise Invalid(where, f"its {names[0]} is not a table; nothing was changed")
    current = outer.get(names[1], {})
    if not isinstance(current, dict):
        raise Invalid(where, f"its {'.'.join(names)} is not a table; nothing was changed")
    changes = _find_differences(current, entry)
    if not changes:
        return MergeResult(text, "unchanged")
    inline = next((each for each in _read_statements(body) if each.names == names and each.table != names), None)
    if inline is not None:
        # A table in braces is one value of one line, so there is nothing in it that this could lose.
        new = body[: inline.value] + _render_toml_value({**current, **changes}) + body[inline.stop :]
    else:
        new = body
        for name, value in changes.items():
            new = _set_toml(new, (*names, name), _render_toml_value(value))
    expected = {**before, names[0]: {**outer, names[1]: {**current, **entry}}}
    try:
        same = canonicalize(tomllib.loads(new)) == canonicalize(expected)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise Invalid(where, f"says of {'.'.join(names)} what cannot be changed safely; please edit it by hand")
    return MergeResult(bom + new, "changed" if names[1] in outer else "added")


def render_toml_table(names: Sequence[str], entry: Mapping[str, object]) -> str:
    """A table with its header."""
    return "".join(f"{line}\n" for line in (f"[{_render_toml_name(names)}]", *map(_render_toml_member, entry.items())))


def _render_toml_name(names: Sequence[str]) -> str:
    return ".".join(name if _TOML_BARE.fullmatch(name) else _render_toml_string(name) for name in names)


def _render_toml_member(member: tuple[str, object]) -> str:
    return f"{_render_toml_name(member[:1])} = {_render_toml_value(member[1])}"


def _render_toml_value(value: object) -> str:
    """A value as TOML has it, on one line."""
    match value:
        case str():
            return _render_toml_string(value)
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{', '.join(map(_render_toml_value, value))}]"
        case dict():
            return f"{{ {', '.join(map(_render_toml_member, value.items()))} }}" if value else "{}"
    return str(value)


def _render_toml_string(value: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON lets through.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _set_toml(text: str, names: tuple[str, ...], value: str) -> str:
    """The text with this value for a key of a table: in its place, else with the table's other keys."""
    eol = "\r\n" if "\r\n" in text else "\n"
    table, beside = names[:-1], None
    for each in _read_statements(text):
        if each.names == names and each.table != names:
            return text[: each.value] + value + text[each.stop :]
        # The table's header, one of its keys, or such a key as seen from a table further out.
        if each.names[: len(table)] == table and each.table == table[: len(each.table)]:
            beside = each
    if beside is None:
        gap = "" if not text or text.endswith("\n") else eol
        header = f"[{_render_toml_name(table)}]{eol}"
        return f"{text}{gap}{eol if text.strip() else ''}{header}{_render_toml_name(names[-1:])} = {value}{eol}"
    line = text.rfind("\n", 0, beside.start) + 1
    key = f"{text[line : beside.start]}{_render_toml_name(names[len(beside.table) :])} = {value}"
    if text[: beside.end].endswith("\n"):
        return f"{text[: beside.end]}{key}{eol}{text[beside.end :]}"
    return f"{text}{eol}{key}"


def _read_statements(text: str) -> Iterator[_Statement]:
    """Every header and every `key = value` of a valid TOML text, in order."""
    table: tuple[str, ...] = ()
    at = 0
    while True:
        start = _skip_idle(text, at)
        if start == len(text):
            return
        stop, at = _find_end(text, start)
        if text[start] == "[":
            table = names = _read_names(tomllib.loads(text[start:stop]))
            value = stop
        else:
            key = _TOML_KEY.match(text, start)
            assert key is not None
            names = table + _read_names(tomllib.loads(f"{key.group()}= []"))
            value = _skip_idle(text, key.end() + 1)
        yield _Statement(table, names, start, value, stop, at)


def _skip_idle(text: str, at: int) -> int:
    """Where the next thing that is neither space nor comment begins."""
    idle = _TOML_IDLE.match(text, at)
    assert idle is not None  # it matches nothing, too
    return idle.end()


def _find_end(text: str, at: int) -> tuple[int, int]:
    """Where a statement ends, and behind the line break that follows it: one that no string and no bracket holds."""
    depth, stop = 0, None
    for token in _TOML.finditer(text, at):
        word = token.group()
        if word in ("[", "{"):
            depth += 1
        elif word in ("]", "}"):
            depth -= 1
        elif depth == 0 and word[0] in "#\n":
            stop = token.start() if stop is None else stop
            if word == "\n":
                return at + len(text[at:stop].rstrip()), token.end()
    return at + len(text[at:stop].rstrip()), len(text)


def _read_names(value: object) -> tuple[str, ...]:
    """The names on the way down to the innermost value, of which each holds the next alone."""
    names: list[str] = []
    while value:
        if isinstance(value, list):
            value = value[0]
        else:
            assert isinstance(value, dict)
            ((name, value),) = value.items()
            names.append(name)
    return tuple(names)
