"""The parent of a server of several processes: it listens, starts the others, starts again one that ends, and ends all.

It does nothing else and loads nothing of what the others load, so it stays small and has nothing to fail by.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ...config.settings import MAX_WORKERS
from ...system.processes import can_share_sockets, count_cores
from ...system.sockets import make_inbox
from ...values.errors import CofioError, Invalid, Unavailable
from .board import Board, SharedCounts
from .listener import BACKLOG, check_exposure, open_listener, render_url
from .logs import log_to_stderr
from .options import ServerOptions
from .tokens import open_tokens

GRACE = 5.0  # seconds that open requests have to end when the server is stopped
PATIENCE = GRACE / 2  # of them, those in which a model may yet answer
LAST = GRACE + 7.0  # seconds after which a process that has not ended by itself is ended
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds before a process that has ended is started again
LONG_LIFE = 60.0  # seconds after which the next pause is the first again
SAME_LINE = 60.0  # seconds within which the same line of another process is not logged again
FORCE = 1.0  # seconds that a second Ctrl-C leaves
SHORT = 0.02  # seconds until a process has ended whose line is closed already
CHILD = "cofio.doors.web.child"
# Each process has a core to itself at best: threads of numpy's would only wait for each other, spinning.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("cofio.serve")


def choose_workers(wanted: int | None) -> int:
    """Return how many processes take requests: as many as are asked for, else one for each core; 0 for just this one.

    Raises:
        Invalid: several are asked for, and this system cannot do that.
    """
    if not can_share_sockets():
        if wanted:
            raise Invalid("workers", "processes cannot share a listener on Windows: leave it out, or use 0")
        return 0
    return min(MAX_WORKERS, count_cores()) if wanted is None else wanted


def run(options: ServerOptions, workers: int, *, ready: Callable[[str], None]) -> int:
    """Serve with several processes until stopped; `ready` is told the address once all take requests. The exit code.

    Raises:
        Unavailable: the address is taken, others could reach it and there is no token, or the store cannot be used.
    """
    log_to_stderr()
    with open_tokens(options.address) as tokens:
        check_exposure(tokens, options.address.home, options.host, options.names)
    if options.settings.fetch.strip() not in ("", "off"):
        from ...content import FetchPolicy

        FetchPolicy.parse(options.settings.fetch)  # refused before a store is made
    with closing(open_listener(options.host, options.port, BACKLOG)) as listener:
        url = render_url(options.host, listener)
        received = Supervisor(options, workers, listener, lambda: ready(url)).run()
    if received == signal.SIGINT:
        raise KeyboardInterrupt
    return 0


@dataclass(slots=True)
class Child:
    """A process of the server, and what the parent knows of it."""

    number: int
    name: str
    process: subprocess.Popen[bytes] | None = None
    control: socket.socket | None = None
    unread: bytes = b""
    since: float = 0.0
    """When it was started."""
    is_ready: bool = False
    pause: float = FIRST_PAUSE
    """How long it is waited before it is started again, should it end soon."""
    next_start: float = field(default=float("inf"))


class Supervisor:
    """Starts the processes of a server and sees to them."""

    def __init__(
        self, options: ServerOptions, workers: int, listener: socket.socket, announce: Callable[[], None]
    ) -> None:
        self._options = options
        self._listener = listener
        self._announce = announce
        self._memory = Board.make()
        self._counts = [SharedCounts.make() for _ in range(workers + 1)]
        self._inboxes = [make_inbox() for _ in range(workers + 1)]
        self._board = Board(self._memory, workers)
        names = [*(f"worker {number + 1}" for number in range(workers)), "the background process"]
        self._children = [Child(number, name) for number, name in enumerate(names)]
        self._workers, self._background = self._children[:-1], self._children[-1]
        self._selector = selectors.DefaultSelector()
        self._has_started = False
        self._failure: CofioError | None = None
        self._received: int | None = None
        """The signal by which the server is to end."""
        self._deadline = float("inf")
        self._turn = float("inf")
        """When the background process is told to end, too."""
        self._is_last_told = False
        self._lines: dict[str, tuple[float, int]] = {}

    def run(self) -> int:
        """Serve until stopped; the signal that stopped it.

        Raises:
            CofioError: a process could not start, for the first time.
        """
        self._board.set_parent(os.getpid())
        with ExitStack() as stack:
            stack.callback(self._release)
            stack.callback(self._kill_all)
            wakes = stack.enter_context(_catch_signals())
            self._selector.register(wakes, selectors.EVENT_READ, None)
            for child in (self._background, *self._workers):
                if not self._is_ending:
                    self._start(child)
            while any(child.process is not None for child in self._children) or not self._is_ending:
                self._step(wakes)
        if self._failure is not None:
            raise self._failure
        assert self._received is not None
        return self._received

    @property
    def _is_ending(self) -> bool:
        return self._received is not None or self._failure is not None

    def _step(self, wakes: socket.socket) -> None:
        """Wait for what happens next, and see to it."""
        due = min(self._deadline, self._turn, *(child.next_start for child in self._children))
        if any(child.process is not None and child.control is None for child in self._children):
            due = min(due, time.monotonic() + SHORT)  # one is about to end
        timeout = None if due == float("inf") else max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.fileobj is wakes:
                for number in wakes.recv(256):
                    if number in _SIGNALS:
                        self._end(number)
            else:
                self._read(key.data)
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                self._bury(child, child.process.returncode)
        now = time.monotonic()
        if self._is_ending:
            self._see_to_end(now)
            return
        for child in self._children:
            if child.next_start <= now:
                self._start(child)

    def _start(self, child: Child) -> None:
        ours, theirs = socket.socketpair()
        own, _ = self._inboxes[child.number]
        sends = [write.fileno() for _, write in self._inboxes]
        is_worker = child is not self._background
        descriptors = {
            "board": self._memory, "counts": self._counts, "inbox": own.fileno(), "sends": sends,
            "listener": self._listener.fileno() if is_worker else None,
        }  # fmt: skip
        inherited = [theirs.fileno(), self._memory, own.fileno(), *self._counts, *sends]
        inherited += [self._listener.fileno()] if is_worker else []
        child.since, child.next_start = time.monotonic(), float("inf")
        try:
            with theirs:
                # -P: what lies in the working folder is not imported.
                child.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", CHILD, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=inherited,
                    env=_ONE_THREAD | os.environ,
                )
        except OSError as error:  # no memory, or too many processes
            ours.close()
            self._put_off(child, f"could not be started ({error.strerror})")
            return
        child.control, child.unread, child.is_ready = ours, b"", False
        spec = {
            "number": child.number, "workers": len(self._workers), "options": self._options.pack(),
            "descriptors": descriptors, "is_restart": self._has_started,
        }  # fmt: skip
        self._tell(child, spec)
        ours.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, child)
        if self._has_started or child is self._background:
            self._tell(child, {"go": True})

    def _tell(self, child: Child, message: Mapping[str, Any]) -> None:
        assert child.control is not None
        with suppress(OSError):  # it has ended, which is noticed elsewhere
            child.control.sendall(json.dumps(message).encode() + b"\n")

    def _read(self, child: Child) -> bool:
        """Hear what a process has to say; whether there may be more."""
        assert child.control is not None
        try:
            data = child.control.recv(65_536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._hang_up(child)
            return False
        *lines, child.unread = (child.unread + data).split(b"\n")
        for line in lines:
            self._hear(child, json.loads(line))
        return True

    def _hang_up(self, child: Child) -> None:
        if child.control is not None:
            self._selector.unregister(child.control)
            child.control.close()
            child.control = None

    def _hear(self, child: Child, message: Mapping[str, Any]) -> None:
        if "log" in message:
            self._show(child, message["log"])
        elif "failure" in message and not self._has_started:
            self._failure = self._failure or _make_error(message["failure"])
            self._begin_end()
        elif "failure" in message:
            _log.error("%s could not start: %s", child.name, message["failure"]["message"])
        elif "ready" in message and child.process is not None:
            child.is_ready = True
            self._board.register(child.number, child.process.pid)
            self._go_on(child)

    def _go_on(self, child: Child) -> None:
        """Let the workers open the store once the background process has, and announce when all are ready."""
        if self._has_started:
            return
        if child is self._background:
            for worker in self._workers:
                self._tell(worker, {"go": True})
        if all(each.is_ready for each in self._children):
            self._has_started = True
            self._announce()

    def _show(self, child: Child, text: str) -> None:
        """Log a line of a process, unless another has just logged the same."""
        now = time.monotonic()
        seen, number = self._lines.get(text, (float("-inf"), child.number))
        if number != child.number and now - seen < SAME_LINE:
            return
        self._lines = {line: entry for line, entry in self._lines.items() if now - entry[0] < SAME_LINE}
        self._lines[text] = now, child.number
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)

    def _bury(self, child: Child, code: int) -> None:
        """See to a process that has ended."""
        while child.control is not None and self._read(child):
            pass
        self._hang_up(child)
        child.process = None
        self._board.register(child.number, 0)
        if self._is_ending:
            return
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with the exit code {code}"
        self._put_off(child, f"ended {how}")

    def _put_off(self, child: Child, what: str) -> None:
        """Start a process again later, unless the server is only being started."""
        if not self._has_started:
            self._failure = Unavailable(f"{child.name} of the server {what} while it was being started")
            self._begin_end()
            return
        now = time.monotonic()
        if now - child.since >= LONG_LIFE:
            child.pause = FIRST_PAUSE
        child.next_start = now + child.pause
        _log.error("%s %s: it is started again in %g s", child.name, what, child.pause)
        child.pause = min(LONGEST_PAUSE, 2 * child.pause)

    def _end(self, received: int) -> None:
        """Begin to end, or with a second Ctrl-C end soon."""
        if self._received is not None:
            if received == signal.SIGINT:
                self._deadline = min(self._deadline, time.monotonic() + FORCE)
            return
        self._received = received
        self._begin_end()

    def _begin_end(self) -> None:
        """Tell the workers to end; the background process only when no one can wait for it any more."""
        now = time.monotonic()
        self._deadline = min(self._deadline, now + LAST)
        self._turn = min(self._turn, now + PATIENCE)
        self._listener.close()
        for child in self._children:
            child.next_start = float("inf")
        for worker in self._workers:
            _terminate(worker)

    def _see_to_end(self, now: float) -> None:
        if now >= self._turn or all(worker.process is None for worker in self._workers):
            self._turn = float("inf")
            if not self._is_last_told:
                self._is_last_told = True
                _terminate(self._background)
        if now >= self._deadline:
            self._kill_all()
            self._deadline = now + FORCE

    def _kill_all(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.kill()

    def _release(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.wait()
            if child.control is not None:
                child.control.close()
        self._selector.close()
        for read, write in self._inboxes:
            read.close()
            write.close()
        for descriptor in (self._memory, *self._counts):
            os.close(descriptor)


def _terminate(child: Child) -> None:
    if child.process is not None:
        child.process.terminate()


def _make_error(failure: Mapping[str, str]) -> CofioError:
    """Make the error that kept a process from starting."""
    if failure["field"]:
        return Invalid(failure["field"], failure["message"])
    return Unavailable(failure["message"])


@contextmanager
def _catch_signals() -> Iterator[socket.socket]:
    """Have the numbers of signals come over a socket."""
    reads, writes = socket.socketpair()
    with reads, writes:
        reads.setblocking(False)
        writes.setblocking(False)
        handlers = {number: signal.signal(number, _pass_by) for number in _SIGNALS}
        before = signal.set_wakeup_fd(writes.fileno(), warn_on_full_buffer=False)
        try:
            yield reads
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _pass_by(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: that the signal came is read from the socket."""
