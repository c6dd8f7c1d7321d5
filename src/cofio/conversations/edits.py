"""How a person's words change a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..values.records import Json, Kind, Record
from ..values.scopes import CONVERSATIONS
from .message_records import fields
from .stored_fields import INSIGHT, INTENT, QUALITY
from .stretches import render_skill_text

EDITABLE = {
    Kind.EPISODE: ("subject", "summary", "episode"),
    Kind.FACT: ("content",),
    Kind.CASE: (INTENT, "approach", INSIGHT, QUALITY),
    Kind.SKILL: ("name", "description", "content", "confidence"),
}


def apply_edit(record: Record, given: Mapping[str, Any]) -> dict[str, object]:
    """The fields of a record that a person's words change; what is extracted later leaves them alone."""
    before = cast("list[str]", fields(record).get("edited") or [])
    by_hand: list[Json] = [*sorted({*before, *given})]
    data: dict[str, Json] = {**fields(record), "edited": by_hand}
    if record.kind is Kind.FACT:
        return {"data": data, "text": given["content"]}
    if record.kind is Kind.EPISODE:
        data["summary"] = given.get("summary") or data["summary"]
        title, text = given.get("subject") or record.title, given.get("episode") or record.text
        return {"data": data, "title": title, "text": text}
    data |= {name: value for name, value in given.items() if name != "name"}
    if record.kind is Kind.CASE:
        text = "\n".join(str(part) for part in (data["approach"], data[INSIGHT]) if part)
        return {"data": data, "title": data[INTENT], "text": text}
    return {"data": data, "title": given.get("name") or record.title, "text": render_skill_text(data)}


def apply_words(record: Record, changes: Mapping[str, Json]) -> dict[str, object]:
    """The fields of any record that a new title, text or tags change.

    Of what was extracted, extraction then leaves alone what a person wrote.
    """
    changed: dict[str, object] = dict(changes)
    if isinstance(tags := changes.get("tags"), list):
        changed["tags"] = tuple(tags)
    if record.scope not in CONVERSATIONS or not isinstance(record.data, dict):
        return changed
    if record.kind is Kind.FACT and "text" in changes:
        return changed | apply_edit(record, {"content": changes["text"]})
    if record.kind is Kind.EPISODE and changes.keys() & {"title", "text"}:
        edited_fields = {"subject": changes.get("title"), "episode": changes.get("text")}
        return changed | apply_edit(record, {name: value for name, value in edited_fields.items() if value})
    return changed


def apply_profile_edit(record: Record, given: Mapping[str, Json]) -> dict[str, Json]:
    """A profile as a person wrote it; a summary of their own stays when more is learned."""
    before = fields(record)
    own = set(cast("list[str]", before.get("edited") or []))
    if isinstance(given.get("summary"), str) and given["summary"] != before.get("summary"):
        own.add("summary")
    by_hand: list[Json] = [*sorted(own)]
    return {**given, "edited": by_hand} if own else dict(given)
