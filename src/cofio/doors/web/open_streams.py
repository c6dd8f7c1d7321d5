"""The answers that do not end by themselves, as a live feed: they are ended when the server begins to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable


class OpenStreams:
    """What ends the streams of one process."""

    def __init__(self) -> None:
        self._endings: list[Callable[[], None]] = []
        self._has_ended = False
        self._lock = threading.Lock()

    def add(self, end: Callable[[], None]) -> None:
        """Have `end` called when the server stops; at once, if it has."""
        with self._lock:
            if not self._has_ended:
                self._endings.append(end)
                return
        end()

    def end_all(self) -> None:
        """End every stream, and each that is begun later."""
        with self._lock:
            self._has_ended = True
            endings, self._endings = self._endings, []
        for end in endings:
            end()
