"""Conversations: messages are kept at once, and carved into episodes, facts, profiles, cases and skills."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ..engine.engine import Answers, Engine
from ..engine.jobs import count_jobs, get_job_scope
from ..engine.retries import retry_conflicts
from ..extract.admission import admit_messages
from ..extract.extractor import Extractor, Message
from ..values.changes import Change, Delete, Drop, Put, Vacant
from ..values.errors import Conflict
from ..values.query import MAX_LIST, Where
from ..values.records import Draft, Json, Kind, Record, Scope
from .deletion import MemoryDeleter, forget
from .message_records import decode_message, digest_message, distinct, make_draft, make_message_id, make_turn_id
from .mirror import Mirror, apply_mirrored
from .open_sessions import OpenSessions
from .projects import Project, Track, public_id
from .refinement import Reader, Refiner
from .stretches import Carver, Stretch

__all__ = ["Conversations", "Project", "decode_message", "distinct", "public_id"]

TASK = "task"  # the kind of job that carries out a request which was accepted before
BUSY = "too many are writing to this session at once; try again"
TURNS = 64  # users whose sessions can be carved at once
UNASKED = 500  # messages that are kept before a session in which no user has spoken is carved at all


class TasksWait(Exception):
    """Requests for a session were accepted and are not carried out yet."""


def make_line(project: Project, session: str) -> Scope:
    """Return the line in which the tasks of a session wait."""
    return Scope(project.app, project.name, session)


class Conversations:
    """The conversations of one store. Several of these, in one process or many, may work on the same session."""

    def __init__(
        self,
        engine: Engine,
        *,
        extractor: Extractor | None = None,
        reader: Reader | None = None,
        mirror: Mirror | None = None,
        default_user: str | None = None,
        uses_model: bool = True,
    ) -> None:
        """`reader` is a model of this process, if any. The `mirror` follows each change.

        `default_user` is whose memory a stretch goes to in which no user speaks. A carve leaves a job for the model if
        there is a `reader`, or the settings name a model, which a server then has; not if `uses_model` is False, as in
        an import: months of messages would cost a lot.
        """
        self.engine = engine
        self._zone = engine.settings.zone
        self._mirror = mirror
        if extractor is None:
            from ..extract.rules import Rules

            extractor = Rules()
        self._extractor = extractor
        self._refiner = None if reader is None else Refiner(engine, extractor, self._zone, reader, mirror)
        self._carver = Carver(
            engine, extractor, self._zone, mirror=mirror, default_user=default_user,
            refined=uses_model and (self.has_model or bool(engine.settings.llm_base_url)),
        )  # fmt: skip
        self.deleter = MemoryDeleter(engine, extractor, mirror)
        self._locks = [threading.Lock() for _ in range(TURNS)]
        self._sessions = OpenSessions()

    @property
    def has_model(self) -> bool:
        """Whether this process has a model that refines what a carve leaves."""
        return self._refiner is not None

    def add(self, project: Project, session: str, messages: Sequence[Message], *, defers: bool = False) -> int:
        """Keep messages, and carve what they finish unless it `defers` that; how many stretches were carved.

        Raises:
            TasksWait: requests for the session wait, which this must not overtake. Nothing was changed.
        """
        self._append_first(project, session, messages)
        if defers or not self._sessions.may_have_ended(project, session, messages, self._zone):
            return 0
        return self.carve(project, session)

    def _append_first(self, project: Project, session: str, messages: Sequence[Message]) -> None:
        """Keep messages that are most likely new, in one transaction, if no task of the session waits."""
        line = make_line(project, session)
        no_tasks = Vacant(scope=get_job_scope(TASK, line), kind=Kind.LEDGER, first="", past="\U0010ffff")
        names = [message.id or make_message_id(session, message, index) for index, message in enumerate(messages)]
        if len(set(names)) == len(names):
            drafts = [
                make_draft(project, session, replace(each, id=name)) for each, name in zip(messages, names, strict=True)
            ]
            with suppress(Conflict):
                self.engine.apply([no_tasks, *(Put(draft=each) for each in drafts)])
                return
        if count_jobs(self.engine, TASK, line):
            raise TasksWait
        self.append(project, session, messages)  # some of them are there already

    def append(
        self, project: Project, session: str, messages: Sequence[Message], *, also: Sequence[Change] = ()
    ) -> int:
        """Keep messages, all or none, each once however often it is sent; how many were new.

        A message without an id is known by its time and its position in the request. What is to be changed `also` is
        changed in the same transaction.

        Raises:
            Conflict: an id was given that another message has.
            Invalid: a message cannot be stored.
        """
        fresh: list[Draft] = []

        def find_changes() -> list[Change]:
            nonlocal fresh
            fresh = self._find_new(project, session, messages)
            return [*(Put(draft=each) for each in fresh), *also]

        self.engine.change(find_changes, busy=BUSY)  # another process may have just taken one of them in
        return len(fresh)

    def apply(self, changes: Sequence[Change]) -> Answers:
        """Make changes to what is remembered, as `Engine.apply` does, and have the mirror follow."""
        return apply_mirrored(self.engine, self._mirror, changes)

    def forget(self, change: Delete | Drop) -> int:
        """Forget a record or a scope for good, as `deletion.forget` does, and have the mirror follow; how many went.

        Raises:
            NotFound: nothing has this id.
        """
        return forget(self.engine, self._mirror, change)

    def list_waiting(self, project: Project, session: str) -> list[Record]:
        """The messages that have not been carved yet, in the order in which they were said."""
        return self.engine.list(
            project.session(session), exact=True, kinds=(Kind.TURN,), limit=MAX_LIST, newest=False, order="created"
        )

    def list_waiting_for(self, project: Project, session: str, track: Track, owner: str) -> list[Record]:
        """The messages of a session that have not been carved yet, for one who takes part in it; none for anyone else.

        A user takes part who has said something in the session, whether that waits or was carved before; an agent that
        has answered in what waits, or has learned something from what was carved.
        """
        waiting = self.list_waiting(project, session)
        role = "user" if track == "user" else "assistant"
        spoke = any((message.sender, message.role) == (owner, role) for message in _decode_messages(waiting))
        if not waiting or spoke:
            return waiting
        carved = Where("data.session_id", "=", session)
        return waiting if self.engine.count(project.owner(track, owner), exact=True, filter=carved) else []

    def carve(
        self, project: Project, session: str, *, whole: bool = False, among: Collection[str] | None = None
    ) -> int:
        """Make records of the stretches that are finished, or of all that is there; how many stretches there were.

        Each stretch is one transaction: there are either its messages, waiting, or the records that it became. With
        `among`, the ids of records, no other message is looked at.
        """
        carved = 0

        def find_turns() -> list[Record]:
            return [turn for turn in self.list_waiting(project, session) if among is None or turn.id in among]

        def carve_all() -> None:
            nonlocal carved
            for stretch in self._cut(find_turns(), whole):
                self._carver.store(project, session, Stretch(turns=stretch, messages=_decode_messages(stretch)))
                carved += 1

        waiting = find_turns()
        if not self._cut(waiting, whole):
            return 0
        with self._find_lock(project, waiting):
            retry_conflicts(carve_all, busy=BUSY)  # another process may be at it
        return carved

    def _find_lock(self, project: Project, waiting: Sequence[Record]) -> threading.Lock:
        """The lock of a user's carves in this process, which without it would only end in conflicts."""
        speakers = [message.sender for message in _decode_messages(waiting) if message.role == "user"]
        return self._locks[hash((project, speakers[0] if speakers else "")) % len(self._locks)]

    def refine(self, project: Project, task: Mapping[str, Json]) -> bool:
        """Have the model refine what a job names; False when there is nothing to refine, or no model.

        Raises:
            Unavailable: the model could not be asked, or made no sense; nothing was changed.
            Conflict, NotFound: a record changed while the model was thinking; nothing was changed.
        """
        return self._refiner is not None and self._refiner.refine(project, task)

    def _cut(self, turns: Sequence[Record], whole: bool) -> list[Sequence[Record]]:
        messages = _decode_messages(turns)
        if not whole and len(messages) < UNASKED and all(message.role != "user" for message in messages):
            return []
        ends = self._extractor.find_boundaries(messages, self._zone) if messages else []
        if whole and messages:
            ends = [*ends, len(messages)]
        return [turns[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _find_new(self, project: Project, session: str, messages: Sequence[Message]) -> list[Draft]:
        """Those of the messages that are not stored yet."""
        names: list[tuple[str, str]] = []
        for index, message in enumerate(messages):
            name = message.id or make_message_id(session, message, index)
            names.append((name, f"{name}_{digest_message(message)}"))
        stored = self._load(project, session, [name for name, _ in names])
        count = Counter(name for name, _ in names)
        stored |= self._load(project, session, [other for name, other in names if name in stored or count[name] > 1])
        fresh: dict[str, Message] = {}
        for message, pair in zip(messages, names, strict=True):
            # Two messages of the same moment are two, unless they are the same; one that names itself is one.
            for name in pair:
                known = replace(message, id=name)
                there = fresh.get(name) or stored.get(name)
                if there is None:
                    fresh[name] = known
                if there is None or there == known or _is_masked(known, there):
                    break
                if message.id:
                    raise Conflict(f"the message {message.id} is there already, with something else in it")
        return [make_draft(project, session, message) for message in fresh.values()]

    def _load(self, project: Project, session: str, names: Sequence[str]) -> dict[str, Message]:
        """Those of the messages that are stored, by their ids, wherever they are now."""
        found = self.engine.read_many(make_turn_id(project, session, name) for name in names)
        return {name: decode_message(turn) for name, turn in zip(names, found, strict=True) if turn is not None}


def _is_masked(message: Message, stored: Message) -> bool:
    """Whether a message is what is kept, but for secrets that one of them has masked, and the other has not."""
    return message in admit_messages("rest", [stored], allow=False) or stored in admit_messages(
        "rest", [message], allow=False
    )


def _decode_messages(turns: Sequence[Record]) -> list[Message]:
    return [decode_message(turn) for turn in turns]
