"""Conversations: messages are kept at once, and carved into episodes, facts, profiles, cases and skills."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

from ..engine.engine import Answers, Engine
from ..engine.retries import retry_conflicts
from ..extract.admission import admit_messages
from ..extract.extractor import Extractor, Message
from ..values.changes import Change, Put
from ..values.errors import Conflict, NotFound
from ..values.query import MAX_LIST, Where
from ..values.records import Draft, Json, Kind, Record
from .deletion import Forgetting
from .message_records import again, distinct, draft, message_id, message_of, turn_id
from .mirror import Mirror, applied
from .projects import Place, Track, public_id
from .refinement import Reader, Refining
from .stretches import Carving, Stretch

__all__ = ["Conversations", "Place", "distinct", "message_of", "public_id"]

BUSY = "too many are writing to this session at once; try again"
TURNS = 64  # users whose sessions can be carved at once
UNASKED = 500  # so many messages are kept before a session in which no user has spoken is carved at all


class Conversations:
    """The conversations of one store. Several of these, in one process or many, may work on the same session."""

    def __init__(
        self,
        engine: Engine,
        *,
        zone: tzinfo = UTC,
        extractor: Extractor | None = None,
        reader: Reader | None = None,
        mirror: Mirror | None = None,
    ) -> None:
        """`zone` is where days begin and end, and the one that dates are told in; `reader` is a model, if any.

        The `mirror` follows each change, before the call that made it returns.
        """
        self.engine = engine
        self._zone = zone
        self._mirror = mirror
        if extractor is None:
            from ..extract.rules import Rules

            extractor = Rules()
        self._extractor = extractor
        self._refining = Refining(engine, extractor, zone, reader, mirror) if reader is not None else None
        self._carving = Carving(engine, extractor, zone, refined=reader is not None, mirror=mirror)
        self.forgetting = Forgetting(engine, extractor, mirror)
        self._turns = [threading.Lock() for _ in range(TURNS)]

    def add(self, place: Place, session: str, messages: Sequence[Message]) -> int:
        """Keep messages, and carve what they finish; how many stretches were carved."""
        self.append(place, session, messages)
        return self.carve(place, session)

    def append(self, place: Place, session: str, messages: Sequence[Message], *, also: Sequence[Change] = ()) -> int:
        """Keep messages, all or none, each once however often it is sent; how many were new.

        A message without an id is known by its time and its place in the request. What is to be changed `also` is
        changed in the same transaction.

        Raises:
            Conflict: an id was given that another message has.
            Invalid: a message cannot be stored.
        """
        fresh: list[Draft] = []

        def find_changes() -> list[Change]:
            nonlocal fresh
            fresh = self._fresh(place, session, messages)
            return [*(Put(draft=each) for each in fresh), *also]

        self.engine.change(find_changes, busy=BUSY)  # another process may have just taken one of them in
        return len(fresh)

    def apply(self, changes: Sequence[Change]) -> Answers:
        """Make changes to what is remembered, as `Engine.apply` does, and have the mirror follow."""
        return applied(self.engine, self._mirror, changes)

    def buffered(self, place: Place, session: str) -> list[Record]:
        """The messages that have not been carved yet, in the order in which they were said."""
        return self.engine.list(
            place.session(session), exact=True, kinds=(Kind.TURN,), limit=MAX_LIST, newest=False, order="created"
        )

    def buffered_for(self, place: Place, session: str, track: Track, owner: str) -> list[Record]:
        """The messages of a session that have not been carved yet, for one who takes part in it; none for anyone else.

        A user takes part who has said something in the session, whether that waits or was carved before; an agent that
        has answered in what waits, or has learned something from what was carved.
        """
        waiting = self.buffered(place, session)
        role = "user" if track == "user" else "assistant"
        spoke = any((message.sender, message.role) == (owner, role) for message in _messages(waiting))
        if not waiting or spoke:
            return waiting
        carved = Where("data.session_id", "=", session)
        return waiting if self.engine.count(place.owner(track, owner), exact=True, filter=carved) else []

    def carve(self, place: Place, session: str, *, whole: bool = False, among: Collection[str] | None = None) -> int:
        """Make records of the stretches that are finished, or of all that is there; how many stretches there were.

        Each stretch is one transaction: there are either its messages, waiting, or the records that it became. With
        `among`, the ids of records, no other message is looked at.
        """
        carved = 0

        def find_turns() -> list[Record]:
            return [turn for turn in self.buffered(place, session) if among is None or turn.id in among]

        def carve_all() -> None:
            nonlocal carved
            for stretch in self._stretches(find_turns(), whole):
                self._carving.keep(place, session, Stretch(turns=stretch, messages=_messages(stretch)))
                carved += 1

        waiting = find_turns()
        if not self._stretches(waiting, whole):
            return 0
        with self._turn(place, waiting):
            retry_conflicts(carve_all, busy=BUSY)  # another process may be at it
        return carved

    def _turn(self, place: Place, waiting: Sequence[Record]) -> threading.Lock:
        """What a carve waits for: others of the same user in this process, who would only be told of a conflict."""
        speakers = [message.sender for message in _messages(waiting) if message.role == "user"]
        return self._turns[hash((place, speakers[0] if speakers else "")) % len(self._turns)]

    def refine(self, place: Place, task: Mapping[str, Json]) -> bool:
        """Have a model better what a job names; False when there is nothing to better, or no model.

        Raises:
            Unavailable: the model could not be asked, or made no sense; nothing was changed.
            Conflict, NotFound: a record changed while the model was thinking; nothing was changed.
        """
        return self._refining is not None and self._refining.refine(place, task)

    def _stretches(self, turns: Sequence[Record], whole: bool) -> list[Sequence[Record]]:
        messages = _messages(turns)
        if not whole and len(messages) < UNASKED and all(message.role != "user" for message in messages):
            return []
        ends = self._extractor.boundaries(messages, self._zone) if messages else []
        if whole and messages:
            ends = [*ends, len(messages)]
        return [turns[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _fresh(self, place: Place, session: str, messages: Sequence[Message]) -> list[Draft]:
        """Those of the messages that are not kept yet."""
        fresh: dict[str, Message] = {}
        for index, message in enumerate(messages):
            given = message.id or message_id(session, message, index)
            # Two messages of the same moment are two, unless they are the same; one that names itself is one.
            for name in (given, f"{given}_{again(message)}"):
                known = replace(message, id=name)
                there = fresh.get(known.id) or self._kept(place, session, known.id)
                if there is None:
                    fresh[known.id] = known
                if there is None or there == known or _is_masked(known, there):
                    break
                if message.id:
                    raise Conflict(f"the message {message.id} is there already, with something else in it")
        return [draft(place, session, message) for message in fresh.values()]

    def _kept(self, place: Place, session: str, message: str) -> Message | None:
        try:
            return message_of(self.engine.read(turn_id(place, session, message)))
        except NotFound:
            return None


def _is_masked(message: Message, kept: Message) -> bool:
    """Whether a message is what is kept, but for secrets that one of them has masked, and the other has not."""
    return message in admit_messages("rest", [kept], allow=False) or kept in admit_messages(
        "rest", [message], allow=False
    )


def _messages(turns: Sequence[Record]) -> list[Message]:
    return [message_of(turn) for turn in turns]
