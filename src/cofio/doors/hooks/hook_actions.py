"""What is done at each moment of an agent's session: tell, remind, capture."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...capture.repositories import Repository, find_repository, user_scope
from ...engine.engine import Engine
from ...engine.opening import load_settings
from ...values.errors import CofioError, Unavailable
from .client_protocols import TELLING, HookEvent, Moment
from .hook_store import find_hook_store

if TYPE_CHECKING:
    from ...capture.injections import Injection
    from ...values.records import Scope

LONG_TAIL = 200
"""How many records may wait for the word index before a capture sees to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an event."""

    sort: str
    repository: str = ""
    text: str = ""
    """What the agent is to be told."""
    tokens: int = 0
    records: int = 0
    note: str = ""


def act(client: str, event: HookEvent, store: str | None, report: Callable[[Outcome], None]) -> None:
    """Do what the event is for, if there is a memory and its repository does not mind, and report what came of it.

    What an agent is to be told is reported before the memory is closed, which takes its time.
    """
    try:
        folder = Path(event.folder or Path.cwd())
        repository = find_repository(folder)
        if repository.is_opted_out:
            report(Outcome(sort="off", repository=repository.name))
            return
        address = find_hook_store(store)
        # No model is loaded or fetched by a hook: who opens the memory next makes the vectors.
        settings = replace(load_settings(address), background=False, embedder="none")
        if event.moment in TELLING:  # a power cut may take the note of what was told: the agent does not wait for it
            settings = replace(settings, sync="normal")
        with Engine.open(address, settings=settings) as engine:
            outcome = _act(_Session(engine, address.home, client, event, repository))
            if outcome.text:
                report(outcome)
        report(outcome)
    except (CofioError, OSError) as error:
        report(Outcome(sort="failed", note=str(error)))


@dataclass(frozen=True, slots=True)
class _Session:
    """An event, with the memory and the repository that it is about."""

    engine: Engine
    home: Path
    client: str
    event: HookEvent
    repository: Repository

    @property
    def scopes(self) -> list[Scope]:
        """What the agent may be told of."""
        return [self.repository.scope, user_scope()]


def _act(session: _Session) -> Outcome:
    engine, event, scopes = session.engine, session.event, session.scopes
    match event.moment:
        case Moment.START:
            return _start(session)
        case Moment.PROMPT:
            from ...capture.recall import recall

            return _tell(recall(engine, event.prompt, scopes, session=event.session), session)
        case Moment.EDIT:
            from ...capture.recall import recall_file

            return _tell(recall_file(engine, event.file, scopes, session=event.session), session)
        case Moment.COMPACT:
            from ...capture.recall import restart

            outcome = _capture(session)
            restart(engine, scopes, event.session)
            return outcome
    return _capture(session)


def _start(session: _Session) -> Outcome:
    from ...capture.digest import brief
    from ...capture.injections import Injection
    from ...capture.recall import recall, restart
    from ...capture.shown_records import ShownRecords

    engine, event, scopes, name = session.engine, session.event, session.scopes, session.repository.name
    if event.source == "resume":  # what it was told before comes back with it
        return Outcome(sort="nothing", repository=name)
    if event.source in ("compact", "clear"):
        restart(engine, scopes, event.session)
    # Some versions of Copilot CLI say at each prompt that a session begins.
    is_told = bool(ShownRecords(engine, scopes[0], event.session).load().records)
    homes = [session.repository.user_scope, user_scope()]
    injection = Injection() if is_told else brief(engine, scopes, homes=homes, session=event.session, name=name)
    if not event.prompt:
        return _tell(injection, session)
    hits = recall(engine, event.prompt, scopes, session=event.session)  # there is no other chance at some clients
    both = "\n".join(each.text for each in (injection, hits) if each)
    tokens = injection.tokens + hits.tokens
    records = len(injection.records) + len(hits.records)
    sort = "added" if both else "nothing"
    return Outcome(sort=sort, repository=name, text=both, tokens=tokens, records=records)


def _tell(injection: Injection, session: _Session) -> Outcome:
    return Outcome(
        sort="added" if injection else "nothing", repository=session.repository.name, text=injection.text,
        tokens=injection.tokens, records=len(injection.records),
    )  # fmt: skip


def _index(engine: Engine) -> None:
    """Bring the word index up to date, if there is much to do: else each prompt would look through all of it."""
    with suppress(Unavailable):  # another process is at it, or will be: what was captured is stored
        if engine.stats().waiting_for_index >= LONG_TAIL:
            engine.settle(limit=0)


def _capture(session: _Session) -> Outcome:
    from ...capture.capture import capture_transcript
    from ...capture.transcripts.transcript_sources import find_transcript
    from ...vault.lifecycle import use_vault

    engine, client, event, name = session.engine, session.client, session.event, session.repository.name
    path = Path(event.transcript) if event.transcript else find_transcript(client, event.session)
    if path is None:
        return Outcome(sort="nothing", repository=name, note="there is no transcript of the session")
    folder = Path(event.folder) if event.folder else None
    with use_vault(engine, session.home, engine.settings) as vault:
        report = capture_transcript(engine, client, path, event.session, folder, mirror=vault)
    if report.messages:
        _index(engine)
    sort = "captured" if report.messages else "off" if report.reason == "opted out" else "nothing"
    return Outcome(sort=sort, repository=name, records=report.messages, note=report.reason)
