"""The health of a memory: how it grows, what it takes, what waits, how long calls take, and what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Final

from ...engine.engine import Engine
from ...http.errors import RequestError
from ...http.metrics import BUCKETS, Metrics, PathDurations
from ...http.tokens import Tokens
from ...llm.budget import Budget
from ...values.errors import Unavailable
from ...values.records import Json, Kind, Scope
from ...values.scopes import MODEL_USAGE
from ...values.stats import Stats
from ..store_checks import find_faults_around, find_vault_faults, read_backup
from .days_view import count_days, make_selection
from .list_entries import VISIBLE
from .plots import Column, Plot, PlotText, draw_bar, draw_columns
from .view_types import SCOPE, Action, Outcome, Parameter, View, ViewRequest, make_link

DAYS, MOST_DAYS = 30, 366
SPEND_DAYS = 30
MOST_PATHS = 20
MOST_FAULTS = 5  # that are told after a check
STREAM: Final = ("GET", "/mcp")  # stands open for long: how long it took says nothing
_check_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long the requests of one path took, in milliseconds."""

    method: str
    path: str
    count: int
    median: float
    slow: float
    """What 95 of 100 were faster than."""
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpend:
    """What a model has cost on one day."""

    day: date
    calls: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpend:
    """What a model has cost, and what a day may cost."""

    model: str
    today: DaySpend
    days: tuple[DaySpend, ...]
    most_calls: int | None
    most_tokens: int | None
    """The budget of a day; None where there is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    """What is known of the store and its server as a whole, for those who see all of it."""

    stats: dict[str, int | str]
    bytes: dict[str, int]
    waiting: dict[str, int]
    meaning: str
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    latencies: tuple[Latency, ...]
    spend: ModelSpend | None
    backup_at: datetime | None
    backup_target: str
    facts: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthDay:
    """How many records one day brought."""

    day: date
    total: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthModel:
    """How a memory is doing."""

    scope: Scope
    records: int
    kinds: dict[str, int]
    """How many records the days brought, by kind."""
    days: tuple[GrowthDay, ...]
    server: ServerHealth | None
    """None for those who see a part of the memory."""

    @property
    def growth_plot(self) -> Plot:
        """The records by day and kind."""
        total = sum(each.total for each in self.days)
        text = PlotText(
            name="growth", title="Records by day and kind", description=f"{total:,} records in {len(self.days)} days."
        )
        scope = self.scope if self.scope.names else None
        columns = [
            Column(
                label=each.day.isoformat(), values=each.kinds,
                link=make_link("days", day=each.day, scope=scope) if each.total else "",
            )
            for each in self.days
        ]  # fmt: skip
        return draw_columns(columns, list(self.kinds), text)

    @property
    def spend_plot(self) -> Plot | None:
        """The tokens of a model by day; None where there is none."""
        if self.server is None or self.server.spend is None:
            return None
        days = self.server.spend.days
        text = PlotText(
            name="spending", title="Tokens by day", heads={"tokens": "Tokens"},
            description=f"{sum(each.tokens for each in days):,} tokens in {len(days)} days.",
        )  # fmt: skip
        return draw_columns(
            [Column(label=each.day.isoformat(), values={"tokens": each.tokens}) for each in days], ["tokens"], text
        )

    @property
    def budget_bar(self) -> Plot | None:
        """How much of a day's tokens is spent; None where there is no limit."""
        spend = None if self.server is None else self.server.spend
        if spend is None or not spend.most_tokens:
            return None
        share = spend.today.tokens / spend.most_tokens
        return draw_bar(share, f"{share:.0%} of today's tokens")


def build_health(request: ViewRequest) -> HealthModel:
    """How the memory is doing: of a part of it how it grows, of all of it everything that is known."""
    engine, scope = request.engine, request.get_scope()
    count = request.get_int("days", DAYS, 7, MOST_DAYS)
    chosen = make_selection(scope, VISIBLE, engine.settings.zone)
    today = request.now.astimezone(chosen.zone).date()
    first = today - timedelta(days=count - 1)
    counts = count_days(engine, chosen, first, today)
    totals: dict[str, int] = {}
    for each in counts.values():
        for kind, number in each.items():
            totals[kind] = totals.get(kind, 0) + number
    return HealthModel(
        scope=scope, records=engine.count(scope, kinds=VISIBLE, filter=chosen.filter()),
        kinds=dict(sorted(totals.items(), key=lambda pair: -pair[1])),
        days=tuple(
            GrowthDay(day=day, total=sum(counts.get(day, {}).values()), kinds=dict(counts.get(day, {})))
            for day in (first + timedelta(days=number) for number in range(count))
        ),
        server=_examine_server(request) if not request.viewer.reach.names else None,
    )  # fmt: skip


def check_store(request: ViewRequest) -> Outcome:
    """Check all of the store, as `cofio doctor` does, one at a time; what is wrong is told."""
    if request.viewer.reach.names:
        raise RequestError(403, "only those who see all of the memory may have it checked")
    if not _check_lock.acquire(blocking=False):
        raise RequestError(409, "it is being checked already; wait until that is done")
    try:
        faults = request.engine.check()
    finally:
        _check_lock.release()
    faults = [hide_folder(request, each) for each in faults]
    message = "Checked all of it: nothing is wrong."
    if faults:
        more = f" … and {len(faults) - MOST_FAULTS:,} more" if len(faults) > MOST_FAULTS else ""
        message = f"{len(faults):,} faults: {'; '.join(faults[:MOST_FAULTS])}{more}. `cofio doctor --fix` mends them."
    return Outcome(location=make_link("health"), message=message, data={"faults": faults})


def hide_folder(request: ViewRequest, text: str) -> str:
    """The text without the folders of this machine, for a reader who may be elsewhere: who needs a token is."""
    if request.viewer.token is None or request.server is None:
        return text
    return text.replace(str(request.server.address.home), "the memory's folder")


def estimate_quantile(buckets: Sequence[int], share: float) -> float:
    """How many seconds a share of requests took at most, from how many took how long; 0 without any.

    Within a bucket they are taken to be spread evenly. What took longer than the longest is taken for that.
    """
    total = sum(buckets)
    if not total:
        return 0.0
    limits = [0.0, *BUCKETS]
    for index, reached in enumerate(accumulate(buckets)):
        if reached >= share * total:
            if index >= len(BUCKETS):
                return BUCKETS[-1]
            within = (share * total - (reached - buckets[index])) / buckets[index]
            return limits[index] + within * (limits[index + 1] - limits[index])
    return BUCKETS[-1]


def make_latencies(durations: Sequence[PathDurations]) -> tuple[Latency, ...]:
    """How long requests took by path, those with the most requests first."""
    found = [
        Latency(
            method=each.method, path=each.path, count=sum(each.buckets),
            median=1000 * estimate_quantile(each.buckets, 0.5), slow=1000 * estimate_quantile(each.buckets, 0.95),
            mean=1000 * each.seconds / max(1, sum(each.buckets)),
        )
        for each in durations
        if sum(each.buckets) and (each.method, each.path) != STREAM
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: -each.count)[:MOST_PATHS])


def list_spend(engine: Engine, today: date) -> tuple[DaySpend, ...]:
    """What a model has cost on each of the last days, the first one first; empty if it was never asked."""
    notes = engine.list(MODEL_USAGE, exact=True, kinds=(Kind.LEDGER,), limit=2 * SPEND_DAYS)
    by_day = {note.key: note.data for note in notes if isinstance(note.data, dict)}
    if not by_day:
        return ()
    days = [today - timedelta(days=back) for back in range(SPEND_DAYS - 1, -1, -1)]
    return tuple(
        DaySpend(day=day, calls=_get_number(by_day, day, "calls"), tokens=_get_number(by_day, day, "tokens"))
        for day in days
    )


def _get_number(by_day: Mapping[str | None, Mapping[str, Json]], day: date, name: str) -> int:
    value = by_day.get(day.isoformat(), {}).get(name)
    return value if isinstance(value, int) else 0


def _examine_server(request: ViewRequest) -> ServerHealth:
    engine, server = request.engine, request.server
    stats, examination = engine.stats(), engine.examine()
    backup = None if server is None else read_backup(server.address.home)
    return ServerHealth(
        stats={**stats, "store": hide_folder(request, stats.store)},
        bytes={
            "database": stats.bytes_database, "log": stats.bytes_log, "word index": stats.bytes_index,
            "vector codes": stats.bytes_vectors,
        },
        waiting={"for the word index": stats.waiting_for_index, "for a vector": stats.waiting_for_vectors},
        meaning=stats.meaning, faults=tuple(hide_folder(request, each) for each in _find_faults(request, stats)),
        warnings=(*examination.warnings, *_find_warnings(request, stats)),
        latencies=() if server is None else make_latencies(_read_durations(server.metrics)),
        spend=_make_spend(request), backup_at=None if backup is None else backup.at,
        backup_target="" if backup is None else backup.target if request.viewer.token is None
        else Path(backup.target).name, facts=dict(examination.facts),
    )  # fmt: skip


def _read_durations(metrics: Metrics | None) -> list[PathDurations]:
    return [] if metrics is None else metrics.read_durations()


def _find_faults(request: ViewRequest, stats: Stats) -> list[str]:
    """What is wrong, as far as that is known without reading all of the store."""
    faults = [stats.background_fault] if stats.background_fault else []
    server = request.server
    if server is not None:
        tokens = Tokens(request.engine.shared_values or server.address.home)
        try:
            faults += find_faults_around(server.address, tokens)
            faults += find_vault_faults(request.engine, server.address.home)
        except (OSError, Unavailable) as error:
            faults.append(str(error))
    return faults


def _find_warnings(request: ViewRequest, stats: Stats) -> list[str]:
    """What should be looked after."""
    warnings = []
    if request.engine.settings.embedder != "none" and stats.meaning != "on":
        warnings.append(f"meaning is {stats.meaning}; until then records are found by their words only")
    if request.engine.read_only:
        warnings.append("the memory is read-only here")
    replica = request.engine.describe_replica()
    if replica is not None and replica.problem:
        warnings.append(f"the standby answers no reads: {replica.problem}")
    return warnings


def _make_spend(request: ViewRequest) -> ModelSpend | None:
    settings = request.engine.settings
    days = list_spend(request.engine, request.now.date())
    if not days and not settings.llm_base_url:
        return None
    today = days[-1] if days else DaySpend(day=request.now.date(), calls=0, tokens=0)
    budget = Budget.parse(settings.llm_budget)
    return ModelSpend(
        model=settings.llm_model, today=today, days=days, most_calls=budget.calls, most_tokens=budget.tokens
    )


VIEW = View(
    name="health",
    title="Health",
    build=build_health,
    summary="Show how the memory grows, what it takes, what waits, how long calls take, and what is wrong with it.",
    parameters=(
        SCOPE,
        Parameter(
            name="days",
            description="How many days of growth are shown.",
            schema={"type": "integer", "minimum": 7, "maximum": MOST_DAYS, "default": DAYS},
        ),
    ),
)

ACTIONS = (
    Action(name="health/check", run=check_store, summary="Check all of the store, as `cofio doctor` does."),
)  # fmt: skip
