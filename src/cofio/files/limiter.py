"""A limit to the calls of a quest, which holds however many workers call at once."""

from __future__ import annotations

import threading

from ..values.records import check_int

CALLS = 20
MAX_CALLS = 1_000_000_000


class Limiter:
    """Counts the calls of a quest; every call counts, also one that fails."""

    def __init__(self, calls: int = CALLS) -> None:
        check_int("calls", calls, 0, MAX_CALLS)
        self.calls = calls
        self._left = calls
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether one more call is allowed; if so, it is counted."""
        with self._lock:
            if self._left == 0:
                return False
            self._left -= 1
            return True

    def reset_for_new_quest(self) -> None:
        """Start the count again."""
        with self._lock:
            self._left = self.calls
