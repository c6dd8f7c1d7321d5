"""How a document becomes topics: a tree of its headings, in which nothing is lost and nothing stands twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..content import Heading, Outline
from ..secrets.scanner import mask_with_offsets

LONGEST = 2000
"""Characters of a topic; a longer section is divided. The built-in model reads some 1,000 of them."""
PIECE = 1500
"""Characters that such a section is divided into, at most."""
MOST_HEADINGS = 2000
"""Headings that become topics; where there are more, the deepest do not count."""
LONGEST_NAME, LONGEST_LINE = 200, 80
"""Characters of a topic's name: of one that a heading gives, and of one that its first line gives."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,500}>")
_ANCHOR = re.compile(r"[ \t]*\{[#.][^{}]{0,200}\}[ \t]*$")
_EMPHASIS = re.compile(r"`+([^`]+)`+|\*{1,3}([^*]+)\*{1,3}|(?<!\w)_{1,3}([^_]+)_{1,3}(?!\w)|~~([^~]+)~~")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_BULLET = re.compile(r"\s*(?:[-*+>#|]+|\d{1,4}[.)])\s+")
_SENTENCE = re.compile(r"[.!?。！？]+[\"')\]”’]*\s")


@dataclass(slots=True, kw_only=True)
class Topic:
    """A section of a document, or a piece of one that is long."""

    index: int
    """Its number in the document, from 1 on; 0 is the document itself."""
    name: str
    content: str
    """Its part of the document's text, with its heading; what its children have is not in it."""
    parent: int = 0
    path: tuple[str, ...] = ()
    """The names that lead to it, its own included and the document's not."""
    children: list[int] = field(default_factory=list)
    headed: bool = False
    """Whether its name is a heading's, and not its first line."""
    bare: bool = False
    """Whether there is nothing but a heading in it."""

    @property
    def depth(self) -> int:
        """How many steps lead to it from the document."""
        return len(self.path)


def mask_outline(outline: Outline) -> Outline:
    """The outline with its secrets masked: to be done before it is divided, for a part of a secret looks like none."""
    text, starts = mask_with_offsets(outline.text, [heading.start for heading in outline.headings])
    headings = []
    for heading, start in zip(outline.headings, starts, strict=True):
        if start and text[start - 1] != "\n":
            continue  # its line was inside of a secret
        line = _get_line(text, start)
        changed = line != _get_line(outline.text, heading.start)
        headings.append(heading._replace(start=start, title=line.strip("# \t") if changed else heading.title))
    return Outline(text, tuple(headings))


def _get_line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def divide_document(outline: Outline, title: str) -> list[Topic]:
    """The topics of a document of this title, in its order; their contents one after the other are its text."""
    topics: list[Topic] = []
    open_: list[tuple[int, Topic]] = []
    headings = _select_headings(outline.headings)
    own = _find_own_heading(headings, title)
    for heading, content in _split_sections(outline.text, headings):
        pieces = divide_text(content)
        if heading is None:
            for piece in pieces:
                _append(topics, None, name_text(piece), piece)
            continue
        while open_ and open_[-1][0] >= heading.level:
            open_.pop()
        name = plain_heading(heading.title) or name_text(content.replace(heading.title, "", 1))
        topic = _append(topics, open_[-1][1] if open_ else None, name, pieces[0])
        topic.headed = True
        topic.bare = not any(map(str.isalnum, content.replace(heading.title, "", 1)))
        for piece in pieces[1:]:
            _append(topics, topic, name_text(piece), piece)
        if heading is not own:
            open_.append((heading.level, topic))
    return topics


def _append(topics: list[Topic], parent: Topic | None, name: str, content: str) -> Topic:
    index = len(topics) + 1
    name = name or f"Part {index}"
    above = () if parent is None else parent.path
    topic = Topic(
        index=index, name=name, content=content, path=(*above, name), parent=0 if parent is None else parent.index
    )
    if parent is not None:
        parent.children.append(index)
    topics.append(topic)
    return topic


def _select_headings(headings: Sequence[Heading]) -> list[Heading]:
    """The headings that become topics: all, or where there are too many those of the upper levels."""
    counts = Counter(heading.level for heading in headings)
    total, deepest = 0, 0
    for level in sorted(counts):
        total += counts[level]
        if total > MOST_HEADINGS:
            break
        deepest = level
    return [heading for heading in headings if heading.level <= deepest]


def _find_own_heading(headings: Sequence[Heading], title: str) -> Heading | None:
    """The heading that stands over all the others and says the document's title again: no step of a path."""
    if not headings:
        return None
    first = headings[0]
    alone = all(heading.level > first.level for heading in headings[1:])
    return first if alone and plain_heading(first.title).casefold() == _join_spaces(title).casefold() else None


def _split_sections(text: str, headings: Sequence[Heading]) -> list[tuple[Heading | None, str]]:
    """The text cut before each heading; what comes before the first has none, unless it is blank."""
    starts = [heading.start for heading in headings]
    ends = [*starts[1:], len(text)] if starts else []
    before = text[: starts[0]] if starts else text
    sections: list[tuple[Heading | None, str]] = [(None, before)] if before.strip() or not starts else []
    for heading, start, end in zip(headings, starts, ends, strict=True):
        sections.append((heading, text[start if sections else 0 : end]))
    return sections


def divide_text(text: str) -> list[str]:
    """A text in pieces that are not too long, cut where a paragraph, a line, a sentence or a word ends."""
    pieces = []
    at = 0
    while len(text) - at > LONGEST:
        cut = _find_cut(text, at)
        pieces.append(text[at:cut])
        at = cut
    return [*pieces, text[at:]]


def _find_cut(text: str, at: int) -> int:
    """Where the piece that begins at `at` ends: in the second half of what it may have, as late as it can."""
    first, last = at + PIECE // 2, at + PIECE
    for end in ("\n\n", "\n"):
        found = text.rfind(end, first, last)
        if found >= 0:
            return found + len(end)
    sentences = [each.end() for each in _SENTENCE.finditer(text, first, last)]
    if sentences:
        return sentences[-1]
    return text.rfind(" ", first, last) + 1 or last


def plain_heading(title: str) -> str:
    """What a heading says, without the markup in it."""
    return shorten(_join_spaces(plain_markup(_ANCHOR.sub("", title[: 10 * LONGEST_NAME]))), LONGEST_NAME)


def plain_markup(text: str) -> str:
    """A line of Markdown as it reads: links, emphasis and code without the signs for them."""
    text = _TAG.sub("", _LINK.sub(r"\1", text))
    return _ESCAPED.sub(r"\1", _EMPHASIS.sub(lambda found: next(filter(None, found.groups()), ""), text))


def name_text(text: str) -> str:
    """A name for a text that has none: how it begins; empty when it says nothing."""
    for line in text.split("\n"):
        bare = _join_spaces(_BULLET.sub("", line[:1000], count=1)).strip("| ")
        if not bare.startswith(("```", "~~~")) and any(map(str.isalnum, bare)):
            return shorten(plain_heading(bare), LONGEST_LINE)
    return ""


def shorten(line: str, limit: int) -> str:
    """A line that is not too long: cut after a word, with an ellipsis."""
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    return (cut[: cut.rfind(" ", limit // 2)] if " " in cut[limit // 2 :] else cut).rstrip() + "…"


def _join_spaces(text: str) -> str:
    return " ".join(text.split())
