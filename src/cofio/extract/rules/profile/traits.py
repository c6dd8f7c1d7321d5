"""What people say of themselves, as a table: how it looks, what it is about, and how it is told (`traits.txt`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from ..lexicon import expand_references
from .statement_values import (
    normalize_thing,
    parse_clause,
    parse_employer,
    parse_liking,
    parse_location,
    parse_person,
    parse_trade,
    split_things,
)

OLDEST = 120

_CLEAN: Mapping[str, Callable[[str], str | None]] = MappingProxyType(
    {
        "place": parse_location, "person": parse_person, "trade": parse_trade, "employer": parse_employer,
        "liked": parse_liking, "clause": parse_clause,
        "age": lambda value: value if 0 < int(value) < OLDEST else None,
    }
)  # fmt: skip
_VERBS = {"hate": "Hates", "despise": "Despises", "detest": "Detests", "dislike": "Dislikes", "adore": "Adores"}
_VALUE = re.compile(r"<(\w+)>")
_OPEN = re.compile(r"<(\w+)=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What a statement looks like, and what it says. The groups of the pattern are values of the kind of their name."""

    pattern: re.Pattern[str]
    category: str
    topic: str
    says: str
    ended: bool = False

    def read(self, match: re.Match[str]) -> Iterator[tuple[str, str]]:
        """The topics and descriptions that are read from a match; none if a value is not of its kind."""
        values: dict[str, str] = {}
        for name, value in match.groupdict(default="").items():
            cleaned = _CLEAN[name](value) if name in _CLEAN else value
            if cleaned is None:
                return
            values[name] = cleaned
        for thing in split_things(values["liked"]) if "liked" in values else [""]:
            own = {**values, "liked": thing}
            yield _fill(self.topic, own, _identify_value), _fill(self.says, own, _render_value)


@cache
def load_traits() -> tuple[Trait, ...]:
    """The table, compiled when it is first needed."""
    found: list[Trait] = []
    category = topic = says = ""
    for line in files(__package__).joinpath("traits.txt").read_text(encoding="utf-8").splitlines():
        if line[:1] in ("", "#"):
            continue
        if line.startswith("["):
            category = line.strip("[]").split(" ", 1)[1]
            continue
        form = line.strip()
        if not line.startswith(" "):
            topic, says, form = line.split(" | ", 2)
        found.append(
            Trait(
                pattern=re.compile(expand_references(_name_groups(form)), re.IGNORECASE), category=category,
                topic=topic.removeprefix("ended "), says=says, ended=topic.startswith("ended "),
            )
        )  # fmt: skip
    return tuple(found)


def _name_groups(form: str) -> str:
    """A pattern with its values as named groups: from the innermost to the outermost."""
    form = _VALUE.sub(r"(?P<\1>.+)", form)
    while opens := list(_OPEN.finditer(form)):
        last = opens[-1]
        end = last.end() + re.sub(r"\(\?P<\w+>", lambda found: "_" * len(found[0]), form[last.end() :]).index(">")
        form = f"{form[: last.start()]}(?P<{last[1]}>{form[last.end() : end]}){form[end + 1 :]}"
    return form


def _fill(template: str, values: Mapping[str, str], render: Callable[[str, str], str]) -> str:
    return _VALUE.sub(lambda found: render(found[1], values[found[1]]), template)


def _identify_value(name: str, value: str) -> str:
    return normalize_thing(value) if name in ("liked", "goal", "clause") else value.strip(" ,").replace(",", "").lower()


def _render_value(name: str, value: str) -> str:
    if name == "be":
        return value or "is"
    if name == "verb":
        return _VERBS.get(value.lower(), f"{value.capitalize()}s")
    if name == "kin":
        return value[:1].upper() + value[1:].strip(" ,").replace(",", "")
    if name == "given":
        return value.capitalize()
    if name == "goal":
        return parse_clause(value) or value
    return value
