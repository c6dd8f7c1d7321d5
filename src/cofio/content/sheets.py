"""How the sheets of a workbook become lines of cells, with its days as dates."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from ..values.records import MAX_TEXT
from .decoder import make_too_long
from .message_items import Unreadable
from .outlines import MARK
from .packages import Element, Package

_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)))
_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|General', re.I)
_DAYS = 2_958_465  # 9999-12-31


def read_sheets(package: Package, main: str, *, marked: bool = False) -> str:
    """The sheets in their order: the name of each, and a line for each row.

    Raises:
        Unreadable: the workbook is damaged, or holds too much.
    """
    related = package.find_related(main)
    named = {kind: name for kind, name in related.values() if kind in ("sharedStrings", "styles")}
    shared = _read_shared_texts(package, named["sharedStrings"]) if "sharedStrings" in named else []
    dates = _find_date_styles(package, named["styles"]) if "styles" in named else frozenset()
    book = list(package.list_elements(main))
    early = any(each.name == "workbookPr" and each.attributes.get("date1904") in ("1", "true") for each in book)
    rows = _Rows(shared, dates, datetime(1904, 1, 1) if early else datetime(1899, 12, 30))
    for each in book:
        attributes = each.attributes
        if each.name == "sheet" and attributes.get("id") in related and related[attributes["id"]][0] == "worksheet":
            rows.put(("\n" if rows.lines else "") + (f"{MARK}1" if marked else "") + attributes.get("name", ""))
            package.walk(related[attributes["id"]][1], rows.start, rows.end, rows.add_words)
    return "\n".join(rows.lines)


class _Rows:
    """The lines so far, and the cell that is being read."""

    def __init__(self, shared: list[str], dates: frozenset[int], epoch: datetime) -> None:
        self.lines: list[str] = []
        self._shared, self._dates, self._epoch = shared, dates, epoch
        self._row: list[str] = []
        self._cell = Element("c", {})
        self._value: list[str] = []
        self._inside = self._unseen_depth = self._length = 0

    def start(self, element: Element) -> None:
        """A tag opens."""
        if element.name == "c":
            self._cell = element
            self._value.clear()
        self._inside += element.name in ("v", "t")
        self._unseen_depth += element.name == "rPh"

    def end(self, name: str) -> None:
        """A tag closes."""
        self._inside -= name in ("v", "t")
        self._unseen_depth -= name == "rPh"
        if name == "c" and (value := self._render_value("".join(self._value))):
            self._length += len(value)
            if self._length > MAX_TEXT:
                raise make_too_long()
            self._row.append(value)
        elif name == "row" and self._row:
            self.put(" | ".join(self._row))
            self._row.clear()

    def add_words(self, words: str) -> None:
        """Characters between tags."""
        if self._inside and not self._unseen_depth:
            self._value.append(words)

    def put(self, line: str) -> None:
        """Write a line, as long as the limit of characters allows it."""
        self._length += len(line) + 1
        if self._length > 2 * MAX_TEXT:  # each cell counts twice: by itself, and in its line
            raise make_too_long()
        self.lines.append(line)

    def _render_value(self, value: str) -> str:
        kind = self._cell.attributes.get("t", "n")
        if not value or kind in ("str", "inlineStr", "e", "d"):
            return value.strip()
        try:
            if kind == "s":
                return self._shared[int(value)].strip()
            if kind == "b":
                return "TRUE" if int(value) else "FALSE"
            number = float(value)
            if int(self._cell.attributes.get("s", "0")) in self._dates and 0 <= number <= _DAYS:
                return _format_time(number, self._epoch)
        except (ValueError, IndexError, OverflowError):
            raise Unreadable("The workbook is damaged: open it where it was made, and save it again.") from None
        return f"{number:.15g}"


def _format_time(number: float, epoch: datetime) -> str:
    when = epoch + timedelta(seconds=round(number * 86_400))
    if number < 1:
        return f"{when:%H:%M:%S}"
    return f"{when:%Y-%m-%d}" if number == int(number) else f"{when:%Y-%m-%d %H:%M:%S}"


def _read_shared_texts(package: Package, name: str) -> list[str]:
    """The texts that cells refer to by their number."""
    found: list[list[str]] = []
    state = {"t": 0, "rPh": 0}

    def start(element: Element) -> None:
        if element.name == "si":
            found.append([])
        elif element.name in state:
            state[element.name] += 1

    def end(name: str) -> None:
        if name in state:
            state[name] -= 1

    def words(words: str) -> None:
        if found and state["t"] and not state["rPh"]:
            found[-1].append(words)

    package.walk(name, start, end, words)
    return ["".join(each) for each in found]


def _find_date_styles(package: Package, name: str) -> frozenset[int]:
    """The styles, by number, in which a number is shown as a day or a time."""
    formats, styles, in_cells = set(map(str, _DATE_FORMATS)), [], False
    for each in package.list_elements(name):
        attributes = each.attributes
        code = attributes.get("formatCode", "").lower()
        # [h] counts on beyond a day: that is how long something took, not when it was.
        if each.name == "numFmt" and "[h" not in code and set(_LITERAL.sub("", code)) & set("ymdhs"):
            formats.add(attributes.get("numFmtId", ""))
        if each.name in ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs"):
            in_cells = each.name == "cellXfs"
        elif each.name == "xf" and in_cells:
            styles.append(attributes.get("numFmtId", "0"))
    return frozenset(number for number, style in enumerate(styles) if style in formats)
