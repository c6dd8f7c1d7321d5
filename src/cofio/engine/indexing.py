"""The background work: words into the index, vectors for what has none, expired records out.

Any process may do it, one at a time; nothing that a caller is promised depends on its being done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from ..backends.interface import Backend, Progress
from ..embed import Embedder
from ..system.processes import lower_priority, read_steady_clock
from ..values.errors import CofioError

PAUSE = 0.5  # seconds that new work is left to gather
LOOK = 5.0  # seconds between looks for work that other processes left
WORDS_BATCH = 2000
EMBED_BATCH = 16  # a quarter of a second's work: then others may have the lease, or the end may have come
PATIENCE = 2.0  # seconds that a close waits for a piece of work that does not end, as with a silent endpoint
LEASE_PATIENCE = 60.0  # seconds that settling waits for a process that has the lease and does not let go
NICE = 10  # nobody waits for this work, and somebody may wait for the processor
IDLE = 2.0  # seconds without a change, after which what still holds deleted records is written anew
BUSY = 60.0  # seconds after which a piece of that is done even so
SHARE, LARGE_SHARE, LARGE = 5, 20, 20_000  # it takes a fifth of the time, or a twentieth where so many records are left
COMPACT_EVERY = 600.0  # seconds between two times that the database is written anew
COMPACT_MOST = 16 * 2**20  # bytes of a database that is: some tenths of a second, for which writers wait
REBASE_AFTER = 86_400.0  # seconds that the clock must have been ahead of the time that passed, to be taken for right
PURGE_AFTER = 3600.0  # seconds, by a clock that cannot be set, that a record must have been seen expired


class Indexing:
    """Does a store's derived work, in a thread of its own or when asked."""

    def __init__(
        self,
        backend: Backend,
        embedder: Callable[[], Embedder | None],
        purge: Callable[[datetime], int] | None = None,
    ) -> None:
        self._backend = backend
        self._purge_too = purge
        self._embedder = embedder
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._expired: tuple[float, datetime] | None = None
        self._started = (read_steady_clock(), backend.now())
        self._ahead: float | None = None
        self._changed = self._kept = self._scrubbed = time.monotonic()
        self._scrub_at = 0.0
        self._left = 0
        self._removals: int | None = None
        self._compacted: float | None = None

    def start(self) -> None:
        """Work in the background from now on."""
        self._thread = threading.Thread(target=self._run, name="cofio-indexing", daemon=True)
        self._thread.start()

    def notice(self) -> None:
        """There may be work."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the piece of work at hand and do no more."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)
            self._thread = None

    def settle(self, progress: Progress | None = None, limit: int | None = None) -> int:
        """Do the work that there is by now, waiting for whoever else is at it; how many records were embedded.

        With a `limit`, make no more than about so many vectors, and leave it all to another process that is at it.
        """
        embedded = self._settle(progress, limit, wait=limit is None)
        self._backend.note_fault("")
        return embedded

    def scrub(self, seconds: float | None = None) -> bool:
        """Make unreadable what was deleted, now; whether all of it is. It ends after about so many `seconds`."""
        until = time.monotonic() + (LEASE_PATIENCE if seconds is None else seconds)
        left = 1
        while left and not self._stop.is_set():
            with self._backend.lease() as mine:
                if mine and self._backend.index_words(WORDS_BATCH) < WORDS_BATCH:
                    left = self._backend.scrub(WORDS_BATCH)
            if time.monotonic() > until and (seconds is not None or not mine):
                break
            if mine and seconds is None:
                until = time.monotonic() + LEASE_PATIENCE
            elif not mine:
                self._stop.wait(0.05)
        self._backend.compact(None if seconds is None else COMPACT_MOST)
        return not left

    def _settle(self, progress: Progress | None, limit: int | None, *, wait: bool) -> int:
        embedder = self._embedder()
        # No further than what there is to begin with: a store that is written to all the time has no end.
        waiting = self._backend.waiting(embedder.id) if embedder is not None else 0
        left = waiting if limit is None else min(limit, waiting)
        indexed, embedded, more_words = 0, 0, True
        until = time.monotonic() + LEASE_PATIENCE
        while not self._stop.is_set() and (more_words or embedded < left):
            with self._backend.lease() as mine:
                if mine:
                    taken = self._backend.index_words(WORDS_BATCH)
                    if taken:
                        self._changed = time.monotonic()
                    indexed, more_words = indexed + taken, taken >= WORDS_BATCH
                    if embedder is not None and not more_words:
                        if embedded < left:
                            made = self._embed(embedder)
                            embedded, left = embedded + made, left if made else 0
                        self._backend.index_vectors(embedder.id)  # also if none is new: a file may have been lost
            if not mine and (not wait or time.monotonic() > until or self._stop.wait(0.05)):
                break
            until = time.monotonic() + LEASE_PATIENCE if mine else until
            if progress:
                progress(*("words", indexed, 0) if more_words or not left else ("vectors", embedded, left))
        return embedded

    def _embed(self, embedder: Embedder) -> int:
        """Make the next few vectors; how many records were seen to, 0 when none is left."""
        batch = self._backend.to_embed(embedder.id, EMBED_BATCH)
        if batch is None:
            return 0
        worth = replace(batch, items=tuple(item for item in batch.items if item.text))
        vectors = embedder.embed([item.text for item in worth.items]) if worth.items else None
        self._backend.store_vectors(embedder.id, worth, vectors)
        return max(1, len(batch.items))

    def _run(self) -> None:
        with suppress(OSError):  # a system that does not let it
            lower_priority(NICE)
        while not self._stop.is_set():
            self._wake.wait(min(LOOK, max(0.0, self._scrub_at - time.monotonic())) if self._left else LOOK)
            self._wake.clear()
            if self._stop.wait(PAUSE):
                return
            try:
                if self._removals is None:
                    self._removals = self._backend.removals()
                try:
                    self._settle(self._keep_house_meanwhile, None, wait=False)
                finally:
                    self._keep_house()  # also where an embedder fails
                self._backend.note_fault("")
            except Exception as error:  # whatever an embedder raises: a thread that ended would do no more work
                # The work stays to be done and the next look tries again; `doctor` and `stats` tell of it.
                if not self._stop.is_set():
                    with suppress(CofioError):
                        self._backend.note_fault(f"{type(error).__name__}: {error}")

    def _keep_house_meanwhile(self, _stage: str, _done: int, _total: int) -> None:
        """Keep house also while there is no end of records to embed."""
        if time.monotonic() - self._kept >= LOOK:
            self._keep_house()

    def _keep_house(self) -> None:
        """Do what keeps the store small and rid of what was deleted."""
        self._kept = time.monotonic()
        self._purge()
        self._backend.tidy()
        self._scrub()

    def _scrub(self) -> None:
        """Write anew a piece of what holds deleted records, when nothing else is going on or it has waited for long."""
        began = time.monotonic()
        idle = began - self._changed >= IDLE
        if began < self._scrub_at or not (idle or began - self._scrubbed >= BUSY):
            return
        with self._backend.lease() as mine:
            if not mine:
                return
            self._left = self._backend.scrub(WORDS_BATCH)
        self._scrubbed = time.monotonic()
        share = LARGE_SHARE if self._left > LARGE else SHARE
        self._scrub_at = self._scrubbed + (self._scrubbed - began) * (share - 1)
        removals = self._backend.removals()
        due = self._compacted is None or self._scrubbed - self._compacted >= COMPACT_EVERY
        if idle and due and removals != self._removals:
            self._compacted = self._scrubbed  # also if it fails: a full disk is not tried again and again
            self._backend.compact(COMPACT_MOST)
            self._removals = removals

    def _purge(self) -> None:
        """Remove what expired, once every look of an hour that no change of the clock can fake has seen it expired.

        A clock that was set ahead since this began does not count for that, unless it stays so for a day: then it
        had been behind, as on a machine that learns the time late.
        """
        now, passed, clock = time.monotonic(), read_steady_clock(), self._backend.now()
        steady = self._started[1] + timedelta(seconds=passed - self._started[0])
        if clock <= steady:
            self._ahead = None
        elif self._ahead is None:
            self._ahead = passed
        elif passed - self._ahead >= REBASE_AFTER:
            self._started, self._ahead, steady = (passed, clock), None, clock
        clock = min(clock, steady)
        since, before = self._expired or (now, clock)
        before = min(before, clock)
        self._expired = (since, before)
        if now - since >= PURGE_AFTER:
            self._expired = (now, clock)
            self._backend.purge(before)
            if self._purge_too is not None:
                self._purge_too(before)
