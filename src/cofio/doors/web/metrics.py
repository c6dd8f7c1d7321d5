"""What Prometheus can ask a server: its requests, and the process that answers them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...conversations.usage import ModelUsage
from ...engine.engine import Engine
from ...values.errors import Unavailable
from .overload import ServerLoad
from .workers import Workers

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The numbers of one server."""

    def __init__(
        self, engine: Callable[[], Engine], spending: ModelUsage | None = None, load: ServerLoad | None = None
    ) -> None:
        """`spending` counts what a model costs, where there is one; `load` is that of the server."""
        self._registry = CollectorRegistry(auto_describe=False)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_StoreCollector(engine))
        if spending is not None:
            self._registry.register(_UsageCollector(spending))
        if load is not None:
            self._registry.register(_LoadCollector(load))
        self._requests = Counter(
            "cofio_http_requests", "Requests by method, path and status.", ("method", "path", "status"),
            registry=self._registry,
        )  # fmt: skip
        self._durations = Histogram(
            "cofio_http_request_duration_seconds", "How long requests took.", ("method", "path"),
            buckets=BUCKETS, registry=self._registry,
        )  # fmt: skip
        self._workers = Workers(1, "cofio-metrics")
        self._paths: frozenset[str] = frozenset()
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._under: tuple[str, ...] = ()

    def set_routes(self, routes: Sequence[Route], under: Iterable[str] = ()) -> None:
        """The routes whose requests are counted each by its path: a stranger must not be able to make up more.

        What begins with one of `under` is counted by that.
        """
        self._paths, self._under = frozenset(route.path for route in routes), tuple(under)
        self._patterns = {route.path: route.path_regex for route in routes if route.param_convertors}

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        if path not in self._paths:
            path = self._find_label(path)
        method = method if method in METHODS else "other"
        self._requests.labels(method, path, str(status)).inc()
        self._durations.labels(method, path).observe(seconds)

    def _find_label(self, path: str) -> str:
        matches = (route_path for route_path, pattern in self._patterns.items() if pattern.match(path))
        return next(matches, None) or next((start for start in self._under if path.startswith(start)), "other")

    async def answer(self, _: Request) -> Response:
        """The numbers, in Prometheus' own format."""
        content = await self._workers.run(partial(generate_latest, self._registry))
        return Response(content, media_type=CONTENT_TYPE_LATEST)


class _StoreCollector(Collector):
    """What the memory holds, counted when it is asked for."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def collect(self) -> Iterable[GaugeMetricFamily]:
        try:
            stats = self._engine().stats()
        except Unavailable:  # then there is nothing to be said of it
            return
        yield GaugeMetricFamily("cofio_store_records", "Records in the store.", value=stats.records)
        yield GaugeMetricFamily(
            "cofio_store_waiting_for_vectors",
            "Records that have no vector of their present text yet.",
            value=stats.waiting_for_vectors,
        )


class _UsageCollector(Collector):
    """What the model has been asked."""

    def __init__(self, spending: ModelUsage) -> None:
        self._spending = spending

    def collect(self) -> Iterable[CounterMetricFamily]:
        usage = self._spending.total
        yield CounterMetricFamily("cofio_llm_calls", "Calls to the model.", value=float(usage.calls))
        yield CounterMetricFamily("cofio_llm_tokens", "Tokens that they took.", value=float(usage.tokens))


class _LoadCollector(Collector):
    """What waits at each door, and what was refused there."""

    def __init__(self, load: ServerLoad) -> None:
        self._load = load

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        waiting = GaugeMetricFamily("cofio_http_waiting", "Calls that wait for a thread, by door.", labels=["door"])
        refused = CounterMetricFamily(
            "cofio_http_refused", "Calls that were refused because too many waited, by door.", labels=["door"]
        )
        for each in self._load.doors:
            waiting.add_metric([each.door], each.queue_length)
            refused.add_metric([each.door], each.refused)
        yield waiting
        yield refused
