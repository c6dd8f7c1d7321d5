"""The review: what may contradict, what is said twice, what looks like a secret, and what the vault could not take in.

Only the last records that were changed are looked at, a page of them at a time, each beside the few that share its
words. What a person decides to keep is noted with the versions that it is about, and does not come back until one of
them changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, Literal, TypeAlias, cast

from ...conversations.edits import apply_words
from ...engine.engine import Engine
from ...secrets.scanner import find_in_json, find_secret, mask_in_json, mask_secrets
from ...text.tokenizer import split_words
from ...values.changes import Change, Delete, Edit, Put
from ...values.errors import Conflict, Invalid, NotFound, Unavailable
from ...values.records import MAX_TAGS, Draft, Json, Kind, Record, Scope
from ...values.scopes import CONVERSATIONS, REVIEW
from ...vault.conflicts import list_conflicts, remove_conflict
from .list_entries import LONG_EXCERPT, VISIBLE, Entry, hide_internal, make_entry
from .view_types import OFFSET, SCOPE, Action, Outcome, Parameter, View, ViewRequest, make_link

Sort: TypeAlias = Literal["contradiction", "duplicate", "secret", "vault"]
Pair: TypeAlias = tuple[str, str]
"""The ids of two records, in their order."""
Likeness: TypeAlias = tuple[float, bool]
"""The share of words that two have in common, and whether they may contradict each other."""
BATCH = 60  # records that one page looks at
MOST_CONFLICTS = 50
MAX_OFFSET = 100_000
COMPARED = 2_000  # characters of each text in which differences are marked
SIMILAR = 0.4  # of two texts has to be the same, or no differences are marked
MOST_SHOWN = 30  # items of one page
KEPT_FOR = timedelta(days=365)
COMPARABLE: Final = (Kind.NOTE, Kind.FACT, Kind.MEMORY, Kind.ITEM)
"""The kinds of which two may say the same, or contradict each other."""
TITLES: Final[dict[str, str]] = {
    "contradiction": "May contradict", "duplicate": "Said twice", "secret": "Looks like a secret", "vault": "Vault",
}  # fmt: skip
JUDGEMENTS: Final[dict[str, str]] = {
    "contradiction": "Two records of one scope and kind that share most words of a sentence and differ in a number, a"
    " day, a month, a negation, or in a few words under the same title. A hint, not a verdict.",
    "duplicate": "Two records of one scope and kind that have most of their words in common, or one of which is nearly"
    " contained in the other.",
    "secret": "A title, text or data in which something has the shape of a password, key or token. It is masked here.",
    "vault": "What a person wrote in a file of the vault while its record changed, too; it was kept beside the file.",
}  # fmt: skip
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_PIECE = re.compile(r"\w+|\W+?")


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
    """What one record could say in the place of both, or with its secret masked."""
    path: str = ""
    """The file of a vault's conflict."""
    beside: str = ""
    versions: tuple[tuple[TextPart, ...], ...] = ()
    """What that file and the one beside it say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewModel:
    """What a person should look at, what matters most first."""

    scope: Scope
    sort: str
    items: tuple[ReviewItem, ...]
    left_out: int
    """How many more there are than are shown at once."""
    counts: dict[str, int]
    titles: dict[str, str]
    judgements: dict[str, str]
    """How each sort is judged."""
    record_count: int
    """How many records were looked at."""
    offset: int
    before: str
    next: str
    may_change: bool
    problem: str
    """Why the vault could not be looked at; empty if it could, or if there is none."""


def build_review(request: ViewRequest) -> ReviewModel:
    """What a person should look at among the records of a scope that were changed last."""
    engine, scope = request.engine, request.get_scope()
    offset = request.get_int("offset", 0, 0, MAX_OFFSET)
    records = engine.list(scope, kinds=VISIBLE, filter=hide_internal(scope), limit=BATCH + 1, offset=offset)
    items = [*find_pairs(engine, records[:BATCH]), *find_secrets(records[:BATCH])]
    conflicts, problem = _list_vault(request) if not offset else ([], "")
    items = _drop_decided(engine, [*items, *conflicts])
    wanted = request.get("sort")
    if wanted and wanted not in TITLES:
        raise Invalid("sort", f"{wanted!r} is not one of {', '.join(TITLES)}")
    own: dict[str, object] = {"scope": scope if request.get("scope") else None, "sort": wanted}
    order = [*TITLES]
    shown = sorted(
        (each for each in items if wanted in ("", each.sort)),
        key=lambda each: (order.index(each.sort), -(each.likeness or 0)),
    )
    return ReviewModel(
        scope=scope, sort=wanted, record_count=len(records[:BATCH]), offset=offset, titles=dict(TITLES),
        judgements=dict(JUDGEMENTS), may_change=request.viewer.refusal is None, problem=problem,
        items=tuple(shown[:MOST_SHOWN]), left_out=max(0, len(shown) - MOST_SHOWN),
        counts={sort: sum(each.sort == sort for each in items) for sort in TITLES},
        before=make_link("review", **own, offset=max(0, offset - BATCH) or None) if offset else "",
        next=make_link("review", **own, offset=offset + BATCH) if len(records) > BATCH else "",
    )  # fmt: skip


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
                    sort="secret", key=_make_key("secret", record), why=f"{secret.what}, line {secret.line}",
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
    left, right = _PIECE.findall(one[:COMPARED]), _PIECE.findall(other[:COMPARED])
    parts: tuple[list[TextPart], list[TextPart]] = ([], [])
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < SIMILAR:  # to mark nearly everything would be of no help
        return (TextPart(one, False),), (TextPart(other, False),)
    for operation, start, end, to_start, to_end in matcher.get_opcodes():
        for side, text in zip(parts, ("".join(left[start:end]), "".join(right[to_start:to_end])), strict=True):
            if text:
                side.append(TextPart(text, operation != "equal"))
    for side, text in zip(parts, (one, other), strict=True):
        if len(text) > COMPARED:
            side.append(TextPart(" …", False))
    return tuple(parts[0]), tuple(parts[1])


def decide(request: ViewRequest) -> Outcome:
    """Keep, merge, mask or delete what was looked at, as a form says."""
    decision, sort = request.get("decision"), request.get("sort")
    back = make_link("review", scope=request.get("scope"), sort=request.get("only"), offset=request.get("offset"))
    if sort == "vault":
        return _decide_conflict(request, decision, back)
    records = _read_records(request)
    if decision == "keep":
        _apply(request, [_remember(cast(Sort, sort), records)])
        return Outcome(location=back, message="Kept as it is; it does not come up again unless it changes.")
    if decision == "merge" and sort == "secret":
        _apply(request, [_make_mask_edit(records[0])])
        return Outcome(location=back, message="The secret is masked.")
    if decision == "merge" and len(records) == 2:
        newer, older = sorted(records, key=lambda each: (each.updated_at, each.id), reverse=True)
        _merge(request, newer, older)
        return Outcome(location=back, message=f"Merged into “{make_entry(newer).title}”.")
    if decision.startswith("delete"):
        _delete(request, _choose_doomed(decision, records))
        return Outcome(location=back, message="Deleted.")
    raise Invalid("decision", "expected keep, merge or delete")


def _choose_doomed(decision: str, records: Sequence[Record]) -> Record:
    """The record that is to go: the one that is named, the older of two, or the only one."""
    wanted = decision.partition(":")[2]
    if not wanted:
        return min(records, key=lambda each: (each.updated_at, each.id))
    doomed = next((each for each in records if each.id == wanted), None)
    if doomed is None:
        raise Invalid("decision", "names a record that is not one of those")
    return doomed


def _merge(request: ViewRequest, newer: Record, older: Record) -> None:
    text = request.get("text").replace("\r\n", "\n") or newer.text
    tags: list[Json] = [*islice(dict.fromkeys([*newer.tags, *older.tags]), MAX_TAGS)]
    fields = apply_words(newer, {"text": text, "tags": tags})
    edit = Edit(id=newer.id, fields=fields, if_version=newer.version)
    _apply(request, [edit, Delete(id=older.id, if_version=older.version)])


def _make_mask_edit(record: Record) -> Edit:
    words: dict[str, Json] = {}
    if (title := mask_secrets(record.title)) != record.title:
        words["title"] = title
    if (text := mask_secrets(record.text)) != record.text:
        words["text"] = text
    fields = apply_words(record, words)
    data = cast(Json, fields.get("data", record.data))
    if find_in_json(data) is not None:
        fields["data"] = mask_in_json(data)
    return Edit(id=record.id, fields=fields, if_version=record.version)


def _read_records(request: ViewRequest) -> list[Record]:
    """The records that a form is about, as they were when it was shown.

    Raises:
        NotFound: one is gone, or the viewer does not see it.
        Conflict: one has changed meanwhile.
    """
    ids, versions = request.parameters.get("id", ()), request.parameters.get("version", ())
    if not 1 <= len(ids) <= 2 or len(ids) != len(versions) or request.get("sort") not in TITLES:
        raise Invalid("id", "expected one or two records with their versions")
    records = []
    for each, version in zip(ids, versions, strict=True):
        record = request.engine.read(each)
        request.viewer.check_sees(record)
        if str(record.version) != version:
            raise Conflict(record.id)
        records.append(record)
    return records


def _apply(request: ViewRequest, changes: list[Change]) -> None:
    conversations = None if request.server is None else request.server.conversations
    if conversations is None:
        request.engine.apply(changes)
    else:
        conversations.apply(changes)


def _delete(request: ViewRequest, record: Record) -> None:
    """Forget a record for good, also where the vault has it."""
    conversations = None if request.server is None else request.server.conversations
    change = Delete(id=record.id, if_version=record.version)
    if conversations is None:
        request.engine.apply([change])
    else:
        conversations.forget(change)


def _remember(sort: Sort, records: Sequence[Record]) -> Put:
    """What notes that something was looked at and is to stay."""
    versions: dict[str, Json] = {each.id: each.version for each in records}
    draft = Draft(
        scope=_find_home(records[0].scope), kind=Kind.LEDGER, key=_make_key(sort, *records), source="page",
        data={"decision": "keep", "versions": versions},
    )  # fmt: skip
    return Put(draft=draft, how="key", ttl=KEPT_FOR)


def _drop_decided(engine: Engine, items: Sequence[ReviewItem]) -> list[ReviewItem]:
    """The items that were not decided to be kept as they are now."""
    places = [(_find_home(item.sides[0].entry.scope if item.sides else Scope()), item.key) for item in items]
    notes = engine.get_many(places, kind=Kind.LEDGER)
    left = []
    for item, note in zip(items, notes, strict=True):
        decided = note.data.get("versions") if note is not None and isinstance(note.data, dict) else None
        if decided is None or decided != {each.entry.id: each.entry.version for each in item.sides}:
            left.append(item)
    return left


def _find_home(scope: Scope) -> Scope:
    """Where decisions about a scope are noted: beside an app's memory, as its tokens see nothing else."""
    if scope in CONVERSATIONS and len(scope.names) > 2:
        return Scope(*scope.names[:3]) / "review"
    return REVIEW


def _list_vault(request: ViewRequest) -> tuple[list[ReviewItem], str]:
    """What the vault could not take in, for those who see everything; and why that cannot be told."""
    server = request.server
    if server is None or request.viewer.reach.names or not server.settings.vault:
        return [], ""
    try:
        conflicts = list_conflicts(server.address.home, MOST_CONFLICTS)
    except (Unavailable, OSError) as error:
        return [], str(error) if request.viewer.token is None else "it cannot be read here"
    return [
        ReviewItem(
            sort="vault", key=f"vault/{_digest(each.path, each.text)}", why="kept beside its file", likeness=None,
            sides=(), merged="", path=each.path, beside=each.beside,
            versions=mark_differences(each.text, each.current),
        )
        for each in conflicts
    ], ""  # fmt: skip


def _decide_conflict(request: ViewRequest, decision: str, back: str) -> Outcome:
    if request.server is None or request.viewer.reach.names:
        raise NotFound(request.get("path"))
    if decision == "keep":
        draft = Draft(
            scope=REVIEW, kind=Kind.LEDGER, key=request.get("key"), source="page",
            data={"decision": "keep", "versions": {}},
        )  # fmt: skip
        if not draft.key or not draft.key.startswith("vault/"):
            raise Invalid("key", "is not that of a file")
        request.engine.apply([Put(draft=draft, how="key", ttl=KEPT_FOR)])
        return Outcome(location=back, message="The file stays where it is.")
    if decision != "delete":
        raise Invalid("decision", "expected keep or delete")
    remove_conflict(request.server.address.home, request.get("path"))
    return Outcome(location=back, message="The file is removed.")


def _make_pair(one: Record, other: Record, likeness: float, contradicts: bool) -> ReviewItem:
    newer, older = sorted((one, other), key=lambda each: (each.updated_at, each.id), reverse=True)
    sort: Sort = "contradiction" if contradicts else "duplicate"
    left, right = mark_differences(older.text, newer.text)
    share = f"{likeness:.0%} of the words in common"
    return ReviewItem(
        sort=sort, key=_make_key(sort, one, other), likeness=likeness,
        why=f"{share}, and something that differs" if contradicts else share,
        sides=(_make_side(older, left, is_older=True), _make_side(newer, right)),
        merged=merge_texts(newer, older, contradicts=contradicts),
    )  # fmt: skip


def _make_side(record: Record, parts: tuple[TextPart, ...], *, is_older: bool = False) -> ReviewSide:
    return ReviewSide(entry=make_entry(record), parts=parts, is_older=is_older)


def _mask(record: Record) -> Record:
    """The record without what looks like a secret, to be shown."""
    return replace(record, title=mask_secrets(record.title), text=mask_secrets(record.text), data=None)


def _make_key(sort: str, *records: Record) -> str:
    return f"{sort}/{_digest(*sorted(each.id for each in records))}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


VIEW = View(
    name="review",
    title="Review",
    build=build_review,
    summary="Show what may contradict, is said twice, looks like a secret, or could not be taken into the vault.",
    parameters=(
        SCOPE,
        Parameter(name="sort", description="Only what is of this sort.", schema={"enum": [*TITLES]}),
        OFFSET,
    ),
)

ACTIONS = (
    Action(
        name="review/decide", run=decide, summary="Keep, merge, mask or delete what was looked at.",
    ),
)  # fmt: skip
