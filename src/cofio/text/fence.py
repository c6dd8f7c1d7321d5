"""The blocks that text which was stored is shown to a model in, so that nothing in it can end its block.

`extract.rules.recalled_text` knows the blocks of recalled memory by the same constants when they come back in a
conversation.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

RECALL_HEADING = "[Long-term Memory]"
"""The first line of what the library's managers recall."""
RECALL_TAG = "recalled-memory"
"""The tag around what the library's adapters recall."""
_OPEN, _CLOSE = "<<< ", " >>>"
_TAGGED = re.compile(rf"<{RECALL_TAG}>.*?(?:</{RECALL_TAG}>|\Z)", re.DOTALL)
_BREAKS = frozenset({"Cc", "Zl", "Zp"})
_UNSEEN = frozenset({"Cf", "Cs"})
_JOINERS = "\u200c\u200d"  # several scripts are written with them


def make_mark(text: str) -> str:
    """A mark that is made of the text and does not occur in it."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    while mark in text:
        mark = hashlib.sha256(mark.encode()).hexdigest()[:16]
    return mark


def fence(text: str, note: str) -> str:
    """The text between two lines with a mark that it cannot hold, under a note in which `{mark}` names it."""
    mark = make_mark(text)
    return f"{note.format(mark=mark)}\n{_OPEN}{mark}\n{text}\n{mark}{_CLOSE}"


def is_fence(block: str) -> bool:
    """Whether a block, of a line of note and the text between two lines, is as `fence` made it."""
    _, *lines = block.split("\n")
    if len(lines) < 3:
        return False
    begin, *content, end = lines
    mark = begin.removeprefix(_OPEN)
    return begin.startswith(_OPEN) and end == f"{mark}{_CLOSE}" and mark == make_mark("\n".join(content))


def tag_lines(lines: Iterable[str]) -> str:
    """Lines between the tags of recalled memory, of which none holds a `<` that could end them.

    The lines are JSON, where a `<` may be written as a number.
    """
    return "\n".join([f"<{RECALL_TAG}>", *(line.replace("<", "\\u003c") for line in lines), f"</{RECALL_TAG}>"])


def strip_tagged_lines(text: str) -> str:
    """A text less what `tag_lines` made and someone put into it; a block without an end goes on to the text's."""
    return _TAGGED.sub("", text)


def make_line(text: str, longest: int) -> str:
    """A text as one line: without line breaks, and without characters that are not seen and may hide or turn others."""
    line = " ".join("".join(map(_keep_visible, text[: longest * 4])).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _keep_visible(letter: str) -> str:
    category = unicodedata.category(letter)
    if category in _BREAKS:
        return " "
    return "" if category in _UNSEEN and letter not in _JOINERS else letter
