"""How the files follow a server's changes in the background: a change enqueues a job, and the job writes the files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import cast

from ..conversations.mirror import VisibleRecord
from ..engine.engine import Answers, Engine
from ..engine.jobs import make_job, read_job
from ..values.changes import Change
from ..values.errors import Unavailable
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


def write_files(open_vault: Callable[[], Vault | None], jobs: Sequence[Record]) -> None:
    """Write the files that jobs are about.

    Raises:
        Unavailable: some of them could not be written.
    """
    vault = open_vault()
    try:
        if vault is None or vault.detachment:  # files that are left alone follow nothing
            return
        with vault.journal.lock():
            is_written = vault.follow(each for job in jobs for each in list_visible(job))
    except (OSError, JournalError) as error:
        raise Unavailable(f"the vault cannot be written: {error}") from error
    if not is_written:
        raise Unavailable("the files of the vault could not be written")


def list_visible(job: Record) -> list[VisibleRecord]:
    """Return the records that a job is about."""
    rows = cast("list[tuple[list[str], str | None, str]]", read_job(job)["visible"])
    return [VisibleRecord(Scope(*names), Kind(kind) if kind else None, key) for names, kind, key in rows]
