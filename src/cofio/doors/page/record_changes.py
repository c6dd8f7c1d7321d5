"""How a reader changes a record: edits what it says, or deletes it with what goes along."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import cast

from ...conversations.edits import apply_words
from ...conversations.projects import PREFIXES, public_id
from ...engine.engine import Engine
from ...files import Tree
from ...secrets.policy import admit
from ...values.changes import Change, Delete, Edit
from ...values.errors import Conflict, Invalid
from ...values.query import MAX_LIST, Where
from ...values.records import MAX_DATA, Importance, Json, Kind, Record, check_json, member
from .list_entries import Entry, make_entry
from .relatives import find_project
from .view_types import ViewRequest

SHOWN = 30  # records that go along, by name
WITH_DATA = (Kind.NOTE, Kind.MEMORY, Kind.STATE, Kind.ITEM)
_REFUSALS = {
    Kind.TURN: "a message stays as it was said",
    Kind.PROFILE: "a profile is edited in its file of the vault, or by correcting the facts that it was made of",
    Kind.CASE: "a case is edited in its file of the vault",
    Kind.SKILL: "a skill is edited in its file of the vault",
    Kind.DOCUMENT: "a document is replaced as a whole",
    Kind.TOPIC: "a topic is a part of a document, which is replaced as a whole",
    Kind.REVISION: "an earlier state stays as it was",
    Kind.LEDGER: "what cofio keeps for its own use is not edited",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a reader can edit of a record, as the form holds it."""

    title: str
    text: str
    tags: str
    importance: str
    data: str
    version: int

    @classmethod
    def of(cls, record: Record) -> Words:
        """The words of a record."""
        data = "" if record.data is None else json.dumps(record.data, ensure_ascii=False, indent=2)
        return cls(
            title=record.title, text=record.text, tags=", ".join(record.tags), importance=str(record.importance),
            data=data if record.kind in WITH_DATA else "", version=record.version,
        )  # fmt: skip

    @classmethod
    def parse(cls, request: ViewRequest, record: Record) -> Words:
        """What the form of a record holds; of a field that it lacks, what the record says."""
        before = cls.of(record)
        text = _read_field(request, "text", before.text)
        if "\r" not in record.text:
            text = text.replace("\r\n", "\n")  # which is how forms send line breaks
        title = _read_field(request, "title", before.title)
        return cls(
            title=title if title == before.title else " ".join(title.split()), text=text,
            tags=_read_field(request, "tags", before.tags), importance=request.get("importance", before.importance),
            data=_read_field(request, "data", before.data),
            version=request.get_int("version", record.version, 1, 2**53 - 1),
        )  # fmt: skip

    def find_differences(self, record: Record) -> dict[str, Json]:
        """The fields of a record that are to be others.

        Raises:
            Invalid: one of them cannot be so.
        """
        before = Words.of(record)
        changes: dict[str, Json] = {}
        if self.title != before.title:
            changes["title"] = self.title
        if self.text != before.text:
            changes["text"] = self.text
        if self.tags != before.tags:
            changes["tags"] = [*dict.fromkeys(tag.strip() for tag in self.tags.split(",") if tag.strip())]
        if self.importance != before.importance:
            changes["importance"] = member(Importance, "importance", self.importance)
        if self.data != before.data:
            changes["data"] = _parse_data(self.data)
        return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Doom:
    """What goes if a record is deleted: the records that go along or change with it, and how many of each kind."""

    version: int
    refusal: str
    """Why it cannot be deleted here; empty if it can."""
    along: tuple[Entry, ...]
    counts: dict[str, int]
    changed: tuple[Entry, ...]
    """Records that stay without what they had from it, as a profile."""


def find_edit_refusal(request: ViewRequest, record: Record) -> str:
    """Why a record cannot be edited here, in a sentence; empty if it can."""
    return request.viewer.refusal or _REFUSALS.get(record.kind, "")


def edit_record(request: ViewRequest, record: Record, words: Words) -> Record:
    """Keep what a reader wrote, if the record is still as it was when they began.

    Raises:
        Conflict: it has changed since.
        Invalid: it cannot be so, or holds what looks like a secret.
    """
    if refusal := find_edit_refusal(request, record):
        raise Invalid(record.kind, refusal)
    if words.version != record.version:
        raise Conflict(record.id, expected=words.version, found=record.version)
    changes = words.find_differences(record)
    if not changes:
        return record
    admit("page", changes, allow=request.engine.settings.allow_secrets)
    if record.kind is Kind.FILE:
        if changes.keys() - {"text"}:
            raise Invalid("title", "a file has a path and a text: nothing else of it can be edited")
        planned: list[Change] = Tree(request.engine, record.scope, source="page").plan_edit(record, words.text)
    else:
        planned = [Edit(id=record.id, fields=apply_words(record, changes), if_version=record.version)]
    answer = request.conversations.apply(planned)[0]
    assert isinstance(answer, Record)
    return answer


def find_doom(request: ViewRequest, record: Record) -> Doom:
    """What goes if a record is deleted."""
    refusal = request.viewer.refusal or ""
    along: list[Record] = []
    changed: list[Record] = []
    try:
        for each in _list_along(request, record):
            (changed if each.kind in (Kind.PROFILE, Kind.SKILL) else along).append(each)
    except Conflict as error:
        refusal = refusal or str(error.what)
    if record.kind in (Kind.TOPIC, Kind.LEDGER):
        refusal = refusal or _REFUSALS[record.kind]
    return Doom(
        version=record.version, refusal=refusal, along=tuple(make_entry(each) for each in along[:SHOWN]),
        counts=dict(Counter(str(each.kind) for each in along)),
        changed=tuple(make_entry(each) for each in changed[:SHOWN]),
    )  # fmt: skip


def delete_record(request: ViewRequest, record: Record, version: int) -> int:
    """Delete a record with what goes along; how many records went.

    Raises:
        Conflict: it has changed since the reader was told what goes.
        Invalid: it cannot be deleted here.
    """
    if version != record.version:
        raise Conflict(record.id, expected=version, found=record.version)
    doom = find_doom(request, record)
    if doom.refusal:
        raise Invalid(record.kind, doom.refusal)
    conversations = request.conversations
    if (public := _find_public_id(record)) is not None:
        project = find_project(record)
        assert project is not None
        return sum(conversations.deleter.delete_memory(project, public).values())
    if record.kind is Kind.FILE:
        revisions = [Delete(id=each.id) for each in _list_along(request, record)]
        return len(conversations.apply([Delete(id=record.id, if_version=version), *revisions]))
    return conversations.forget(Delete(id=record.id, if_version=version))


def _list_along(request: ViewRequest, record: Record) -> list[Record]:
    """The records that go with one, or change with it."""
    if (public := _find_public_id(record)) is not None:
        project = find_project(record)
        assert project is not None
        touched = request.conversations.deleter.list_deletions(project, public)
        return [each for each in touched if each.id != record.id]
    if record.kind is Kind.DOCUMENT:
        return request.engine.list(record.scope / record.id, limit=MAX_LIST)
    if record.kind is Kind.FILE:
        return list_revisions(request.engine, record)
    return []


def list_revisions(engine: Engine, record: Record, limit: int = MAX_LIST) -> list[Record]:
    """The earlier texts of a file, the latest first."""
    history = Tree(engine, record.scope).history
    of_it = Where("parent", "=", record.id)
    return engine.list(history, exact=True, kinds=(Kind.REVISION,), filter=of_it, limit=limit)


def _find_public_id(record: Record) -> str | None:
    """The id by which a record of a conversation is deleted with all that was made of it; None of other records."""
    if find_project(record) is None:
        return None
    if record.kind is Kind.TURN and isinstance(record.data, dict):
        return cast("str | None", record.data.get("message_id"))
    return public_id(record) if record.kind in PREFIXES and record.key else None


def _read_field(request: ViewRequest, name: str, before: str) -> str:
    """What a form holds in a field; what was there, if that is how a browser sends it back."""
    sent = request.get(name, before)
    is_line = name in ("title", "tags")
    return before if _normalize_field(sent, is_line) == _normalize_field(before, is_line) else sent


def _normalize_field(text: str, is_line: bool) -> str:
    """The text as a browser shows it in a field, with line breaks of one sort; where it is a line, with none."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return lines.replace("\n", "") if is_line else lines


def _parse_data(text: str) -> Json:
    if not text.strip():
        return None
    if len(text) > 2 * MAX_DATA:
        raise Invalid("data", "is too long")
    try:
        data: Json = json.loads(text)
        check_json(data)
    except (ValueError, RecursionError) as error:
        raise Invalid("data", f"is not JSON: {error}") from None
    return data
