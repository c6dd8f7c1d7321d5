"""What a text is about, in the sentences that it begins with: where there is no model to sum it up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .topics import Topic, plain_markup, shorten

LONGEST = 300
"""Characters of a summary."""
MOST_NAMES = 12
"""Topics that a document's summary names."""
READ = 4000  # characters of a text that are looked at
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:[ \t].*)?$", re.MULTILINE)
_UNDERLINED = re.compile(r"^(?![ \t]*$).+\n {0,3}(?:={2,}|-{3,}|~{3,}|\^{3,})[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}|---).*$", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*(?:[-*+>]|\d{1,4}[.)])[ \t]+", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])[\"')\]”’]*\s+|(?<=[。！？])")


def summarise_text(text: str) -> str:
    """The first sentences of a text, without its heading, on one line."""
    body = _HEADING.sub("", _UNDERLINED.sub("", text[:READ]))
    line = plain_markup(" ".join(_BULLET.sub("", _FENCE.sub("", body)).split()))
    summary = ""
    for sentence in _END.split(line):
        if len(summary) + len(sentence) + 1 > LONGEST:
            break
        summary = f"{summary} {sentence}".strip()
    return summary or shorten(line, LONGEST)


def summarise_document(topics: Sequence[Topic]) -> str:
    """How a document begins, and which topics it has."""
    begins = next((summary for topic in topics if (summary := summarise_text(topic.content))), "")
    names = [topic.name for topic in topics if topic.depth == 1]
    if len(names) < 2:
        return begins or next((topic.name for topic in topics), "")
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{begins} Topics: {'; '.join(names[:MOST_NAMES])}{more}.".strip()
