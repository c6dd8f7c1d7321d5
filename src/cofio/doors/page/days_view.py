"""The days: how many records each has, one day's memory as one reads a diary, and what expires next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from ...engine.engine import Engine
from ...values.errors import Invalid
from ...values.query import Filter, TimeCount, Where
from ...values.records import Kind, Record, Scope
from .list_entries import KIND, LONG_EXCERPT, VISIBLE, Entry, choose_kinds, hide_internal, make_entry
from .plots import Column, Plot, PlotText, draw_columns
from .view_types import OFFSET, SCOPE, Parameter, View, ViewRequest, make_link

DAYS, MOST_DAYS = 84, 366  # days of the strip
PAGE = 50  # entries of a day
MAX_OFFSET = 100_000
NEXT_EXPIRIES = 10
_HOUR, _QUARTER = timedelta(hours=1), timedelta(minutes=15)
_FIRST = datetime(1001, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCount:
    """How many records were made on one day, in all and by kind."""

    day: date
    total: int
    kinds: dict[str, int]
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysModel:
    """The strip of days, one of them as a diary, and what expires next."""

    zone: str
    """The zone that days begin and end in."""
    scope: Scope
    kind: str
    """The only kind that is shown; all if empty."""
    days: tuple[DayCount, ...]
    total: int
    """How many records the days of the strip have together."""
    earlier: str
    later: str
    """Where the strips before and after this one are; empty where there is none."""
    day: date
    day_total: int
    entries: tuple[Entry, ...]
    offset: int
    before: str
    next: str
    """Where the pages of the day before and after this one are; empty where there is none."""
    expiring: tuple[Entry, ...]
    """What expires next, the first one first."""
    kinds: dict[str, int]
    """How many records of each kind the strip has."""

    @property
    def strip(self) -> Plot:
        """The days as columns."""
        text = PlotText(
            name="days", title="Records by day",
            description=f"{self.total:,} records on {len(self.days)} days, by kind. Each column leads to its day.",
        )  # fmt: skip
        columns = [
            Column(
                label=each.day.isoformat(),
                values=each.kinds,
                link=each.link if each.total or each.day == self.day else "",
                is_current=each.day == self.day,
            )
            for each in self.days
        ]
        return draw_columns(columns, list(self.kinds), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySelection:
    """Which records are in question, and the zone that their days are in."""

    scope: Scope
    kinds: tuple[Kind, ...]
    zone: tzinfo

    def filter(self, *filters: Filter) -> Filter | None:
        """The filter of these records, with others."""
        return hide_internal(self.scope, *filters)

    def find_begin(self, day: date) -> datetime:
        """When a day begins."""
        return datetime.combine(day, time(), self.zone).astimezone(UTC)


def make_selection(scope: Scope, kinds: tuple[Kind, ...], zone: tzinfo) -> DaySelection:
    """The records of a scope and of some kinds, by days of a zone."""
    return DaySelection(scope=scope, kinds=kinds, zone=zone)


def build_days(request: ViewRequest) -> DaysModel:
    """The days of a scope."""
    engine, zone = request.engine, request.engine.settings.zone
    kind = request.get("kind")
    chosen = DaySelection(scope=request.get_scope(), kinds=choose_kinds(kind), zone=zone)
    count = request.get_int("days", DAYS, 7, MOST_DAYS)
    today = request.now.astimezone(zone).date()
    wanted = _parse_day("day", request.get("day"))
    until = _parse_day("until", request.get("until")) or (max(today, wanted) if wanted else today)
    if wanted and not until - timedelta(days=count) < wanted <= until:
        until = wanted
    counts = count_days(engine, chosen, until - timedelta(days=count - 1), until)
    if not counts and not wanted and not request.get("until"):  # an old memory: where it ends is where one begins
        until = _find_newest_day(engine, chosen, request.now) or until
        counts = count_days(engine, chosen, until - timedelta(days=count - 1), until)
    day = wanted or max(counts, default=until)
    offset = request.get_int("offset", 0, 0, MAX_OFFSET)
    entries = _list_day(engine, chosen, day, offset)
    state: dict[str, object] = {
        "scope": chosen.scope if request.get("scope") else None, "kind": kind, "days": count if count != DAYS else None,
    }  # fmt: skip
    shown = [until - timedelta(days=back) for back in range(count - 1, -1, -1)]
    totals: Counter[str] = Counter()
    for each in counts.values():
        totals.update(each)
    return DaysModel(
        zone=str(zone), scope=chosen.scope, kind=kind, total=totals.total(), day=day, offset=offset,
        day_total=sum(count_days(engine, chosen, day, day).get(day, {}).values()) if day not in counts
        else counts[day].total(),
        days=tuple(
            DayCount(
                day=each, total=counts[each].total() if each in counts else 0, kinds=dict(counts.get(each, {})),
                link=make_link("days", **state, until=until, day=each),
            )
            for each in shown
        ),
        earlier=make_link("days", **state, until=until - timedelta(days=count)),
        later=make_link("days", **state, until=min(today, until + timedelta(days=count))) if until < today else "",
        entries=tuple(make_entry(each, length=LONG_EXCERPT) for each in entries[:PAGE]),
        before=make_link("days", **state, until=until, day=day, offset=max(0, offset - PAGE) or None) if offset else "",
        next=make_link("days", **state, until=until, day=day, offset=offset + PAGE) if len(entries) > PAGE else "",
        expiring=list_expiring(engine, chosen.scope, request.now), kinds=dict(totals.most_common()),
    )  # fmt: skip


def count_days(engine: Engine, chosen: DaySelection, first: date, last: date) -> dict[date, Counter[str]]:
    """How many records were made on each day, by kind; days without one are left out."""
    since, until = chosen.find_begin(first), chosen.find_begin(last + timedelta(days=1))
    step = _find_step(since, until, chosen.zone)
    counts = engine.count_by_time(since, until, step, chosen.scope, kinds=chosen.kinds, filter=chosen.filter())
    return fold_days(counts, chosen.zone)


def fold_days(counts: Sequence[TimeCount], zone: tzinfo) -> dict[date, Counter[str]]:
    """Counts of steps of time as counts of days."""
    days: dict[date, Counter[str]] = {}
    for each in counts:
        days.setdefault(each.at.astimezone(zone).date(), Counter())[str(each.kind)] += each.records
    return days


def list_expiring(engine: Engine, scope: Scope, now: datetime) -> tuple[Entry, ...]:
    """What expires next, the first one first."""
    soon = hide_internal(scope, Where("expires_at", ">", now))
    records = engine.list(scope, kinds=VISIBLE, filter=soon, limit=NEXT_EXPIRIES, order="expires", newest=False)
    return tuple(make_entry(each) for each in records)


def _find_step(since: datetime, until: datetime, zone: tzinfo) -> timedelta:
    """The longest step that no day of the zone begins within: some zones are not whole hours from UTC."""
    offsets = [(moment.astimezone(zone).utcoffset() or timedelta()) for moment in (since, until)]
    return _HOUR if all(offset % _HOUR == timedelta() for offset in offsets) else _QUARTER


def _find_newest_day(engine: Engine, chosen: DaySelection, now: datetime) -> date | None:
    """The last day up to today that has records; None when there is none that can be shown."""
    past = chosen.filter(Where("created_at", "<=", now), Where("created_at", ">=", _FIRST))
    found = engine.list(chosen.scope, kinds=chosen.kinds, filter=past, limit=1, order="created")
    return found[0].created_at.astimezone(chosen.zone).date() if found else None


def _list_day(engine: Engine, chosen: DaySelection, day: date, offset: int) -> list[Record]:
    begin, end = chosen.find_begin(day), chosen.find_begin(day + timedelta(days=1))
    within = chosen.filter(Where("created_at", ">=", begin), Where("created_at", "<", end))
    return engine.list(
        chosen.scope, kinds=chosen.kinds, filter=within, limit=PAGE + 1, offset=offset, order="written", newest=False
    )


def _parse_day(name: str, text: str) -> date | None:
    """The day that a parameter names; None when it is empty.

    Raises:
        Invalid: it is no day.
    """
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Invalid(name, "expected a day, as 2026-03-01") from None
    if not 1000 <= day.year <= 9000:  # a strip before or after it has to be a time, too
        raise Invalid(name, "is outside the years 1000 to 9000")
    return day


VIEW = View(
    name="days",
    title="Days",
    build=build_days,
    summary="Show how many records each day has, one day as a diary, and what expires next.",
    parameters=(
        SCOPE,
        Parameter(name="day", description="The day that is shown, as `2026-03-01`; the last with records if left out."),
        Parameter(name="until", description="The last day of the strip; today if left out."),
        Parameter(
            name="days", description="How many days the strip has.",
            schema={"type": "integer", "minimum": 7, "maximum": MOST_DAYS, "default": DAYS},
        ),
        KIND,
        OFFSET,
    ),
)  # fmt: skip
