"""What a new record comes near to: another on its topic that says nearly the same, or something else.

Looked up by a few words of the topic alone, so that every write can afford it; what is found is a hint, not a verdict.
"""

from __future__ import annotations

from .backends import Bounds, View
from .model import Draft, Record, Similar
from .text import query_words, words

SOUGHT, CANDIDATES = 3, 3  # words that are looked up, and records that are looked at
READ = 2_000  # characters of each text that are compared
ON_TOPIC, ALIKE = 0.3, 0.6  # the share of the shorter record's words that the other has: on one topic, and otherwise
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTHS = "january february march april june july august september october november december"  # "may" is a verb, too
_NEGATIONS = frozenset(words("no not never none nobody nothing without cannot can't don't doesn't isn't won't"))
_CALENDAR = (frozenset(words(_DAYS)), frozenset(words(_MONTHS)))


def find_related(view: View, draft: Draft) -> tuple[Similar, ...]:
    """Records of the draft's scope and kind on its topic, the most alike first."""
    sought = _pick_words(draft)
    if not sought:
        return ()
    bounds = Bounds(scope=draft.scope, exact=True, kinds=(draft.kind,), filter=None)
    matches = view.keyword(sought, bounds, CANDIDATES)
    records = view.records([match.no for match in matches])
    found = [one for record in records.values() if (one := _compare(draft, record)) is not None]
    return tuple(sorted(found, key=lambda one: -one.likeness))


def _pick_words(draft: Draft) -> tuple[str, ...]:
    """The words of the topic that tell most: long ones are rare."""
    topic = query_words(draft.title) or query_words(draft.text[:READ])
    return tuple(sorted(topic, key=lambda word: -len(word))[:SOUGHT])


def _compare(draft: Draft, record: Record) -> Similar | None:
    """How near a record comes to a draft; None when it is about something else."""
    mine, theirs = _content(draft), _content(record)
    shorter = min(len(mine), len(theirs))
    if not shorter or _numbers(draft.title) != _numbers(record.title):  # Sprint 21 is not Sprint 22
        return None
    share = len(mine & theirs) / shorter
    on_topic = _head(draft.title) == _head(record.title) != ()
    if share < (ON_TOPIC if on_topic else ALIKE):
        return None
    likeness = min(0.99, len(mine & theirs) / len(mine | theirs))
    said, before = set(words(draft.text[:READ])), set(words(record.text[:READ]))
    contradicts = _differ(said, before) or (draft.title == record.title and _swap(mine, theirs))
    return Similar(id=record.id, title=record.title, likeness=likeness, contradicts=contradicts)


def _differ(mine: set[str], theirs: set[str]) -> bool:
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


def _content(of: Draft | Record) -> frozenset[str]:
    """The telling words of a record, numbers apart."""
    return frozenset(word for word in query_words(f"{of.title}\n{of.text[:READ]}") if not word.isdigit())


def _head(title: str) -> tuple[str, ...]:
    """What a title is about: its words up to a colon or a dash."""
    for mark in (":", " - ", " – ", " — "):
        title = title.partition(mark)[0]
    return query_words(title)


def _numbers(title: str) -> frozenset[str]:
    return frozenset(word for word in words(title) if word.isdigit())
