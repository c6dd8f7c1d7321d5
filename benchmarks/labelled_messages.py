"""Messages with what each should leave behind: `benchmarks/data/extraction_train.jsonl` and `extraction_test.jsonl`.

A line is an object: `text`, and who wrote it (`hand`, a made-up person with a way of typing, `style`, `language`).
Either `leaves` lists what a reader would remember, each with its `class` and the `keys`, words that must survive; or
`noise` says what sort of nothing it is. What ended has the class `ended`, and in `of` the class of what it was. News of
the `world` ("the ferry is off") may be kept as a fact or not, but nobody's profile is the place for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cofio import Invalid

DATA = Path(__file__).parent / "data"
CATEGORIES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "name": frozenset({"Identity"}),
        "home": frozenset({"Home", "Background"}),
        "work": frozenset({"Work", "Education", "Schedule"}),
        "family": frozenset({"Family", "Relationship"}),
        "pet": frozenset({"Pets"}),
        "diet": frozenset({"Diet", "Health", "Preferences"}),
        "health": frozenset({"Health"}),
        "like": frozenset({"Preferences", "Diet", "Habits"}),
        "routine": frozenset({"Habits", "Schedule"}),
        "language": frozenset({"Languages", "Background"}),
        "tool": frozenset({"Tools", "Work", "Possessions"}),
        "schedule": frozenset({"Schedule", "Work", "Habits"}),
        "possession": frozenset({"Possessions", "Tools", "Home"}),
        "plan": frozenset({"Goals", "Education"}),
    }
)
"""What a profile may file a statement of each class under and be right; an ended one goes by what it was."""
CLASSES = (*CATEGORIES, "ended", "instruction")
NOISE = (
    "question", "request", "quote", "hypothetical", "joke", "translate", "correct", "roleplay", "paste", "smalltalk",
)  # fmt: skip
WORLD = "world"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One thing that a message should leave: its class, the words that must survive, and of what class it was."""

    kind: str
    keys: tuple[str, ...]
    was: str | None = None

    def is_in(self, text: str) -> bool:
        """Whether a text holds all of the words."""
        return all(key.casefold() in text.casefold() for key in self.keys)

    def get_categories(self) -> frozenset[str]:
        """The categories of a profile that it may stand under."""
        return CATEGORIES.get(self.was or self.kind, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A message and what it should leave: nothing, where it is noise of some sort."""

    text: str
    hand: str
    style: str
    language: str
    leaves: tuple[Leaf, ...] = ()
    noise: str | None = None


def load_messages(file: Path) -> list[Labelled]:
    """The messages of a file of one's own or of ours.

    Raises:
        Invalid: a line is not what the module says.
    """
    found: list[Labelled] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            leaves = tuple(
                Leaf(kind=each["class"], keys=tuple(each["keys"]), was=each.get("of")) for each in row.get("leaves", ())
            )
            one = Labelled(
                text=row["text"], hand=row.get("hand", ""), style=row.get("style", ""),
                language=row.get("language", "en"), leaves=leaves, noise=row.get("noise"),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as problem:
            raise Invalid(f"{file.name}, line {number}", f"is no labelled message: {problem}") from None
        if bool(one.leaves) == (one.noise is not None):
            raise Invalid(f"{file.name}, line {number}", "has to leave something, or to be noise")
        if strange := [leaf.kind for leaf in one.leaves if leaf.kind not in CLASSES]:
            raise Invalid(f"{file.name}, line {number}", f"has an unknown class: {strange[0]}")
        found.append(one)
    return found
