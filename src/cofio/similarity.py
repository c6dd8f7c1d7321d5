"""What a new record comes near to: another on its topic that says nearly the same, or something else.

Looked up by a few words of the topic alone, so that every write can afford it; what is found is a hint, not a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from .backends import Bounds, View
from .model import Draft, Record, Similar
from .text import STOP_WORDS, query_words, words

SOUGHT, CANDIDATES = 2, 3  # words that are looked up, and records that are looked at
READ = 2_000  # characters of each text that are compared
ON_TOPIC, ALIKE = 0.3, 0.6  # the share of the shorter record's words that the other has: on one topic, and otherwise
_STOPS = frozenset(words(" ".join(STOP_WORDS)))
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTHS = "january february march april june july august september october november december"  # "may" is a verb, too
_NEGATIONS = frozenset(words("no not never none nobody nothing without cannot can't don't doesn't isn't won't"))
_CALENDAR = (frozenset(words(_DAYS)), frozenset(words(_MONTHS)))


@dataclass(frozen=True, slots=True)
class _Gist:
    """What is compared of a record."""

    title: str
    head: tuple[str, ...]
    """What the title is about: its words up to a colon or a dash."""
    numbers: frozenset[str]
    """Those of the title."""
    content: frozenset[str]
    """The telling words of title and text, numbers apart."""
    said: frozenset[str]
    """Every word of the text."""

    @classmethod
    def of(cls, record: Draft | Record) -> _Gist:
        """What is compared of this record."""
        said, titled, head = frozenset(words(record.text[:READ])), frozenset(words(record.title)), record.title
        for mark in (":", " - ", " – ", " — "):
            head = head.partition(mark)[0]
        return cls(
            title=record.title,
            head=query_words(head),
            numbers=frozenset(word for word in titled if word.isdigit()),
            content=frozenset(word for word in (said | titled) - _STOPS if not word.isdigit()),
            said=said,
        )


def find_related(view: View, draft: Draft) -> tuple[Similar, ...]:
    """Records of the draft's scope and kind on its topic, the most alike first."""
    sought = _pick_words(draft)
    if not sought:
        return ()
    bounds = Bounds(scope=draft.scope, exact=True, kinds=(draft.kind,), filter=None)
    matches = view.keyword(sought, bounds, CANDIDATES)
    mine, found = _Gist.of(draft), []
    for record in view.records([match.no for match in matches]).values():
        likeness, contradicts = _compare(mine, _Gist.of(record))
        if likeness:
            found.append(Similar(id=record.id, title=record.title, likeness=likeness, contradicts=contradicts))
    return tuple(sorted(found, key=lambda one: -one.likeness))


def _pick_words(draft: Draft) -> tuple[str, ...]:
    """The words of the topic that tell most: long ones are rare."""
    topic = query_words(draft.title) or query_words(draft.text[:READ])
    return tuple(sorted(topic, key=lambda word: -len(word))[:SOUGHT])


def _compare(mine: _Gist, theirs: _Gist) -> tuple[float, bool]:
    """How alike the two are, 0 when they are about different things; and whether they seem to contradict each other."""
    shorter, shared = min(len(mine.content), len(theirs.content)), len(mine.content & theirs.content)
    on_topic = mine.head == theirs.head != ()
    if not shared or mine.numbers != theirs.numbers:  # Sprint 21 is not Sprint 22
        return 0.0, False
    if shared / shorter < (ON_TOPIC if on_topic else ALIKE):
        return 0.0, False
    swapped = mine.title == theirs.title and _swap(mine.content, theirs.content)
    # What says just the same is found by its digest, and has 1.
    return min(0.99, shared / len(mine.content | theirs.content)), swapped or _differ(mine.said, theirs.said)


def _differ(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether both name a number, a day or a month, each another one; or one says no where the other does not."""
    numbers = [{word for word in each if word.isdigit()} for each in (mine, theirs)]
    kinds = [tuple(numbers), *((mine & names, theirs & names) for names in _CALENDAR)]
    if any(one - other and other - one for one, other in kinds):
        return True
    return bool(mine & _NEGATIONS) != bool(theirs & _NEGATIONS)


def _swap(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether each has a few words that the other lacks, as when one value took another's place."""
    few = max(1, min(len(mine), len(theirs)) // 3)
    return 0 < len(mine - theirs) <= few and 0 < len(theirs - mine) <= few
