"""What a review finds: records that may contradict each other or say the same, and those that hold a secret."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, Literal, TypeAlias

from ...engine.engine import Engine
from ...secrets.scanner import find_in_json, find_secret, mask_secrets
from ...text.tokenizer import split_words
from ...values.changes import Put
from ...values.records import Draft, Json, Kind, Record, Scope
from .list_entries import LONG_EXCERPT, Entry, make_entry

Sort: TypeAlias = Literal["contradiction", "duplicate", "secret", "vault"]
Pair: TypeAlias = tuple[str, str]
"""The ids of two records, in their order."""
Likeness: TypeAlias = tuple[float, bool]
"""The share of words that two have in common, and whether they may contradict each other."""
COMPARED = 600  # words and characters between them, of each text, in which differences are marked
SIMILAR = 0.4  # of two texts has to be the same, or no differences are marked
KEPT_FOR = timedelta(days=365)
COMPARABLE: Final = (Kind.NOTE, Kind.FACT, Kind.MEMORY, Kind.ITEM)
"""The kinds of which two may say the same, or contradict each other."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_PIECE = re.compile(r"\w+|\s+|\W")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text, and whether the other text lacks it."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSide:
    """One of two records, or the only one."""

    entry: Entry
    parts: tuple[TextPart, ...]
    is_older: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """Something that a person should look at."""

    sort: Sort
    key: str
    """By which a decision about it is remembered."""
    why: str
    likeness: float | None
    sides: tuple[ReviewSide, ...]
    merged: str
    """What one record could say in the place of both, or with its secret masked; or a file of the vault in full."""
    path: str = ""
    """The file of a vault's conflict."""
    beside: str = ""
    versions: tuple[tuple[TextPart, ...], ...] = ()
    """What that file says, and what the memory says in its place."""
    obstacle: str = ""
    """Why the memory cannot take what that file says; empty when it can."""


def find_pairs(engine: Engine, records: Sequence[Record]) -> list[ReviewItem]:
    """The pairs of which one is among the records, and that say nearly the same or may contradict each other."""
    near: dict[Pair, Likeness] = {}
    for record in records:
        for each in engine.find_similar(record) if record.kind in COMPARABLE else ():
            one, other = sorted((record.id, each.id))
            likeness, contradicts = near.get((one, other), (0.0, False))
            near[one, other] = max(likeness, each.likeness), contradicts or each.contradicts
    known = {record.id: record for record in records}
    missing = [each for each in dict.fromkeys(each for pair in near for each in pair) if each not in known]
    known |= {record.id: record for record in engine.read_many(missing) if record is not None}
    return [
        _make_pair(known[one], known[other], likeness, contradicts)
        for (one, other), (likeness, contradicts) in _thin_out(near).items()
        if one in known and other in known
    ]


def _thin_out(near: Mapping[Pair, Likeness]) -> dict[Pair, Likeness]:
    """The pairs without those that say the same of records that are in other pairs: ten copies are not 45 pairs."""
    ordered = sorted(near.items(), key=lambda item: (not item[1][1], -item[1][0], item[0]))
    left: dict[Pair, Likeness] = {}
    paired: set[str] = set()
    for pair, (likeness, contradicts) in ordered:
        if contradicts or not paired.issuperset(pair):
            left[pair] = likeness, contradicts
            paired.update(pair)
    return left


def find_secrets(records: Iterable[Record]) -> list[ReviewItem]:
    """The records in which something looks like a secret."""
    found = []
    for record in records:
        secret = find_secret(record.title) or find_secret(record.text) or find_in_json(record.data)
        if secret is not None:
            found.append(
                ReviewItem(
                    sort="secret", key=make_key("secret", record), why=f"{secret.what}, line {secret.line}",
                    likeness=None, merged=mask_secrets(record.text),
                    sides=(_make_side(_mask(record), (TextPart(mask_secrets(record.text)[:LONG_EXCERPT], False),)),),
                )
            )  # fmt: skip
    return found


def merge_texts(newer: Record, older: Record, *, contradicts: bool) -> str:
    """What one record could say in the place of both: what the newer says, and what of the older it does not.

    Of two that may contradict each other, what the newer says.
    """
    if contradicts:
        return newer.text
    present = set(split_words(newer.text))
    more = [
        sentence
        for sentence in _SENTENCE.split(older.text)
        if sentence.strip() and not present.issuperset(split_words(sentence))
    ]
    joint = "\n" if "\n" in newer.text else " "
    return newer.text if not more else joint.join([newer.text.rstrip(), *(each.strip() for each in more)])


def mark_differences(one: str, other: str) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    """Both texts in parts, with those that the other lacks marked, word by word."""
    (left, left_rest), (right, right_rest) = _split_pieces(one), _split_pieces(other)
    parts: tuple[list[TextPart], list[TextPart]] = ([], [])
    matcher = SequenceMatcher(None, left, right)  # of a long text without what it is full of, which would take long
    if matcher.ratio() < SIMILAR:  # to mark nearly everything would be of no help
        return (TextPart(one, False),), (TextPart(other, False),)
    for operation, start, end, to_start, to_end in matcher.get_opcodes():
        for side, text in zip(parts, ("".join(left[start:end]), "".join(right[to_start:to_end])), strict=True):
            if text:
                side.append(TextPart(text, operation != "equal"))
    for side, rest in zip(parts, (left_rest, right_rest), strict=True):
        if rest:
            side.append(TextPart(" …", False))
    return tuple(parts[0]), tuple(parts[1])


def _make_pair(one: Record, other: Record, likeness: float, contradicts: bool) -> ReviewItem:
    newer, older = sorted((one, other), key=lambda each: (each.updated_at, each.id), reverse=True)
    sort: Sort = "contradiction" if contradicts else "duplicate"
    left, right = mark_differences(older.text, newer.text)
    share = f"{likeness:.0%} of the words in common"
    return ReviewItem(
        sort=sort, key=make_key(sort, one, other), likeness=likeness,
        why=f"{share}, and something that differs" if contradicts else share,
        sides=(_make_side(older, left, is_older=True), _make_side(newer, right)),
        merged=merge_texts(newer, older, contradicts=contradicts),
    )  # fmt: skip


def _make_side(record: Record, parts: tuple[TextPart, ...], *, is_older: bool = False) -> ReviewSide:
    return ReviewSide(entry=make_entry(record), parts=parts, is_older=is_older)


def _mask(record: Record) -> Record:
    """The record without what looks like a secret, to be shown."""
    return replace(record, title=mask_secrets(record.title), text=mask_secrets(record.text), data=None)


def make_key(sort: str, *records: Record) -> str:
    """By which a decision about records is remembered."""
    return f"{sort}/{make_digest(*sorted(each.id for each in records))}"


def _split_pieces(text: str) -> tuple[list[str], bool]:
    """The first words of a text and what stands between them, and whether there are more."""
    pieces = [match[0] for match in islice(_PIECE.finditer(text), COMPARED + 1)]
    return pieces[:COMPARED], len(pieces) > COMPARED


def make_note(scope: Scope, key: str, versions: dict[str, Json]) -> Put:
    """What notes in a scope that something was looked at and is to stay, as long as the versions are these."""
    draft = Draft(
        scope=scope, kind=Kind.LEDGER, key=key, source="page", data={"decision": "keep", "versions": versions}
    )  # fmt: skip
    return Put(draft=draft, how="key", ttl=KEPT_FOR)


def make_digest(*parts: str) -> str:
    """A short text that no other texts have."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
