"""The parent of a server of several processes: it listens, starts the others, replaces one that ends or stands still,
and ends all. It serves nothing and loads nothing of what the others load, so little can make it fail.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from ..config.settings import MAX_WORKERS
from ..config.trust import is_versioned
from ..http.logs import start_logging
from ..http.tokens import FILE, open_tokens
from ..system.processes import can_share_sockets, count_cores, share_heaps, stop_blocking
from ..values.errors import Invalid, Unavailable
from .listener import is_local, open_listener, render_url
from .options import ServerOptions, pack, unpack

MAX_SILENT_SECONDS = 4  # without a sign of life, after which a process counts as one that stands still
MAX_START_SECONDS = 60  # the same while it starts
STOP_SECONDS = 2.0  # after which a process that has not ended by itself is killed
FORCE_SECONDS = 0.5  # the same after a second Ctrl-C
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 30.0  # before a process that has ended is started again
LONG_LIFE_SECONDS = 10.0  # after which the next pause is short again
BACKGROUND = "the background process"
CHILD = "cofio.server.child"
METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# Each process has a core to itself at best: threads of numpy's would only wait for each other, spinning.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
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


def run_server(options: ServerOptions, workers: int, *, ready: Callable[[str], None]) -> None:
    """Serve until stopped; `ready` is called with the address once requests are taken.

    One worker is one process, this one. More are processes of their own, with one more for the background work.

    Raises:
        Unavailable: the address is taken, others could reach it and there is no token, or the store cannot be used.
        KeyboardInterrupt: Ctrl-C has stopped it; everything is closed.
    """
    start_logging()
    check_exposure(options)
    if options.settings.fetch.strip() not in ("", "off"):
        from ..content import FetchPolicy

        FetchPolicy.parse(options.settings.fetch)  # refused before a store is made
    with closing(open_listener(options.host, options.port)) as listener:

        def announce() -> None:
            ready(render_url(options.host, listener))
            notify_systemd("READY=1")

        if workers == 1:
            from .worker import run_worker

            share_heaps()
            run_worker(options, listener, ready=announce, beat=partial(notify_systemd, "WATCHDOG=1"))
            return
        # A folder in memory, where the system has one: a full disk does not concern it.
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108
        with tempfile.TemporaryDirectory(prefix="cofio-", dir=folder, ignore_cleanup_errors=True) as metrics:
            received = asyncio.run(Parent(options, workers, listener, metrics, announce).run())
    if received == signal.SIGINT:
        raise KeyboardInterrupt


def check_exposure(options: ServerOptions) -> None:
    """Check that no one can use the server who should not.

    Raises:
        Unavailable: others could reach it and there is no token, or the tokens are known to others.
    """
    home = options.address.home
    with open_tokens(options.address) as tokens:
        has_token = bool(tokens.all())
    if options.is_public and not has_token:
        name = next(name for name in (options.host, *options.names) if not is_local(name))
        raise Unavailable(f"others can reach {name}, so a token is needed: make one with `cofio token add NAME`")
    if has_token and is_versioned(home, (FILE,)):
        raise Unavailable(
            f"{home / FILE} came with the project, so others know its tokens: remove it, and make new ones with"
            " `cofio token add`"
        )


def notify_systemd(state: str) -> None:
    """Tell systemd a state, as `READY=1`, if it started this process with `Type=notify`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or sys.platform == "win32":
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.send(state.encode())


class Parent:
    """Starts the processes of a server and watches them."""

    def __init__(
        self, options: ServerOptions, workers: int, listener: socket.socket, metrics: str, announce: Callable[[], None]
    ) -> None:
        """`metrics` is the folder of the shared counts; `announce` is called once requests are taken."""
        self._options = options
        self._workers = [f"worker {number + 1}" for number in range(workers)]
        self._listener = listener
        self._metrics = metrics
        self._announce = announce
        self._owner = secrets.token_hex(8)
        self._wake_reader, self._wake_writer = os.pipe()
        stop_blocking(self._wake_writer)
        self._processes: dict[str, Process] = {}
        self._starting = {BACKGROUND, *self._workers}
        """Those that have not been ready yet. Once there are none, a process that ends is started again."""

    async def run(self) -> int:
        """Serve until stopped; return the signal that stopped it.

        Raises:
            Unavailable: a process could not start, for the first time.
        """
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = loop.create_future()
        self._store: asyncio.Future[object] = loop.create_future()  # its id; the background process opens it first
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive_signal, number)
        running = asyncio.gather(*map(self._keep_running, (BACKGROUND, *self._workers)), self._feed_watchdog())
        running.add_done_callback(lambda _: self._end.cancel())  # one of them has failed
        try:
            return await self._end
        finally:
            notify_systemd("STOPPING=1")
            self._listener.close()
            self._end_all(by_force=False)
            loop.call_later(STOP_SECONDS, partial(self._end_all, by_force=True))
            await running
            os.close(self._wake_reader)
            os.close(self._wake_writer)

    def _receive_signal(self, number: signal.Signals) -> None:
        if not self._end.done():
            self._end.set_result(number)
        elif number == signal.SIGINT:
            asyncio.get_running_loop().call_later(FORCE_SECONDS, partial(self._end_all, by_force=True))

    def _end_all(self, *, by_force: bool) -> None:
        for name, process in self._processes.items():
            if by_force:
                _log.error("%s (PID %d) did not end in time: it is killed", name, process.pid)
            _stop(process, by_force=by_force)

    async def _feed_watchdog(self) -> None:
        while not self._end.done():
            notify_systemd("WATCHDOG=1")
            await asyncio.wait({self._end}, timeout=1.0)

    async def _keep_running(self, name: str) -> None:
        """Run a process, again and again, until the server ends."""
        pause = MIN_PAUSE_SECONDS
        while not self._end.done():
            started_at = time.monotonic()
            outcome = await self._run_once(name)
            if self._starting:
                self._fail(f"{name} of the server {outcome} while it was being started")
            if self._end.done():
                return
            if time.monotonic() - started_at >= LONG_LIFE_SECONDS:
                pause = MIN_PAUSE_SECONDS
            _log.error("%s %s: it is started again in %g s", name, outcome, pause)
            await asyncio.wait({self._end}, timeout=pause)
            pause = min(MAX_PAUSE_SECONDS, 2 * pause)

    def _fail(self, problem: str) -> None:
        """End the server, as it cannot start."""
        if not self._end.done():
            self._end.set_exception(Unavailable(problem))

    async def _run_once(self, name: str) -> str:
        """Run a process until it ends; return how it ended."""
        listener = None if name == BACKGROUND else self._listener.fileno()
        wake = self._wake_reader if name == BACKGROUND else self._wake_writer
        try:
            # -P: what lies in the working folder is not imported.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", CHILD, stdin=PIPE, stdout=PIPE,
                pass_fds=[wake] if listener is None else [wake, listener],
                env=_ONE_THREAD | os.environ | {METRICS_VARIABLE: self._metrics},
            )  # fmt: skip
        except OSError as error:  # no memory, or too many processes
            return f"could not be started ({error.strerror})"
        assert process.stdin is not None
        self._processes[name] = process
        if self._end.done():
            _stop(process, by_force=False)
        send = process.stdin.write
        send(pack((self._options.encode(), len(self._workers), self._owner, wake, listener)))
        if name == BACKGROUND and not self._store.done():
            send(pack(None))
        else:
            self._store.add_done_callback(lambda store: store.cancelled() or send(pack(store.result())))
        await self._listen(name, process)
        code = await process.wait()
        del self._processes[name]
        for file in Path(self._metrics).glob(f"gauge_live*_{process.pid}.db"):  # what waits there waits no more
            file.unlink(missing_ok=True)
        names = {-each.value: each.name for each in signal.Signals}
        return f"ended by {names.get(code, code)}" if code < 0 else f"ended with the exit code {code}"

    async def _listen(self, name: str, process: Process) -> None:
        """Read what a process says until it ends. If it stands still, kill it: what it has acknowledged is safe."""
        assert process.stdout is not None
        silent_seconds, max_seconds = 0, MAX_START_SECONDS
        while silent_seconds < max_seconds:
            try:
                # A second at a time: if this process stood still itself, that counts as one second.
                line = await asyncio.wait_for(process.stdout.readline(), 1.0)
            except TimeoutError:
                # A worker is silent until the store is open.
                silent_seconds += self._store.done() or name == BACKGROUND
                continue
            if not line:
                return
            silent_seconds = 0
            if line.strip():
                max_seconds = MAX_SILENT_SECONDS
                with suppress(ValueError):  # something else has printed a line
                    self._handle(name, unpack(line))
        _log.error("%s (PID %d) stands still: it is killed", name, process.pid)
        _stop(process, by_force=True)

    def _handle(self, name: str, message: object) -> None:
        """Handle a message of a process: why it cannot start, or the id of the store that it has opened."""
        if isinstance(message, str):
            if self._starting:
                self._fail(message)
            else:
                _log.error("%s could not start: %s", name, message)
            return
        if not self._store.done():
            self._store.set_result(message)
        if name in self._starting:
            self._starting.remove(name)
            if not self._starting and not self._end.done():
                self._announce()


def _stop(process: Process, *, by_force: bool) -> None:
    """Tell a process to end, or kill it. Before Python 3.13, `process.kill()` may take its exit code from asyncio."""
    if sys.platform != "win32":  # where there is one process
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL if by_force else signal.SIGTERM)
