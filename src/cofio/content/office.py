"""How text documents, sheets and slides become text: those of Office (docx, xlsx, pptx) and of OpenDocument.

The libraries for these formats bring a C parser of XML and one for images along, and had their last release a year or
more ago. Words are all that is wanted here, and those stand in a few tags.
"""

from __future__ import annotations

from ..model import MAX_TEXT
from . import sheets
from .decoding import too_long
from .items import Unreadable
from .packages import Element, Package

_UNSEEN = frozenset(["Fallback", "tracked-changes", "annotation", "moveFrom", "pPr", "rPr"])
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " "}
_ROWS, _CELLS = frozenset(("tr", "table-row")), frozenset(("tc", "table-cell"))
_NOTES = ("footnotes", "endnotes", "comments")


def text(data: bytes) -> str:
    """What an office document says, in the order of its pages, sheets or slides.

    Raises:
        Unreadable: it is damaged, too large, or none of these formats.
    """
    package = Package(data)
    if "content.xml" in package:
        return _flow(package, ["content.xml"], everywhere=True)
    main = next((target for kind, target in package.related("").values() if kind == "officeDocument"), "")
    if main.startswith("word/"):
        return _flow(package, [main, *sorted(name for kind, name in package.related(main).values() if kind in _NOTES)])
    if main.startswith("ppt/"):
        return _flow(package, _slides(package, main))
    if main.startswith("xl/"):
        return sheets.text(package, main)
    raise Unreadable("The document is a zip file, but no office document (docx, xlsx, pptx, odt, ods or odp).")


def _slides(package: Package, main: str) -> list[str]:
    """The parts that are slides, each followed by its notes, in the order they are shown in."""
    related, parts = package.related(main), []
    for each in package.elements(main):
        if each.name == "sldId" and each.attributes.get("id") in related:
            slide = related[each.attributes["id"]][1]
            parts += [slide, *(name for kind, name in package.related(slide).values() if kind == "notesSlide")]
    return parts


def _flow(package: Package, parts: list[str], *, everywhere: bool = False) -> str:
    flow = _Flow(everywhere)
    for part in parts:
        package.walk(part, flow.start, flow.end, flow.words)
        flow.gap()
    return "\n".join(flow.lines)


class _Flow:
    """Words in paragraphs, and paragraphs in the cells of tables."""

    def __init__(self, everywhere: bool) -> None:
        self.lines: list[str] = []
        self._everywhere = everywhere
        """Whether all of a paragraph's characters count, or only those that are marked as text."""
        self._line: list[str] = []
        self._rows: list[list[str]] = []
        """The rows that are open, each in a cell of the one before it; the last entry of each is the open cell."""
        self._taking = self._unseen = self._length = 0

    def start(self, element: Element) -> None:
        """A tag opens."""
        name = element.name
        if self._unseen or name in _UNSEEN:
            self._unseen += 1
        elif name in ("p", "h"):
            self._break()
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

    def end(self, name: str) -> None:
        """A tag closes."""
        if self._unseen:
            self._unseen -= 1
        elif name in ("p", "h"):
            self._taking -= self._everywhere
            self._break()
        elif name == "t":
            self._taking -= 1
        elif name in _ROWS:
            self._break()
            self._put(" | ".join(filter(None, self._rows.pop())))

    def words(self, words: str) -> None:
        """Characters between tags."""
        if self._taking > 0 and not self._unseen:
            self._length += len(words)
            if self._length > MAX_TEXT:
                raise too_long()
            self._line.append(words)

    def gap(self) -> None:
        """A part is over."""
        self._break()
        self._put("")

    def _break(self) -> None:
        line = "".join(self._line).rstrip()
        self._line.clear()
        if line:
            self._put(line)

    def _put(self, line: str) -> None:
        if self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]} {line}".strip()
        elif line or (self.lines and self.lines[-1]):
            self.lines.append(line)
