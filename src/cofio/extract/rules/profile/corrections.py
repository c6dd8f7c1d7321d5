"""When someone takes a word back: "Sorry, I meant Bergen, not Oslo." """

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 120

_VALUE = r"[\w][\w'’&.-]*(?: [\w'’&.-]+){0,3}?"
_SORRY = (
    r"(?:(?:sorry|oops|no|wait|no wait|actually|ah|oh|hm|ups|my (?:mistake|bad)|typo|excuse me|i mean)"
    r"(?:[,:;!.—–-]| -)* )*"
)
_FORMS = (
    rf"(?:i (?:meant|mean)(?: to (?:say|write))?|it's|it is|it was|that's|make (?:that|it)|should be|it should be"
    rf"|correction:?)"
    rf" (?P<new>{_VALUE}),? (?:and )?not (?P<old>{_VALUE})",
    rf"not (?P<old>{_VALUE})(?:,| -| –| —|;) (?:but )?(?:it's |it is |i meant )?(?P<new>{_VALUE})",
    rf"(?P<new>{_VALUE}), not (?P<old>{_VALUE})",
    rf"(?:(?:her|his|its|their|the) (?:[\w'-]+ ){{1,3}}(?:is|are|was)|(?:it|he|she)(?:'s| is| was)(?: called| named)?)"
    rf" (?P<new>{_VALUE}), not (?P<old>{_VALUE})",
    rf"(?:correction(?::|,)|i meant(?: to (?:say|write))?|make (?:that|it)) (?P<new>{_VALUE})(?P<old>)",
)
_FORM = tuple(re.compile(f"{_SORRY}{form}[.! ]*", re.IGNORECASE) for form in _FORMS)
_OPENS = re.compile(
    r"(?:i|i'm|i've|my|we|you|it|that|to|because|if|when|for|but|and|what|well|as|how)\b|.*\b(?:is|are|was|am|have"
    r"|had|will)\b",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The word that was meant, and the one that had been said; empty where that was not said again."""

    new: str
    old: str


def find_correction(sentence: str) -> Correction | None:
    """What a sentence corrects, if that is all that it does."""
    if len(sentence) > LONGEST or "?" in sentence:
        return None
    for form in _FORM:
        if (found := form.fullmatch(sentence)) and not _OPENS.match(found["new"]) and not _OPENS.match(found["old"]):
            new, old = found["new"].rstrip(".!"), found["old"].rstrip(".!")
            if _is_value(new) and (not old or _is_value(old)):
                return Correction(new=new, old=old)
    return None


def _is_value(word: str) -> bool:
    """A name or a number: of anything else it cannot be told what it stands for."""
    return word[:1].isupper() or word[:1].isdigit()
