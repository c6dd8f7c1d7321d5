"""The background work: words into the index, vectors for what has none, expired and deleted records out.

Any process may do it; nothing that a caller is promised depends on its being done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from ..backends.interface import Backend
from ..backends.upkeep_interface import Erase, Index, ReportFault, Tidy
from ..embed import Embedder, TokenEmbedder
from ..system.processes import lower_priority
from ..values.errors import CofioError, Unavailable
from ..values.progress import Progress
from .embedding import embed_with_codes

PAUSE = 0.5  # seconds that new work is left to gather
PAUSE_APART = 0.1  # the same in a process that takes no calls, which the work cannot get in the way of
ROUND = 5.0  # seconds between two rounds, in which work that other processes left is found
WORDS_BATCH = 2000
EMBED_BATCH = 16  # a quarter of a second's work: then other processes may claim some, or the end may have come
PATIENCE = 2.0  # seconds that a close waits for a piece of work that does not end, as with a silent endpoint
BUSY_PATIENCE = 60.0  # seconds that settling waits for another process that is at this work and does not end
NICE = 10  # no caller waits for this work, and one may wait for the processor


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSharing:
    """How several processes of one program share the work: some take calls, another does what is derived."""

    notify: Callable[[], None] | None = None
    """Tells the other that something has changed, in a process that takes calls."""
    is_apart: bool = False
    """Whether this process takes no calls, so that its work can get in the way of none."""
    has_queue: Callable[[], bool] | None = None
    """Whether calls wait in this process for others to end: then a search leaves the vectors that are missing alone."""


class BackgroundWork:
    """Does a store's derived work, in a thread of its own or when asked."""

    def __init__(
        self,
        backend: Backend,
        embedder: Callable[[], Embedder | None],
        purge_checkpoints: Callable[[datetime], int],
        sharing: WorkSharing | None = None,
        *,
        token_codes: bool = True,
    ) -> None:
        self._token_codes = token_codes
        self._backend = backend
        self._embedder = embedder
        self._purge_checkpoints = purge_checkpoints
        self._sharing = sharing or WorkSharing()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._tidied = time.monotonic()
        self._next_tidy = self._tidied + ROUND
        self._is_fault_logged = False

    def start(self) -> None:
        """Work in the background from now on."""
        self._thread = threading.Thread(target=self._run, name="cofio-indexing", daemon=True)
        self._thread.start()

    def notice(self) -> None:
        """Wake up, or another process that does the work, as there may be some."""
        if not self._wake.is_set():
            self._wake.set()
        if self._sharing.notify is not None:
            self._sharing.notify()

    def stop(self) -> None:
        """Finish the piece of work at hand and do no more."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)
            self._thread = None

    def settle(self, progress: Progress | None = None, limit: int | None = None) -> int:
        """Do the work that there is by now, waiting for other processes that are at it; how many records were embedded.

        With a `limit`, make about that many vectors at most, and leave it all to another process that is at it.
        """
        embedded = self._settle(progress, limit, wait=limit is None)
        if limit is None:
            self._add_codes(progress, lambda: False)
        self._backend.upkeep(ReportFault(""))
        return embedded

    def erase(self, seconds: float | None = None) -> bool:
        """Make unreadable what was deleted, now; whether all of it is. It ends after about `seconds`."""
        return not self._backend.upkeep(Erase(seconds=seconds)).more

    def _settle(self, progress: Progress | None, limit: int | None, *, wait: bool) -> int:
        embedder = self._embedder()
        indexed, embedded, left, is_counted = 0, 0, limit, False
        until = time.monotonic() + BUSY_PATIENCE
        while not self._stop.is_set():
            task = Index(limit=WORDS_BATCH, embedder=embedder.id if embedder else None, count_waiting=not is_counted)
            done, made = self._backend.upkeep(task), None
            if left is None or not is_counted:
                # No further than what there is to begin with: a store that is written to all the time has no end.
                left = embedded + done.waiting if left is None else min(left, embedded + done.waiting)
                is_counted = True
            if embedder is not None and embedded < left and not done.busy and not done.more:
                made = self._embed(embedder)
                is_counted = made is not None  # else others have embedded the rest, or are at it
            indexed, embedded = indexed + done.done, embedded + (made or 0)
            if done.busy or not is_counted:
                if not wait or time.monotonic() > until or self._stop.wait(0.05):
                    break
                continue
            until = time.monotonic() + BUSY_PATIENCE
            if progress:
                progress(*("words", indexed, 0) if done.more or not left else ("vectors", embedded, left))
            if not done.more and made is None:
                break
        return embedded

    def _embed(self, embedder: Embedder) -> int | None:
        """Make the next few vectors; how many, some records having nothing to embed, or None where none are claimed."""
        with self._backend.claim(embedder.id, EMBED_BATCH) as batch:
            if batch is None:
                return None
            if batch.texts:
                batch.store(*embed_with_codes(embedder, batch.texts, token_codes=self._token_codes))
            else:
                batch.store(None)
            return len(batch.texts)

    def _add_codes(self, progress: Progress | None, is_wanted: Callable[[], bool]) -> None:
        """Make token codes for the vectors that have none, as those of an older version, until all have.

        It ends early when `is_wanted` says that other work has come. What another process is at is left to it.
        """
        embedder, done = self._embedder(), 0
        if not self._token_codes or not isinstance(embedder, TokenEmbedder):
            return
        while not self._stop.is_set() and not is_wanted():
            with self._backend.claim_uncoded(embedder.id, EMBED_BATCH) as batch:
                if batch is None:
                    return
                batch.store(embedder.embed_with_codes(batch.texts)[1])
            done += len(batch.texts)
            if progress:
                progress("codes", done, 0)

    def _run(self) -> None:
        with suppress(OSError):  # a system that does not let it
            lower_priority(NICE)
        while not self._stop.is_set():
            self._wake.wait(min(ROUND, max(0.0, self._next_tidy - time.monotonic())))
            self._wake.clear()
            if self._stop.wait(PAUSE_APART if self._sharing.is_apart else PAUSE):
                return
            try:
                try:
                    self._settle(self._tidy_meanwhile, None, wait=False)
                    self._add_codes(self._tidy_meanwhile, self._wake.is_set)
                finally:
                    self._tidy()  # also where an embedder fails
                self._backend.upkeep(ReportFault(""))
                self._is_fault_logged = False
            except Exception as error:  # whatever an embedder raises: a thread that ended would do no more work
                # The work stays to be done and the next round tries again; `doctor` and `stats` report it.
                if not self._stop.is_set():
                    self._report(error)

    def _report(self, error: Exception) -> None:
        """Store a fault or, if that fails too, log it: once, until a round succeeds."""
        fault = f"{type(error).__name__}: {error}"
        try:
            self._backend.upkeep(ReportFault(fault))
        except CofioError:
            is_logged = isinstance(error, Unavailable) and error.is_logged
            if not is_logged and not self._is_fault_logged:
                self._is_fault_logged = True
                import logging  # not free, and few processes come here

                logging.getLogger("cofio.store").warning("background work fails, and is tried again: %s", fault)

    def _tidy_meanwhile(self, _stage: str, _done: int, _total: int) -> None:
        """Tidy also while there is no end of records to embed."""
        if time.monotonic() - self._tidied >= ROUND:
            self._tidy()

    def _tidy(self) -> None:
        """Do what keeps the store small and rid of what was deleted or has expired."""
        self._tidied = time.monotonic()
        self._next_tidy = self._tidied + ROUND  # also if this fails
        done = self._backend.upkeep(Tidy())
        if done.again_in is not None:
            self._next_tidy = time.monotonic() + done.again_in
        if done.expired_before is not None:
            self._purge_checkpoints(done.expired_before)
        if done.problem:
            raise Unavailable(done.problem)
