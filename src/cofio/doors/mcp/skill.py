"""The skill that tells an agent when to read memory and when to write it, as a text with front matter."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def load_text() -> str:
    """The whole skill, as SKILL.md is written."""
    return Path(__file__).with_name("SKILL.md").read_text(encoding="utf-8")


def parse_front_matter(document: str) -> dict[str, str]:
    """The fields between the two lines of dashes that a skill begins with; none if it does not.

    They are read as plain `key: value`, where an indented line goes on with the value above: no more of YAML is needed.
    """
    lines = document.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}
    fields: dict[str, str] = {}
    key = ""
    for line in lines[1:]:
        if line.rstrip() == "---":
            return {name: _unquote(value) for name, value in fields.items()}
        if line[:1].isspace() and key:
            fields[key] = f"{fields[key]} {line.strip()}".strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip()
            fields[key] = value.strip()
    return {}


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


name = parse_front_matter(load_text())["name"]
"""What the skill is called."""

description = parse_front_matter(load_text())["description"]
"""When an agent is to load it."""
