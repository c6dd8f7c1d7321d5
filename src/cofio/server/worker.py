"""A process that takes requests: an ordinary uvicorn server on a listener that it may share with others."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import uvicorn

from ..content import FetchPolicy
from ..conversations.conversations import Conversations
from ..conversations.tasks import ConversationJobs
from ..doors.lazy_memory import Memory
from ..doors.rest import http as rest
from ..doors.rest.assistant import open_assistant
from ..engine.background import WorkSharing
from ..engine.jobs import JobRunner
from ..http.admission import ServerLoad
from ..http.connections import ConnectionLimits, Connections
from ..http.logs import say
from ..http.metrics import Metrics
from ..http.tokens import Tokens
from ..http.tracing import RequestTracer
from ..vault.lifecycle import AttachedVault
from .app import build_app
from .background import add_background_work
from .listener import check_exposure
from .options import ServerOptions

TICK_SECONDS = 0.5
STOP_SECONDS = 1.0  # that open requests have to end when the server is stopped
CLOSE_SECONDS = 0.5  # that calls and jobs at hand have after that


class Peers:
    """The other processes of a server, as a worker knows them."""

    def __init__(self, workers: int, notify_write: Callable[[], None], notify_job: Callable[[], None]) -> None:
        self.workers = workers
        self.notify_write = notify_write
        self.notify_job = notify_job


def run_worker(
    options: ServerOptions,
    listener: socket.socket,
    *,
    ready: Callable[[], None],
    beat: Callable[[], None] | None = None,
    peers: Peers | None = None,
) -> None:
    """Take requests until SIGTERM or Ctrl-C; `ready` is called once they are taken, and `beat` about twice a second.

    Without `peers` this is the only process of the server, and does its background work, too.

    Raises:
        CofioError: the store, or a setting, cannot be used.
    """
    settings = options.settings if peers is None else replace(options.settings, background=False)
    home, load = options.address.home, ServerLoad()
    sharing = None if peers is None else WorkSharing(notify=peers.notify_write, has_queue=load.has_queue)
    memory = Memory(options.address, settings, say=say, sharing=sharing, takes_over=peers is None, is_server=True)
    fetch_policy = FetchPolicy.parse(settings.fetch)
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        engine = memory.engine  # what is wrong with the store is said now, not to the first client
        metrics = Metrics(lambda: memory.engine, load, has_model=bool(settings.llm_base_url))
        observe = metrics.count_model_usage if settings.llm_base_url else None
        assistant = open_assistant(settings, home, lambda: memory.engine, observe=observe)
        vault = stack.enter_context(closing(AttachedVault(engine, home, settings)))
        runner: JobRunner | None = None
        conversations = Conversations(
            engine, reader=None if assistant is None else assistant.reader,
            mirror=vault.make_mirror(lambda: wake() if wake is not None else None),
        )  # fmt: skip
        if peers is None:
            jobs = ConversationJobs(
                conversations, None if assistant is None else assistant.spending,
                quiet=timedelta(minutes=settings.quiet_after),
            )  # fmt: skip
            runner = JobRunner(engine, {**jobs.make_handlers(), **vault.make_handlers()})
            add_background_work(runner, jobs, vault, conversations)
            runner.on_failure = metrics.count_failed_job
            stack.callback(runner.close, CLOSE_SECONDS)
        wake = runner.notice if runner is not None else peers.notify_job if peers is not None else None
        door = rest.Door(
            conversations, settings.zone, assistant=assistant, fetch_policy=fetch_policy, folder=home, load=load,
            processes=1 if peers is None else peers.workers, wake=wake, count_failed=metrics.read_failed_jobs,
        )  # fmt: skip
        stack.callback(door.close, CLOSE_SECONDS)
        limits = ConnectionLimits.measure(1 if peers is None else peers.workers)
        connections = Connections(limits)
        strict = check_exposure(Tokens(engine.shared_values or home), home, options.host, options.names)
        app = build_app(
            options, memory, door, metrics, load, strict=strict, listener=listener,
            shares_load=peers is not None and peers.workers > 1,
        )  # fmt: skip
        if runner is not None:
            runner.start()

        def stop() -> None:
            app.is_stopping = True
            door.stop_waiting()

        def tick() -> None:
            metrics.publish_load()
            if beat is not None:
                beat()

        # Ctrl-C goes to all processes of a terminal; where there is a parent, it says what comes of it.
        signals = (signal.SIGTERM, signal.SIGINT) if peers is None else (signal.SIGTERM,)
        server = HttpServer(app, connections, limits, on_start=ready, on_stop=stop, on_tick=tick, signals=signals)
        server.run(sockets=[listener])


class HttpServer(uvicorn.Server):
    """uvicorn, with callbacks for its start, its stop and every half second. The process goes on after it."""

    def __init__(
        self,
        app: RequestTracer,
        connections: Connections,
        limits: ConnectionLimits,
        *,
        on_start: Callable[[], None],
        on_stop: Callable[[], None],
        on_tick: Callable[[], None],
        signals: tuple[signal.Signals, ...],
    ) -> None:
        self._signals = signals
        make: Any = connections.make  # uvicorn calls it as it calls its own classes
        super().__init__(
            uvicorn.Config(
                app, http=make, ws="none", backlog=limits.backlog, log_config=None, log_level="error",
                access_log=False, timeout_graceful_shutdown=cast(int, STOP_SECONDS),  # any number will do
                timeout_keep_alive=round(limits.idle_seconds), server_header=False, proxy_headers=False,
            )
        )  # fmt: skip
        self._on_start = on_start
        self._on_stop = on_stop
        self._on_tick = on_tick
        self._received: int | None = None

    def capture_signals(self) -> Any:
        """Leave the signals alone: `startup` handles them, and the memory is closed after the server."""
        return nullcontext()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until stopped.

        Raises:
            KeyboardInterrupt: it was stopped by Ctrl-C.
        """
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self.serve(sockets))
        if self._received == signal.SIGINT:
            raise KeyboardInterrupt

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, and say so."""
        for each in self._signals:
            if sys.platform == "win32":
                signal.signal(each, lambda number, _: self._stop(number))
            else:
                asyncio.get_running_loop().add_signal_handler(each, self._stop, each)
        await super().startup(sockets)
        self._tick()
        self._on_start()

    def _tick(self) -> None:
        """Call back at intervals, by a clock that nobody sets."""
        self._on_tick()
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _stop(self, received: int) -> None:
        if self._received is not None:
            self.force_exit = received == signal.SIGINT
            return
        self._received = received
        self.should_exit = True
        self._on_stop()
