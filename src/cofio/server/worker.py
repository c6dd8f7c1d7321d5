"""A process that takes requests: uvicorn on a listener that it may share with others."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn

from ..content import FetchPolicy
from ..doors.rest import http as rest
from ..engine.background import WorkSharing
from ..http.admission import ServerLoad
from ..http.connections import ConnectionLimits, Connections
from .app import build_app
from .background import CLOSE_SECONDS, NEW_JOB, NEW_WRITE, exit_soon, open_services
from .options import ServerOptions

TICKS_PER_BEAT = 5  # uvicorn has ten ticks a second
STOP_SECONDS = 1.0  # that open requests have to end when the server is stopped
Callback = Callable[[], None]


def run_worker(
    options: ServerOptions, listener: socket.socket, *, ready: Callback, beat: Callback, workers: int = 1,
    wake: Callable[[bytes], None] | None = None,
) -> None:  # fmt: skip
    """Take requests until SIGTERM or Ctrl-C. Call `ready` once they are taken, and `beat` about twice a second.

    A server of several `workers` has a background process, which `wake` tells why there is work for it. Without that,
    this process does the background work, too.

    Raises:
        CofioError: the store, or a setting, cannot be used.
        KeyboardInterrupt: Ctrl-C has stopped it; everything is closed.
    """
    load, settings, home = ServerLoad(), options.settings, options.address.home
    sharing, notify = None, None
    if wake is not None:
        sharing = WorkSharing(notify=partial(wake, NEW_WRITE), has_queue=load.has_queue)
        notify = partial(wake, NEW_JOB)
    fetch_policy = FetchPolicy.parse(settings.fetch)
    with ExitStack() as stack:
        services = stack.enter_context(open_services(options, sharing, notify=notify, load=load))
        metrics = services.metrics
        door = rest.Door(
            services.conversations, settings.zone, assistant=services.assistant, fetch_policy=fetch_policy, folder=home,
            load=load, processes=workers, wake=services.notify, count_failed=metrics.read_failed_jobs,
        )  # fmt: skip
        stack.callback(door.close, CLOSE_SECONDS)
        limits = ConnectionLimits.measure(workers)
        connections = Connections(limits)
        app = build_app(options, services.memory, door, metrics, load, shares_load=workers > 1)

        def tick() -> None:
            metrics.publish_load()
            beat()

        def stop() -> None:
            app.is_stopping = True
            door.stop_waiting()

        make: Any = connections.make  # uvicorn calls it as it calls its own classes
        config = uvicorn.Config(
            app, http=make, ws="none", backlog=limits.backlog, log_config=None, log_level="error", access_log=False,
            timeout_graceful_shutdown=cast(int, STOP_SECONDS),  # any number will do
            timeout_keep_alive=round(limits.idle_seconds), server_header=False, proxy_headers=False,
        )  # fmt: skip
        server = HttpServer(config, on_start=ready, on_tick=tick, on_stop=stop)
        server.run(sockets=[listener])
    if server.received == signal.SIGINT:
        raise KeyboardInterrupt


class HttpServer(uvicorn.Server):
    """uvicorn, with callbacks for its start, its stop and every half second."""

    def __init__(self, config: uvicorn.Config, *, on_start: Callback, on_tick: Callback, on_stop: Callback) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_tick = on_tick
        self._on_stop = on_stop
        self.received: int | None = None
        """The signal that has stopped it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and Ctrl-C. uvicorn itself would raise them again before the memory is closed."""
        for each in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(each) is not signal.SIG_IGN:  # a parent decides what Ctrl-C does to its children
                signal.signal(each, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and with a second Ctrl-C drop the requests that are still open."""
        if self.received is None:
            self.received = sig
            exit_soon(130 if sig == signal.SIGINT else 0)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests."""
        await super().startup(sockets)
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """Call back at intervals; return whether to stop."""
        if counter % TICKS_PER_BEAT == 0:
            self._on_tick()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests that are open."""
        self._on_stop()
        await super().shutdown(sockets)
