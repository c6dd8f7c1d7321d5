"""The background work: words into the index, vectors for what has none, expired records out.

Any process may do it, one at a time; nothing that a caller is promised depends on its being done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime

from .backends import Backend, EmbedBatch, Progress
from .embed import Embedder
from .errors import CofioError

PAUSE = 0.5  # seconds that new work is left to gather
LOOK = 5.0  # seconds between looks for work that other processes left
WORDS_BATCH = 2000
EMBED_BATCH = 32
PURGE_AFTER = 3600.0  # seconds, by a clock that cannot be set, that a record must have been seen expired


class Indexing:
    """Does a store's derived work, in a thread of its own or when asked."""

    def __init__(
        self, backend: Backend, embedder: Callable[[], Embedder | None], clock: Callable[[], datetime]
    ) -> None:
        self._backend = backend
        self._embedder = embedder
        self._clock = clock
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._expired: tuple[float, datetime] | None = None
        self.fault: str | None = None
        """Why the background work last failed; None while all is well."""

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
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def settle(self, progress: Progress | None = None, limit: int | None = None) -> int:
        """Do all the work there is, or vectors for `limit` records of it; how many records were embedded.

        Returns at once when another process is at it.
        """
        with self._backend.lease() as mine:
            if not mine:
                return 0
            # No further than what was there to begin with: a store that is written to all the time needs vectors too.
            indexed = 0
            while (taken := self._backend.index_words(WORDS_BATCH)) >= WORDS_BATCH and not self._stop.is_set():
                indexed += taken
                if progress:
                    progress("words", indexed, 0)
            embedder = self._embedder()
            return 0 if embedder is None else self._embed(embedder, progress, limit)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(LOOK)
            self._wake.clear()
            if self._stop.wait(PAUSE):
                return
            try:
                self.settle()
                self._purge()
                self._backend.tidy()
                self.fault = None
            except CofioError as error:
                # The work stays to be done; the next look tries again, and `doctor` and `stats` tell of it.
                self.fault = str(error)

    def _embed(self, embedder: Embedder, progress: Progress | None, limit: int | None) -> int:
        done = 0
        while not self._stop.is_set() and (limit is None or done < limit):
            batch = self._backend.to_embed(embedder.id, EMBED_BATCH)
            if batch is None:
                break
            worth = EmbedBatch(tuple(item for item in batch.items if item.text), batch.upto)
            vectors = embedder.embed([item.text for item in worth.items]) if worth.items else None
            self._backend.store_vectors(embedder.id, worth, vectors)
            self._backend.index_words(WORDS_BATCH)
            self._backend.index_vectors(embedder.id)
            done += len(worth.items)
            if progress:
                progress("vectors", done, limit or 0)
        if not self._stop.is_set():
            while self._backend.index_vectors(embedder.id):
                pass
        return done

    def _purge(self) -> None:
        """Remove what expired, once it has been seen expired for an hour that no change of the clock can fake."""
        now = time.monotonic()
        if self._expired is None:
            self._expired = (now, self._clock())
        elif now - self._expired[0] >= PURGE_AFTER:
            before = min(self._expired[1], self._clock())
            self._expired = (now, self._clock())
            self._backend.purge(before)
