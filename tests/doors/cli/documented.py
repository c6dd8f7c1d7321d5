"""The examples of docs/cli.md: what is typed and what comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^## cofio (\w+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """A command and what it prints on both streams."""

    command: str
    printed: str


def examples() -> list[Example]:
    """Every example of the page, in order."""
    found = []
    for block in _BLOCK.findall(PAGE.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append(Example(command, printed))
    return found


def sections() -> dict[str, str]:
    """What the page says of each command."""
    return dict(_SECTION.findall(PAGE.read_text()))
