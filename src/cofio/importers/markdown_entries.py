"""Memory as Markdown files: front matter, and entries between markers that hold named lines and sections.

The format is that of EverOS 1.0, with three additions. Two are there so that any text survives: a line of a text that
would read as a section's heading, and a marker within a text, get a backslash, which Markdown does not show. The third
is there so that no text does anything to a terminal that shows the file: a control character, and one that turns the
direction of writing round, is written as a character reference, such as `&#x1B;`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..values.errors import Invalid
from ..values.records import MAX_DATA_DEPTH, Json

SECTIONS = ("Subject", "Summary", "Content", "Fact", "Foresight", "Evidence", "TaskIntent", "Approach", "KeyInsight")
FEW = 8  # entries that are looked for one by one; for more, the whole file is read through
MAX_FRONT = 4_194_304  # characters of front matter that are read

_MARKER = re.compile(r"^<!-- (/?)entry:([A-Za-z0-9_-]+) -->[ \t]*$", re.MULTILINE)
_WITHIN = re.compile(r"<(\\*)!-- (/?)entry:")
_WITHIN_SAFE = re.compile(r"<\\(\\*)!-- (/?)entry:")
_TITLES = "|".join(SECTIONS)
_HEADING = re.compile(rf"^### ({_TITLES})[ \t]*$", re.MULTILINE)
_HEADING_LIKE = re.compile(rf"^\\*### (?:{_TITLES})[ \t]*$", re.MULTILINE)
_HEADING_SAFE = re.compile(rf"^\\(\\*### (?:{_TITLES})[ \t]*)$", re.MULTILINE)
_LINE = re.compile(r"^\*\*([^*\n]+?)\*\*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\n(.*?\n)??---[ \t]*(?:\n|\Z)", re.DOTALL)
_ENDINGS = re.compile(r"\r+\n")
_PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_ ,.()'/+@-]*[A-Za-z0-9_.)'])?")
_WORDS = frozenset({"y", "yes", "n", "no", "true", "false", "on", "off", "null", "none"})
_TURNING = "\u202a-\u202e\u2066-\u2069"
_UNPRINTABLE = re.compile(f"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff{_TURNING}]")
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_TURNING}]")  # all but the tab and the newline
_REFERENCE = re.compile(r"&(\\*)#x([0-9A-F]{1,4});")


@dataclass(frozen=True, slots=True)
class Span:
    """An entry where it stands in a text: from its first marker up to the end of its last."""

    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fields:
    """What an entry says, by name."""

    lines: Mapping[str, str]
    sections: Mapping[str, str]


def normalize_lines(text: str) -> str:
    """A text with lines that end as ours do."""
    return _ENDINGS.sub("\n", text) if "\r" in text else text


def escape_controls(text: str) -> str:
    """A text in which a terminal finds nothing to do: control characters are written as references to them."""
    if "#x" in text:
        text = _REFERENCE.sub(lambda found: f"&\\{found[0][1:]}" if _is_control(found) else found[0], text)
    return _CONTROL.sub(lambda found: f"&#x{ord(found[0]):X};", text)


def unescape_controls(text: str) -> str:
    """The text that `escape_controls` made this of."""

    def unescape(found: re.Match[str]) -> str:
        if not _is_control(found):
            return found[0]
        return f"&{found[1][1:]}#x{found[2]};" if found[1] else chr(int(found[2], 16))

    return _REFERENCE.sub(unescape, text) if "#x" in text else text


def _is_control(reference: re.Match[str]) -> bool:
    return _CONTROL.fullmatch(chr(int(reference[2], 16))) is not None


# Entries.


def find_spans(text: str) -> list[Span]:
    """The entries of a file, in order.

    Raises:
        Invalid: an entry does not end, or ends without a beginning.
    """
    found: list[Span] = []
    opened: tuple[str, int] | None = None
    for mark in _MARKER.finditer(text):
        closes, named = bool(mark[1]), mark[2]
        if closes != (opened is not None) or (opened is not None and opened[0] != named):
            raise Invalid("file", f"the marker `{mark[0].strip()}` is not where it should be")
        if opened is None:
            opened = (named, mark.start())
        else:
            found.append(Span(named, opened[1], mark.end()))
            opened = None
    if opened is not None:
        raise Invalid("file", f"the entry {opened[0]} has no end")
    return found


def find_entries(text: str, ids: Sequence[str]) -> dict[str, str]:
    """Those of the entries that a file has, as they stand there.

    Raises:
        Invalid: many are asked for, and the file is not whole.
    """
    if len(ids) > FEW:
        wanted = set(ids)
        return {each.id: text[each.start : each.end] for each in reversed(find_spans(text)) if each.id in wanted}
    there = (_find_span(text, each) for each in ids)
    return {each.id: text[each.start : each.end] for each in there if each is not None}


def replace_entries(
    text: str, put: Mapping[str, str | None], order: Callable[[str], Any], there: Mapping[str, str] | None = None
) -> str:
    """A file with entries put in their places, or taken away for None; all else in it stays as it is.

    A new entry comes after the last one before it by `order`. With `there`, only those of the entries are looked for.

    Raises:
        Invalid: many are put, or one between others, and the file is not whole.
    """
    old = {name: block for name, block in put.items() if there is None or name in there}
    new = {name: block for name, block in put.items() if name not in old and block is not None}
    if not old and not new:
        return text
    last = text.rfind("\n<!-- /entry:")
    end = text.find(" -->\n", last) + 5 if last >= 0 else 4
    if not old and (end >= len(text) and (last < 0 or order(text[last + 13 : end - 5]) < min(map(order, new)))):
        # As nearly always: new entries at the end of a file that may be long.
        return "".join([text, *(f"{block}\n" for block in new.values())])
    if len(put) > FEW:
        return _replace_all(text, put, order)
    for name, block in put.items():
        at = _find_span(text, name)
        if at is not None:
            past = at.end + (block is None and text[at.end : at.end + 1] == "\n")
            text = text[: at.start] + (block or "") + text[past:]
        elif block is not None:
            where = _find_insert_position(text, name, order)
            gap = "" if not where or text[where - 1] == "\n" else "\n"
            text = f"{text[:where]}{gap}{block}\n{text[where:]}"
    return text


def find_last_id(content: bytes) -> str | None:
    """The id of the entry that a file ends with; None when something else follows it."""
    start = content.rfind(b"\n<!-- /entry:")
    end = content.find(b" -->\n", start) if start >= 0 else -1
    return content[start + 13 : end].decode() if end >= 0 and end + 5 == len(content) else None


def _replace_all(text: str, put: Mapping[str, str | None], order: Callable[[str], Any]) -> str:
    there = find_spans(text)
    known = {each.id for each in there}
    new = sorted((name for name, block in put.items() if block and name not in known), key=order)
    parts: list[str] = []
    at = 0
    for each in there:
        before = [put[name] for name in new if order(name) < order(each.id)]
        new = new[len(before) :]
        parts += [text[at : each.start], *(f"{block}\n" for block in before)]
        block = put.get(each.id, text[each.start : each.end])
        parts.append(block or "")
        at = each.end + (block is None and text[each.end : each.end + 1] == "\n")
    rest = text[at:]
    if new and rest.startswith("\n"):
        parts, rest = [*parts, "\n"], rest[1:]
    elif new and not there:
        parts, rest = [rest if not rest or rest.endswith("\n") else f"{rest}\n"], ""
    return "".join([*parts, *(f"{put[name]}\n" for name in new), rest])


def _find_span(text: str, id: str) -> Span | None:
    """One entry of a file, without looking at the others; None when it is not there, or has no end."""
    first, last = f"<!-- entry:{id} -->", f"<!-- /entry:{id} -->"
    start = text.find(first)
    while start > 0 and text[start - 1] != "\n":
        start = text.find(first, start + 1)
    end = text.find(f"\n{last}", start) if start >= 0 else -1
    return None if end < 0 else Span(id, start, end + 1 + len(last))


def _find_insert_position(text: str, id: str, order: Callable[[str], Any]) -> int:
    """Where a new entry goes."""
    last = text.rfind("\n<!-- /entry:")
    if last < 0:
        return len(text)
    end = text.find(" -->", last)
    if order(text[last + 13 : end]) < order(id):
        line = text.find("\n", end)
        return len(text) if line < 0 else line + 1
    return next((each.start for each in find_spans(text) if order(each.id) > order(id)), len(text))


def render_entry(id: str, lines: Mapping[str, Json], sections: Mapping[str, str]) -> str:
    """An entry as it stands in a file, without a newline at its end."""
    parts = [f"## {id}\n"]
    parts += [f"**{name}**: {_render_line(value)}" for name, value in lines.items()]
    for title, text in sections.items():
        parts.append(f"\n### {title}\n{_escape_section(text)}")
    inside = escape_controls("\n".join(parts))
    if "entry:" in inside:
        inside = _WITHIN.sub(r"<\1\\!-- \2entry:", inside)
    return f"<!-- entry:{id} -->\n{inside}\n<!-- /entry:{id} -->"


def parse_fields(block: str) -> Fields:
    """What the text of an entry says."""
    block = normalize_lines(block)
    inside = "\n".join(line for line in block.split("\n") if not _MARKER.fullmatch(line))
    headings: list[re.Match[str]] = []
    for heading in _HEADING.finditer(inside):
        if all(heading[1] != before[1] for before in headings):  # one that comes again is part of the text
            headings.append(heading)
    ends = [heading.start() for heading in headings[1:]] + [len(inside)]
    sections = {
        heading[1]: _unescape_section(inside[heading.end() : end].strip("\n").rstrip())
        for heading, end in zip(headings, ends, strict=True)
    }
    head = inside[: headings[0].start()] if headings else inside
    return Fields({name.strip(): _parse_line(value) for name, value in _LINE.findall(head)}, sections)


def parse_names(written: str) -> list[str]:
    """A list of names as a line holds it."""
    if written.startswith('["'):
        try:
            read = json.loads(written)
        except ValueError:
            read = None
        if isinstance(read, list):
            return [str(each) for each in read]
    return [each.strip() for each in written.removeprefix("[").removesuffix("]").split(",") if each.strip()]


def _render_line(value: Json) -> str:
    if isinstance(value, list):
        texts = [str(each) for each in value]
        odd = any(not text or _is_odd(text) or set(text) & set(",[]") for text in texts)
        return _render_json(texts) if odd else f"[{', '.join(texts)}]"
    text = "" if value is None else str(value)
    return _render_json(text) if _is_odd(text) else text


def _render_json(value: str | list[str]) -> str:
    """JSON, which YAML is, too, in which nothing stands that cannot be seen."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _is_odd(text: str) -> bool:
    """Whether a text would not be read back as it is."""
    return text != text.strip() or text.startswith('"') or not text.isprintable()


def _parse_line(value: str) -> str:
    value = unescape_controls(value)
    value = _WITHIN_SAFE.sub(r"<\1!-- \2entry:", value)
    if value.startswith('"') and value.endswith('"'):
        try:
            read = json.loads(value)
        except ValueError:
            return value
        return read if isinstance(read, str) else value
    return value


def _escape_section(text: str) -> str:
    safe = normalize_lines(text).strip("\n").rstrip()
    return _HEADING_LIKE.sub(r"\\\g<0>", safe) if "### " in safe else safe


def _unescape_section(text: str) -> str:
    if "### " in text:
        text = _HEADING_SAFE.sub(r"\1", text)
    text = unescape_controls(text)
    return _WITHIN_SAFE.sub(r"<\1!-- \2entry:", text) if "entry:" in text else text


# Front matter.


def render_front_matter(values: Mapping[str, Json]) -> str:
    """Front matter, one name to a line. (YAML, written by hand: a library takes longer than all else together.)"""
    return "".join(["---\n", *(line + "\n" for line in _render_mapping(values, "")), "---\n"])


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """What the front matter of a file says, and what follows it; nothing when it has none.

    Raises:
        Invalid: the front matter cannot be read, or could not be kept.
    """
    found = _FRONT.match(text)
    if found is None:
        return {}, text.removeprefix("\ufeff")
    return _parse_yaml(found[1] or ""), text[found.end() :]


def _parse_yaml(written: str) -> dict[str, Any]:
    import yaml

    if len(written) > MAX_FRONT:
        raise Invalid("file", f"its front matter is longer than {MAX_FRONT:,} characters")
    try:
        depth = 0
        # Looked through first: a name for a part could stand for more than fits into memory, and so could brackets.
        for event in yaml.parse(written, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > MAX_DATA_DEPTH:
                raise Invalid("file", "its front matter has names for parts, or too many levels")
        # A time is the text that it is.
        values = yaml.load(written, Loader=_make_loader())  # noqa: S506  # a safe loader that knows no times
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Invalid("file", f"its front matter is not YAML ({' '.join(str(error).split())})") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise Invalid("file", "its front matter has no names")
    return values


def _make_loader() -> Any:
    import yaml

    class Timeless(yaml.SafeLoader):
        """YAML without times."""

    Timeless.yaml_implicit_resolvers = {
        first: [(tag, test) for tag, test in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Timeless


def _render_mapping(values: Mapping[str, Json], indent: str) -> list[str]:
    lines: list[str] = []
    for name, value in values.items():
        head = f"{indent}{_render_scalar(name)}:"
        if isinstance(value, dict) and value:
            lines += [head, *_render_mapping(value, f"{indent}  ")]
        elif isinstance(value, list) and value:
            lines += [head, *_render_list(value, indent)]
        else:
            lines.append(f"{head} {_render_scalar(value)}")
    return lines


def _render_list(values: Sequence[Json], indent: str) -> list[str]:
    lines: list[str] = []
    for value in values:
        if isinstance(value, dict) and value:
            inner = _render_mapping(value, f"{indent}  ")
            lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]]
        elif isinstance(value, list) and value:
            lines += [f"{indent}-", *_render_list(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}- {_render_scalar(value)}")
    return lines


def _render_scalar(value: Json) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        return _render_json(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        written = repr(value)
        return written.replace("e", ".0e") if "e" in written and "." not in written else written
    if value is None:
        return "null"
    return "[]" if isinstance(value, list) else "{}" if isinstance(value, dict) else str(value)
