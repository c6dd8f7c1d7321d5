"""The outline of a document: its text, with headings as Markdown writes them, and where each of them stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..values.records import MAX_TEXT
from .decoder import clean, make_too_long, strip_unprintable
from .message_items import NoText

MARK = "\x01"
"""Begins a line that is a heading, in what a reader gives; a digit for its level comes next. No clean text holds it."""
DEEPEST = 9
_MARKDOWN = frozenset(("md", "markdown", "mdown", "mkd", "mdx", "txt", "text", ""))
_FRONT_LINES = 500  # of front matter
_LONGEST_LINE = 2000  # characters of a line that can be a heading
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_CLOSING = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?:={2,}|-{3,})[ \t]*")
_PARAGRAPH = re.compile(r" {0,3}(?![-*+>|#<=]|\d{1,9}[.)])\S")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")


class Heading(NamedTuple):
    """A heading: where its line begins in the text, how deep it is, and what it says."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Outline:
    """A document's text and the headings in it, in order."""

    text: str
    headings: tuple[Heading, ...] = ()


def outline_text(text: str, extension: str) -> Outline:
    """The outline of a file of text, by what its name ends in: Markdown, reStructuredText, or none at all."""
    text = clean(text)
    if extension in _MARKDOWN:
        return Outline(text, tuple(_find_markdown_headings(text)))
    return Outline(text, tuple(_find_underlined_headings(text)) if extension == "rst" else ())


def outline_marked(marked: str) -> Outline:
    """The outline of what a reader gave, in which headings are lines that begin with `MARK`.

    Raises:
        Unreadable: there is no text, or more than a document may have.
    """
    lines: list[str] = []
    found: list[tuple[int, int, str]] = []
    for line in marked.split("\n"):
        if line.startswith(MARK) and line[1:2].isdigit():
            title = " ".join(strip_unprintable(line[2:]).split())
            if not title:
                continue
            level = min(max(int(line[1]), 1), DEEPEST)
            lines += [""] if lines and lines[-1] else []
            found.append((len(lines), level, title))
            lines += [f"{'#' * min(level, 6)} {title}", ""]
        elif (plain := strip_unprintable(line)).strip() or (lines and lines[-1]):
            lines += plain.rstrip().split("\n")
    while lines and not lines[-1]:
        lines.pop()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    if starts[-1] > MAX_TEXT:
        raise make_too_long()
    if not lines:
        raise NoText("The document holds no text.")
    return Outline("\n".join(lines), tuple(Heading(starts[at], level, title) for at, level, title in found))


def _split_lines(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for line in text.split("\n"):
        yield at, line
        at += len(line) + 1


def _find_markdown_headings(text: str) -> Iterator[Heading]:
    """Headings with # before them or a line under them, but for those in code, comments and front matter."""
    fence = ""
    comment = False
    above: tuple[int, str] = (0, "")
    alone = False  # whether the line above is a paragraph of one line, so far
    front = _find_front_matter_end(text)
    for at, line in _split_lines(text):
        if at < front:
            continue
        opening = _FENCE.match(line)
        if fence or comment or opening:
            if opening and not fence and not comment:
                fence = opening[1]
            elif fence and opening and opening[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            elif comment:
                comment = "-->" not in line
            above, alone = (at, ""), False
            continue
        if line.lstrip().startswith("<!--") and "-->" not in line:
            comment = True
            continue
        atx = _ATX.fullmatch(line) if len(line) <= _LONGEST_LINE else None
        if atx:
            yield Heading(at, len(atx[1]), _CLOSING.sub("", atx[2] or "").strip())
            above, alone = (at, ""), False
        elif alone and len(above[1]) <= _LONGEST_LINE and _SETEXT.fullmatch(line):
            yield Heading(above[0], 1 if "=" in line else 2, above[1].strip())
            above, alone = (at, ""), False
        else:
            alone = not above[1].strip() and bool(_PARAGRAPH.match(line))
            above = (at, line)


def _find_front_matter_end(text: str) -> int:
    """Where front matter ends; 0 where there is none."""
    if not text.startswith("---"):
        return 0
    for number, (at, line) in enumerate(_split_lines(text)):
        if (number == 0 and line.rstrip() != "---") or number > _FRONT_LINES:
            return 0
        if number and line.rstrip() in ("---", "..."):
            return at + len(line) + 1
    return 0


def _find_underlined_headings(text: str) -> Iterator[Heading]:
    """The headings of reStructuredText: each way to underline them is a level, in the order in which they come."""
    ways: list[tuple[str, bool]] = []
    lines = list(_split_lines(text))
    for number in range(1, len(lines)):
        at, title = lines[number - 1]
        under = lines[number][1]
        if not title.strip() or len(under.rstrip()) < len(title.rstrip()) or not _UNDERLINE.fullmatch(under):
            continue
        over = lines[number - 2][1] if number > 1 else ""
        if _UNDERLINE.fullmatch(title) or (over.strip() and over.rstrip() != under.rstrip()):
            continue
        way = (under[0], bool(over.strip()))
        if way not in ways:
            ways.append(way)
        start = lines[number - 2][0] if over.strip() else at
        yield Heading(start, min(ways.index(way) + 1, DEEPEST), title.strip())
