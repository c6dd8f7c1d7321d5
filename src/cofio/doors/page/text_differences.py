"""What changed between two texts, line by line, as a reader sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

AROUND = 2  # lines around a change that are shown
MOST_LINES = 1_000  # of a text that are compared: more would take long
MOST_SHOWN = 400

Sort = Literal["same", "new", "old", "gap"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference: the same in both, new, old, or a gap where lines are left out."""

    sort: Sort
    text: str


def compare_texts(old: str, new: str) -> tuple[DiffLine, ...]:
    """The lines in which two texts differ, with a few around them; empty if they are the same."""
    before, after = old.splitlines()[:MOST_LINES], new.splitlines()[:MOST_LINES]
    matcher = SequenceMatcher(None, before, after)
    lines: list[DiffLine] = []
    for number, group in enumerate(matcher.get_grouped_opcodes(AROUND)):
        if number:
            lines.append(DiffLine("gap", "…"))
        for operation, start, end, to_start, to_end in group:
            lines += _list_lines(operation, before[start:end], after[to_start:to_end])
    return tuple(lines[:MOST_SHOWN])


def _list_lines(operation: str, before: list[str], after: list[str]) -> Iterator[DiffLine]:
    if operation == "equal":
        yield from (DiffLine("same", line) for line in before)
        return
    yield from (DiffLine("old", line) for line in before)
    yield from (DiffLine("new", line) for line in after)
