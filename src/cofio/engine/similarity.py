"""What a new record comes near to: another on its topic that says nearly the same, or something else.

Looked up by a few words of the topic alone, so that every write can afford it; what is found is a hint, not a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..backends.search_interface import Searcher
from ..text.tokenizer import STOP_WORDS, split_query, split_stored, split_words
from ..values.records import Draft, Record, Similar

TOPIC_WORDS, CANDIDATES = 2, 3  # words that are looked up, and records that are compared
READ = 1_000  # characters of each text that are compared
NEAR = 0.4  # the share of words in common from which two records with different topics are compared at all
ALIKE, WITHIN = 0.5, 0.8  # of all their words, or of the shorter one's, makes two records near-duplicates
FEWEST = 4  # words that a record has to have to be taken for a part of another
OF_ONE_THING, OF_ONE_TOPIC = 0.6, 0.5  # of a statement's words, makes two statements about one thing
_STOPS = frozenset(split_words(" ".join(STOP_WORDS)))
_NEGATIONS = frozenset(split_words("no not never none nobody nothing without cannot can't don't doesn't isn't won't"))
_DAYS = frozenset(split_words("monday tuesday wednesday thursday friday saturday sunday"))
_MONTHS = frozenset(  # "may" is a verb, too
    split_words("january february march april june july august september october november december")
)
_END = re.compile(r"[.!?;](?=\s)|\n")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A sentence: what it is about, and what it says of that."""

    about: frozenset[str]
    values: tuple[frozenset[str], frozenset[str], frozenset[str]]
    """The numbers, days and months that it names."""
    is_negated: bool

    @classmethod
    def of(cls, sentence: str) -> _Statement:
        """Return the statement that a sentence makes."""
        its = frozenset(split_words(sentence))
        numbers, days, months = frozenset(filter(str.isdigit, its)), its & _DAYS, its & _MONTHS
        about = its - _STOPS - _NEGATIONS - numbers - days - months
        return cls(about, (numbers, days, months), bool(its & _NEGATIONS))

    def contradicts(self, other: _Statement, *, on_topic: bool, same_title: bool) -> bool:
        """Whether the other says something else of the same thing: another value, the contrary, or another word."""
        shared, shorter = len(self.about & other.about), min(len(self.about), len(other.about))
        if not shared:
            return False
        numbers, days, months = (
            bool(mine - theirs and theirs - mine) for mine, theirs in zip(self.values, other.values, strict=True)
        )
        if on_topic and (days or months) and shared / shorter >= OF_ONE_TOPIC:
            return True
        if shared < 2 or shared / shorter < OF_ONE_THING:
            return False
        few, own, others = max(1, shorter // 3), len(self.about - other.about), len(other.about - self.about)
        if self.is_negated != other.is_negated and own <= few and others <= few:
            return True
        return numbers or days or months or (same_title and 0 < own <= few and 0 < others <= few)


@dataclass(frozen=True)
class _Gist:
    """What is compared of a record."""

    title: frozenset[str]
    head: tuple[str, ...]
    """What the title is about: its words up to a colon or a dash."""
    content: frozenset[str]
    """The telling words of title and text."""
    text: str

    @classmethod
    def of(cls, record: Draft | Record) -> _Gist:
        """What is compared of this record."""
        title, text, head = frozenset(split_stored(record.title)), record.text[:READ], record.title
        for mark in (":", " - ", " – ", " — "):
            head = head.partition(mark)[0]
        return cls(title, split_query(head), title.union(split_stored(text)) - _STOPS, text)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Those of the title."""
        return frozenset(filter(str.isdigit, self.title))

    @cached_property
    def statements(self) -> tuple[_Statement, ...]:
        """What the text says, sentence by sentence."""
        return tuple(_Statement.of(sentence) for sentence in _END.split(self.text) if sentence.strip())


def find_related(searcher: Searcher, draft: Draft | Record, *, candidates: int = CANDIDATES) -> tuple[Similar, ...]:
    """Return the records that say nearly the same as a draft or may contradict it, the most alike first."""
    topic = _pick_words(draft)
    return tuple(_compare(draft, searcher.find_records(topic, candidates))) if topic else ()


def _pick_words(draft: Draft | Record) -> tuple[str, ...]:
    """The words of the topic that tell most: long ones are rare."""
    topic = split_query(draft.title) or split_query(draft.text[:READ])
    return tuple(sorted(topic, key=lambda word: -len(word))[:TOPIC_WORDS])


def _compare(draft: Draft | Record, records: Iterable[Record]) -> list[Similar]:
    mine, found = _Gist.of(draft), []
    for record in records:
        theirs = _Gist.of(record)
        shared, union = len(mine.content & theirs.content), len(mine.content | theirs.content)
        same_title, on_topic = mine.title == theirs.title != frozenset(), mine.head == theirs.head != ()
        if not shared or mine.numbers != theirs.numbers:  # Sprint 21 is not Sprint 22
            continue
        likeness, shorter = shared / union, min(len(mine.content), len(theirs.content))
        if not on_topic and likeness < NEAR:
            continue
        contradicts = any(
            one.contradicts(other, on_topic=on_topic, same_title=same_title)
            for one in mine.statements
            for other in theirs.statements
        )
        is_part = shorter >= FEWEST and shared / shorter >= WITHIN
        if contradicts or same_title or likeness >= ALIKE or is_part:
            # What says just the same is found by its digest, and has 1.
            near = Similar(id=record.id, title=record.title, likeness=min(0.99, likeness), contradicts=contradicts)
            found.append(near)
    return sorted(found, key=lambda one: -one.likeness)
