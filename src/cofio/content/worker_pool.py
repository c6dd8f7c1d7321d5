"""Who reads the documents that need a parser of some size: processes of their own, a few at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from threading import BoundedSemaphore, Lock

from ..system.processes import INHERITED, NO_WINDOW
from ..values.errors import Unavailable
from .decoder import find_charset
from .media_types import Kind
from .message_items import Unreadable

SECONDS = 30
MEMORY = 1024 * 1024 * 1024
AT_ONCE = 2
"""More would only take memory and time from each other."""
WAIT = 10.0
"""How many seconds to wait for a place: longer, and those who wait would take the server's threads from others."""
REFUSED, GAVE_UP = 3, 4
"""The exit codes of a process that says why it cannot read a document, and of one that does not know."""
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONHOME", *INHERITED)


class WorkerPool:
    """Starts a process for each document, a few at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._places = BoundedSemaphore(AT_ONCE)
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def close(self) -> None:
        """End the processes that are reading; nothing is read any more."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()

    def read(
        self, kind: Kind, data: bytes, deadline: float, charset: str | None = None, *, marked: bool = False
    ) -> str:
        """The text of a document; `charset` is what its server says it is written in.

        If it is to be `marked`, its headings are lines that begin with a mark (`outlines.MARK`) and their level.

        Raises:
            Unreadable: there is none, or it takes too long or too much memory to find.
            Unavailable: too many others are being read, or no process can be started.
        """
        if not self._places.acquire(timeout=max(min(WAIT, deadline - time.monotonic()), 0)):
            raise Unavailable("other documents are being read; try again in a while")
        try:
            seconds = min(self._seconds, deadline - time.monotonic())
            return self._run(kind, data, seconds, find_charset(charset) or "", marked)
        finally:
            self._places.release()

    def _run(self, kind: Kind, data: bytes, seconds: float, charset: str, marked: bool) -> str:
        # -P: what lies in the working folder is not imported. The environment may hold keys, which no parser needs.
        command = [sys.executable, "-P", "-m", "cofio.content.worker", kind.value, charset]
        command += ["marked"] if marked else []
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            code, output = self._communicate(command, data, environment, max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            raise Unreadable("The document takes too long to read: send less of it, or what it says as text.") from None
        except OSError:
            raise Unavailable("no process can be started to read documents in; try again in a while") from None
        if self._closed:
            raise _make_unavailable()
        if code == REFUSED:
            raise Unreadable(output.decode())
        if code not in (0, GAVE_UP) and 0 < code < 256:  # Windows has no signals, but high codes
            raise Unavailable("the process that reads documents does not start: is cofio installed as it should be?")
        if code:
            raise Unreadable("The document is damaged, or needs more memory or time than a document should.")
        return output.decode()

    def _communicate(
        self, command: list[str], data: bytes, environment: dict[str, str], seconds: float
    ) -> tuple[int, bytes]:
        """The exit code of a process that is given the data, and what it answers."""
        with self._lock:
            if self._closed:
                raise _make_unavailable()
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
                creationflags=NO_WINDOW,
            )  # fmt: skip
            self._running.add(process)
        try:
            with process:
                try:
                    output, _ = process.communicate(data, seconds)
                except BaseException:
                    process.kill()
                    raise
            return process.returncode, output
        finally:
            with self._lock:
                self._running.discard(process)


def _make_unavailable() -> Unavailable:
    sentence = "the program is ending, so the document was not read; send it again in a while"
    return Unavailable(sentence, public=sentence)
