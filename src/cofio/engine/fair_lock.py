"""A lock that threads get in the order in which they asked for it, so that their searches run one after the other.

A search steps through statements and indexes, each of which releases the interpreter's lock and takes it again.
Threads that search at once hand the interpreter to each other at every step, and each of them becomes slower. Threads
that wait for this lock hand it over once for each search.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

CROWD = 2  # threads that wait beside the one that searches; a server's worker has fewer
PATIENCE = 0.25  # seconds after which the next thread goes ahead of a search that takes long
SHORT_PATIENCE = 0.005  # the same for a thread that is in a hurry
_thread = threading.local()


def set_hurry(is_hurried: bool) -> None:
    """Say whether the searches of this thread are short ones that others' long ones must not hold up."""
    _thread.is_hurried = is_hurried


class FairLock:
    """A lock that makes work faster, not right: the next thread goes ahead of one that has it for long."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._guard = threading.Lock()
        self._holder: threading.Lock | None = None
        """The ticket of the thread that has the lock."""
        self._since = 0.0
        """When it got it."""
        self._waiting: deque[threading.Lock] = deque()
        """The tickets of the threads that wait, the oldest first; each is locked until its thread may go."""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Have the lock for the block, after those who asked before."""
        ticket = threading.Lock()
        try:
            self._wait(ticket)
            yield
        finally:
            self._release(ticket)

    def let_others_go(self) -> None:
        """Wait for a turn, if many wait for theirs, and pass it on at once.

        For work that need not be alone, and yet takes from all who search as long as they are many.
        """
        if len(self._waiting) >= CROWD:
            with self.hold():
                pass

    def _wait(self, ticket: threading.Lock) -> None:
        with self._guard:
            if self._holder is None:  # then no thread waits
                self._give(ticket)
                return
            ticket.acquire()
            self._waiting.append(ticket)
        patience = SHORT_PATIENCE if getattr(_thread, "is_hurried", False) else self._patience
        while not ticket.acquire(timeout=patience):
            with self._guard:
                if ticket not in self._waiting:  # it was given the lock just now
                    return
                if self._waiting[0] is ticket and time.monotonic() - self._since > patience:
                    self._waiting.popleft()
                    self._give(ticket)
                    return

    def _give(self, ticket: threading.Lock | None) -> None:
        self._holder, self._since = ticket, time.monotonic()

    def _release(self, ticket: threading.Lock) -> None:
        """Give the lock to the thread that has waited longest, unless one that waited too long has taken it."""
        with self._guard:
            if self._holder is ticket:
                self._give(self._waiting.popleft() if self._waiting else None)
                if self._holder is not None:
                    self._holder.release()
            elif ticket in self._waiting:  # it was interrupted while it waited
                self._waiting.remove(ticket)
