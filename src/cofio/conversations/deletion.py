"""How memory is taken back: what is deleted goes with everything that was made of it, in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias, cast

from ..engine.engine import Engine
from ..engine.jobs import JOB_KINDS, get_job_scope
from ..extract.extractor import Extractor
from ..extract.profiles import remove_messages, restore_messages
from ..values.changes import Change, Delete, Drop, Edit, Put
from ..values.errors import Conflict, NotFound
from ..values.query import AllOf, Filter, Where
from ..values.records import Draft, Json, Kind, Record, Scope
from .message_records import fields
from .mirror import Mirror, apply_mirrored, change_mirrored
from .projects import Project, Track, parse_public_id, public_id
from .stored_fields import STRETCH_ID
from .stretches import CASES, PROFILE, list_source_cases, make_profile_put, make_skill_edit, merge_sources, select_cases

Deletions: TypeAlias = tuple[list[Change], Counter[Kind]]
Spare: TypeAlias = Callable[[list[Record]], None]
"""What is told of the records that are about to be forgotten, or changed by that, as they are."""
KINDS = (Kind.TURN, Kind.EPISODE, Kind.FACT, Kind.PROFILE, Kind.CASE, Kind.SKILL)


class MemoryDeleter:
    """Deletes by id, by session, by owner, and all. Each answer counts what went, by kind."""

    def __init__(self, engine: Engine, extractor: Extractor, mirror: Mirror | None = None) -> None:
        self._mirror = mirror
        self._engine = engine
        self._extractor = extractor

    def delete_memory(self, project: Project, public: str, spare: Spare | None = None) -> Counter[Kind]:
        """Forget an episode with its facts and messages, a fact, a case, a skill, or a message that still waits.

        With `spare` it can be taken back: it is called before anything goes. Without, it is forgotten for good.

        Raises:
            NotFound: nothing here has this id.
            Conflict: it is a message of an episode, which it cannot be taken out of, or of several sessions.
        """
        if spare is None:
            name = parse_public_id(public)
            home = None if name is None else project.owner(name.track, name.owner)
            # What is made of many may hold something of this one, too.
            self._discard(
                project,
                lambda stored: (
                    public in (public_id(stored), _get_data(stored).get("message_id"))
                    or stored.kind is Kind.SKILL
                    or (stored.kind is Kind.PROFILE and stored.scope == home)
                ),
            )
        return self._delete(lambda: self._find_by_id(project, public), spare)

    def list_deletions(self, project: Project, public: str) -> list[Record]:
        """The records that `delete_memory` would remove or change, as they are.

        Raises:
            NotFound, Conflict: as `delete_memory` would.
        """
        changes, _ = self._find_by_id(project, public)
        return self._find_touched(changes)

    def delete_session(self, project: Project, session: str) -> Counter[Kind]:
        """Forget all that was said in a session, and all that was made of it, of every owner."""
        quoted = json.dumps(session)
        self._discard(project, lambda stored: quoted in json.dumps(stored.data))
        of_it = Where("data.session_id", "=", session)

        def find_deletions() -> Deletions:
            jobs = [each for queue in _list_queues(project) for each in self._list_all(queue, (Kind.LEDGER,), of_it)]
            return self._plan([*self._list_all(project.scope, (*KINDS, Kind.LEDGER), of_it), *jobs])

        return self._delete(find_deletions)

    def delete_owner(
        self, project: Project, track: Track, name: str, kinds: Sequence[Kind] = (), spare: Spare | None = None
    ) -> Counter[Kind]:
        """Forget all, or the kinds, that is stored of a user or an agent, and what they said that still waits.

        What agents learned from working for a user goes with the user. With `spare`, the kinds can be taken back.
        """
        home = project.owner(track, name)
        if spare is None:
            self._discard(
                project,
                lambda stored: (
                    (stored.scope == home and (not kinds or stored.kind in kinds))
                    or (not kinds and name in cast("dict[str, Json]", _get_data(stored).get("senders") or {}))
                ),
            )
        if kinds:
            made_of = (Kind.FACT, Kind.TURN) if Kind.EPISODE in kinds else ()
            return self._delete(lambda: self._plan(self._list_all(home, (*kinds, *made_of), None)), spare)
        sent = AllOf(
            Where("data.sender_id", "=", name), Where("data.role", "=", "user" if track == "user" else "assistant")
        )

        def find_deletions() -> Deletions:
            waiting = self._list_all(project.scope / "session", (Kind.TURN,), sent)
            with_them = Where(("data", "senders", name), "=", True)
            learned = self._list_all(project.scope / "agent", (Kind.CASE,), with_them) if track == "user" else []
            changes, counts = self._plan([*learned, *waiting])
            return [Drop(scope=home), *changes], counts + self._count_kinds(home)

        return self._delete(find_deletions)

    def delete_project(self, project: Project) -> Counter[Kind]:
        """Forget an app's project."""
        self._discard(project, lambda _: True)
        # All but the numbers that were given out: an id never comes to mean something else.
        parts = [Drop(scope=project.scope / part) for part in ("user", "agent", "session", "job", "knowledge")]
        parts += [Drop(scope=queue) for queue in _list_queues(project)]
        return self._delete(lambda: (list(parts), self._count_kinds(project.scope)))

    def _discard(self, project: Project, is_meant: Callable[[Draft], bool]) -> None:
        """Keep nothing either of what vanished from what people see, where it is to be forgotten for good."""
        if self._mirror is not None:
            names = project.scope.names
            self._mirror.discard(lambda stored: stored.scope.names[: len(names)] == names and is_meant(stored))

    def _delete(self, find: Callable[[], Deletions], spare: Spare | None = None) -> Counter[Kind]:
        counts: Counter[Kind] = Counter()

        def find_changes() -> list[Change]:
            nonlocal counts
            changes, counts = find()
            if spare is not None:
                spare(self._find_touched(changes))
            return changes

        change_mirrored(self._engine, self._mirror, find_changes)
        return +counts

    def _find_touched(self, changes: Sequence[Change]) -> list[Record]:
        """The records that changes remove or replace, as they are; of a profile only what it has from the others, which
        may be all.
        """
        touched: list[Record] = []
        for change in changes:
            if isinstance(change, Delete | Edit):
                with suppress(NotFound):  # as the change will say
                    touched.append(self._engine.read(change.id))
            elif isinstance(change, Put):
                stored = self._engine.get(change.draft.scope, change.draft.key or "", kind=change.draft.kind)
                touched += [stored] if stored is not None else []
        if len(touched) == 1:
            return touched
        messages = _collect_messages(touched)
        return [_reduce(each, messages.get(each.scope, ())) if each.kind is Kind.PROFILE else each for each in touched]

    def _find_by_id(self, project: Project, public: str) -> Deletions:
        name = parse_public_id(public)
        if name is not None:
            found = self._engine.get(project.owner(name.track, name.owner), name.key, kind=name.kind)
            if found is not None:
                hanging = Where("parent", "=", found.id)
                under = (
                    self._list_all(found.scope, (Kind.FACT, Kind.TURN), hanging) if found.kind is Kind.EPISODE else []
                )
                if found.kind is Kind.EPISODE:
                    of_it = Where(("data", STRETCH_ID), "=", cast(str, fields(found)[STRETCH_ID]))
                    under += self._list_all(project.scope / "agent", (Kind.CASE,), of_it)
                return self._plan([found, *under])
        messages = self._list_all(project.scope, (Kind.TURN,), Where("data.message_id", "=", public))
        if not messages:
            raise NotFound(public)
        if any(turn.parent is not None for turn in messages):
            raise Conflict(f"the message {public} is part of an episode: delete that, or its session")
        if len({turn.scope for turn in messages}) > 1:
            raise Conflict(f"the message {public} is in several sessions: delete one of those")
        return self._plan(messages)

    def _plan(self, records: Sequence[Record]) -> Deletions:
        """What deleting these records takes with it: what profiles and skills have from them."""
        changes: list[Change] = [Delete(id=record.id, if_version=record.version) for record in records]
        counts: Counter[Kind] = Counter(
            record.kind for record in records if record.kind not in (Kind.LEDGER, Kind.TURN)
        )
        turns = [fields(record) for record in records if record.kind is Kind.TURN]
        counts[Kind.TURN] = len({(turn["session_id"], turn["message_id"]) for turn in turns})
        gone = {record.id for record in records}
        for home, messages in _collect_messages(records).items():
            profile = self._engine.get(home, PROFILE, kind=Kind.PROFILE)
            if profile is None or profile.id in gone:
                continue
            before = dict(fields(profile))
            after = remove_messages(before, messages)
            if after is None:
                changes.append(Delete(id=profile.id, if_version=profile.version))
                counts[Kind.PROFILE] += 1
            elif after != before:
                changes.append(make_profile_put(home, after, profile.version))
        for home in {record.scope for record in records if record.kind is Kind.CASE}:
            cases = {public_id(record) for record in records if record.scope == home and record.kind is Kind.CASE}
            for skill in self._engine.list(home, exact=True, kinds=(Kind.SKILL,), limit=CASES):
                if skill.id not in gone and cases & set(list_source_cases(skill)):
                    changes.append(self._shrink_skill(home, skill, cases, counts))
        return changes, counts

    def _shrink_skill(self, home: Scope, skill: Record, cases: set[str], counts: Counter[Kind]) -> Change:
        """A skill without these cases; one that has fewer than two left is none."""
        left = [case for case in list_source_cases(skill) if case not in cases]
        known = self._engine.list(home, exact=True, kinds=(Kind.CASE,), limit=CASES, order="created")
        remaining = [record for record in known if public_id(record) in left]
        if len(remaining) < 2:
            counts[Kind.SKILL] += 1
            return Delete(id=skill.id, if_version=skill.version)
        edit = make_skill_edit(skill, self._extractor.build_skill(select_cases(known, left)), left)
        data = {**cast("dict[str, Json]", edit.fields["data"]), **merge_sources([*map(fields, reversed(remaining))])}
        return Edit(id=edit.id, fields={**edit.fields, "data": data}, if_version=edit.if_version)

    def _list_all(self, scope: Scope, kinds: Sequence[Kind], filter: Filter | None) -> list[Record]:
        return list(self._engine.each(scope, kinds=kinds, filter=filter))

    def _count_kinds(self, scope: Scope) -> Counter[Kind]:
        copies = self._engine.count(scope, kinds=(Kind.TURN,), filter=Where("data.copy", "=", True))
        counts = Counter({kind: self._engine.count(scope, kinds=(kind,)) for kind in KINDS})
        if len(scope.names) == 3:  # of a whole project a message counts once, however many users have it
            counts[Kind.TURN] -= copies
        return counts


def forget(engine: Engine, mirror: Mirror | None, change: Delete | Drop) -> int:
    """Forget a record or a scope for good, and nothing that is only like it or from it; how many went.

    A document goes with its topics and its file, which are nothing without it.

    Raises:
        NotFound: nothing has this id.
    """
    if mirror is not None:
        if isinstance(change, Drop):
            scope = change.scope
            mirror.discard(lambda stored: stored.scope in scope)
        else:
            gone = engine.read(change.id)
            of_it = (gone.scope, gone.kind, gone.key)
            mirror.discard(lambda stored: stored.id == gone.id or (stored.scope, stored.kind, stored.key) == of_it)
    changes: list[Change] = [change]
    if isinstance(change, Delete) and (known := engine.read(change.id)).kind is Kind.DOCUMENT:
        changes.append(Drop(scope=known.scope / known.id))
    return sum(cast("list[int]", apply_mirrored(engine, mirror, changes)))


def _reduce(profile: Record, messages: Collection[tuple[str, str]]) -> Record:
    """A profile with nothing but what it has from some messages."""
    data = restore_messages({}, fields(profile), messages)
    return replace(profile, data=data, text=make_profile_put(profile.scope, data, 0).draft.text)


def _get_data(stored: Draft) -> Mapping[str, Json]:
    return stored.data if isinstance(stored.data, dict) else {}


def _collect_messages(records: Iterable[Record]) -> dict[Scope, set[tuple[str, str]]]:
    """The messages, by session and id, that the records are, or were taken from, by whose they are."""
    found: dict[Scope, set[tuple[str, str]]] = {}
    for record in records:
        data = fields(record)
        if record.kind is Kind.TURN and record.parent is not None:
            found.setdefault(record.scope, set()).add((str(data["session_id"]), cast(str, data["message_id"])))
        elif record.kind is Kind.FACT:
            ids = cast("list[str]", data["messages"])
            found.setdefault(record.scope, set()).update((str(data["session_id"]), message) for message in ids)
    return found


def _list_queues(project: Project) -> list[Scope]:
    """Return the scopes of a project's jobs."""
    return [get_job_scope(kind, Scope(project.app, project.name)) for kind in JOB_KINDS]
