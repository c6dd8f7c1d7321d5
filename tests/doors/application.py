"""The application of a server, on a memory that a test has opened."""

from __future__ import annotations

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations
from cofio.doors.lazy_memory import Memory
from cofio.doors.rest.http import Door
from cofio.http.admission import ServerLoad
from cofio.http.metrics import Metrics
from cofio.http.tracing import RequestTracer
from cofio.server.app import build_app
from cofio.server.options import ServerOptions


class OpenMemory(Memory):
    """A memory that a test has opened, and closes."""

    def __init__(self, address: StoreAddress, engine: Engine) -> None:
        super().__init__(address, engine.settings, say=print)
        self._opened = engine

    @property
    def engine(self) -> Engine:
        return self._opened


def make_app(
    address: StoreAddress, engine: Engine, *, settings: Settings | None = None, door: Door | None = None,
    metrics: Metrics | None = None, load: ServerLoad | None = None, host: str = "127.0.0.1",
) -> RequestTracer:  # fmt: skip
    """Build the whole application."""
    options = ServerOptions(address=address, settings=settings or engine.settings, host=host, port=0)
    return build_app(
        options, OpenMemory(address, engine), door or Door(Conversations(engine), options.settings.zone),
        metrics or Metrics(lambda: engine), load or ServerLoad(),
    )  # fmt: skip
