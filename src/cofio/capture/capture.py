"""How a transcript becomes memory: what is new in it is stored as the messages of a conversation, and carved.

Messages, and how far the transcript was read, are stored in one transaction. So whenever it is cut off, nothing is lost
and nothing comes twice: what was stored is not read again, and what was not stored is. A message is known by its id, so
a transcript that was rewritten adds only what is new in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ..conversations.conversations import Conversations, Project
from ..conversations.message_records import decode_message, make_turn_id
from ..conversations.mirror import Mirror
from ..engine.engine import Engine
from ..extract.extractor import Message
from ..values.changes import Change, Delete
from ..values.errors import Conflict, Invalid, Unavailable
from ..values.query import AllOf, Filter, Where
from ..values.records import Kind, Record
from .coding_rules import CodingRules
from .command_runs import OPEN, WorkList
from .lesson_removal import LessonRemover
from .lessons import (
    DECISION,
    PREFERENCE,
    TODO,
    clean_prose,
    find_lessons,
    is_personal,
    names_as_old,
    takes_back,
)
from .positions import TranscriptMark, load_mark
from .private_text import asks_to_skip, reads_memory, strip_injected, strip_private
from .repositories import Repository, find_personal_project, find_repository, find_user
from .shortening import MessageMaker
from .transcripts.transcript_messages import ReadCounts, TranscriptMessage
from .transcripts.transcript_sources import Transcript, TranscriptReading, get_client, open_reading
from .withdrawals import withdraw_lesson

BATCH = 500  # messages that are stored in one transaction, and then carved
HEAVY = 4_000_000  # characters after which a batch ends, however few its messages are
_TRIES = 5
_RECALLED = "(what was remembered)"
_ROUNDS = 100  # in each of which as many messages are carved as a list holds
_BEFORE = 40  # messages that tell what a session's next ones are about
_LATEST = 50  # lessons of a session that a later turn may take back


@dataclass(slots=True, kw_only=True)
class CaptureReport:
    """What came of reading a transcript."""

    repository: Repository | None = None
    """Where it went; None if that cannot be told."""
    reason: str = ""
    """Why nothing was kept, if nothing was to be."""
    messages: int = 0
    """How many were new."""
    present: int = 0
    """How many were there already."""
    episodes: int = 0
    lessons: int = 0
    """How many decisions, corrections, preferences, fixes, open tasks and things to remember were found."""
    masked: int = 0
    """How many messages had what looks like a secret."""
    skipped: int = 0
    """How many messages the user wants left out."""
    counts: ReadCounts = field(default_factory=ReadCounts)


def capture_transcript(
    memory: Engine,
    client: str,
    path: Path,
    session_id: str | None = None,
    cwd: Path | None = None,
    *,
    mirror: Mirror | None = None,
) -> CaptureReport:
    """Store what is new in a transcript, and what it teaches, in the memory of its repository.

    `cwd` counts where the transcript does not say in which folder its session began. `session_id` names the session of
    a client whose sessions share a file. If the memory's settings name a model, what was made of the messages is
    bettered by the next server that has the time.

    Raises:
        Invalid: there is no such client.
        OSError: the transcript cannot be read.
        Unavailable: the memory cannot be read or written.
    """
    part = session_id or "" if get_client(client).parser is None else ""
    transcript = Transcript(client=client, path=path, part=part, changed_at=datetime.now(UTC))
    return Capture(memory, mirror=mirror).take(transcript, cwd=cwd)


class Capture:
    """Takes transcripts into a memory, one after the other.

    With `uses_model`, a server's model refines what comes of them, if the settings name one.
    """

    def __init__(self, engine: Engine, *, mirror: Mirror | None = None, uses_model: bool = True) -> None:
        self.engine = engine
        self.rules = CodingRules()
        self.conversations = Conversations(
            engine, extractor=self.rules, mirror=mirror, default_user=find_user(), uses_model=uses_model
        )  # fmt: skip
        self._repositories: dict[tuple[str, str], Repository] = {}

    def take(self, transcript: Transcript, *, cwd: Path | None = None) -> CaptureReport:
        """Store what is new in a transcript; `cwd` counts where it does not say in which folder its session began.

        Raises:
            OSError: the transcript cannot be read.
            Unavailable: the memory cannot be read or written.
        """
        mark = load_mark(self.engine, transcript)
        reading = open_reading(transcript, mark.position)
        intake = _Intake(self, transcript, mark, reading, cwd)
        for chunk in reading.read_chunks():
            if not intake.is_welcome(chunk[0]):
                break
            intake.add(chunk)
            if intake.is_full:
                intake.store(reading)
                intake.carve(whole=False)
        return intake.finish(reading)

    def find_repository(self, cwd: str, remote: str) -> Repository | None:
        """The repository of a folder; None if it is no folder's path."""
        known = self._repositories.get((cwd, remote))
        if known is None:
            try:
                known = find_repository(Path(cwd), remote=remote or None)
            except Invalid:
                return None
            self._repositories[cwd, remote] = known
        return known


class _Intake:
    """One transcript on its way in."""

    def __init__(
        self,
        capture: Capture,
        transcript: Transcript,
        mark: TranscriptMark,
        reading: TranscriptReading,
        cwd: Path | None,
    ) -> None:
        self.report = CaptureReport(counts=reading.counts)
        self._capture = capture
        self._engine = capture.engine
        self._transcript = transcript
        self._mark = mark
        self._cwd = cwd
        self._user = find_user()
        self._maker = MessageMaker(
            user=self._user, agent=transcript.client, agent_name=get_client(transcript.client).title,
            allow_secrets=self._engine.settings.allow_secrets,
            last_at=mark.last_at,
        )  # fmt: skip
        self._work = WorkList(tasks=mark.tasks)
        self._own_calls = dict.fromkeys(mark.own_calls)
        self._waiting: list[tuple[str, Message]] = []
        self._weight = 0
        self._begun = reading.position
        self._lessons_before = capture.rules.lesson_count
        self._touched: dict[str, None] = dict.fromkeys(mark.sessions)
        self._remover = LessonRemover(capture.conversations, self._user)

    @property
    def is_full(self) -> bool:
        """Whether it is time to store."""
        return len(self._waiting) >= BATCH or self._weight > HEAVY

    def is_welcome(self, first: TranscriptMessage) -> bool:
        """Whether the transcript is to be kept, by the folder that it began in."""
        if self.report.repository is None and not self.report.reason:
            mark = self._mark
            mark.cwd = mark.cwd or first.origin.cwd or (str(self._cwd) if self._cwd is not None else "")
            mark.remote = mark.remote or first.origin.remote or ""
            repository = self._capture.find_repository(mark.cwd, mark.remote) if mark.cwd else None
            self.report.repository = repository
            if repository is None:
                self.report.reason = "no folder"
            elif repository.is_opted_out:
                self.report.reason = "opted out"
            else:
                mark.project = repository.project.name
        return not self.report.reason

    def add(self, chunk: Sequence[TranscriptMessage]) -> None:
        """Take messages that belong together, less what is not to be kept."""
        for read in chunk:
            if read.origin.is_sidechain:
                self.report.counts.sidechain += 1
                continue
            if read.role == "user":
                self._mark.is_skipping = asks_to_skip(read.text)
            if self._mark.is_skipping:
                self.report.skipped += 1
                continue
            self._own_calls |= dict.fromkeys(call.id for call in read.calls if reads_memory(call))
            is_own = read.answers in self._own_calls
            text = _RECALLED if is_own else strip_injected(strip_private(read.text)).strip()
            if not text and not read.calls and read.role != "tool":
                continue
            self._waiting.append((read.origin.session, self._maker.make(read, text)))
            self._weight += len(text)

    def store(self, reading: TranscriptReading) -> None:
        """Store the messages so far, and with the last of them how far the transcript was read."""
        position = reading.position
        sessions: dict[str, dict[str, Message]] = {}
        for session, message in self._waiting:
            sessions.setdefault(session, {}).setdefault(message.id, message)
        total = len(self._waiting)
        self._waiting, self._weight = [], 0
        self._mark.last_at = self._maker.last_at
        fresh = {session: self._find_new(session, [*messages.values()]) for session, messages in sessions.items()}
        for session, messages in fresh.items():
            self._withdraw(session, messages)
            self._remover.remove(self._project, session, messages)
            self._store_personal(session, messages)
            self._work.follow(messages)
        self._mark.tasks = self._work.tasks
        self._mark.own_calls = [*self._own_calls]
        self._mark.sessions = [*dict.fromkeys((*self._mark.sessions, *fresh))]
        self._touched |= dict.fromkeys(fresh)
        new = sum(map(len, fresh.values()))
        self._mark.messages += new
        self.report.messages += new
        self.report.present += total - new
        self._append(fresh, self._mark.make_put(self._transcript, position))

    def _append(self, fresh: dict[str, list[Message]], noted: Change) -> None:
        """Store messages, the mark with the last; another process may be at the same transcript."""
        last = next(reversed(fresh), None)
        if last is None:
            self._engine.apply([noted])
        for session in fresh:
            for _ in range(_TRIES):
                try:
                    also = [noted] if session == last else []
                    self._capture.conversations.append(self._project, session, fresh[session], also=also)
                    break
                except Conflict:  # some are there now, as the other has read them
                    fresh[session] = self._find_new(session, fresh[session])
            else:
                raise Unavailable("another process is at this transcript; try again")

    def carve(self, *, whole: bool) -> None:
        """Make episodes, facts, cases and lessons of what is stored."""
        for session in self._touched:
            for _ in range(_ROUNDS if whole else 1):
                waiting = self._capture.conversations.list_waiting(self._project, session)
                if not waiting:
                    break
                messages = [decode_message(each) for each in waiting]
                # Of what waits, and not of what was just read: it may wait since a capture that was cut off.
                work = WorkList(tasks=dict(self._mark.tasks))
                work.follow(messages)
                self._capture.rules.prepare(messages, work, self._list_before(session))
                self.report.episodes += self._capture.conversations.carve(self._project, session, whole=whole)
                self._remover.remove(self._project, session, messages)

    def _list_before(self, session: str) -> list[Message]:
        """The last messages of a session that are carved already."""
        home = self._project.owner("user", self._user)
        of_it = Where("data.session_id", "=", session)
        turns = self._engine.list(home, exact=True, kinds=(Kind.TURN,), filter=of_it, limit=_BEFORE, order="created")
        return [decode_message(each) for each in reversed(turns)]

    def finish(self, reading: TranscriptReading) -> CaptureReport:
        """Store and carve the rest; the report."""
        if self.report.reason:
            return self.report
        if self.report.repository is None and self._mark.project and self._mark.cwd:  # nothing was new
            self.report.repository = self._capture.find_repository(self._mark.cwd, self._mark.remote)
        if self._waiting or (self._mark.project and reading.position != self._begun):
            self.store(reading)
        if self._mark.project and self.report.repository is not None:
            self.carve(whole=True)
        self.report.masked = self._maker.masked
        self.report.lessons = self._capture.rules.lesson_count - self._lessons_before
        return self.report

    @property
    def _project(self) -> Project:
        assert self.report.repository is not None
        return self.report.repository.project

    def _find_new(self, session: str, messages: Sequence[Message]) -> list[Message]:
        """Those of the messages that are not stored yet."""
        ids = [make_turn_id(self._project, session, message.id) for message in messages]
        stored = self._engine.read_many(ids)
        return [message for message, record in zip(messages, stored, strict=True) if record is None]

    def _withdraw(self, session: str, messages: Sequence[Message]) -> None:
        """Delete stored lessons that the messages take back, and open work that they have changed."""
        work = WorkList(tasks=dict(self._work.tasks))
        work.follow(messages)
        asked = [message for message in messages if message.role == "user"]
        prompts = [clean_prose(message.text) for message in asked]
        doomed: dict[str, Record] = {}
        if prompts:
            lessons = self._list_lessons(DECISION, session) + self._list_lessons(PREFERENCE, session)
            latest = max((each.created_at for each in lessons), default=None)
            for each in lessons:
                taken_back = takes_back(prompts[0]) and each.created_at == latest
                if taken_back or any(names_as_old(prompt, each.text) for prompt in prompts):
                    doomed[each.id] = each
        if work.message is not None:
            doomed |= {each.id: each for each in self._list_lessons(TODO, session)}
            finished = {f"{OPEN}{text}" for text in work.done}
            doomed |= {each.id: each for each in self._list_lessons(TODO) if each.text in finished}
        for each in doomed.values():
            if PREFERENCE in each.tags:  # which others say, too: the profile, and what is kept for everywhere
                self._remover.remove_one(self._project, session, asked[-1], withdraw_lesson(each.text))
        left = [each.id for each in self._engine.read_many([*doomed]) if each is not None]
        if left:
            self._capture.conversations.apply([Delete(id=each) for each in left])

    def _list_lessons(self, label: str, session: str | None = None) -> list[Record]:
        wanted: list[Filter] = [Where("tags", "has", label)]
        if session is not None:
            wanted.append(Where("data.session_id", "=", session))
        home = self._project.owner("user", self._user)
        return self._engine.list(home, exact=True, kinds=(Kind.FACT,), filter=AllOf(*wanted), limit=_LATEST)

    def _store_personal(self, session: str, messages: Sequence[Message]) -> None:
        """Keep what a user prefers everywhere beside the repositories, in those words alone."""
        lessons = [each for each in find_lessons(messages) if each.label == PREFERENCE and is_personal(each.text)]
        if not lessons:
            return
        project = find_personal_project()
        counts: Counter[str] = Counter()
        for each in lessons:
            known_by = each.messages[-1]
            counts[known_by] += 1
            name = known_by if counts[known_by] == 1 else f"{known_by}-{counts[known_by]}"
            told = Message(id=name, sender=self._user, role="user", at=each.at, text=each.text)
            if self._engine.read_many([make_turn_id(project, session, name)])[0] is None:
                self._capture.conversations.append(project, session, [told])
            # One at a time, so that each can be taken back without the others.
            self._capture.rules.prepare([told], WorkList())
            self._capture.conversations.carve(project, session, whole=True)
