"""The entry point of a worker or of the background process, and how it talks to its parent.

Its standard input brings a line of JSON that says what to be, then one that says to go on; its end means that the
parent has ended. Its standard output carries a line when it is ready or cannot start, and a byte as a sign of life.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Any

from ..config.notices import show_notices
from ..http.logs import PREFIX, flush_log, say, start_logging
from ..system.processes import share_heaps, stop_blocking
from ..system.streams import prepare_streams
from ..values.errors import CofioError, Invalid, Unavailable
from .options import ServerOptions
from .parent import BEAT

WRITE, JOB = b"w", b"j"  # what a worker tells the background process
LAST_SECONDS = 4.0  # after which a process without a parent that has not ended by itself is ended


class ParentPipes:
    """The pipes to and from the parent."""

    def __init__(self) -> None:
        self._input: IO[bytes] = os.fdopen(os.dup(0), "rb")
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever prints goes to the log, and not to the parent
        stop_blocking(self._output)  # a parent that stands still must not stop this process, too

    def read(self) -> dict[str, Any] | None:
        """Return the next message; None when the parent has ended."""
        line = self._input.readline()
        message: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        self._write(json.dumps(message).encode() + b"\n")

    def beat(self) -> None:
        """Send a sign of life."""
        self._write(BEAT)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            os.write(self._output, data)

    def end_with_parent(self, metrics: str) -> None:
        """End this process, as by SIGTERM, when the parent has ended; by force if it has not ended soon."""

        def wait() -> None:
            while self.read() is not None:
                pass
            shutil.rmtree(metrics, ignore_errors=True)  # files that are open go on
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(LAST_SECONDS)  # in which open requests end
            os._exit(1)  # a thread that does not end would keep the process, and no one is left to kill it

        threading.Thread(target=wait, name="cofio-parent", daemon=True).start()


def main() -> int:
    """Be a worker or the background process, as the parent says; return the exit code."""
    share_heaps()
    prepare_streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent says what comes of it
    pipes = ParentPipes()
    spec = pipes.read()
    if spec is None:
        return 0
    start_logging()
    show_notices(lambda sentence: say(sentence.removeprefix(PREFIX)))
    try:
        _run(pipes, spec)
    except CofioError as error:
        is_invalid = isinstance(error, Invalid)
        pipes.send(
            {
                "field": error.field if isinstance(error, Invalid) else "",
                "failure": error.problem if isinstance(error, Invalid) else str(error),
            }
        )
        return 2 if is_invalid else 1
    return 0


def _run(pipes: ParentPipes, spec: Mapping[str, Any]) -> None:
    from ..engine.opening import read_store_id

    options = ServerOptions.unpack(spec["options"])
    # What takes a second to load is loaded before the turn to open the store comes, and only where it is needed.
    run: Callable[..., None]
    if spec["listener"] is None:
        from .background import run_background

        run = partial(run_background, owner=spec["owner"], wakes=partial(_listen, spec["wake"]))
    else:
        from .worker import Peers, run_worker

        peers = Peers(spec["workers"], partial(_wake, spec["wake"], WRITE), partial(_wake, spec["wake"], JOB))
        run = partial(run_worker, listener=socket.socket(fileno=spec["listener"]), peers=peers)
    if pipes.read() is None:  # its turn to open the store
        return
    pipes.end_with_parent(spec["metrics"])
    # Else it would open another one, or make a new one, beside those that miss the one that they have open.
    if spec["store"] is not None and read_store_id(options.address) != tuple(spec["store"]):
        raise Unavailable(f"the memory in {options.address} was deleted, moved or replaced; start this program again")
    run(options, ready=lambda: pipes.send({"ready": read_store_id(options.address)}), beat=pipes.beat)


def _wake(descriptor: int, why: bytes) -> None:
    """Tell the background process that there may be work."""
    with suppress(OSError):  # it is full: it will wake up anyway
        os.write(descriptor, why)


def _listen(descriptor: int, notice_write: Callable[[], None], notice_job: Callable[[], None]) -> None:
    """Call one or both when a worker says that something was written, or that there is a job."""

    def listen() -> None:
        while why := os.read(descriptor, 4096):
            notice_write()
            if JOB in why:
                notice_job()

    threading.Thread(target=listen, name="cofio-wake", daemon=True).start()


if __name__ == "__main__":
    code = main()
    flush_log()
    os._exit(code)  # threads that still wait for something would keep the process
