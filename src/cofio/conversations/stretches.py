"""How a stretch of conversation becomes records: all that it gives, and its messages' move, in one transaction.

Its messages go from the session to the first of its owners, under their episode. So a message waits in its session, or
it stands with what was made of it, and never both.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import TypeAlias, cast

from ..engine.engine import Engine
from ..engine.jobs import make_job
from ..extract.extractor import GROWN_FROM, Case, Extraction, Extractor, Message, Recalled, Skill
from ..extract.profiles import merge_entries
from ..values.changes import Change, Edit, Put
from ..values.errors import Unavailable
from ..values.records import MAX_TITLE, Draft, Json, Kind, Record, Scope, new_id
from .case_records import decode_case, encode_case
from .message_records import SOURCE, copy, distinct, fields, get_millis
from .mirror import Mirror, apply_mirrored
from .projects import PREFIXES, Project, public_id
from .stored_fields import PROFILE_INSTRUCTIONS, PROFILE_ITEMS, SOURCE_CASES, STRETCH, STRETCH_ID, STRETCH_TYPE

Owned: TypeAlias = tuple[str, str, str]
"""A record that a model may refine: the track and the name of its owner, and its id, or a case's key."""
PROFILE, LEDGER = "profile", "ledger"
REFINE = "refine"  # the kind of job that has a model refine records
EVERYTHING = 10  # users of one stretch who each keep all of it
LONGEST = 200_000  # characters of what is made of messages; the messages themselves are kept whole
CASES = 200  # an agent's newest cases, among which those like a new one are looked for
NAMED = 200  # the newest cases, sessions and senders that a skill names


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Messages that belong together, as they are kept and as they were said."""

    turns: Sequence[Record]
    messages: Sequence[Message]

    def senders(self, role: str) -> list[str]:
        """Who spoke in this role, in the order of their first words."""
        return distinct(message.sender for message in self.messages if message.role == role)


class Carver:
    """Makes records of stretches."""

    def __init__(
        self,
        engine: Engine,
        extractor: Extractor,
        zone: tzinfo,
        *,
        refined: bool = False,
        mirror: Mirror | None = None,
        default_user: str | None = None,
    ) -> None:
        """`refined`: what comes of a stretch is to be refined later, so a job for that is written with the rest.

        `default_user` is whose memory a stretch goes to in which no user speaks; without one it is the agent's.
        """
        self._engine = engine
        self._extractor = extractor
        self._zone = zone
        self._refined = refined
        self._mirror = mirror
        self._default_users = [] if default_user is None else [default_user]

    def store(self, project: Project, session: str, stretch: Stretch) -> None:
        """Write what a stretch gives.

        Raises:
            Conflict, NotFound: another process has changed one of its messages or owners meanwhile; nothing was done.
        """
        users, agents = stretch.senders("user") or self._default_users, stretch.senders("assistant")
        homes = [project.owner("user", user) for user in users]

        profile = {each for home in homes[:EVERYTHING] for each in self._list_profile_sentences(home)}

        def is_recalled(sentence: str) -> bool:
            if sentence in profile:
                return True
            return any(self._engine.same(home, sentence, kind=Kind.FACT) is not None for home in homes[:EVERYTHING])

        found = read_stretch(self._engine, self._extractor, self._zone, stretch, is_recalled)
        writer = _StretchWriter(self._engine, self._extractor, self._zone, session, stretch)
        parents = [writer.add_user(home, found, user) for user, home in zip(users, homes, strict=True)]
        cases = {
            agent: writer.add_cases(project.owner("agent", agent), found.cases) if found.cases else []
            for agent in agents
        }
        if self._refined and users:
            owned = [("user", user, parent) for user, parent in zip(users, parents, strict=True)]
            learned = [("agent", agent, key) for agent in agents for key in cases[agent]]
            writer.changes.append(_make_job(project, session, len(stretch.messages), owned, learned))
        if not homes:
            speaker = (agents or [stretch.messages[0].sender])[0]
            homes, parents = [project.owner("agent", speaker)], [writer.stretch_id]
        writer.move_turns(homes, parents, found.own_texts)
        apply_mirrored(self._engine, self._mirror, writer.changes)

    def _list_profile_sentences(self, home: Scope) -> list[str]:
        """What a user's profile says, sentence by sentence."""
        profile = self._engine.get(home, PROFILE, kind=Kind.PROFILE)
        sentences: list[str] = []
        for of, name in ((PROFILE_ITEMS, "description"), (PROFILE_INSTRUCTIONS, "text")):
            items = None if profile is None else fields(profile).get(of)
            for item in items if isinstance(items, list) else []:
                sentences += [str(item.get(name))] if isinstance(item, dict) else []
        return sentences


def read_stretch(
    engine: Engine, extractor: Extractor, zone: tzinfo, stretch: Stretch, recalled: Recalled
) -> Extraction:
    """Extract what a stretch holds: by words and vectors where MiniLM is this store's embedder, else by words alone.

    Messages that have a vector are not embedded again. Call it outside of transactions: embedding takes time.
    """
    embedder = engine.embedder() if extractor.uses_vectors else None
    if embedder is not None:
        from ..extract.rules.vector_reading import MODEL, read_with_vectors

        if embedder.id == MODEL:
            spoken = [turn for turn in stretch.turns if fields(turn)["role"] == "user"]
            stored = engine.read_vectors(MODEL, [turn.id for turn in spoken])
            vectors = {str(fields(turn)["message_id"]): stored[turn.id] for turn in spoken if turn.id in stored}
            with suppress(Unavailable):
                return read_with_vectors(stretch.messages, zone, recalled, vectors, embedder.embed)
    return extractor.extract(stretch.messages, zone, recalled)


@dataclass(slots=True)
class _CaseGroup:
    """Cases of one kind of task: those that were known, the new ones by their public ids, and the skill they join."""

    skill: Record | None
    before: dict[str, Record] = field(default_factory=dict)
    fresh: dict[str, Case] = field(default_factory=dict)

    def accepts(self, case: Case, skill: Record | None, extractor: Extractor) -> bool:
        """Whether one more case, which by those before it is part of `skill`, belongs here."""
        if skill is not None:
            return self.skill is skill
        return any(extractor.are_alike(case, other) for other in self.fresh.values())


@dataclass(slots=True)
class _StretchWriter:
    """Gathers the changes of one carve."""

    engine: Engine
    extractor: Extractor
    zone: tzinfo
    session: str
    stretch: Stretch
    stretch_id: str = field(default_factory=lambda: f"mc_{secrets.token_hex(6)}")
    changes: list[Change] = field(default_factory=list)

    @property
    def context(self) -> dict[str, Json]:
        """What every record of the stretch can be filtered by."""
        senders = distinct(message.sender for message in self.stretch.messages)
        return {
            "session_id": self.session,
            STRETCH_TYPE: STRETCH,
            STRETCH_ID: self.stretch_id,
            "at": get_millis(self.stretch.messages[-1]),
            "senders": dict.fromkeys(senders, True),
        }

    def add_user(self, home: Scope, found: Extraction, user: str) -> str:
        """One user's episode, facts and profile; what the user's messages are to hang under."""
        numbers = IdSequence(self.engine, home, self._get_day())
        context = {**self.context, "extractor": self.extractor.name}
        parent = self.stretch_id
        if found.episode is not None:
            parent = new_id(self.stretch.messages[-1].at)
            turns: Json = [turn.id for turn in self.stretch.turns]
            self._put(
                home, Kind.EPISODE, numbers, id=parent, title=found.episode.subject[:MAX_TITLE],
                text=found.episode.text[:LONGEST], data={**context, "summary": found.episode.summary, "turns": turns},
                created_at=self.stretch.messages[-1].at,
            )  # fmt: skip
        names = {message.sender: message.name or message.sender for message in self.stretch.messages}
        for fact in found.facts:
            if fact.speaker != user and self._keeps_only_own_words(user):
                continue
            self._put(
                home, Kind.FACT, numbers, text=fact.text[:LONGEST], author=names.get(fact.speaker, fact.speaker),
                parent=parent, data={**context, "messages": list(fact.messages)}, created_at=fact.at,
                tags=(fact.label,) if fact.label else (),
            )  # fmt: skip
        self.changes.append(numbers.change())
        self._add_profile(home, found, user)
        return parent

    def _keeps_only_own_words(self, user: str) -> bool:
        """Whether a user stores only the episode and their own words, as all but the first few of a large group do:
        otherwise what is stored of the group would grow with the square of its size.
        """
        return user in self.stretch.senders("user")[EVERYTHING:]

    def _add_profile(self, home: Scope, found: Extraction, user: str) -> None:
        entries = found.profiles.get(user)
        if not entries:
            return
        old = self.engine.get(home, PROFILE, kind=Kind.PROFILE)
        before = None if old is None else dict(fields(old))
        after = merge_entries(before, entries, session=self.session)
        if after != before:
            self.changes.append(make_profile_put(home, after, 0 if old is None else old.version))

    def add_cases(self, home: Scope, cases: Sequence[Case]) -> list[str]:
        """One agent's cases, and the skills that they are part of; the cases' keys."""
        numbers = IdSequence(self.engine, home, self._get_day())
        fresh: list[tuple[str, Case]] = []
        for case in cases:
            key = self._put(
                home, Kind.CASE, numbers, title=case.intent[:MAX_TITLE], text=_render_case(case)[:LONGEST],
                data={**self.context, "extractor": self.extractor.name, **encode_case(case)},
                created_at=self._find_end(case),
            )  # fmt: skip
            fresh.append((key, case))
        self._grow_skills(home, fresh, numbers)
        # Whichever day it is of: of two cases that come in at once, the later one must see the skill of the other.
        turn = IdSequence(self.engine, home, "cases")
        turn.next("ac")
        self.changes += [numbers.change(), turn.change()]
        return [key for key, _ in fresh]

    def _find_end(self, case: Case) -> datetime:
        of_case = set(case.messages)
        times = (message.at for message in self.stretch.messages if message.id in of_case)
        return max(times, default=self.stretch.messages[-1].at)

    def _grow_skills(self, home: Scope, fresh: Sequence[tuple[str, Case]], numbers: IdSequence) -> None:
        """Take each case into the skill of its kind, or make one of it and those like it."""
        known = self.engine.list(home, exact=True, kinds=(Kind.CASE,), limit=CASES, order="created")
        skills = self.engine.list(home, exact=True, kinds=(Kind.SKILL,), limit=CASES)
        groups: list[_CaseGroup] = []
        others = [(record, decode_case(record)) for record in known]
        for key, case in fresh:
            alike = {public_id(record): record for record, other in others if self.extractor.are_alike(case, other)}
            ranked = sorted(skills, key=lambda skill: -len(alike.keys() & set(list_source_cases(skill))))
            old = ranked[0] if ranked and alike.keys() & set(list_source_cases(ranked[0])) else None
            group = next((each for each in groups if each.accepts(case, old, self.extractor)), None)
            if group is None:
                group = _CaseGroup(skill=old)
                groups.append(group)
            group.before |= alike
            group.fresh[f"{home.names[-1]}_{key}"] = case
        for group in groups:
            if group.skill is not None:
                together = [*list_source_cases(group.skill), *group.fresh]
                grown = self.extractor.build_skill([*select_cases(known, together), *group.fresh.values()])
                self.changes.append(make_skill_edit(group.skill, grown, together, self.context))
            elif len(group.before) + len(group.fresh) > 1:
                self._add_skill(home, group, numbers)

    def _add_skill(self, home: Scope, group: _CaseGroup, numbers: IdSequence) -> None:
        before = sorted(group.before.values(), key=lambda record: record.created_at)
        grown = self.extractor.build_skill([*map(decode_case, before), *group.fresh.values()])
        self._put(
            home, Kind.SKILL, numbers, title=grown.name[:MAX_TITLE], text=render_skill_text(encode_skill(grown)),
            data={
                **encode_skill(grown), "extractor": self.extractor.name, "at": get_millis(self.stretch.messages[-1]),
                SOURCE_CASES: [*map(public_id, before), *group.fresh],
                **merge_sources([*map(fields, before), self.context]),
            },
            created_at=self.stretch.messages[-1].at,
        )  # fmt: skip

    def move_turns(self, homes: Sequence[Scope], parents: Sequence[str], heard: Mapping[str, str]) -> None:
        """Move the messages to the first of their owners, and give the others a copy each.

        What was recalled in a message is no longer found by it: an echo must not be taken for the memory itself.
        """
        context = self.context
        for position, turn in enumerate(self.stretch.turns):
            data = {**fields(turn), **context}
            moved: dict[str, object] = {"data": data, "parent": parents[0], "position": position}
            new = heard.get(str(data["message_id"]))
            if new is not None:
                data["said"] = turn.text
                moved |= {"text": new, "key": turn.key if new.strip() else turn.id}
            self.changes.append(Edit(id=turn.id, fields={**moved, "scope": homes[0]}, if_version=turn.version))
            for home, parent in zip(homes[1:], parents[1:], strict=True):
                if fields(turn)["sender_id"] == home.names[-1] or not self._keeps_only_own_words(home.names[-1]):
                    self.changes.append(Put(draft=copy(turn, home, {**moved, "parent": parent})))

    def _get_day(self) -> str:
        return self.stretch.messages[-1].at.astimezone(self.zone).strftime("%Y%m%d")

    def _put(
        self, home: Scope, kind: Kind, numbers: IdSequence, *, data: dict[str, Json], text: str, created_at: datetime,
        title: str = "", author: str = "", parent: str | None = None, id: str | None = None, tags: tuple[str, ...] = (),
    ) -> str:  # fmt: skip
        key = numbers.next(PREFIXES[kind])
        draft = Draft(
            scope=home, kind=kind, key=key, id=id, title=title, text=text, data=data, author=author, parent=parent,
            source=SOURCE, created_at=created_at, tags=tags,
        )  # fmt: skip
        self.changes.append(Put(draft=draft, how="key", if_version=0))
        return key


class IdSequence:
    """The numbers of an owner's records of one day. None is given out twice, whatever is deleted.

    They are kept beside the owners, under a digest of the owner's name: who is forgotten leaves no more than numbers.
    """

    def __init__(self, engine: Engine, home: Scope, day: str) -> None:
        self._ledger = Scope(*home.names[:3], LEDGER)
        self._day = day
        self._key = f"{hashlib.blake2b(home.path, digest_size=16).hexdigest()}/{day}"
        self._record = engine.get(self._ledger, self._key, kind=Kind.LEDGER)
        stored = fields(self._record) if self._record is not None else {}
        self._last: dict[str, int] = {prefix: cast(int, number) for prefix, number in stored.items()}

    def next(self, prefix: str) -> str:
        """The key of one more record."""
        self._last[prefix] = self._last.get(prefix, 0) + 1
        return f"{prefix}_{self._day}_{self._last[prefix]:08d}"

    def skip(self, key: str) -> None:
        """Do not give out the number of a key that came with its record, nor any before it."""
        prefix, _, number = key.split("_")
        self._last[prefix] = max(self._last.get(prefix, 0), int(number))

    def change(self) -> Put:
        """Keeps the numbers; fails when another process has given some out meanwhile."""
        draft = Draft(
            scope=self._ledger, kind=Kind.LEDGER, key=self._key, data=cast("dict[str, Json]", self._last),
            source=SOURCE,
        )  # fmt: skip
        return Put(draft=draft, how="key", if_version=0 if self._record is None else self._record.version)


def _make_job(project: Project, session: str, count: int, episodes: Sequence[Owned], cases: Sequence[Owned]) -> Put:
    """Return the change that enqueues the refinement of a stretch's records by a model: see `refinement`."""
    data: dict[str, Json] = {
        "task": REFINE, "session_id": session, "message_count": count, "result": None,
        "episodes": [list(each) for each in episodes], "cases": [list(each) for each in cases],
    }  # fmt: skip
    return make_job(REFINE, Scope(project.app, project.name), data)


def make_profile_put(home: Scope, profile: Mapping[str, Json], version: int) -> Put:
    """Make the change that replaces the profile of that version."""
    items = profile.get(PROFILE_ITEMS)  # a person may have written anything
    known = items if isinstance(items, list) else []
    text = "\n".join(str(item.get("description", "")) for item in known if isinstance(item, dict))
    draft = Draft(scope=home, kind=Kind.PROFILE, key=PROFILE, text=text[:LONGEST], data=dict(profile), source=SOURCE)
    return Put(draft=draft, how="key", if_version=version)


def make_skill_edit(
    old: Record, grown: Skill, together: Sequence[str], context: Mapping[str, Json] | None = None
) -> Edit:
    """The change that makes a skill of these cases, the newest with this `context`; what a person has written stays."""
    before = fields(old)
    named: list[Json] = [*together[-NAMED:]]
    data: dict[str, Json] = {**before, **encode_skill(grown), SOURCE_CASES: named}
    if context is not None:
        data |= merge_sources([before, context])
    edited = cast("list[str]", before.get("edited") or [])
    data |= {name: before[name] for name in edited if name != "name"}
    title = old.title if "name" in edited else grown.name[:MAX_TITLE]
    return Edit(
        id=old.id, fields={"data": data, "title": title, "text": render_skill_text(data)}, if_version=old.version
    )


def merge_sources(contexts: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The sessions and the senders of stretches, or of skills, which have several of the first."""
    sessions: dict[str, Json] = {}
    senders: dict[str, Json] = {}
    for context in contexts:
        of = cast("dict[str, Json]", context.get("sessions") or {str(context["session_id"]): True})
        # The newest come last, and are the ones that stay.
        sessions = {**{name: True for name in sessions if name not in of}, **of}
        spoke = cast("dict[str, Json]", context["senders"])
        senders = {**{name: True for name in senders if name not in spoke}, **spoke}
    return {"sessions": dict(list(sessions.items())[-NAMED:]), "senders": dict(list(senders.items())[-NAMED:])}


def list_source_cases(skill: Record) -> list[str]:
    """The public ids of the cases that a skill was made of."""
    return cast("list[str]", fields(skill)[SOURCE_CASES])


def select_cases(known: Sequence[Record], ids: Sequence[str]) -> list[Case]:
    """Those of the known cases that these ids name, oldest first."""
    mine = [record for record in known if public_id(record) in set(ids)][:GROWN_FROM]
    return [decode_case(record) for record in sorted(mine, key=lambda record: record.created_at)]


def encode_skill(skill: Skill) -> dict[str, Json]:
    """What a skill's record keeps of it beside its name."""
    return {
        "description": skill.description,
        "content": skill.content,
        "confidence": skill.confidence,
        "maturity": skill.maturity,
    }


def render_skill_text(data: Mapping[str, Json]) -> str:
    """The words that a skill is found by."""
    return f"{data['description']}\n\n{data['content']}"


def _render_case(case: Case) -> str:
    return "\n".join(part for part in (case.approach, case.insight) if part)
