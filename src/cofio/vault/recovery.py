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
from .renderer import share

SOURCE = "everos"
BATCH = 200  # records that are written in one transaction


@dataclass(slots=True, kw_only=True)
class Taken:
    """What came of it."""

    found: dict[Kind, int] = field(default_factory=dict)
    """How many there are of each kind."""
    new: int = 0
    masked: int = 0
    """How many of the new ones held what looks like a secret, which is masked."""
    left_out: dict[str, int] = field(default_factory=dict)
    """What has no place here, and how many there are."""
    changed: list[tuple[str, str]] = field(default_factory=list)
    """What had to be changed to be taken."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """What could not be taken, and why."""


def take(conversations: Conversations, path: Path, *, zone: tzinfo = UTC, progress: Progress | None = None) -> Taken:
    """Take everything over from the product's folder; what is here already stays as it is.

    Raises:
        Unavailable: others write to the same memory all the time.
    """
    taken, tree = Taken(), Tree(path)
    batch: list[Memory] = []
    importer = _Importer(conversations, taken, zone)
    for number, memory in enumerate(tree.read_memories()):
        # What hangs together, or is numbered together, is written together.
        if batch and (_home(batch[0]) != _home(memory) or batch[0].kind != memory.kind or len(batch) >= BATCH):
            importer.write(batch)
            batch = []
        batch.append(memory)
        if progress is not None:
            progress("taking over", number, 0)
    if batch:
        importer.write(batch)
    taken.left_out, taken.refused = tree.left_out, [*tree.refused, *taken.refused]
    return taken


class _Importer:
    """Makes records of what was read."""

    def __init__(self, conversations: Conversations, taken: Taken, zone: tzinfo) -> None:
        self._conversations = conversations
        self._engine = conversations.engine
        self._taken = taken
        self._zone = zone
        self._home: Scope | None = None
        self._episodes: dict[str, str] = {}

    def write(self, memories: list[Memory]) -> None:
        """Write what is not here yet, of one owner and kind."""
        home = _home(memories[0])
        if home != self._home:
            self._home, self._episodes = home, {}
        trial = Taken()

        def find_changes() -> list[Change]:
            nonlocal trial
            trial = Taken()
            return self._changes(home, memories, trial)

        retry_changes(
            find_changes, self._conversations.apply, busy="others write to the same memory all the time; try again"
        )
        for memory in memories:
            self._taken.found[memory.kind] = self._taken.found.get(memory.kind, 0) + 1
        self._taken.new += trial.new
        self._taken.masked += trial.masked
        self._taken.changed += trial.changed
        self._taken.refused += trial.refused

    def _changes(self, home: Scope, memories: list[Memory], taken: Taken) -> list[Change]:
        changes: list[Change] = []
        numbers: dict[str, IdSequence] = {}
        for memory in memories:
            try:
                read = self._profile(home, memory) if memory.kind is Kind.PROFILE else self._draft(home, memory)
                made = admit_draft("take_over", read, allow=self._engine.settings.allow_secrets)
                here = self._here(home, memory, made)
                if here is not None:
                    if memory.kind is Kind.EPISODE:
                        self._episodes[str(memory.content.get("parent_id") or "")] = here.id
                        self._episodes[memory.id] = here.id
                    if here.id != made.id and not self._same(here, made):
                        taken.changed.append((memory.path, "a profile is here already, and stays as it is"))
                    continue
                if memory.kind is not Kind.PROFILE:
                    made = self._assign_key(home, memory, made, numbers, taken)
            except Invalid as error:
                taken.refused.append((f"{memory.path} {memory.id}".strip(), str(error)))
                continue
            if memory.kind is Kind.EPISODE:
                self._episodes[str(memory.content.get("parent_id") or "")] = cast(str, made.id)
                self._episodes[memory.id] = cast(str, made.id)
            changes.append(Put(draft=made, how="key", if_version=0))
            taken.new += 1
            taken.masked += made.text != read.text or made.title != read.title or made.data != read.data
        return [*changes, *(each.change() for each in numbers.values())] if changes else []

    def _here(self, home: Scope, memory: Memory, made: Draft) -> Record | None:
        """The record that this has become before; or one under its key that says the same, or is the only one."""
        try:
            return self._engine.read(cast(str, made.id))
        except NotFound:
            there = self._engine.get(home, made.key or "", kind=memory.kind) if made.key else None
            return there if there is not None and (memory.kind is Kind.PROFILE or self._same(there, made)) else None

    def _same(self, here: Record, made: Draft) -> bool:
        return here.text == made.text and here.title == made.title

    def _assign_key(
        self, home: Scope, memory: Memory, made: Draft, numbers: dict[str, IdSequence], taken: Taken
    ) -> Draft:
        """The draft under its own key, or under a new one of the same day where another has it."""
        key = made.key or f"{PREFIXES[memory.kind]}_{_day(made, self._zone)}_0"
        day = key.split("_")[1]
        if day not in numbers:
            numbers[day] = IdSequence(self._engine, home, day)
        if made.key is not None and self._engine.get(home, key, kind=memory.kind) is None:
            numbers[day].skip(key)
            return made
        fresh = numbers[day].next(PREFIXES[memory.kind])
        while self._engine.get(home, fresh, kind=memory.kind) is not None:
            fresh = numbers[day].next(PREFIXES[memory.kind])
        if made.key is not None:
            taken.changed.append((f"{memory.path} {memory.id}", f"its id is taken here, and becomes {fresh}"))
        return replace(made, key=fresh)

    def _profile(self, home: Scope, memory: Memory) -> Draft:
        fixed = ("id", "type", "schema_version", "user_id", "track", "content")
        data = {name: value for name, value in memory.content.items() if name not in fixed}
        for name in ("explicit_info", "implicit_traits"):
            if not isinstance(data.get(name, []), list):
                raise Invalid(name, "is no list")
        whole: dict[str, Json] = {
            "summary": memory.content["content"], "explicit_info": [], "implicit_traits": [], "profile_timestamp_ms": 0,
            **data,
        }  # fmt: skip
        return replace(make_profile_put(home, whole, 0).draft, id=_id(memory))

    def _draft(self, home: Scope, memory: Memory) -> Draft:
        if memory.kind is Kind.SKILL:
            return self._skill(home, memory)
        said = cast("Mapping[str, str]", memory.content)
        at = _time(said.get("timestamp"), self._zone)
        data: dict[str, Json] = {
            "session_id": said.get("session_id") or "", "parent_type": said.get("parent_type") or "memcell",
            "parent_id": said.get("parent_id") or "", "at": to_millis(at),
            "senders": dict.fromkeys(markdown_entries.parse_names(said.get("sender_ids") or ""), True),
            "extractor": SOURCE,
        }  # fmt: skip
        made = Draft(
            scope=home, kind=memory.kind, key=memory.id, id=_id(memory), data=data, source=SOURCE, created_at=at
        )
        if memory.kind is Kind.FACT:
            parent = self._episodes.get(said.get("parent_id") or "")
            text = _require_section("Fact", said)
            return replace(made, text=text, parent=parent, data={**data, "messages": []})
        if memory.kind is Kind.EPISODE:
            text = _require_section("Content", said)
            summary: Json = said.get("Summary") or ""
            return replace(
                made,
                title=(said.get("Subject") or "")[:MAX_TITLE],
                text=text,
                data={**data, "summary": summary, "turns": []},
            )
        intent, approach, insight = (
            _require_section("TaskIntent", said),
            said.get("Approach") or "",
            said.get("KeyInsight"),
        )
        case = Case(
            intent=intent, approach=approach, insight=insight or None, outcome="", steps=(), messages=(),
            quality=share("quality_score", said.get("quality_score") or 0.5),
        )  # fmt: skip
        text = "\n".join(part for part in (approach, insight) if part)
        return replace(made, title=intent[:MAX_TITLE], text=text[:LONGEST], data={**data, **encode_case(case)})

    def _skill(self, home: Scope, memory: Memory) -> Draft:
        said = memory.content
        name = str(said.get("name") or "")
        if not name.strip() or not said["content"]:
            raise Invalid("skill", "has no name, or nothing in it")
        known = parse_public_id(memory.id)
        key = known.key if known is not None and (known.kind, known.owner) == (Kind.SKILL, memory.owner) else None
        made = said.get("created_at")
        at = _time(str(made), self._zone) if made else memory.changed
        sources = said.get("source_case_ids")
        mine = [_public(memory.owner, str(each)) for each in sources] if isinstance(sources, list) else []
        data: dict[str, Json] = {
            "description": str(said.get("description") or ""), "content": said["content"],
            "confidence": share("confidence", said.get("confidence") or 0.5),
            "maturity": share("maturity_score", said.get("maturity_score") or 1.0),
            "source_case_ids": cast(Json, mine), "sessions": {}, "senders": {}, "extractor": SOURCE,
            "at": to_millis(at),
        }  # fmt: skip
        if said.get("cluster_id"):
            data["cluster_id"] = str(said["cluster_id"])
        return Draft(
            scope=home, kind=Kind.SKILL, key=key, id=_id(memory), title=name[:MAX_TITLE], text=render_skill_text(data),
            data=data, source=SOURCE, created_at=at,
        )  # fmt: skip


def _home(memory: Memory) -> Scope:
    track = "agent" if memory.kind in (Kind.CASE, Kind.SKILL) else "user"
    return Project(app=memory.app, name=memory.project).owner(cast(Any, track), memory.owner)


def _id(memory: Memory) -> str:
    """The id of its record: the same however often it is taken over."""
    of_it = (memory.app, memory.project, memory.owner, memory.kind.value, memory.id or memory.path)
    return f"everos-{hashlib.blake2b(chr(0).join(of_it).encode(), digest_size=20).hexdigest()}"


def _public(owner: str, case: str) -> str:
    """A case's id with its owner's, which EverOS leaves out."""
    return case if parse_public_id(case) is not None and not case.startswith("ac_") else f"{owner}_{case}"


def _day(made: Draft, zone: tzinfo) -> str:
    assert made.created_at is not None
    return made.created_at.astimezone(zone).strftime("%Y%m%d")


def _time(written: str | None, zone: tzinfo) -> datetime:
    try:
        read = datetime.fromisoformat(written or "")
        at = (read if read.tzinfo else read.replace(tzinfo=zone)).astimezone(UTC)
        check_time("timestamp", at)
    except (ValueError, OverflowError, Invalid):
        raise Invalid("timestamp", f"{(written or '')[:40]!r} is no time that can be kept") from None
    return at


def _require_section(name: str, said: Mapping[str, str]) -> str:
    text = said.get(name) or ""
    if not text.strip():
        raise Invalid(name, "is missing or empty")
    return text[:LONGEST]
