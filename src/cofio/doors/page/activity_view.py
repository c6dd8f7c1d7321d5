"""The activity: what was written last, through which door and by whom, and the searches that clients make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...values.query import Filter, Where
from ...values.records import Scope
from .activity_feed import make_feed
from .list_entries import DOORS, KIND, VISIBLE, Entry, choose_kinds, hide_internal, make_entry
from .view_types import OFFSET, SCOPE, Parameter, Stream, View, ViewRequest, make_link

PAGE = 50
MAX_OFFSET = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """A search that a client made while a page was open."""

    at: datetime
    door: str
    query: str
    scope: str
    count: int
    """How many hits it had."""
    hits: tuple[dict[str, Any], ...]
    """The first of them: id, title, kind and score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityModel:
    """What was written last, the newest first."""

    scope: Scope
    source: str
    kind: str
    entries: tuple[Entry, ...]
    searches: tuple[SearchEntry, ...]
    """The last searches, the newest first: of the time in which a page like this was open."""
    offset: int
    before: str
    next: str
    """Where the newer and the older entries are; empty where there are none."""
    stream: str
    """Where the live feed is."""
    doors: dict[str, str]
    """What the sources of the entries are called."""
    kinds: tuple[str, ...]
    """The kinds that there can be."""


def build_activity(request: ViewRequest) -> ActivityModel:
    """What was written last within a scope, and the searches that were noted."""
    scope, source, kind = request.get_scope(), request.get("source"), request.get("kind")
    offset = request.get_int("offset", 0, 0, MAX_OFFSET)
    filters: list[Filter] = [Where("source", "=", source)] if source else []
    records = request.engine.list(
        scope, kinds=choose_kinds(kind), filter=hide_internal(scope, *filters),
        limit=PAGE + 1, offset=offset,
    )  # fmt: skip
    entries = tuple(make_entry(each) for each in records[:PAGE])
    state: dict[str, object] = {
        "scope": scope if request.get("scope") else None, "source": source, "kind": kind,
    }  # fmt: skip
    return ActivityModel(
        scope=scope, source=source, kind=kind, entries=entries, searches=list_searches(request, scope), offset=offset,
        before=make_link("activity", **state, offset=max(0, offset - PAGE) or None) if offset else "",
        next=make_link("activity", **state, offset=offset + PAGE) if len(records) > PAGE else "",
        stream="/api/page/activity/stream", doors=dict(DOORS), kinds=tuple(map(str, VISIBLE)),
    )  # fmt: skip


def list_searches(request: ViewRequest, scope: Scope) -> tuple[SearchEntry, ...]:
    """The searches within a scope that were noted last, the newest first."""
    log = None if request.server is None else request.server.searches
    if log is None:
        return ()
    searches = [each for each in log.read(())[1] if Scope.parse(each["scope"]) in scope]
    return tuple(
        SearchEntry(
            at=datetime.fromisoformat(each["at"]), door=DOORS.get(each["door"], each["door"]), query=each["query"],
            scope=each["scope"], count=each["count"], hits=tuple(each["hits"]),
        )
        for each in reversed(searches)
    )  # fmt: skip


VIEW = View(
    name="activity",
    title="Activity",
    build=build_activity,
    summary="Show what was written last, through which door and by whom, and which searches were made.",
    parameters=(
        SCOPE,
        Parameter(name="source", description="Only what came through this door, as `mcp`."),
        KIND,
        OFFSET,
    ),
)  # fmt: skip

STREAMS = (
    Stream(
        name="activity/stream",
        make=make_feed,
        summary="What is written and searched for from now on, as server-sent events.",
    ),
)
