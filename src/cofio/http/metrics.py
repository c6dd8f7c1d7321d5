"""Prometheus metrics of a server. The processes of one server share their counts through prometheus_client's files."""

from __future__ import annotations

import os
import re
from asyncio import get_running_loop
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..engine.engine import Engine
from ..engine.jobs import JOB_KINDS, measure_queue
from ..system.processes import is_running
from ..values.errors import CofioError
from .admission import ServerLoad

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable that names the folder of the shared counts; prometheus_client reads it when it is imported."""
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
DURATIONS = "cofio_http_request_duration_seconds"


class PathDurations(NamedTuple):
    """Durations of the requests of one method and path."""

    method: str
    path: str
    buckets: tuple[int, ...]
    """Requests by the smallest of `BUCKETS` that they did not exceed; the last are those that exceed all."""
    seconds: float
    """Sum of the durations."""


class Metrics(Collector):
    """The metrics of one server."""

    def __init__(
        self, engine: Callable[[], Engine], load: ServerLoad | None = None, *, has_model: bool = False
    ) -> None:
        """`load` is that of the server; `has_model`: it asks a model, and counts what that costs."""
        self._engine = engine
        self._registry = CollectorRegistry(auto_describe=False)
        self._load = load or ServerLoad()
        own: CollectorRegistry | None = self._registry
        self._folder = Path(os.environ[SHARED_FOLDER]) if SHARED_FOLDER in os.environ else None
        if self._folder is not None:
            _take_over_counts(self._folder)
            own = None  # collected from the files of all processes
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]  # it has no types
        else:
            ProcessCollector(registry=self._registry)
            GCCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(self)
        self._requests = Counter(
            "cofio_http_requests", "Requests by method, path and status.", ("method", "path", "status"), registry=own
        )
        self._durations = Histogram(
            DURATIONS, "Duration of requests.", ("method", "path"), buckets=BUCKETS, registry=own
        )
        self._waiting = Gauge(
            "cofio_http_waiting", "Calls that wait for a thread, by door.", ("door",), multiprocess_mode="livesum",
            registry=own,
        )  # fmt: skip
        self._refused = Counter(
            "cofio_http_refused", "Calls refused because too many waited, by door.", ("door",), registry=own
        )
        self._failed_jobs = Counter("cofio_jobs_failed", "Background jobs that failed.", ("kind",), registry=own)
        self._load.on_refusal = lambda door: self._refused.labels(door).inc()
        if has_model:
            self._model_calls = Counter("cofio_llm_calls", "Calls to the model.", registry=own)
            self._model_tokens = Counter("cofio_llm_tokens", "Tokens that they took.", registry=own)
        self._thread = ThreadPoolExecutor(1, "cofio-metrics")
        self._paths: frozenset[str] = frozenset()
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._under: tuple[str, ...] = ()

    def set_routes(self, routes: Sequence[Route], under: Iterable[str] = ()) -> None:
        """Count the requests of these routes each by its path: a stranger must not be able to make up more.

        What begins with one of `under` is counted by that.
        """
        self._paths, self._under = frozenset(route.path for route in routes), tuple(under)
        self._patterns = {route.path: route.path_regex for route in routes if route.param_convertors}

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        path = path if path in self._paths else self._find_label(path)
        method = method if method in METHODS else "other"
        self._requests.labels(method, path, str(status)).inc()
        self._durations.labels(method, path).observe(seconds)

    def count_failed_job(self, kind: str) -> None:
        """Count a job that failed."""
        self._failed_jobs.labels(kind).inc()

    def count_model_usage(self, calls: int, tokens: int) -> None:
        """Count calls to the model."""
        self._model_calls.inc(calls)
        self._model_tokens.inc(tokens)

    def publish_load(self) -> None:
        """Bring the number of waiting calls up to date."""
        for door, waiting in self._load.count_waiting().items():
            self._waiting.labels(door).set(waiting)

    def read_failed_jobs(self) -> int:
        """Return how many jobs have failed since the server started."""
        samples = self._read_samples(self._failed_jobs, "counter")
        return round(sum(each.value for each in samples if each.name == "cofio_jobs_failed_total"))

    def read_durations(self) -> list[PathDurations]:
        """Return how long requests took, by method and path, in all processes of the server."""
        counts: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0])  # each includes those before it
        seconds: dict[tuple[str, str], float] = {}
        for sample in self._read_samples(self._durations, "histogram"):
            key = sample.labels["method"], sample.labels["path"]
            if sample.name == f"{DURATIONS}_bucket":
                counts[key].append(sample.value)
            elif sample.name == f"{DURATIONS}_sum":
                seconds[key] = sample.value
        return [
            PathDurations(*key, tuple(int(high - low) for low, high in pairwise(each)), seconds[key])
            for key, each in counts.items()
        ]

    def _read_samples(self, metric: Collector, kind: str) -> list[Sample]:
        """Return the samples of a metric or, where processes share their counts, of all metrics of its kind."""
        families: Iterable[Metric] = metric.collect()
        if self._folder is not None:
            files = map(str, self._folder.glob(f"{kind}_*.db"))
            families = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # it has no types
        return [sample for family in families for sample in family.samples]

    def _find_label(self, path: str) -> str:
        matches = (route_path for route_path, pattern in self._patterns.items() if pattern.match(path))
        return next(matches, None) or next((start for start in self._under if path.startswith(start)), "other")

    async def answer(self, _: Request) -> Response:
        """Return the metrics in Prometheus' own format."""
        self.publish_load()
        content = await get_running_loop().run_in_executor(self._thread, generate_latest, self._registry)
        return Response(content, media_type=CONTENT_TYPE_LATEST)

    def collect(self) -> Iterable[Metric]:
        """Yield what is counted only when it is asked for: what the store holds, and what all processes use."""
        if self._folder is not None:
            yield from _measure_processes()
        try:
            engine = self._engine()
            engine.verify()  # which takes a moment at most, also where a database is away
            stats, replica = engine.stats(), engine.describe_replica()
            depths = {kind: measure_queue(engine, kind) for kind in JOB_KINDS}
            now = engine.read_clock()
        except CofioError:  # then there is nothing to be said of it
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
        jobs = GaugeMetricFamily("cofio_jobs", "Unfinished background jobs, by kind.", labels=["kind"])
        ages = GaugeMetricFamily("cofio_jobs_oldest_seconds", "Age of the oldest of them.", labels=["kind"])
        for kind, depth in depths.items():
            jobs.add_metric([kind], depth.jobs)
            ages.add_metric([kind], 0.0 if depth.oldest is None else max(0.0, (now - depth.oldest).total_seconds()))
        yield jobs
        yield ages


def _measure_processes() -> Iterator[Metric]:
    """Yield the sums of what the processes of this server use, where the system tells which they are."""
    parent = os.getppid()
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    found: defaultdict[str, list[Metric]] = defaultdict(list)
    for process in (parent, *map(int, children)):
        for family in ProcessCollector(pid=partial(int, process), registry=None).collect():
            found[family.name].append(family)
    for name, families in found.items():
        values = [family.samples[0].value for family in families]
        value = min(values) if name == "process_start_time_seconds" else sum(values)
        families[0].samples = [families[0].samples[0]._replace(value=value)]
        yield families[0]


def _take_over_counts(folder: Path) -> None:
    """Go on with the counts of a process that has ended: otherwise files pile up, two for each."""
    for kind in ("counter", "histogram"):
        for file in folder.glob(f"{kind}_*.db"):
            if not is_running(int(file.stem.removeprefix(f"{kind}_"))):
                with suppress(FileNotFoundError):  # another process was faster
                    file.rename(folder / f"{kind}_{os.getpid()}.db")
                    break
