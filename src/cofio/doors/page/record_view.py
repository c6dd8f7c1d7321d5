"""One record: its text and data, where it came from, what was made of it, its revisions, and its neighbours."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime

from ...files import Tree
from ...values.errors import Conflict, Invalid
from ...values.records import Importance, Json, Kind, Record, Scope
from .list_entries import Entry, make_entry
from .neighbourhood import Graph, draw_neighbourhood
from .record_changes import Doom, Words, delete_record, edit_record, find_doom, find_edit_refusal, list_revisions
from .relatives import Relatives, find_relatives
from .text_differences import DiffLine, compare_texts
from .view_types import Action, Outcome, Parameter, Rejection, View, ViewRequest, make_link

REVISIONS = 20  # earlier texts that are compared
CHANGED = (
    "this record has changed since you opened it, so nothing was saved. Below is what it says now; what you wrote is in"
    " the form, and saving it again takes the place of that"
)
LONG_TEXT = 100_000  # characters of a text that a page shows at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionEntry:
    """An earlier text of a record: since when it was so, and what the next one changed."""

    id: str
    link: str
    since: str
    until: datetime
    difference: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordModel:
    """A record with all that is known of it."""

    record: Record
    entry: Entry
    text: str
    """The text, or as much of it as a page shows."""
    is_cut: bool
    data: str
    """The data as JSON that a person can read; empty without any."""
    relatives: Relatives
    graph: Graph | None
    revisions: tuple[RevisionEntry, ...]
    edit_refusal: str
    """Why it cannot be edited here, in a sentence; empty if it can."""
    words: Words
    """What the form holds: what the record says, or what the reader wrote that could not be kept."""
    is_editing: bool
    doom: Doom | None
    """What goes if it is deleted, where the reader is about to."""
    problem: str
    conflict: tuple[DiffLine, ...]
    """Where what the reader wrote differs from what the record says by now."""
    importances: tuple[str, ...]
    links: dict[str, str]


def build_record(request: ViewRequest) -> RecordModel:
    """A record with all that is known of it; with `edit` or `delete`, the form for that."""
    record = _read(request)
    doom = find_doom(request, record) if request.get("delete") else None
    return _make_model(request, record, doom=doom, is_editing=bool(request.get("edit")))


def _read(request: ViewRequest) -> Record:
    if not request.get("id"):
        raise Invalid("id", "is missing: which record?")
    record = request.engine.read(request.get("id"))
    request.viewer.check_sees(record)
    return record


def _make_model(
    request: ViewRequest,
    record: Record,
    *,
    doom: Doom | None = None,
    is_editing: bool = False,
    words: Words | None = None,
    problem: str = "",
) -> RecordModel:
    entry = make_entry(record)
    relatives = find_relatives(request.engine, request.viewer, record)
    refusal = find_edit_refusal(request, record)
    return RecordModel(
        record=record, entry=entry, text=record.text[:LONG_TEXT], is_cut=len(record.text) > LONG_TEXT,
        data=render_data(record.data), relatives=relatives, graph=draw_neighbourhood(entry, relatives),
        revisions=_list_revisions(request, record), edit_refusal=refusal,
        words=words or Words.of(record), is_editing=is_editing and not refusal, doom=doom, problem=problem,
        conflict=() if words is None else compare_texts(record.text, words.text),
        importances=tuple(map(str, Importance)),
        links={
            "self": make_link("record", id=record.id), "edit": make_link("record", id=record.id, edit=1),
            "delete": make_link("record", id=record.id, delete=1),
            "similar": make_link("search", q=(record.title or record.text)[:300]),
            "json": f"/api{make_link('record', id=record.id)}",
            "day": make_link("days", day=record.created_at.date().isoformat()),
        },
    )  # fmt: skip


def render_data(data: Json) -> str:
    """Data as JSON that a person can read."""
    return "" if data is None else json.dumps(data, ensure_ascii=False, indent=2)


def _list_revisions(request: ViewRequest, record: Record) -> tuple[RevisionEntry, ...]:
    """The earlier texts of a file, the latest first, each compared with the one that came after it."""
    if record.kind is not Kind.FILE:
        return ()
    history: Scope = Tree(request.engine, record.scope).history
    if history not in request.viewer.reach:
        return ()
    stored = list_revisions(request.engine, record, REVISIONS)
    revisions: list[RevisionEntry] = []
    after = record.text
    for each in sorted(stored, key=lambda one: one.position or 0, reverse=True):
        since = each.data.get("since") if isinstance(each.data, dict) else None
        revisions.append(
            RevisionEntry(
                id=each.id, link=make_link("record", id=each.id), since=str(since or ""), until=each.created_at,
                difference=compare_texts(each.text, after),
            )
        )  # fmt: skip
        after = each.text
    return tuple(revisions)


def run_edit(request: ViewRequest) -> Outcome | Rejection:
    """Keep what the form says of a record; if it cannot be kept, show the form once more with all that was written."""
    record = _read(request)
    words = Words.parse(request, record)
    try:
        after = edit_record(request, record, words)
    except (Conflict, Invalid) as error:
        is_conflict = isinstance(error, Conflict)
        problem = CHANGED if is_conflict else str(error)
        record = _read(request)
        words = replace(words, version=record.version)  # sent once more, it takes the place of what is there now
        model = _make_model(request, record, is_editing=True, words=words, problem=problem)
        return Rejection(template="record.html", model=model, message=problem, status=409 if is_conflict else 422)
    is_same = after.version == record.version
    message = "Nothing was changed." if is_same else "Saved."
    return Outcome(location=make_link("record", id=record.id), message=message, data={"version": after.version})


def run_delete(request: ViewRequest) -> Outcome | Rejection:
    """Delete a record with what goes along, if it still is as it was when the reader was told of that."""
    record = _read(request)
    try:
        count = delete_record(request, record, request.get_int("version", 0, 1, 2**53 - 1))
    except (Conflict, Invalid) as error:
        problem = CHANGED if isinstance(error, Conflict) else error.problem
        record = _read(request)
        model = _make_model(request, record, doom=find_doom(request, record), problem=problem)
        return Rejection(template="record.html", model=model, message=problem)
    along = f", and {count - 1:,} more that went along" if count > 1 else ""
    return Outcome(location="/", message=f"Deleted: {make_entry(record).title[:80]}{along}.", data={"deleted": count})


VIEW = View(
    name="record",
    title="Record",
    build=build_record,
    summary="Show one record, with its evidence, what was made of it, its revisions, and its neighbours.",
    parameters=(
        Parameter(name="id", description="The id of the record.", required=True),
        Parameter(name="edit", description="With anything, the form to edit it is shown."),
        Parameter(name="delete", description="With anything, what goes if it is deleted is told."),
    ),
    in_navigation=False,
)

ACTIONS: tuple[Action, ...] = (
    Action(name="record/edit", run=run_edit, summary="Change the title, text, tags, importance or data of a record."),
    Action(name="record/delete", run=run_delete, summary="Delete a record, with what goes along."),
)
