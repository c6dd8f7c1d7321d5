"""One policy for a change that others get in the way of: read again, decide again, try again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..values.changes import Change
from ..values.errors import Conflict, NotFound, Unavailable

T = TypeVar("T")
TRIES = 200
BUSY = "too many are writing here at once; try again"
PAUSE_STEP, LONGEST_PAUSE = 0.001, 0.02  # seconds


class Busy(Unavailable):
    """Others were faster, time and again; nothing was changed."""


def retry_changes(
    work: Callable[[], Sequence[Change]],
    apply: Callable[[Sequence[Change]], list[T]],
    *,
    tries: int = TRIES,
    busy: str = BUSY,
) -> list[T]:
    """What `apply` answers to the changes that `work` returns; both run again when others were faster.

    What `work` raises is raised at once, and when it returns no changes, there is nothing to apply.

    Raises:
        Busy: others were faster each time.
    """
    for attempt in range(tries):
        changes = work()
        try:
            return apply(changes) if changes else []
        except (Conflict, NotFound):
            _pause(attempt)
    raise Busy(busy)


def retry_conflicts(
    attempt: Callable[[], T],
    *,
    on: tuple[type[Conflict] | type[NotFound], ...] = (Conflict, NotFound),
    busy: str = BUSY,
) -> T:
    """What `attempt` returns, which reads, decides and makes its changes itself; again while it raises one of these.

    Raises:
        Busy: others were faster each time.
    """
    for number in range(TRIES):
        try:
            return attempt()
        except on:
            _pause(number)
    raise Busy(busy)


def _pause(attempt: int) -> None:
    """Wait for a random time, longer with each attempt, so that many who try at once do not meet again."""
    import random  # only for those who meet: it loads slowly

    time.sleep(random.random() * min(PAUSE_STEP * attempt, LONGEST_PAUSE))
