"""The parent of a server of several processes: it listens, starts the others, replaces one that ends or stands still,
and ends all. It serves nothing and loads nothing of what the others load, so it has little to fail by.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..config.settings import MAX_WORKERS
from ..http.logs import start_logging
from ..http.tokens import open_tokens
from ..system.processes import can_share_sockets, count_cores, stop_blocking
from ..values.errors import CofioError, Invalid, Unavailable
from .listener import check_exposure, open_listener, render_url
from .options import ServerOptions
from .systemd import notify_systemd

BACKLOG = 1024  # connections that the system holds until a worker takes them
MAX_SILENCE_SECONDS = 4.0  # without a sign of life, after which a process counts as one that stands still
MAX_START_SECONDS = 60.0  # the same while it starts
TICK_SECONDS = 0.1  # between two looks at the processes
MAX_TICK_SECONDS = 2.0  # a look that is later than that says that this process stood still itself
STOP_SECONDS = 2.0  # after which a process that has not ended by itself is killed
FORCE_SECONDS = 0.5  # that a second Ctrl-C leaves
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 30.0  # before a process that has ended is started again
LONG_LIFE_SECONDS = 10.0  # after which the next pause is short again
CHILD = "cofio.server.child"
BEAT = b"."  # a sign of life of a process
METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# Each process has a core to itself at best: threads of numpy's would only wait for each other, spinning.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("cofio.serve")


def choose_workers(wanted: int | None) -> int:
    """Return how many processes take requests: as many as are asked for, else one for each core.

    Raises:
        Invalid: several are asked for, and this system cannot do that.
    """
    if not can_share_sockets():
        if wanted is not None and wanted > 1:
            raise Invalid("workers", "processes cannot share a listener on Windows: leave it out, or use 1")
        return 1
    return min(MAX_WORKERS, count_cores()) if wanted is None else max(1, wanted)


def run_server(options: ServerOptions, workers: int, *, ready: Callable[[str], None]) -> int:
    """Serve until stopped; `ready` is called with the address once requests are taken. Return the exit code.

    One worker is one process, this one. More are processes of their own, with one more for the background work.

    Raises:
        Unavailable: the address is taken, others could reach it and there is no token, or the store cannot be used.
    """
    start_logging()
    with open_tokens(options.address) as tokens:
        check_exposure(tokens, options.address.home, options.host, options.names)
    if options.settings.fetch.strip() not in ("", "off"):
        from ..content import FetchPolicy

        FetchPolicy.parse(options.settings.fetch)  # refused before a store is made
    with closing(open_listener(options.host, options.port, BACKLOG)) as listener:
        url = render_url(options.host, listener)
        if workers == 1:
            from ..system.processes import share_heaps
            from .worker import run_worker

            share_heaps()

            def announce() -> None:
                ready(url)
                notify_systemd("READY=1")

            run_worker(options, listener, ready=announce, beat=partial(notify_systemd, "WATCHDOG=1"))
            return 0
        received = Parent(options, workers, listener, lambda: ready(url)).run()
    if received == signal.SIGINT:
        raise KeyboardInterrupt
    return 0


@dataclass(slots=True)
class Child:
    """A process of the server, and what the parent knows of it."""

    name: str
    is_worker: bool
    process: subprocess.Popen[bytes] | None = None
    unread: bytes = b""
    started_at: float = 0.0
    heard_at: float = 0.0
    is_ready: bool = False
    pause: float = MIN_PAUSE_SECONDS
    """Seconds before it is started again, should it end soon."""
    next_start: float = float("inf")


class Parent:
    """Starts the processes of a server and watches them."""

    def __init__(
        self, options: ServerOptions, workers: int, listener: socket.socket, announce: Callable[[], None]
    ) -> None:
        self._options = options
        self._listener = listener
        self._announce = announce
        self._owner = secrets.token_hex(8)
        self._workers = [Child(f"worker {number + 1}", is_worker=True) for number in range(workers)]
        self._background = Child("the background process", is_worker=False)
        self._children = [self._background, *self._workers]
        self._wake_reader, self._wake_writer = os.pipe()
        stop_blocking(self._wake_writer)
        self._metrics = tempfile.mkdtemp(prefix="cofio-", dir=_find_memory_folder())
        self._selector = selectors.DefaultSelector()
        self._store: list[int] | None = None
        """What tells the store from any other that may take its place."""
        self._has_started = False
        self._failure: CofioError | None = None
        self._received: int | None = None
        """The signal by which the server is to end."""
        self._deadline = float("inf")
        self._looked_at = time.monotonic()
        self._next_notice = 0.0
        self._signals: list[int] = []

    def run(self) -> int:
        """Serve until stopped; return the signal that stopped it.

        Raises:
            CofioError: a process could not start, for the first time.
        """
        handlers = {
            number: signal.signal(number, lambda received, _: self._signals.append(received)) for number in _SIGNALS
        }
        try:
            for child in self._children:
                if not self._is_ending:
                    self._start(child)
            while any(child.process is not None for child in self._children) or not self._is_ending:
                self._step()
        finally:
            self._kill_all()
            self._release()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if self._failure is not None:
            raise self._failure
        assert self._received is not None
        return self._received

    @property
    def _is_ending(self) -> bool:
        return self._received is not None or self._failure is not None

    def _step(self) -> None:
        """Read what processes say for a tenth of a second at most, and see to those that ended or stand still."""
        for key, _ in self._selector.select(TICK_SECONDS):
            self._read(key.data)
        while self._signals:
            self._end(self._signals.pop(0))
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                self._bury(child, child.process)
        now = time.monotonic()
        if self._is_ending:
            if now >= self._deadline:
                self._kill_all()
            return
        self._kill_silent(now)
        for child in self._children:
            if child.next_start <= now:
                self._start(child)

    def _kill_silent(self, now: float) -> None:
        """Kill the processes that stand still, so that they are started again: what they had acknowledged is safe."""
        if now - self._looked_at > MAX_TICK_SECONDS:  # this process stood still as well
            for child in self._children:
                child.heard_at = now
        self._looked_at = now
        for child in self._children:
            if child.is_worker and not self._has_started and not self._background.is_ready:
                child.heard_at = now  # it waits for its turn to open the store
            limit = MAX_SILENCE_SECONDS if child.is_ready else MAX_START_SECONDS
            if child.process is not None and now - child.heard_at > limit:
                _log.error("%s (PID %d) stands still: it is killed", child.name, child.process.pid)
                child.process.kill()
                child.heard_at = now
        if self._has_started and now >= self._next_notice:
            self._next_notice = now + 1.0
            notify_systemd("WATCHDOG=1")

    def _start(self, child: Child) -> None:
        listener = self._listener.fileno() if child.is_worker else None
        wake = self._wake_writer if child.is_worker else self._wake_reader
        child.started_at = child.heard_at = time.monotonic()
        child.next_start, child.unread, child.is_ready = float("inf"), b"", False
        try:
            # -P: what lies in the working folder is not imported.
            child.process = subprocess.Popen(
                [sys.executable, "-P", "-m", CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=[wake, *([] if listener is None else [listener])],
                env=_ONE_THREAD | os.environ | {METRICS_VARIABLE: self._metrics},
            )
        except OSError as error:  # no memory, or too many processes
            self._put_off(child, f"could not be started ({error.strerror})")
            return
        assert child.process.stdout is not None
        stop_blocking(child.process.stdout.fileno())
        self._selector.register(child.process.stdout, selectors.EVENT_READ, child)
        spec = {
            "options": self._options.pack(), "workers": len(self._workers), "listener": listener, "wake": wake,
            "owner": self._owner, "metrics": self._metrics, "store": self._store if self._has_started else None,
        }  # fmt: skip
        self._tell(child, spec)
        if self._has_started or not child.is_worker:
            self._tell(child, {})

    def _tell(self, child: Child, message: Mapping[str, Any]) -> None:
        assert child.process is not None
        assert child.process.stdin is not None
        with suppress(OSError):  # it has ended, which is noticed elsewhere
            child.process.stdin.write(json.dumps(message).encode() + b"\n")

    def _read(self, child: Child) -> bool:
        """Read what a process has to say; return whether there may be more."""
        assert child.process is not None
        assert child.process.stdout is not None
        try:
            data = os.read(child.process.stdout.fileno(), 65_536)
        except BlockingIOError:
            return False
        if not data:
            with suppress(KeyError):
                self._selector.unregister(child.process.stdout)
            return False
        child.heard_at = time.monotonic()
        *lines, rest = (child.unread + data).split(b"\n")
        child.unread = rest.lstrip(BEAT)
        for line in lines:
            with suppress(ValueError):  # something else has printed a line
                self._hear(child, json.loads(line.lstrip(BEAT)))
        return True

    def _hear(self, child: Child, message: Mapping[str, Any]) -> None:
        if "failure" in message and not self._has_started:
            self._failure = self._failure or _make_error(message)
            self._begin_end()
        elif "failure" in message:
            _log.error("%s could not start: %s", child.name, message["failure"])
        elif "ready" in message:
            child.is_ready = True
            self._go_on(child, message["ready"])

    def _go_on(self, child: Child, store: list[int] | None) -> None:
        """Let the workers open the store once the background process has, and announce when all are ready."""
        if self._has_started:
            return
        if not child.is_worker:
            self._store = store
            for worker in self._workers:
                self._tell(worker, {})
        if all(each.is_ready for each in self._children):
            self._has_started = True
            self._announce()
            notify_systemd("READY=1")

    def _bury(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        """Take note that a process has ended."""
        while self._read(child):
            pass
        assert process.stdout is not None
        assert process.stdin is not None
        with suppress(KeyError):
            self._selector.unregister(process.stdout)
        process.stdout.close()
        with suppress(OSError):
            process.stdin.close()
        child.process = None
        for file in Path(self._metrics).glob(f"gauge_live*_{process.pid}.db"):  # what waits there waits no more
            file.unlink(missing_ok=True)
        if not self._is_ending:
            code = process.returncode
            names = {each.value: each.name for each in signal.Signals}
            how = f"by {names.get(-code, f'signal {-code}')}" if code < 0 else f"with the exit code {code}"
            self._put_off(child, f"ended {how}")

    def _put_off(self, child: Child, what: str) -> None:
        """Start a process again later, unless the server is only being started."""
        if not self._has_started:
            self._failure = Unavailable(f"{child.name} of the server {what} while it was being started")
            self._begin_end()
            return
        now = time.monotonic()
        if now - child.started_at >= LONG_LIFE_SECONDS:
            child.pause = MIN_PAUSE_SECONDS
        child.next_start = now + child.pause
        _log.error("%s %s: it is started again in %g s", child.name, what, child.pause)
        child.pause = min(MAX_PAUSE_SECONDS, 2 * child.pause)

    def _end(self, received: int) -> None:
        """Begin to end, or with a second Ctrl-C end soon."""
        if self._received is not None:
            if received == signal.SIGINT:
                self._deadline = min(self._deadline, time.monotonic() + FORCE_SECONDS)
            return
        self._received = received
        self._begin_end()

    def _begin_end(self) -> None:
        notify_systemd("STOPPING=1")
        self._deadline = min(self._deadline, time.monotonic() + STOP_SECONDS)
        self._listener.close()
        for child in self._children:
            child.next_start = float("inf")
            if child.process is not None:
                child.process.terminate()

    def _kill_all(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.kill()

    def _release(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.wait()
        self._selector.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        shutil.rmtree(self._metrics, ignore_errors=True)


def _find_memory_folder() -> str | None:
    """Return a folder in memory, so that a full disk does not concern it, where the system has one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108


def _make_error(message: Mapping[str, str]) -> CofioError:
    """Make the error that kept a process from starting."""
    return Invalid(message["field"], message["failure"]) if message["field"] else Unavailable(message["failure"])
