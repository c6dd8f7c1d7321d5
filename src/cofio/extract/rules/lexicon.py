"""What the rules know of languages: the lists of words and the turns of phrase in `lexicon.txt`, read once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_LINE = re.compile(r"(?P<name>[a-z][a-z' ]*?)(?P<mark>:| =) (?P<rest>.*)")
_REFERENCE = re.compile(r"\{([a-z][a-z ]*)\}")

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@cache
def _load_lexicon() -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    name, mark, before = "", "", ""
    for line in files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8").splitlines():
        if line[:1] in ("", "#", "["):
            continue
        rest = line[2:]
        if not line.startswith(" "):
            head = _LINE.fullmatch(line)
            assert head is not None, line
            name, mark, rest = head["name"], head["mark"], head["rest"]
        else:
            assert mark != ":" or before.endswith(","), f"a list goes on after a comma: {before}"
        found[name] += [word for word in re.split(", |,$", rest) if word] if mark == ":" else [rest]
        before = line
    return {name: tuple(items) for name, items in found.items()}


def get_words(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_load_lexicon()[name])


def list_names(beginning: str) -> list[str]:
    """The names that begin so."""
    return [name for name in _load_lexicon() if name.startswith(beginning)]


def expand_references(pattern: str) -> str:
    """A pattern with all that may stand there in the place of each name in curly brackets."""
    return _REFERENCE.sub(lambda found: f"(?:{join_alternatives(found[1])})", pattern)


@cache
def join_alternatives(name: str) -> str:
    """What has this name, as the alternatives of one regular expression."""
    return "|".join(map(expand_references, _load_lexicon()[name]))


@cache
def get_pattern(name: str, *, exact: bool = False) -> re.Pattern[str]:
    """What has this name, as a pattern that is compiled when it is first needed; small letters count if `exact`."""
    return re.compile(f"(?:{join_alternatives(name)})", re.NOFLAG if exact else re.IGNORECASE)


VERBS = get_words("verbs")
"""Verbs in their base form whose third person follows the rules of spelling, less those whose past looks the same."""
PASTS = get_words("pasts")
"""Past forms that are the same for every person."""
NOT_PAST = get_words("not past")
"""What ends in -ed and is no past."""
MODALS = get_words("modals")
ADVERBS = get_words("adverbs")
PARTICIPLES = get_words("participles")
OTHERS = get_words("others")
"""Words that show that a sentence is not only about its speaker, or that it does not tell what is so."""
FOREIGN = get_words("foreign")
"""Common words of other languages that are no English words when in lower case."""
VAGUE = get_words("vague")
"""Words that tell nothing by themselves."""


def parse_words(words: str) -> frozenset[str]:
    """Words that are written with spaces between them."""
    return frozenset(words.split())
