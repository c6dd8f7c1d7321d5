"""The review: what may contradict, what is said twice, what looks like a secret, and what the vault could not take in.

Only the last records that were changed are looked at, a page of them at a time, each beside the few that share its
words. What a person decides to keep is noted with the versions that it is about, and does not come back until one of
them changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

from ...conversations.edits import apply_words
from ...engine.engine import Engine
from ...secrets.policy import admit
from ...secrets.scanner import find_in_json, find_secret, mask_in_json, mask_secrets
from ...values.changes import Delete, Edit, Put
from ...values.errors import Conflict, Invalid
from ...values.records import MAX_TAGS, Json, Kind, Record, Scope
from ...values.scopes import CONVERSATIONS, REVIEW
from .list_entries import VISIBLE, hide_internal, make_entry
from .record_changes import delete_record, list_revisions
from .review_items import ReviewItem, find_pairs, find_secrets, make_key, make_note
from .review_vault import list_conflicts, settle_conflict
from .view_types import OFFSET, SCOPE, Action, Outcome, Parameter, View, ViewRequest, make_link

BATCH = 60  # records that one page looks at
MAX_OFFSET = 100_000
MOST_SHOWN = 30  # items of one page
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
    conflicts, problem = list_conflicts(request, scope) if not offset else ([], "")
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


def decide(request: ViewRequest) -> Outcome:
    """Keep, merge, mask or delete what was looked at, as a form says."""
    decision, sort = request.get("decision"), request.get("sort")
    back = make_link("review", scope=request.get("scope"), sort=request.get("only"), offset=request.get("offset"))
    if sort == "vault":
        return Outcome(location=back, message=settle_conflict(request, decision))
    records = _read_records(request)
    if decision == "keep":
        request.conversations.apply([_remember(sort, records)])
        return Outcome(location=back, message="Kept as it is; it does not come up again unless it changes.")
    if decision == "merge" and sort == "secret":
        request.conversations.apply([*map(_make_mask_edit, [records[0], *_list_secret_revisions(request, records[0])])])
        return Outcome(location=back, message="The secret is masked.")
    if decision == "merge" and len(records) == 2:
        newer, older = sorted(records, key=lambda each: (each.updated_at, each.id), reverse=True)
        _merge(request, newer, older)
        return Outcome(location=back, message=f"Merged into “{make_entry(newer).title}”.")
    if decision.startswith("delete"):
        doomed = _choose_doomed(decision, records)
        count = delete_record(request, doomed, doomed.version)
        along = f" {count - 1:,} more went along." if count > 1 else ""
        return Outcome(location=back, message=f"Deleted.{along}")
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
    admit("page", {"text": text}, allow=request.engine.settings.allow_secrets)
    tags: list[Json] = [*islice(dict.fromkeys([*newer.tags, *older.tags]), MAX_TAGS)]
    fields = apply_words(newer, {"text": text, "tags": tags})
    edit = Edit(id=newer.id, fields=fields, if_version=newer.version)
    request.conversations.apply([edit, Delete(id=older.id, if_version=older.version)])


def _list_secret_revisions(request: ViewRequest, record: Record) -> list[Record]:
    """The earlier texts of a file in which something looks like a secret: who masks it wants it to be gone."""
    if record.kind is not Kind.FILE:
        return []
    return [each for each in list_revisions(request.engine, record) if find_secret(each.text) is not None]


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


def _remember(sort: str, records: Sequence[Record]) -> Put:
    """What notes that records were looked at and are to stay."""
    versions: dict[str, Json] = {each.id: each.version for each in records}
    return make_note(_find_home(records[0].scope), make_key(sort, *records), versions)


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
