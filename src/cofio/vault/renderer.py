"""A record as its file shows it, and what a person has changed in that."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Any, cast

from ..conversations.message_records import fields
from ..conversations.projects import public_id
from ..importers import markdown_entries
from ..values.errors import Invalid
from ..values.records import Json, Kind, Record, Scope
from ..values.times import from_millis
from .layout import DAILY, Location

_COUNTS = re.compile(r"^(entry_count|last_appended_at):.*\n", re.MULTILINE)


class Renderer:
    """Records as Markdown, with times told in a zone."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def render(self, record: Record) -> str:
        """A record as an entry of its file or, of a profile or a skill, as the whole of it."""
        return {
            Kind.EPISODE: self._render_episode, Kind.FACT: self._render_fact, Kind.CASE: self._render_case,
            Kind.PROFILE: self._render_profile, Kind.SKILL: self._render_skill,
        }[record.kind](record)  # fmt: skip

    def render_head(self, home: Scope, kind: Kind, day: str, count: int, latest: int) -> str:
        """The front matter of a day's file."""
        stem, owner, track = DAILY[kind][1], home.names[-1], home.names[-2]
        # Texts in quotation marks, as nearly every YAML writer does: a day is none to the one that reads it.
        return (
            f"---\nid: {_quote(f'{stem}_log_{owner}_{day}')}\n"
            f"type: {stem}_daily\nfile_type: {stem}_daily\nschema_version: 1\n"
            f"{track}_id: {_quote(owner)}\ntrack: {track}\ndate: '{day}'\n{self._render_counts(count, latest)}---\n"
        )

    def recount(self, front: str, count: int, latest: int) -> str:
        """Front matter of a day's file with its numbers put right; what a person has added there stays."""
        found = _COUNTS.search(front)
        if found is None:
            return front
        rest = _COUNTS.sub("", front[found.end() :])
        return front[: found.start()] + self._render_counts(count, latest) + rest

    def _render_counts(self, count: int, latest: int) -> str:
        return f"entry_count: {count}\nlast_appended_at: '{self._format_time(latest)}'\n"

    def _render_episode(self, record: Record) -> str:
        data = fields(record)
        sections = {"Subject": record.title, "Summary": cast(str, data["summary"]), "Content": record.text}
        return markdown_entries.render_entry(cast(str, record.key), self._list_lines(record), _drop_empty(sections))

    def _render_fact(self, record: Record) -> str:
        return markdown_entries.render_entry(cast(str, record.key), self._list_lines(record), {"Fact": record.text})

    def _render_case(self, record: Record) -> str:
        data = cast("dict[str, Any]", record.data)
        sections = {"TaskIntent": data["task_intent"], "Approach": data["approach"], "KeyInsight": data["key_insight"]}
        lines = {**self._list_lines(record), "quality_score": data["quality_score"]}
        return markdown_entries.render_entry(cast(str, record.key), lines, _drop_empty(sections))

    def _list_lines(self, record: Record) -> dict[str, Json]:
        data = fields(record)
        return {
            "owner_id": record.scope.names[-1],
            "session_id": data["session_id"],
            "timestamp": self._format_time(get_time(record)),
            "parent_type": data["parent_type"],
            "parent_id": data["parent_id"],
            "sender_ids": list(cast("dict[str, Json]", data["senders"])),
        }

    def _render_profile(self, record: Record) -> str:
        user, data = record.scope.names[-1], fields(record)
        values: dict[str, Json] = {
            "id": f"profile_{user}", "type": "user_profile", "schema_version": 1, "user_id": user, "track": "user",
            "summary": "", "explicit_info": [], "implicit_traits": [], "profile_timestamp_ms": 0, **data,
        }  # fmt: skip
        return markdown_entries.render_front_matter(values) + _render_body(data.get("summary"))

    def _render_skill(self, record: Record) -> str:
        data = fields(record)
        values: dict[str, Json] = {
            "id": public_id(record), "type": "agent_skill", "schema_version": 1, "agent_id": record.scope.names[-1],
            "track": "agent", "name": record.title, "description": data["description"],
            "confidence": data["confidence"], "maturity_score": data["maturity"],
            "source_case_ids": data["source_case_ids"], "cluster_id": data.get("cluster_id"),
            "created_at": record.created_at.astimezone(self._zone).isoformat(), "updated_at": None,
        }  # fmt: skip
        return markdown_entries.render_front_matter(values) + _render_body(data["content"])

    def _format_time(self, milliseconds: int) -> str:
        return from_millis(milliseconds).astimezone(self._zone).isoformat()


def split_entries(located: Location, content: bytes, keys: Collection[str] = ()) -> list[tuple[str, str]]:
    """The entries of a file, each with its key, as they stand there; `keys` are those that it should have.

    Raises:
        Invalid: it is no text, or an entry in it is not whole.
    """
    try:
        text = markdown_entries.normalize_lines(content.decode())
    except UnicodeDecodeError:
        raise Invalid("file", "is not UTF-8 text") from None
    if not text.strip():
        return []
    if located.kind is Kind.PROFILE:
        return [("profile", text)]
    if located.kind is Kind.SKILL:
        if keys:
            return [(key, text) for key in keys]
        front, _ = markdown_entries.split_front_matter(text)
        named = str(front.get("id") or "").removeprefix(f"{located.home.names[-1]}_")
        return [(named or "SKILL.md", text)]
    return [(span.id, text[span.start : span.end]) for span in markdown_entries.find_spans(text)]


def get_time(record: Record) -> int:
    """The time that a record tells, in milliseconds since 1970."""
    return cast(int, fields(record).get("at") or 0)


def find_changes(record: Record, ours: str, theirs: str) -> dict[str, Any]:
    """What a person has changed in a record's text, by the names that `conversations.edits` takes.

    Raises:
        Invalid: what is there cannot be read, or is no longer a whole record.
    """
    if record.kind is Kind.PROFILE:
        return _find_profile_changes(record, ours, theirs)
    read = _parse_skill if record.kind is Kind.SKILL else _PARSERS[record.kind]
    before, after = read(ours), read(theirs)
    changes = {name: value for name, value in after.items() if value != before[name]}
    for name, value in changes.items():
        if value in ("", None) and name not in ("key_insight", "summary", "subject"):
            raise Invalid(name, "is empty; to forget the record, remove all of it")
    return changes


def _find_profile_changes(record: Record, ours: str, theirs: str) -> dict[str, Any]:
    known = fields(record)
    (before, body), (after, written) = (
        markdown_entries.split_front_matter(ours),
        markdown_entries.split_front_matter(theirs),
    )
    fixed = ("id", "type", "schema_version", "user_id", "track")
    if not after:
        raise Invalid("file", "has no front matter any more")
    changes: dict[str, Any] = {name: value for name, value in after.items() if name not in fixed}
    if changes == {name: value for name, value in before.items() if name not in fixed}:
        changes = dict(known)
    if written.strip() != body.strip():
        changes["summary"] = markdown_entries.unescape_controls(written.strip())
    for name, kind in (("summary", str), ("explicit_info", list), ("implicit_traits", list)):
        if not isinstance(changes.get(name, kind()), kind):
            raise Invalid(name, f"is no {'text' if kind is str else 'list'}")
    return {} if changes == known else changes


def _parse_episode(text: str) -> dict[str, Any]:
    found = markdown_entries.parse_fields(text).sections
    return {
        "subject": " ".join(found.get("Subject", "").split("\n")),
        "summary": found.get("Summary", ""),
        "episode": found.get("Content", ""),
    }


def _parse_fact(text: str) -> dict[str, Any]:
    return {"content": markdown_entries.parse_fields(text).sections.get("Fact", "")}


def _parse_case(text: str) -> dict[str, Any]:
    found = markdown_entries.parse_fields(text)
    return {
        "task_intent": found.sections.get("TaskIntent", ""),
        "approach": found.sections.get("Approach", ""),
        "key_insight": found.sections.get("KeyInsight") or None,
        "quality_score": parse_share("quality_score", found.lines.get("quality_score")),
    }


def _parse_skill(text: str) -> dict[str, Any]:
    front, body = markdown_entries.split_front_matter(text)
    if not front:
        raise Invalid("file", "has no front matter any more")
    return {
        "name": str(front.get("name") or ""),
        "description": str(front.get("description") or ""),
        "content": markdown_entries.unescape_controls(body.strip("\n").rstrip()),
        "confidence": parse_share("confidence", front.get("confidence")),
    }


_PARSERS = {Kind.EPISODE: _parse_episode, Kind.FACT: _parse_fact, Kind.CASE: _parse_case}


def parse_share(name: str, written: object) -> float:
    """A number from 0 to 1."""
    try:
        number = float(cast(Any, written))
    except (TypeError, ValueError):
        raise Invalid(name, f"{written!r} is not a number from 0 to 1") from None
    if not 0 <= number <= 1:
        raise Invalid(name, f"{written!r} is not a number from 0 to 1")
    return number


def _drop_empty(sections: Mapping[str, str | None]) -> dict[str, str]:
    return {title: text for title, text in sections.items() if text}


def _render_body(text: object) -> str:
    body = markdown_entries.escape_controls(markdown_entries.normalize_lines(str(text or "")).strip("\n").rstrip())
    return f"{body}\n" if body else ""


def _quote(name: str) -> str:
    return markdown_entries.render_front_matter({"x": name})[7:-5]
