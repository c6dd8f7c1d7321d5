"""How the files follow a server's changes in the background: a change enqueues a job, and the job writes the files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import cast

from ..conversations.mirror import VisibleRecord
from ..engine.engine import Answers, Engine
from ..engine.jobs import Handler, list_jobs, make_job, read_job
from ..values.changes import Change, Delete
from ..values.errors import NotFound, Unavailable
from ..values.query import MAX_LIST
from ..values.records import Draft, Json, Kind, Record, Scope
from .journal import JournalError
from .vault import Vault

MARKDOWN = "markdown"
_log = logging.getLogger("cofio.vault")


class QueuedMirror:
    """A mirror whose changes are written to files by a job, in this process or another."""

    def __init__(self, engine: Engine, open_vault: Callable[[], Vault | None], notice: Callable[[], None]) -> None:
        """Call `notice` after each change that has enqueued a job."""
        self._engine = engine
        self._open_vault = open_vault
        self._notice = notice

    def apply(self, changes: Sequence[Change], visible: Sequence[VisibleRecord], *, forgets: bool) -> Answers:
        """Make changes; the files follow soon or, if something is forgotten, before this returns."""
        if forgets and (vault := self._find_vault()) is not None:
            return vault.apply(changes, visible, forgets=True)
        if forgets:  # on a full disk there may be room for deletes alone
            answers = self._engine.apply(changes)
            with suppress(Unavailable):
                self._engine.apply([make_markdown_job(visible)])
        else:
            answers = self._engine.apply([*changes, make_markdown_job(visible)])[:-1]
        self._notice()
        return answers

    def _find_vault(self) -> Vault | None:
        try:
            return self._open_vault()
        except Unavailable as error:
            _log.warning("%s", error)
            return None

    def discard(self, is_meant: Callable[[Draft], bool]) -> None:
        """Keep nothing in the trash that holds a record that is to be forgotten for good."""
        if (vault := self._find_vault()) is not None:
            vault.discard(is_meant)


def make_markdown_job(visible: Iterable[VisibleRecord]) -> Change:
    """Return the change that enqueues the writing of the files that show these records."""
    encoded: list[Json] = [[list(each.scope.names), each.kind, each.key] for each in visible]
    names = cast("list[list[str]]", encoded[0])[0][1:3]
    return make_job(MARKDOWN, Scope(*names), {"visible": encoded})


def list_unwritten(engine: Engine) -> list[tuple[Record, list[VisibleRecord]]]:
    """Return the changes that the files have yet to follow, oldest first."""
    return [(job, _decode(job)) for job in list_jobs(engine, MARKDOWN, limit=MAX_LIST)]


def make_handler(open_vault: Callable[[], Vault | None]) -> Handler:
    """Return what writes the files that a job is about."""

    def run(job: Record) -> None:
        vault = open_vault()
        try:
            if vault is None or vault.detachment:  # files that are left alone follow nothing
                return
            with vault.journal.lock():
                is_written = vault.follow(_decode(job))
        except (OSError, JournalError) as error:
            raise Unavailable(f"the vault cannot be written: {error}") from error
        if not is_written:
            raise Unavailable("the files of the vault could not be written")

    return Handler(run=run, is_repeatable=True, max_running=1)


def follow_jobs(vault: Vault) -> int:
    """Write now what jobs are about; return how many."""
    done = 0
    for job, visible in list_unwritten(vault.engine):
        with vault.journal.lock():
            is_written = vault.follow(visible)
        if is_written or vault.detachment:
            try:
                vault.engine.apply([Delete(id=job.id)])
            except NotFound:  # a server has done it meanwhile
                continue
            done += is_written
    return done


def _decode(job: Record) -> list[VisibleRecord]:
    rows = cast("list[tuple[list[str], str | None, str]]", read_job(job)["visible"])
    return [VisibleRecord(Scope(*names), Kind(kind) if kind else None, key) for names, kind, key in rows]
