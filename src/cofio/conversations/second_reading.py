"""What the rules took from a stretch, bettered in the background by the vectors of its sentences.

The records of the carve stand from the moment of the flush, which waits for no vector. A job, written in the same
transaction, says that they may be bettered. What both readings say is not touched, what a person changed stays, and to
read a stretch twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import cache
from typing import TypeAlias

from ..engine.engine import Engine
from ..extract.extractor import Extraction, Extractor, Fact, Message
from ..extract.profiles import merge_entries, remove_messages
from ..values.changes import Change, Delete, Put
from ..values.query import MAX_LIST, Where
from ..values.records import Draft, Json, Kind, Record
from .message_records import SOURCE, decode_message, fields
from .message_vectors import find_message_vectors
from .mirror import Mirror, apply_mirrored
from .projects import PREFIXES, Project
from .refinement import parse_owned
from .stored_fields import CONTEXT
from .stretches import LONGEST, PROFILE, IdSequence, make_profile_put

_Reading: TypeAlias = Callable[[], Extraction]
_EMBEDDER = "minilm"


def is_possible(engine: Engine) -> bool:
    """Whether stretches of this store can be read with vectors: by the settings, and as far as is known."""
    return engine.settings.embedder == _EMBEDDER and engine.expects_vectors


class SecondReader:
    """Has stretches read once more, and keeps what that changes."""

    def __init__(self, engine: Engine, extractor: Extractor, zone: tzinfo, mirror: Mirror | None = None) -> None:
        self._engine = engine
        self._extractor = extractor
        self._zone = zone
        self._mirror = mirror

    def refine(self, project: Project, task: Mapping[str, Json]) -> bool:
        """Better the records that a job names; False when that changes nothing.

        Raises:
            Unavailable: the vectors could not be made; nothing was changed.
            Conflict, NotFound: a record changed meanwhile; nothing was changed.
        """
        from ..extract.rules.vector_reading import MODEL, read_with_vectors

        embedder = self._engine.embedder()
        episodes = [self._find_episode(project, user, known) for _, user, known in parse_owned(task["episodes"])]
        mine = [record for record in episodes if record is not None and not fields(record).get("edited")]
        if embedder is None or embedder.id != MODEL or not mine:
            return False
        turns = self._list_children(mine[0], Kind.TURN)
        messages = _decode_messages(turns)
        vectors = find_message_vectors(self._engine, turns)
        better, _ = read_with_vectors(messages, self._zone, lambda _: False, vectors, embedder.embed)
        session = str(task["session_id"])
        names = {message.sender: message.name or message.sender for message in messages}
        ids = {(session, message.id) for message in messages}
        # Most often nothing changes; then the first reading is not needed again.
        read_first = cache(lambda: self._extractor.extract(messages, self._zone, lambda _: False))
        changes: list[Change] = []
        for record in mine:
            changes += self._change_facts(record, read_first, better.facts, names)
            changes += self._change_profile(record, read_first, better, session, ids)
        apply_mirrored(self._engine, self._mirror, changes)
        return bool(changes)

    def _find_episode(self, project: Project, user: str, known: str) -> Record | None:
        home = project.owner("user", user)
        found = self._engine.list(home, exact=True, filter=Where("id", "=", known), limit=1)
        return found[0] if found else None

    def _list_children(self, episode: Record, kind: Kind) -> list[Record]:
        below = Where("parent", "=", episode.id)
        return self._engine.list(episode.scope, exact=True, kinds=(kind,), filter=below, limit=MAX_LIST, newest=False)

    def _change_facts(
        self, episode: Record, read_first: _Reading, now: Sequence[Fact], names: Mapping[str, str]
    ) -> list[Change]:
        """Delete the facts that only the first reading has, and add those that only the second has."""
        there, kept = self._list_children(episode, Kind.FACT), {fact.text for fact in now}
        if kept == {record.text for record in there}:
            return []
        dropped = {fact.text for fact in read_first().facts}
        changes: list[Change] = [
            Delete(id=record.id, if_version=record.version)
            for record in there
            if record.text in dropped - kept and not fields(record).get("edited") and not record.tags
        ]
        known = {record.text for record in there} | dropped  # one of the first reading that is gone, a person deleted
        fresh = [fact for fact in now if fact.text not in known]
        if fresh:
            context = {name: fields(episode)[name] for name in CONTEXT}
            numbers = IdSequence(self._engine, episode.scope, str(episode.key).split("_")[1])
            for fact in fresh:
                draft = Draft(
                    scope=episode.scope, kind=Kind.FACT, key=numbers.next(PREFIXES[Kind.FACT]),
                    text=fact.text[:LONGEST], author=names.get(fact.speaker, fact.speaker), parent=episode.id,
                    data={**context, "messages": list(fact.messages)}, source=SOURCE, created_at=fact.at,
                )  # fmt: skip
                changes.append(Put(draft=draft, how="key", if_version=0))
            changes.append(numbers.change())
        return changes

    def _change_profile(
        self,
        episode: Record,
        read_first: _Reading,
        better: Extraction,
        session: str,
        ids: Collection[tuple[str, str]],
    ) -> list[Change]:
        """The profile with what the second reading says of a stretch, if it still says what the first one did."""
        profile = self._engine.get(episode.scope, PROFILE, kind=Kind.PROFILE)
        document = None if profile is None else dict(fields(profile))
        before = None if document is None else remove_messages(document, ids)
        user = episode.scope.names[-1]
        now = better.profiles.get(user, ())
        after = merge_entries(before, now, session=session)
        if after == document or (document is None and not now):
            return []
        was = read_first().profiles.get(user, ())
        if was == now or (document is None and was):
            return []  # a person has changed what these messages said, or deleted it
        if document is not None and merge_entries(before, was, session=session) != document:
            return []
        return [make_profile_put(episode.scope, after, 0 if profile is None else profile.version)]


def _decode_messages(turns: Sequence[Record]) -> list[Message]:
    """The messages of a stretch, in order, each less what the memory itself had told it."""
    return sorted((replace(decode_message(turn), text=turn.text) for turn in turns), key=lambda one: one.at)
