"""Turns: the searches of several threads one after the other, in the order in which they came.

A search steps through statements and indexes, each of which lets go of the interpreter's lock and takes it again.
Threads that search at once hand that lock to each other at every step, and all of them are slower for it: together they
answer less than one alone. With a turn for each search they hand it over once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.25  # seconds after which one goes ahead of a search that takes long, or whose thread was torn out of it


class Turns:
    """Turns for threads. They make work faster, not right: nothing may depend on having one to oneself."""

    def __init__(self, at_once: int = 1, *, patience: float = PATIENCE) -> None:
        self._at_once = at_once
        self._patience = patience
        self._guard = threading.Lock()
        self._holders: dict[threading.Lock, None] = {}
        """The tickets of those who have a turn, the oldest first."""
        self._waiting: deque[threading.Lock] = deque()
        """The tickets of those who wait, the oldest first; each is locked until it is its turn."""

    @contextmanager
    def take(self) -> Iterator[None]:
        """Have a turn for the block, after those who asked before."""
        ticket = threading.Lock()
        try:
            self._wait(ticket)
            yield
        finally:
            self._give_back(ticket)

    def _wait(self, ticket: threading.Lock) -> None:
        with self._guard:
            if len(self._holders) < self._at_once:  # then no one waits
                self._holders[ticket] = None
                return
            ticket.acquire()
            self._waiting.append(ticket)
        if ticket.acquire(timeout=self._patience):
            return
        with self._guard:
            if ticket in self._waiting:  # else it is its turn just now
                self._waiting.remove(ticket)
                del self._holders[next(iter(self._holders))]
                self._holders[ticket] = None

    def _give_back(self, ticket: threading.Lock) -> None:
        """Pass the turn on to who has waited longest, unless it was lost to one who had waited too long."""
        with self._guard:
            if ticket in self._holders:
                del self._holders[ticket]
                if self._waiting:
                    following = self._waiting.popleft()
                    self._holders[following] = None
                    following.release()
            elif ticket in self._waiting:
                self._waiting.remove(ticket)
