"""How a page of HTML becomes text that reads like the page.

The standard library's parser takes minutes for a hundred kilobytes of `<a <a <a` (all but its newest releases), so the
markup is cut up here: each step goes on from where the one before it ended, nothing is looked at twice, and nothing
calls itself, however deep a page is nested.
"""

from __future__ import annotations

import html
import re
from collections import Counter

from ..values.records import MAX_TEXT
from .decoder import decode, find_charset, make_too_large, make_too_long
from .outlines import MARK

MAX_PAGE = 8 * 1024 * 1024
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.I)
# What ends in ++ or *+ never goes back: where the rest does not match, the tag is not finished, and nor is the page.
_TAG = re.compile(r"""<(/?)([a-z][^\s/>]*+)((?:[^=>]++|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*+)>""", re.I)
_MARKUP = re.compile("<(?=[A-Za-z/!?])")
_NAMED = re.compile("</?[A-Za-z]")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]*+)))?""")
_HUGE_NUMBER = re.compile(r"&#[0-9]{8,}+;?")  # Python refuses to read one of thousands of digits
_INVISIBLE = re.compile(r"(?:display\s*+:\s*+none|visibility\s*+:\s*+hidden)", re.I)
_SPACE = re.compile(r"[ \t\n\f\r\u200b]++")
_RAW = {name: re.compile(f"</{name}(?=[\\s/>])", re.I) for name in ("script", "style", "title", "xmp", "iframe")}
_UNSEEN = frozenset({
    "script", "style", "noscript", "template", "svg", "math", "object", "iframe", "canvas", "select", "datalist",
    "audio", "video",
})  # fmt: skip
_DRAWINGS = ("svg", "math")  # in these a / at the end of a tag counts
_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})  # fmt: skip
_PARAGRAPHS = frozenset({
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "blockquote", "pre", "table", "ul", "ol", "dl", "article", "section",
    "header", "footer", "main", "nav", "aside", "figure", "form",
})  # fmt: skip
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_LINES = frozenset({
    "div", "li", "tr", "dt", "dd", "br", "hr", "address", "caption", "figcaption", "legend", "option", "summary",
    "details", "body", "title",
})  # fmt: skip
# A new one of these ends the one before it, which need not say so.
_ENDED_BY = {
    "li": {"li"}, "p": {"p"}, "tr": {"tr", "td", "th"}, "td": {"td", "th"}, "th": {"td", "th"}, "dt": {"dt", "dd"},
    "dd": {"dt", "dd"}, "option": {"option"}, **{name: {"p"} for name in _PARAGRAPHS}, "div": {"p"},
}  # fmt: skip


def read_page(data: bytes, declared: str | None = None, *, marked: bool = False) -> str:
    """The text of a page that is still in bytes; `declared` is the charset that its server names.

    If it is to be `marked`, each heading is a line that begins with `MARK` and its level.

    Raises:
        Unreadable: it is too large, or holds too much text.
    """
    if len(data) > MAX_PAGE:
        raise make_too_large(MAX_PAGE)
    if not find_charset(declared) and (meta := _META.search(data[:2048])):
        named = meta[1].decode("ascii")
        declared = "utf-8" if named.lower().startswith("utf-16") else named  # it could not be read here if it were so
    return read_markup(decode(data, declared), marked=marked)


def read_markup(source: str, *, marked: bool = False) -> str:
    """What a reader of the page would see.

    Raises:
        Unreadable: it is more than a record may hold.
    """
    return _Page(marked).read(source)


class _Page:
    """The page so far: which elements are open, which of them hides what is in it, and what was to be seen."""

    def __init__(self, marked: bool) -> None:
        self._marked = marked
        self._heading = ""
        """The heading that is open, where they are marked."""
        self._open: list[str] = []
        self._names: Counter[str] = Counter()
        self._hidden_depth = 0
        """How many elements are open up to the one that hides; 0 where nothing does."""
        self._out: list[str] = []
        self._length = 0
        self._gap = ""
        """What stands between what was written last and what comes next."""
        self._bullet = False
        """Whether what comes next begins an entry of a list."""
        self._mark = ""
        """What the heading that is open begins with, until it does."""

    def read(self, source: str) -> str:
        at = 0
        while start := _MARKUP.search(source, at):
            self._add_words(source[at : start.start()])
            at = self._read_markup(source, start.start())
            if at < 0:
                return "".join(self._out)
        self._add_words(source[at:])
        return "".join(self._out)

    def _read_markup(self, source: str, start: int) -> int:
        """Take what begins with < at `start`; where it ends, or -1 when it never does."""
        if source.startswith("<!--", start):
            if source.startswith((">", "->"), start + 4):
                return source.index(">", start) + 1
            end = source.find("-->", start + 4)
            return end + 3 if end >= 0 else -1
        if not _NAMED.match(source, start):
            return source.find(">", start) + 1 or -1
        tag = _TAG.match(source, start)
        if tag is None:
            return -1
        name = tag[2].lower()
        if tag[1]:
            self._end(name)
            return tag.end()
        self._start(name, tag[3])
        return self._skip_raw(source, tag.end(), name) if name in _RAW else tag.end()

    def _skip_raw(self, source: str, start: int, name: str) -> int:
        """Pass over what is no markup; a page's title is its first line, unless its headings are marked."""
        end = _RAW[name].search(source, start)
        if end is None:
            return -1
        if name == "title" and not self._marked:
            self._add_words(source[start : end.start()])
        return end.start()

    def _start(self, name: str, attributes: str) -> None:
        if self._open and self._open[-1] in _ENDED_BY.get(name, ()):
            self._end(self._open[-1])
        self._break(name)
        if name not in _VOID and not (name in _DRAWINGS and attributes.endswith("/")):
            self._open.append(name)
            self._names[name] += 1
            if not self._hidden_depth and (name in _UNSEEN or _hides(attributes)):
                self._hidden_depth = len(self._open)
        if name == "img":
            self._add_words(_parse_attributes(attributes).get("alt", "") + " ")
        elif name in ("td", "th") and self._gap in ("", " "):
            self._gap = " | "
        self._bullet = self._bullet or name == "li"
        if self._marked and name in _HEADINGS and not self._hidden_depth:
            self._heading, self._mark = name, f"{MARK}{name[1]}"

    def _end(self, name: str) -> None:
        if not self._names[name]:
            return
        last = ""
        while last != name:
            last = self._open.pop()
            self._names[last] -= 1
            if len(self._open) < self._hidden_depth:
                self._hidden_depth = 0
            if last == self._heading:
                self._heading = self._mark = ""
        self._break(name)
        self._bullet = self._bullet and name not in ("li", "ul", "ol")

    def _break(self, name: str) -> None:
        if self._heading and not self._mark:
            self._gap = " "  # a heading is one line
        elif name in _PARAGRAPHS or name == "title":
            self._gap = "\n\n"
        elif name in _LINES and self._gap != "\n\n":
            self._gap = "\n"

    def _add_words(self, words: str) -> None:
        if self._hidden_depth or not (words := _unescape(words)):
            return
        if self._names["pre"]:
            self._append(words)
            return
        words = _SPACE.sub(" ", words)
        if words[0] == " " and not self._gap:
            self._gap = " "
        bare = words.strip(" ")
        if bare:
            self._append(bare)
            self._gap = " " if words[-1] == " " else ""

    def _append(self, words: str) -> None:
        if self._hidden_depth:
            return
        if self._heading:
            words = self._mark + " ".join(words.split())
            self._mark = ""
        elif self._bullet:
            words = f"- {words}"
        piece = self._gap + words if self._out else words
        self._gap, self._bullet = "", False
        self._length += len(piece)
        if self._length > MAX_TEXT:
            raise make_too_long()
        self._out.append(piece)


def _hides(attributes: str) -> bool:
    if "hidden" not in (lower := attributes.lower()) and "none" not in lower:
        return False
    values = _parse_attributes(attributes)
    return "hidden" in values or values.get("aria-hidden") == "true" or bool(_INVISIBLE.search(values.get("style", "")))


def _parse_attributes(written: str) -> dict[str, str]:
    found = _ATTRIBUTE.finditer(written)
    return {each[1].lower(): _unescape(each[2] or each[3] or each[4] or "") for each in found}


def _unescape(written: str) -> str:
    return html.unescape(_HUGE_NUMBER.sub("\ufffd", written))
