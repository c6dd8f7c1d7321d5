"""Logging that never blocks: a thread writes lines from a bounded queue, and what has no room there is counted.

A pipe that nobody reads would otherwise stop whoever logs. What clients send can neither steer the terminal that shows
the log, nor pass for an entry.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable

from ..text.display import neutralise, neutralise_line

PREFIX = "cofio: "
MAX_LINES = 1000  # that wait to be written
LAST_SECONDS = 0.3  # that the end of a process waits for them


class LogThrottle:
    """Lets one line into the log a minute, with a count of those in between."""

    def __init__(self, seconds: float = 60, clock: Callable[[], float] = time.monotonic) -> None:
        """A line comes `seconds` after the one before it, or later."""
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._suppressed = 0

    def admit(self) -> str | None:
        """Count one more: None if it is suppressed, else what to add to its line about those that were."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                self._suppressed += 1
                return None
            self._next, suppressed, self._suppressed = now + self._seconds, self._suppressed, 0
            return f" ({suppressed:,} more since the last such line)" if suppressed else ""


class LogFormatter(logging.Formatter):
    """Writes an entry of which only the first line begins at the margin, whatever text of a client's is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the entry."""
        text = neutralise(super().format(record)).replace("\n", "\n  ")
        return text if text.startswith(PREFIX) else PREFIX + text


class LogWriter(logging.Handler):
    """Writes lines to a descriptor in a thread of its own. `logging` flushes it when the process ends."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.setFormatter(LogFormatter())
        self._descriptor = descriptor
        self._lines: queue.Queue[str] = queue.Queue(MAX_LINES)
        self._dropped = 0
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Log an entry."""
        try:
            self.write(self.format(record))
        except Exception as error:  # of a wrong call of the logger, which must not fail for that
            self.write(f"{PREFIX}an entry of {record.pathname}:{record.lineno} has no text: {type(error).__name__}")

    def write(self, line: str) -> None:
        """Write a line soon, or count it if too many wait."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="cofio-log", daemon=True)
                self._thread.start()
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def flush(self) -> None:
        """Wait for a moment until all lines are written."""
        until = time.monotonic() + LAST_SECONDS
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                line += f"\n{PREFIX}{dropped:,} more lines were not written, as nobody read the log"
            data = f"{line}\n".encode(errors="backslashreplace")
            while data:
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:  # a full pipe that does not block: wait, as for one that does
                    time.sleep(0.01)
                except OSError:  # the other end is closed
                    break
            self._lines.task_done()


_stderr = LogWriter(2)


def start_logging() -> None:
    """Log to stderr from now on, unless this program logs elsewhere already."""
    logging.basicConfig(handlers=[_stderr])
    # It warns of each connection that breaks; why a call has failed is in its error, which is logged once.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def say(line: str) -> None:
    """Tell the person who looks at the server's log."""
    _stderr.write(f"{PREFIX}{neutralise_line(line)}")


def flush_log() -> None:
    """Wait for a moment until the log is written."""
    _stderr.flush()
