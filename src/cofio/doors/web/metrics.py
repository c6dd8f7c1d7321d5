"""What Prometheus can ask a server: its requests, and the process that answers them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...conversations.usage import ModelUsage
from ...engine.engine import Engine
from ...values.errors import Unavailable
from .board import Board, SharedCounts
from .membership import Membership
from .overload import ServerLoad
from .workers import Workers

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUESTS = "cofio_http_requests", "Requests by method, path and status."
DURATIONS = "cofio_http_request_duration_seconds", "How long requests took."
WAITING = "cofio_http_waiting", "Calls that wait for a thread, by door."
REFUSED = "cofio_http_refused", "Calls that were refused because too many waited, by door."


class PathDurations(NamedTuple):
    """How long the requests of one method and path took."""

    method: str
    path: str
    buckets: tuple[int, ...]
    """How many took at most as long as each of `BUCKETS`, and longer than the one before; the last longer than all."""
    seconds: float
    """What they took together."""


class _Counter(Protocol):
    """Counts requests."""

    def __call__(self, method: str, path: str, status: int, seconds: float) -> None: ...

    def read_durations(self) -> list[PathDurations]: ...


class Metrics:
    """The numbers of one server."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        spending: ModelUsage | None = None,
        load: ServerLoad | None = None,
        *,
        member: Membership | None = None,
    ) -> None:
        """`spending` counts what a model costs, where there is one; `load` is that of the server.

        The numbers of a `member` of a server of several processes are those of all of them.
        """
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_StoreCollector(engine))
        PlatformCollector(registry=self._registry)
        self._count: _Counter
        if member is None:
            ProcessCollector(registry=self._registry)
            GCCollector(registry=self._registry)
            if spending is not None:
                self._registry.register(_UsageCollector(spending))
            if load is not None:
                self._registry.register(_LoadCollector(load))
            self._count = _OwnCounter(self._registry)
        else:
            self._registry.register(_ProcessesCollector(member.board))
            self._registry.register(_CountsCollector(member.counts))
            self._count = _SharedCounter(member.own_counts, member.counts)
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
        self._count(method, path, status, seconds)

    def read_durations(self) -> list[PathDurations]:
        """How long requests took, by method and path, in all processes of the server."""
        return self._count.read_durations()

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
            engine = self._engine()
            engine.verify()  # which takes a moment at most, also where a database is away
            stats, replica = engine.stats(), engine.describe_replica()
        except Unavailable:  # then there is nothing to be said of it
            return
        if replica is not None and replica.lag is not None:
            yield GaugeMetricFamily(
                "cofio_replica_lag_seconds", "Seconds that the standby was behind at most.", value=replica.lag
            )
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
        waiting = GaugeMetricFamily(*WAITING, labels=["door"])
        refused = CounterMetricFamily(*REFUSED, labels=["door"])
        for each in self._load.doors:
            waiting.add_metric([each.door], each.queue_length)
            refused.add_metric([each.door], each.refused)
        yield waiting
        yield refused


class _OwnCounter:
    """Counts requests in this process alone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(*REQUESTS, ("method", "path", "status"), registry=registry)
        self._durations = Histogram(*DURATIONS, ("method", "path"), buckets=BUCKETS, registry=registry)

    def __call__(self, method: str, path: str, status: int, seconds: float) -> None:
        self._requests.labels(method, path, str(status)).inc()
        self._durations.labels(method, path).observe(seconds)

    def read_durations(self) -> list[PathDurations]:
        """How long requests took."""
        cumulative: dict[tuple[str, str], list[float]] = {}
        seconds: dict[tuple[str, str], float] = {}
        for family in self._durations.collect():
            for sample in family.samples:
                key = sample.labels["method"], sample.labels["path"]
                if sample.name.endswith("_bucket"):
                    cumulative.setdefault(key, []).append(sample.value)
                elif sample.name.endswith("_sum"):
                    seconds[key] = sample.value
        return [
            PathDurations(*key, tuple(int(high - low) for low, high in pairwise([0.0, *counts])), seconds.get(key, 0.0))
            for key, counts in cumulative.items()
        ]


class _SharedCounter:
    """Counts requests where the other processes of the server can read it."""

    def __init__(self, counts: SharedCounts, all_counts: Sequence[SharedCounts]) -> None:
        """`counts` are those of this process."""
        self._counts = counts
        self._all_counts = all_counts

    def __call__(self, method: str, path: str, status: int, seconds: float) -> None:
        self._counts.add(f"requests\t{method}\t{path}\t{status}")
        self._counts.add(f"bucket\t{method}\t{path}\t{bisect_left(BUCKETS, seconds)}")
        self._counts.add(f"seconds\t{method}\t{path}", seconds)

    def read_durations(self) -> list[PathDurations]:
        """How long requests took in all processes."""
        total: Tally[str] = Tally()
        for each in self._all_counts:
            total.update({name: value for name, value in each.read().items() if name.startswith(("bucket", "seconds"))})
        found = []
        for name, seconds in sorted(total.items()):
            kind, method, path, *_ = name.split("\t")
            if kind == "seconds":
                counts = [total[f"bucket\t{method}\t{path}\t{index}"] for index in range(len(BUCKETS) + 1)]
                found.append(PathDurations(method, path, tuple(map(int, counts)), seconds))
        return found


class LoadReport:
    """Tells the other processes of a server of this one's load: what waits at each door, and what was refused."""

    def __init__(self, load: ServerLoad, counts: SharedCounts) -> None:
        self._load = load
        self._counts = counts
        # A process that was killed has left what waited then.
        self._last_values = {name: value for name, value in counts.read().items() if name.startswith("waiting\t")}

    def publish(self) -> None:
        """Bring the numbers up to date."""
        for door in self._load.doors:
            self._set(f"waiting\t{door.door}", door.queue_length)
            self._set(f"refused\t{door.door}", door.refused)

    def _set(self, name: str, value: float) -> None:
        if (change := value - self._last_values.get(name, 0.0)) or name not in self._last_values:
            self._counts.add(name, change)
            self._last_values[name] = value


class _CountsCollector(Collector):
    """What all processes of the server have counted, also those that have ended."""

    def __init__(self, counts: Sequence[SharedCounts]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        total: Tally[str] = Tally()
        for each in self._counts:
            total.update(each.read())
        requests = CounterMetricFamily(*REQUESTS, labels=("method", "path", "status"))
        durations = HistogramMetricFamily(*DURATIONS, labels=("method", "path"))
        waiting = GaugeMetricFamily(*WAITING, labels=["door"])
        refused = CounterMetricFamily(*REFUSED, labels=["door"])
        limits = [*(str(bucket) for bucket in BUCKETS), "+Inf"]
        for name, value in sorted(total.items()):
            kind, *labels = name.split("\t")
            if kind == "requests":
                requests.add_metric(labels, value)
            elif kind == "seconds":
                counts = [total[f"bucket\t{labels[0]}\t{labels[1]}\t{index}"] for index in range(len(limits))]
                durations.add_metric(labels, buckets=[*zip(limits, accumulate(counts), strict=True)], sum_value=value)
            elif kind == "waiting":
                waiting.add_metric(labels, value)
            elif kind == "refused":
                refused.add_metric(labels, value)
        yield from (requests, durations, waiting, refused)
        if "model\tcalls" in total:
            yield CounterMetricFamily("cofio_llm_calls", "Calls to the model.", value=total["model\tcalls"])
            yield CounterMetricFamily("cofio_llm_tokens", "Tokens that they took.", value=total["model\ttokens"])


class _ProcessesCollector(Collector):
    """What the processes of the server take together, and when the first of them began."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for process in self._board.list_processes():
            for family in ProcessCollector(pid=partial(int, process), registry=None).collect():
                if family.name not in families:
                    families[family.name] = family
                    continue
                (first,), (other,) = families[family.name].samples, family.samples
                merge = min if family.name == "process_start_time_seconds" else _add
                families[family.name].samples = [first._replace(value=merge(first.value, other.value))]
        yield from families.values()


def _add(first: float, other: float) -> float:
    return first + other
