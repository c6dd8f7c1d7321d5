"""How what was deleted becomes unreadable: derived files and the database are rewritten without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...system.disk import measure_free
from ...values.errors import Unavailable
from .database import Database, fetch, translate_errors
from .upkeep_lock import UpkeepLock
from .word_index import WordIndex

if TYPE_CHECKING:
    from .vector_codes import VectorIndex

PIECE = 2000  # records that are rewritten at a time
PATIENCE = 60.0  # seconds to wait for another process that does the derived work and does not end
IDLE = 2.0  # seconds without a change, after which a piece is rewritten
BUSY = 60.0  # seconds after which one is rewritten even so
SHARE, LARGE_SHARE = 5, 20  # it takes a fifth of the time, or a twentieth while there is much left
LARGE = 20_000  # records that are much
COMPACT_EVERY = 600.0  # seconds between two times that the database is rewritten
COMPACT_MOST = 16 * 2**20  # bytes of a database that is: some tenths of a second, for which writers wait


class Erasure:
    """Rewrites what still holds deleted records, a piece at a time when there is time for it, or all of it at once."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        words: WordIndex,
        index_words: Callable[[int], int],
        open_vectors: Callable[[str], VectorIndex],
        lock: UpkeepLock,
    ) -> None:
        self._folder = folder
        self._database = database
        self._words = words
        self._index_words = index_words
        self._open_vectors = open_vectors
        self._lock = lock
        self._changed = self._erased = time.monotonic()
        self._next = 0.0
        self._left = 0
        self._removals: int | None = None
        self._compacted: float | None = None

    def start(self) -> None:
        """Note, the first time, what was removed before this process began to work on the store."""
        if self._removals is None:
            self._removals = self._count_removals()

    def note_change(self) -> None:
        """Note that the store has just been written to."""
        self._changed = time.monotonic()

    def tidy(self) -> float | None:
        """Rewrite a piece when nothing else is going on or it has waited for long.

        Returns the seconds after which the next is due; None when nothing is left.
        """
        began = time.monotonic()
        is_idle = began - self._changed >= IDLE
        if began >= self._next and (is_idle or began - self._erased >= BUSY):
            with self._lock.try_acquire() as locked:
                if locked:
                    self._left = self.erase_piece(PIECE)
            if locked:
                self._erased = time.monotonic()
                share = LARGE_SHARE if self._left > LARGE else SHARE
                self._next = self._erased + (self._erased - began) * (share - 1)
                if is_idle:
                    self._compact_if_due()
        return max(0.0, self._next - time.monotonic()) if self._left else None

    def _compact_if_due(self) -> None:
        """Rewrite a small database once something was removed since the last time, which is some minutes ago."""
        removals = self._count_removals()
        is_due = self._compacted is None or self._erased - self._compacted >= COMPACT_EVERY
        if is_due and removals != self._removals:
            self._compacted = self._erased  # also if it fails: a full disk is not tried again and again
            self.compact(COMPACT_MOST)
            self._removals = removals

    def erase(self, seconds: float | None) -> int:
        """Rewrite all of it now, for about `seconds` at most; how many records are left in such files."""
        until = time.monotonic() + (PATIENCE if seconds is None else seconds)
        left = 1
        while left:
            with self._lock.try_acquire() as locked:
                if locked and self._index_words(PIECE) < PIECE:
                    left = self.erase_piece(PIECE)
            if time.monotonic() > until and (seconds is not None or not locked):
                break
            if locked and seconds is None:
                until = time.monotonic() + PATIENCE
            elif not locked:
                time.sleep(0.05)
        self.compact(None if seconds is None else COMPACT_MOST)
        return left

    def erase_piece(self, limit: int) -> int:
        """Rewrite a piece of about `limit` records; how many are left in files that hold deleted ones.

        The lock must be held, and the word index must be up to date.
        """
        from .checkpoint_rows import deleted_words, merge_words

        with self._database.snapshot() as connection:
            has_words = deleted_words(connection)
        if has_words:
            self._database.write(merge_words)
        codes = self._folder / "vectors"
        with translate_errors(self._folder):
            left = self._words.rewrite(limit) + sum(self._open_vectors(name).rewrite() for name in self._list_coded())
            if any(codes.glob("*.codes*")):
                from .vector_codes import sweep

                sweep(codes, self._database)
        return left + int(has_words)

    def count_remains(self) -> dict[str, int]:
        """How many records and vectors are in files that also hold deleted ones, and whether checkpoints' words are."""
        from .checkpoint_rows import deleted_words

        with self._database.snapshot() as connection:
            remains = {"words of checkpoints": int(deleted_words(connection))}
        remains["words of records"] = self._words.count_stale()
        remains["vectors"] = sum(self._open_vectors(name).count_stale() for name in self._list_coded())
        return remains

    def compact(self, largest: int | None = None) -> bool:
        """Rewrite the database and empty its log, unless it has more than `largest` bytes; whether it was done.

        Writers wait meanwhile.
        """
        size = self._database.path.stat().st_size
        has_room = measure_free(self._folder) >= 3 * size  # the log grows by as much, and so may a copy
        if largest is not None and (size > largest or not has_room):
            return False
        if not has_room:
            raise Unavailable(f"there is not room enough to write {self._database.path} anew; free some space")
        self._database.vacuum(in_memory=largest is not None)
        self._database.checkpoint()
        self._database.truncate_log()
        return True

    def _count_removals(self) -> int:
        """A number that rises whenever this process sees that something was deleted or replaced."""
        with self._database.snapshot() as connection:
            return self._words.removals + int(connection.execute("SELECT no FROM checkpoint_gone").get)

    def _list_coded(self) -> list[str]:
        """List the embedders that have files of codes."""
        with self._database.snapshot() as connection:
            sql = "SELECT DISTINCT embedder.name FROM segment JOIN embedder ON embedder.no = segment.embedder"
            return [name for (name,) in fetch(connection, sql)]
