"""The entry point of a worker and of the background process, and their side of the pipes to the parent.

Standard input brings the arguments of `_run`, then the id of the store once this process may open it; its end means
that the parent has ended. Standard output carries the id of the store when the process is ready, or why it cannot
start, and empty lines as heartbeats.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ..config.notices import show_notices
from ..http.logs import PREFIX, flush_log, say, start_logging
from ..system.processes import share_heaps, stop_blocking
from ..system.streams import prepare_streams
from ..values.errors import CofioError, Unavailable
from .options import ServerOptions, pack, unpack
from .parent import METRICS_VARIABLE

ORPHAN_SECONDS = 4.0  # that a process without a parent has to end by itself


class ParentPipes:
    """The pipes to and from the parent."""

    def __init__(self) -> None:
        self._input = os.fdopen(os.dup(0), "rb")
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever prints goes to the log, and not to the parent
        stop_blocking(self._output)  # a parent that stands still must not stop this process, too

    def receive(self) -> Any:
        """Return the next message. Without a parent, end this process."""
        line = self._input.readline()
        if not line.endswith(b"\n"):
            os._exit(0)
        return unpack(line)

    def send(self, line: bytes) -> None:
        """Send a line, unless the parent reads none."""
        with suppress(OSError):
            os.write(self._output, line)

    def end_with_parent(self) -> None:
        """End this process when the parent ends: as by SIGTERM, and by force if that takes too long."""

        def wait() -> None:
            self._input.read()
            shutil.rmtree(os.environ[METRICS_VARIABLE], ignore_errors=True)  # open files remain usable
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(ORPHAN_SECONDS)
            os._exit(1)

        threading.Thread(target=wait, name="cofio-parent", daemon=True).start()


def main() -> int:
    """Be a worker or the background process, as the parent says; return the exit code."""
    share_heaps()
    prepare_streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent decides what happens
    pipes = ParentPipes()
    start_logging()
    show_notices(lambda sentence: say(sentence.removeprefix(PREFIX)))
    try:
        options, *others = pipes.receive()
        _run(pipes, ServerOptions.decode(options), *others)
    except CofioError as error:
        pipes.send(pack(str(error)))
        return 1
    return 0


def _run(pipes: ParentPipes, options: ServerOptions, workers: int, owner: str, wake: int, shared: int | None) -> None:
    """Be one of several `workers` if there is a `shared` listener, else the background process.

    `owner` names the claims of the server's jobs. Workers write to the pipe `wake`, which the background process reads.
    """
    # Imported here, while another process opens the store: it takes a second.
    from ..engine.opening import read_store_id

    run: Callable[..., None]
    if shared is None:
        from .background import run_background

        run = partial(run_background, options, owner=owner, wake=wake)
    else:
        from .worker import run_worker

        # With its protocol named: macOS does not tell it, and asyncio would send small answers 40 ms later.
        found = socket.socket(fileno=shared)
        listener = socket.socket(found.family, found.type, socket.IPPROTO_TCP, found.detach())
        run = partial(run_worker, options, listener, workers=workers, wake=partial(_wake, wake))
    store = pipes.receive()
    pipes.end_with_parent()
    # A store that has taken the place of the server's own is not opened, nor is a new one made.
    if store is not None and read_store_id(options.address) != tuple(store):
        raise Unavailable(f"the memory in {options.address} was deleted, moved or replaced; start this program again")
    run(ready=lambda: pipes.send(pack(read_store_id(options.address))), beat=partial(pipes.send, b"\n"))


def _wake(descriptor: int, reason: bytes) -> None:
    """Tell the background process why there may be work."""
    with suppress(OSError):  # the pipe is full: it will wake up anyway
        os.write(descriptor, reason)


if __name__ == "__main__":
    code = main()
    flush_log()
    os._exit(code)  # threads that still wait for something would keep the process
