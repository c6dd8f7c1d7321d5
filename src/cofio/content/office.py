"""How text documents, sheets and slides become text: those of Office (docx, xlsx, pptx) and of OpenDocument.

The libraries for these formats bring a C parser of XML and one for images along, and had their last release a year or
more ago. Words are all that is wanted here, and those stand in a few tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ..values.records import MAX_TEXT
from . import sheets
from .decoder import make_too_long
from .message_items import Unreadable
from .outlines import DEEPEST, MARK
from .packages import Element, Package

_UNSEEN = frozenset(["Fallback", "tracked-changes", "annotation", "moveFrom", "pPr", "rPr"])
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " "}
_ROWS, _CELLS = frozenset(("tr", "table-row")), frozenset(("tc", "table-cell"))
_HEADING_NAME = re.compile("(?:heading ([1-9])|title)", re.I)
_NOTES = ("footnotes", "endnotes", "comments")


def read_office(data: bytes, *, marked: bool = False) -> str:
    """What an office document says, in the order of its pages, sheets or slides.

    If it is to be `marked`, its headings, the titles of slides and the names of sheets are marked as headings.

    Raises:
        Unreadable: it is damaged, too large, or none of these formats.
    """
    package = Package(data)
    if "content.xml" in package:
        return _run_flow(package, ["content.xml"], _Flow(marked, everywhere=True))
    main = next((target for kind, target in package.find_related("").values() if kind == "officeDocument"), "")
    if main.startswith("word/"):
        related = package.find_related(main).values()
        styles = [name for kind, name in related if kind == "styles"] if marked else []
        notes = sorted(name for kind, name in related if kind in _NOTES)
        return _run_flow(package, [main, *notes], _Flow(marked, _find_heading_styles(package, styles)))
    if main.startswith("ppt/"):
        return _run_flow(package, _list_slides(package, main), _Flow(marked))
    if main.startswith("xl/"):
        return sheets.read_sheets(package, main, marked=marked)
    raise Unreadable("The document is a zip file, but no office document (docx, xlsx, pptx, odt, ods or odp).")


def _list_slides(package: Package, main: str) -> list[str]:
    """The parts that are slides, each followed by its notes, in the order they are shown in."""
    related, parts = package.find_related(main), []
    for each in package.list_elements(main):
        if each.name == "sldId" and each.attributes.get("id") in related:
            slide = related[each.attributes["id"]][1]
            parts += [slide, *(name for kind, name in package.find_related(slide).values() if kind == "notesSlide")]
    return parts


def _find_heading_styles(package: Package, parts: list[str]) -> dict[str, int]:
    """The level of each style that is for headings, by its id, which is another one in each language of Word."""
    levels: dict[str, int] = {}
    style = ""
    for each in (element for part in parts if part in package for element in package.list_elements(part)):
        attributes = each.attributes
        if each.name == "style":
            style = attributes.get("styleId", "")
        elif each.name == "name" and (named := _HEADING_NAME.fullmatch(attributes.get("val", ""))):
            levels[style] = int(named[1] or 1)
        elif each.name == "outlineLvl":
            levels.setdefault(style, _parse_level(attributes.get("val")))
    return {style: level for style, level in levels.items() if level}


def _parse_level(counted: str | None) -> int:
    """A level that is counted from 0, as those of outlines are; 0 where it is none."""
    return int(counted) + 1 if counted and len(counted) == 1 and counted in "012345678" else 0


def _parse_outline_level(heading: Element) -> int:
    """The level of a heading of OpenDocument."""
    written = heading.attributes.get("outline-level", "")
    return min(int(written), DEEPEST) if written in map(str, range(1, 100)) else 1


def _run_flow(package: Package, parts: list[str], flow: _Flow) -> str:
    for part in parts:
        package.walk(part, flow.start, flow.end, flow.add_words)
        flow.end_part()
    return "\n".join(flow.lines)


class _Flow:
    """Words in paragraphs, and paragraphs in the cells of tables."""

    def __init__(
        self, marked: bool, styles: Mapping[str, int] = MappingProxyType({}), *, everywhere: bool = False
    ) -> None:
        """`styles` are those for headings, with their levels."""
        self.lines: list[str] = []
        self._marked = marked
        self._styles = styles
        self._level = 0
        """How deep the heading is that the open paragraph is; 0 when it is none."""
        self._title = False
        """Whether the open shape of a slide holds its title."""
        self._everywhere = everywhere
        """Whether all of a paragraph's characters count, or only those that are marked as text."""
        self._line: list[str] = []
        self._rows: list[list[str]] = []
        """The rows that are open, each in a cell of the one before it; the last entry of each is the open cell."""
        self._taking = self._unseen_depth = self._length = 0

    def start(self, element: Element) -> None:
        """A tag opens."""
        name = element.name
        if self._marked:
            self._notice(element)
        if self._unseen_depth or name in _UNSEEN:
            self._unseen_depth += 1
        elif name in ("p", "h"):
            self._break()
            self._level = _parse_outline_level(element) if name == "h" else int(self._title)
            self._taking += self._everywhere
        elif name == "t":
            self._taking += 1
        elif name in _BREAKS:
            self._line.append(_BREAKS[name])
        elif name in _ROWS:
            self._break()
            self._rows.append([])
        elif name in _CELLS and self._rows:
            self._rows[-1].append("")

    def _notice(self, element: Element) -> None:
        """See whether the open paragraph is a heading, which stands in its properties."""
        attributes = element.attributes
        if element.name == "pStyle":
            self._level = self._styles.get(attributes.get("val", ""), 0)
        elif element.name == "outlineLvl":
            self._level = _parse_level(attributes.get("val"))
        elif element.name == "ph":
            self._title = attributes.get("type") in ("title", "ctrTitle")

    def end(self, name: str) -> None:
        """A tag closes."""
        if name == "sp":
            self._title = False
        if self._unseen_depth:
            self._unseen_depth -= 1
        elif name in ("p", "h"):
            self._taking -= self._everywhere
            self._break()
        elif name == "t":
            self._taking -= 1
        elif name in _ROWS:
            self._break()
            self._put(" | ".join(filter(None, self._rows.pop())))

    def add_words(self, words: str) -> None:
        """Characters between tags."""
        if self._taking > 0 and not self._unseen_depth:
            self._length += len(words)
            if self._length > MAX_TEXT:
                raise make_too_long()
            self._line.append(words)

    def end_part(self) -> None:
        """A part is over."""
        self._break()
        self._put("")

    def _break(self) -> None:
        line = "".join(self._line).rstrip()
        self._line.clear()
        if line and self._marked and self._level and not self._rows:
            line = f"{MARK}{self._level}{' '.join(line.split())}"
        self._level = 0
        if line:
            self._put(line)

    def _put(self, line: str) -> None:
        if self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]} {line}".strip()
        elif line or (self.lines and self.lines[-1]):
            self.lines.append(line)
