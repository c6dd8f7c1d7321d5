"""How files become records: taking over the memory of EverOS, or of a vault that was kept when its database was not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, cast

from ..conversations.case_records import encode_case
from ..conversations.conversations import Conversations, Project
from ..conversations.projects import PREFIXES, parse_public_id
from ..conversations.stretches import LONGEST, IdSequence, make_profile_put, render_skill_text
from ..engine.retries import retry_changes
from ..extract.extractor import Case
from ..importers import markdown_entries
from ..importers.everos import Memory, Tree
from ..secrets.policy import admit_draft
from ..values.changes import Change, Put
from ..values.errors import Invalid, NotFound
from ..values.progress import Progress
from ..values.records import MAX_TITLE, Draft, Json, Kind, Record, Scope, check_time
from ..values.times import to_millis
from .renderer import parse_share

SOURCE = "everos"
BATCH = 200  # records that are written in one transaction


@dataclass(slots=True, kw_only=True)
class RecoveryResult:
    """What came of it."""

    counts: dict[Kind, int] = field(default_factory=dict)
    """How many there are of each kind."""
    new: int = 0
    masked: int = 0
    """How many of the new ones held what looks like a secret, which is masked."""
    left_out: dict[str, int] = field(default_factory=dict)
    """What cannot be kept here, and how many there are of it."""
    changed: list[tuple[str, str]] = field(default_factory=list)
    """What had to be changed to be taken."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """What could not be taken, and why."""


def take(
    conversations: Conversations, path: Path, *, zone: tzinfo = UTC, progress: Progress | None = None
) -> RecoveryResult:
    """Take everything over from the product's folder; what is here already stays as it is.

    Raises:
        Unavailable: others write to the same memory all the time.
    """
    result, tree = RecoveryResult(), Tree(path)
    batch: list[Memory] = []
    importer = _Importer(conversations, result, zone)
    for number, memory in enumerate(tree.read_memories()):
        # What hangs together, or is numbered together, is written together.
        if batch and (
            _find_home(batch[0]) != _find_home(memory) or batch[0].kind != memory.kind or len(batch) >= BATCH
        ):
            importer.write(batch)
            batch = []
        batch.append(memory)
        if progress is not None:
            progress("taking over", number, 0)
    if batch:
        importer.write(batch)
    result.left_out, result.refused = tree.left_out, [*tree.refused, *result.refused]
    return result


class _Importer:
    """Makes records of what was read."""

    def __init__(self, conversations: Conversations, result: RecoveryResult, zone: tzinfo) -> None:
        self._conversations = conversations
        self._engine = conversations.engine
        self._result = result
        self._zone = zone
        self._home: Scope | None = None
        self._episodes: dict[str, str] = {}

    def write(self, memories: list[Memory]) -> None:
        """Write what is not here yet, of one owner and kind."""
        home = _find_home(memories[0])
        if home != self._home:
            self._home, self._episodes = home, {}
        trial = RecoveryResult()

        def find_changes() -> list[Change]:
            nonlocal trial
            trial = RecoveryResult()
            return self._plan_changes(home, memories, trial)

        retry_changes(
            find_changes, self._conversations.apply, busy="others write to the same memory all the time; try again"
        )
        for memory in memories:
            self._result.counts[memory.kind] = self._result.counts.get(memory.kind, 0) + 1
        self._result.new += trial.new
        self._result.masked += trial.masked
        self._result.changed += trial.changed
        self._result.refused += trial.refused

    def _plan_changes(self, home: Scope, memories: list[Memory], result: RecoveryResult) -> list[Change]:
        changes: list[Change] = []
        numbers: dict[str, IdSequence] = {}
        for memory in memories:
            try:
                read = (
                    self._draft_profile(home, memory)
                    if memory.kind is Kind.PROFILE
                    else self._draft_memory(home, memory)
                )
                draft = admit_draft("take_over", read, allow=self._engine.settings.allow_secrets)
                here = self._find_here(home, memory, draft)
                if here is not None:
                    if memory.kind is Kind.EPISODE:
                        self._episodes[str(memory.content.get("parent_id") or "")] = here.id
                        self._episodes[memory.id] = here.id
                    if here.id != draft.id and not self._is_same(here, draft):
                        result.changed.append((memory.path, "a profile is here already, and stays as it is"))
                    continue
                if memory.kind is not Kind.PROFILE:
                    draft = self._assign_key(home, memory, draft, numbers, result)
            except Invalid as error:
                result.refused.append((f"{memory.path} {memory.id}".strip(), str(error)))
                continue
            if memory.kind is Kind.EPISODE:
                self._episodes[str(memory.content.get("parent_id") or "")] = cast(str, draft.id)
                self._episodes[memory.id] = cast(str, draft.id)
            changes.append(Put(draft=draft, how="key", if_version=0))
            result.new += 1
            result.masked += draft.text != read.text or draft.title != read.title or draft.data != read.data
        return [*changes, *(each.change() for each in numbers.values())] if changes else []

    def _find_here(self, home: Scope, memory: Memory, draft: Draft) -> Record | None:
        """The record that this has become before; or one under its key that says the same, or is the only one."""
        try:
            return self._engine.read(cast(str, draft.id))
        except NotFound:
            there = self._engine.get(home, draft.key or "", kind=memory.kind) if draft.key else None
            return there if there is not None and (memory.kind is Kind.PROFILE or self._is_same(there, draft)) else None

    def _is_same(self, here: Record, draft: Draft) -> bool:
        return here.text == draft.text and here.title == draft.title

    def _assign_key(
        self, home: Scope, memory: Memory, draft: Draft, numbers: dict[str, IdSequence], result: RecoveryResult
    ) -> Draft:
        """The draft under its own key, or under a new one of the same day where another has it."""
        key = draft.key or f"{PREFIXES[memory.kind]}_{_format_day(draft, self._zone)}_0"
        day = key.split("_")[1]
        if day not in numbers:
            numbers[day] = IdSequence(self._engine, home, day)
        if draft.key is not None and self._engine.get(home, key, kind=memory.kind) is None:
            numbers[day].skip(key)
            return draft
        fresh = numbers[day].next(PREFIXES[memory.kind])
        while self._engine.get(home, fresh, kind=memory.kind) is not None:
            fresh = numbers[day].next(PREFIXES[memory.kind])
        if draft.key is not None:
            result.changed.append((f"{memory.path} {memory.id}", f"its id is taken here, and becomes {fresh}"))
        return replace(draft, key=fresh)

    def _draft_profile(self, home: Scope, memory: Memory) -> Draft:
        fixed = ("id", "type", "schema_version", "user_id", "track", "content")
        data = {name: value for name, value in memory.content.items() if name not in fixed}
        for name in ("explicit_info", "implicit_traits"):
            if not isinstance(data.get(name, []), list):
                raise Invalid(name, "is no list")
        whole: dict[str, Json] = {
            "summary": memory.content["content"], "explicit_info": [], "implicit_traits": [], "profile_timestamp_ms": 0,
            **data,
        }  # fmt: skip
        return replace(make_profile_put(home, whole, 0).draft, id=_make_id(memory))

    def _draft_memory(self, home: Scope, memory: Memory) -> Draft:
        if memory.kind is Kind.SKILL:
            return self._draft_skill(home, memory)
        content = cast("Mapping[str, str]", memory.content)
        at = _parse_time(content.get("timestamp"), self._zone)
        data: dict[str, Json] = {
            "session_id": content.get("session_id") or "", "parent_type": content.get("parent_type") or "memcell",
            "parent_id": content.get("parent_id") or "", "at": to_millis(at),
            "senders": dict.fromkeys(markdown_entries.parse_names(content.get("sender_ids") or ""), True),
            "extractor": SOURCE,
        }  # fmt: skip
        draft = Draft(
            scope=home, kind=memory.kind, key=memory.id, id=_make_id(memory), data=data, source=SOURCE, created_at=at
        )
        if memory.kind is Kind.FACT:
            parent = self._episodes.get(content.get("parent_id") or "")
            text = _require_section("Fact", content)
            return replace(draft, text=text, parent=parent, data={**data, "messages": []})
        if memory.kind is Kind.EPISODE:
            text = _require_section("Content", content)
            summary: Json = content.get("Summary") or ""
            return replace(
                draft,
                title=(content.get("Subject") or "")[:MAX_TITLE],
                text=text,
                data={**data, "summary": summary, "turns": []},
            )
        intent, approach, insight = (
            _require_section("TaskIntent", content),
            content.get("Approach") or "",
            content.get("KeyInsight"),
        )
        case = Case(
            intent=intent, approach=approach, insight=insight or None, outcome="", steps=(), messages=(),
            quality=parse_share("quality_score", content.get("quality_score") or 0.5),
        )  # fmt: skip
        text = "\n".join(part for part in (approach, insight) if part)
        return replace(draft, title=intent[:MAX_TITLE], text=text[:LONGEST], data={**data, **encode_case(case)})

    def _draft_skill(self, home: Scope, memory: Memory) -> Draft:
        content = memory.content
        name = str(content.get("name") or "")
        if not name.strip() or not content["content"]:
            raise Invalid("skill", "has no name, or nothing in it")
        known = parse_public_id(memory.id)
        key = known.key if known is not None and (known.kind, known.owner) == (Kind.SKILL, memory.owner) else None
        created = content.get("created_at")
        at = _parse_time(str(created), self._zone) if created else memory.changed
        sources = content.get("source_case_ids")
        mine = [_make_public_id(memory.owner, str(each)) for each in sources] if isinstance(sources, list) else []
        data: dict[str, Json] = {
            "description": str(content.get("description") or ""), "content": content["content"],
            "confidence": parse_share("confidence", content.get("confidence") or 0.5),
            "maturity": parse_share("maturity_score", content.get("maturity_score") or 1.0),
            "source_case_ids": cast(Json, mine), "sessions": {}, "senders": {}, "extractor": SOURCE,
            "at": to_millis(at),
        }  # fmt: skip
        if content.get("cluster_id"):
            data["cluster_id"] = str(content["cluster_id"])
        return Draft(
            scope=home, kind=Kind.SKILL, key=key, id=_make_id(memory), title=name[:MAX_TITLE],
            text=render_skill_text(data), data=data, source=SOURCE, created_at=at,
        )  # fmt: skip


def _find_home(memory: Memory) -> Scope:
    track = "agent" if memory.kind in (Kind.CASE, Kind.SKILL) else "user"
    return Project(app=memory.app, name=memory.project).owner(cast(Any, track), memory.owner)


def _make_id(memory: Memory) -> str:
    """The id of its record: the same however often it is taken over."""
    of_it = (memory.app, memory.project, memory.owner, memory.kind.value, memory.id or memory.path)
    return f"everos-{hashlib.blake2b(chr(0).join(of_it).encode(), digest_size=20).hexdigest()}"


def _make_public_id(owner: str, case: str) -> str:
    """A case's id with its owner's, which EverOS leaves out."""
    return case if parse_public_id(case) is not None and not case.startswith("ac_") else f"{owner}_{case}"


def _format_day(draft: Draft, zone: tzinfo) -> str:
    assert draft.created_at is not None
    return draft.created_at.astimezone(zone).strftime("%Y%m%d")


def _parse_time(written: str | None, zone: tzinfo) -> datetime:
    try:
        read = datetime.fromisoformat(written or "")
        at = (read if read.tzinfo else read.replace(tzinfo=zone)).astimezone(UTC)
        check_time("timestamp", at)
    except (ValueError, OverflowError, Invalid):
        raise Invalid("timestamp", f"{(written or '')[:40]!r} is no time that can be kept") from None
    return at


def _require_section(name: str, content: Mapping[str, str]) -> str:
    text = content.get(name) or ""
    if not text.strip():
        raise Invalid(name, "is missing or empty")
    return text[:LONGEST]
