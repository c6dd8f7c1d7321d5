"""A model's better records in place of the rules': the same ids, one version up, and they say whose they are.

The rules' records stand from the moment of the carve. A job, written in the same transaction, says that they may be
bettered; whatever a model does or fails to do, the messages and the rules' records stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Protocol, cast

from ..engine.engine import Engine
from ..extract.extractor import Case, Entry, Extraction, Extractor, Fact, Message, Skill
from ..extract.profiles import INSTRUCTION_CATEGORY, merge_entries, remove_messages
from ..values.changes import Change, Delete, Edit, Put
from ..values.query import MAX_LIST, Where
from ..values.records import MAX_TITLE, Draft, Json, Kind, Record, Scope
from .case_records import encode_case
from .message_records import SOURCE, decode_message, fields
from .mirror import Mirror, apply_mirrored
from .projects import PREFIXES, Project, Track, public_id
from .stored_fields import CONTEXT
from .stretches import (
    CASES,
    LONGEST,
    PROFILE,
    IdSequence,
    Stretch,
    encode_skill,
    list_source_cases,
    make_profile_put,
    read_stretch,
    render_skill_text,
    select_cases,
)


class Reader(Protocol):
    """A model that reads conversations; each call may raise Unavailable."""

    @property
    def name(self) -> str:
        """What the records that it bettered say that they are by."""

    def read(
        self, messages: Sequence[Message], zone: tzinfo, found: Extraction, profiles: Mapping[str, Mapping[str, Json]]
    ) -> Extraction:
        """What a stretch holds, better told than by the rules."""

    def skill(self, known: Sequence[Case], current: Skill | None, *, found: Skill) -> Skill:
        """What cases have in common, better told than the rules `found`; `current_` is how it is told now."""


class Refiner:
    """Has stretches read by a model, and keeps what it makes of them."""

    def __init__(
        self, engine: Engine, extractor: Extractor, zone: tzinfo, reader: Reader, mirror: Mirror | None = None
    ) -> None:
        self._mirror = mirror
        self._engine = engine
        self._extractor = extractor
        self._zone = zone
        self._reader = reader

    def refine(self, project: Project, task: Mapping[str, Json]) -> bool:
        """Better the records that a job names; False when they are gone, or a person's own by now.

        Raises:
            Unavailable: the model could not be asked, or made no sense; nothing was changed.
            Conflict, NotFound: a record changed while the model was thinking; nothing was changed.
        """
        episodes = [self._find_record(project, each) for each in parse_owned(task["episodes"])]
        mine = [record for record in episodes if record is not None and not fields(record).get("edited")]
        if not mine:
            return False
        turns = self._list_children(mine[0], Kind.TURN)
        messages = sorted(map(decode_message, turns), key=lambda message: message.at)
        if not messages:
            return False
        ids = {(str(task["session_id"]), message.id) for message in messages}
        profiles = {
            record.scope.names[-1]: self._engine.get(record.scope, PROFILE, kind=Kind.PROFILE) for record in mine
        }
        before = {
            user: remove_messages(dict(fields(profile)), ids) or {}
            for user, profile in profiles.items()
            if profile is not None
        }
        stretch = Stretch(turns=turns, messages=messages)
        found = read_stretch(self._engine, self._extractor, self._zone, stretch, lambda _: False)
        better = self._reader.read(messages, self._zone, found, before)
        names = {message.sender: message.name or message.sender for message in messages}
        changes: list[Change] = []
        for record in mine:
            user = record.scope.names[-1]
            changes += self._refine_episode(record, better)
            changes += self._refine_facts(record, better.facts, names)
            entries = [*better.profiles.get(user, ()), *_list_instructions(found, user)]
            profile = profiles[user]
            if entries or profile is not None:
                after = merge_entries(before.get(user), entries, session=str(task["session_id"]))
                if profile is None or after != fields(profile):
                    changes.append(make_profile_put(record.scope, after, 0 if profile is None else profile.version))
        changed = [case if case != was else None for case, was in zip(better.cases, found.cases, strict=True)]
        owned = parse_owned(task["cases"])
        for track, owner in dict.fromkeys(each[:2] for each in owned):
            keys = [key for *whose, key in owned if whose == [track, owner]]
            cases = {key: case for key, case in zip(keys, changed, strict=False) if case is not None}
            changes += self._refine_cases(project.owner(track, owner), cases)
        apply_mirrored(self._engine, self._mirror, changes)
        return True

    def _find_record(self, project: Project, owned: tuple[Track, str, str]) -> Record | None:
        track, owner, known = owned
        found = self._engine.list(project.owner(track, owner), exact=True, filter=Where("id", "=", known), limit=1)
        return found[0] if found else None

    def _list_children(self, episode: Record, kind: Kind) -> list[Record]:
        below = Where("parent", "=", episode.id)
        return self._engine.list(episode.scope, exact=True, kinds=(kind,), filter=below, limit=MAX_LIST, newest=False)

    def _refine_episode(self, record: Record, better: Extraction) -> list[Change]:
        if better.episode is None:
            return []
        data = {**fields(record), "summary": better.episode.summary, "extractor": self._reader.name}
        title, text = better.episode.subject[:MAX_TITLE], better.episode.text[:LONGEST]
        return [Edit(id=record.id, fields={"title": title, "text": text, "data": data}, if_version=record.version)]

    def _refine_facts(self, episode: Record, facts: Sequence[Fact], names: Mapping[str, str]) -> list[Change]:
        """Facts under the ids that there are; more get new ones, and what is left over goes.

        What a person has edited stays, as does what has a tag: its words are why it has that tag.
        """
        there = self._list_children(episode, Kind.FACT)
        lasting = [record for record in there if fields(record).get("edited") or record.tags]
        free = [record for record in there if record not in lasting]
        texts = {" ".join(record.text.split()) for record in lasting}
        fresh = [fact for fact in facts if " ".join(fact.text.split()) not in texts]
        changes: list[Change] = []
        for record, fact in zip(free, fresh, strict=False):
            data = {**fields(record), "messages": list(fact.messages), "extractor": self._reader.name}
            author = names.get(fact.speaker, fact.speaker)
            changed = {"text": fact.text[:LONGEST], "author": author, "data": data}
            changes.append(Edit(id=record.id, fields=changed, if_version=record.version))
        changes += [Delete(id=record.id, if_version=record.version) for record in free[len(fresh) :]]
        if len(fresh) > len(free):
            context = {name: fields(episode)[name] for name in CONTEXT}
            numbers = IdSequence(self._engine, episode.scope, str(episode.key).split("_")[1])
            for fact in fresh[len(free) :]:
                draft = Draft(
                    scope=episode.scope, kind=Kind.FACT, key=numbers.next(PREFIXES[Kind.FACT]),
                    text=fact.text[:LONGEST], author=names.get(fact.speaker, fact.speaker), parent=episode.id,
                    data={**context, "messages": list(fact.messages), "extractor": self._reader.name}, source=SOURCE,
                    created_at=fact.at,
                )  # fmt: skip
                changes.append(Put(draft=draft, how="key", if_version=0))
            changes.append(numbers.change())
        return changes

    def _refine_cases(self, home: Scope, cases: Mapping[str, Case]) -> list[Change]:
        """An agent's cases by their keys, and each skill that they are part of."""
        found = {key: self._engine.get(home, key, kind=Kind.CASE) for key in cases}
        mine = {
            public_id(record): (record, cases[key])
            for key, record in found.items()
            if record is not None and not fields(record).get("edited")
            and fields(record)["messages"] == list(cases[key].messages)  # else it was cut in another way
        }  # fmt: skip
        changes: list[Change] = [self._refine_case(record, case) for record, case in mine.values()]
        known = self._engine.list(home, exact=True, kinds=(Kind.CASE,), limit=CASES, order="created")
        others = [each for each in known if public_id(each) not in mine]
        for skill in self._engine.list(home, exact=True, kinds=(Kind.SKILL,), limit=CASES):
            better = [case for known_as, (_, case) in mine.items() if known_as in list_source_cases(skill)]
            if better and not fields(skill).get("edited"):
                changes.append(self._refine_skill(skill, [*select_cases(others, list_source_cases(skill)), *better]))
        return changes

    def _refine_case(self, record: Record, case: Case) -> Edit:
        before = fields(record)
        data = {**before, **encode_case(case), "request": before["request"], "extractor": self._reader.name}
        text = "\n".join(part for part in (case.approach, case.insight) if part)[:LONGEST]
        changed = {"title": case.intent[:MAX_TITLE], "text": text, "data": data}
        return Edit(id=record.id, fields=changed, if_version=record.version)

    def _refine_skill(self, record: Record, cases: Sequence[Case]) -> Edit:
        before = fields(record)
        now = Skill(
            name=record.title, description=str(before["description"]), content=str(before["content"]),
            confidence=cast(float, before["confidence"]), maturity=cast(float, before["maturity"]),
        )  # fmt: skip
        skill = self._reader.skill(cases, now, found=self._extractor.build_skill(cases))
        data = {**fields(record), **encode_skill(skill), "extractor": self._reader.name}
        changed = {"title": skill.name[:MAX_TITLE], "text": render_skill_text(data)[:LONGEST], "data": data}
        return Edit(id=record.id, fields=changed, if_version=record.version)


def _list_instructions(found: Extraction, user: str) -> list[Entry]:
    """What a user wants of an assistant, which is kept word for word and not a model's to tell."""
    return [entry for entry in found.profiles.get(user, ()) if entry.category == INSTRUCTION_CATEGORY]


def parse_owned(rows: Json) -> list[tuple[Track, str, str]]:
    """What a job names: the track and the name of each owner, and the id or the key of a record."""
    return [(cast(Track, track), owner, known) for track, owner, known in cast("list[list[str]]", rows)]
