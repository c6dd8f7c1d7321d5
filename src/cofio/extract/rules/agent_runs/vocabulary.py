"""What the rules know of words and phrases: `vocabulary.txt`, which is read when it is first asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ....text.tokenizer import split_words


@cache
def get_words(area: str, *more: str) -> frozenset[str]:
    """The words of one area, or of several."""
    return frozenset(word for each in (area, *more) for line in read_areas()[each] for word in line.split())


@cache
def get_meanings(area: str) -> Mapping[str, str]:
    """The stem of the first word of each line, by the stems of all of its words."""
    stems = [split_words(line) for line in read_areas()[area]]
    return {stem: line[0] for line in stems for stem in line}


@cache
def get_phrases(area: str, before: str = r"(?<!\w)", after: str = r"(?![\w-])") -> re.Pattern[str]:
    """A pattern of all phrases of an area, as whole words unless told otherwise."""
    phrases = [phrase for line in read_areas()[area] for phrase in line.partition(": ")[2].split(" ; ")]
    return re.compile(f"(?i){before}(?:{'|'.join(phrases) or '(?!)'}){after}")


@cache
def read_areas() -> dict[str, list[str]]:
    """The lines of each area."""
    areas: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in files(__package__).joinpath("vocabulary.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = areas.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    return areas
