"""A process of a server of several: it hears from its parent what it is to do, and ends when the parent does."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ...config.notices import show_notices
from ...system.processes import share_heaps
from ...system.streams import prepare_streams
from ...values.errors import CofioError, Invalid, Unavailable
from .board import Board, SharedCounts
from .logs import PREFIX, LogFormatter
from .options import ServerOptions

LAST = 8.0  # seconds after which a process without a parent that has not ended by itself is ended


class ParentLine:
    """The line to the parent: what is logged goes there, so that what several processes say is logged once."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lines = control.makefile("rb")
        self._lock = threading.Lock()

    def read(self) -> dict[str, Any] | None:
        """Return the next message; None when the parent has ended."""
        with suppress(OSError):
            line = self._lines.readline()
            if line.endswith(b"\n"):
                message: dict[str, Any] = json.loads(line)
                return message
        return None

    def send(self, message: Mapping[str, Any]) -> bool:
        """Send a message; whether the parent is still there to read it."""
        with suppress(OSError), self._lock:
            self._control.sendall(json.dumps(message).encode() + b"\n")
            return True
        return False

    def show(self, sentence: str) -> None:
        """Show a line to the person who runs the server."""
        if not self.send({"log": sentence}):
            print(sentence, file=sys.stderr, flush=True)

    def end_with_parent(self) -> None:
        """End this process, as by SIGTERM, when the parent has ended; by force if it has not ended soon."""

        def wait() -> None:
            while self.read() is not None:
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(LAST)  # in which open requests end
            os._exit(1)  # a thread that does not end would keep the process, and no one is left to kill it

        threading.Thread(target=wait, name="cofio-parent", daemon=True).start()


class ParentHandler(logging.Handler):
    """Logs by the parent."""

    def __init__(self, parent: ParentLine) -> None:
        super().__init__()
        self._parent = parent
        self.setFormatter(LogFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Log an entry."""
        self._parent.show(self.format(record))


def main(control: int) -> int:
    """Be a worker or the background process, as the parent says; the exit code."""
    share_heaps()
    prepare_streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent says what comes of it
    parent = ParentLine(socket.socket(fileno=control))
    spec = parent.read()
    if spec is None:
        return 0
    logging.basicConfig(handlers=[ParentHandler(parent)])
    show_notices(lambda sentence: parent.show(PREFIX + sentence))
    try:
        _run(parent, spec)
    except CofioError as error:
        is_invalid = isinstance(error, Invalid)
        failure = {
            "field": error.field if isinstance(error, Invalid) else "",
            "message": error.problem if isinstance(error, Invalid) else str(error),
        }
        parent.send({"failure": failure})
        return 2 if is_invalid else 1
    return 0


def _run(parent: ParentLine, spec: Mapping[str, Any]) -> None:
    from ...engine.opening import read_store_id
    from .links import Switchboard
    from .membership import Membership

    number, workers, descriptors = spec["number"], spec["workers"], spec["descriptors"]
    member = Membership(
        number=number,
        board=Board(descriptors["board"], workers),
        counts=tuple(SharedCounts(each) for each in descriptors["counts"]),
        switchboard=Switchboard(
            socket.socket(fileno=descriptors["inbox"]), [socket.socket(fileno=each) for each in descriptors["sends"]]
        ),
    )
    options = ServerOptions.unpack(spec["options"])
    # What takes a second to load is loaded before the turn to open the store comes, and only where it is needed.
    run: Callable[[ServerOptions, Membership, Callable[[], None]], None]
    if number == member.board.background:
        from .background_process import run_background

        run = run_background
    else:
        from .worker_process import run_worker

        run = partial(run_worker, listener=socket.socket(fileno=descriptors["listener"]))
    if parent.read() is None:  # its turn to open the store
        return
    parent.end_with_parent()
    # Else it would open another one, or make a new one, beside those that miss the one that they have open.
    if spec["is_restart"] and not member.board.is_store(read_store_id(options.address)):
        raise Unavailable(f"the memory in {options.address} was deleted, moved or replaced; start this program again")

    def announce() -> None:
        store_id = read_store_id(options.address)
        if store_id is not None and number == member.board.background and not spec["is_restart"]:
            member.board.set_store(store_id)
        parent.send({"ready": True})

    run(options, member, announce)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
