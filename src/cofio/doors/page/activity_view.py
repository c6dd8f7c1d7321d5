"""The activity: what was written last, through which door and by whom."""

from __future__ import annotations

from dataclasses import dataclass

from ...values.query import Filter, Where
from ...values.records import Scope
from .list_entries import DOORS, KIND, VISIBLE, Entry, choose_kinds, hide_internal, make_entry
from .view_types import OFFSET, SCOPE, Parameter, View, ViewRequest, make_link

PAGE = 50
MAX_OFFSET = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityModel:
    """What was written last, the newest first."""

    scope: Scope
    source: str
    kind: str
    entries: tuple[Entry, ...]
    before: str
    next: str
    """Where the newer and the older entries are; empty where there are none."""
    doors: dict[str, str]
    """What the sources of the entries are called."""
    kinds: tuple[str, ...]
    """The kinds that there can be."""


def build_activity(request: ViewRequest) -> ActivityModel:
    """What was written last within a scope."""
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
        scope=scope, source=source, kind=kind, entries=entries,
        before=make_link("activity", **state, offset=max(0, offset - PAGE) or None) if offset else "",
        next=make_link("activity", **state, offset=offset + PAGE) if len(records) > PAGE else "",
        doors=dict(DOORS), kinds=tuple(map(str, VISIBLE)),
    )  # fmt: skip


VIEW = View(
    name="activity",
    title="Activity",
    build=build_activity,
    summary="Show what was written last, through which door and by whom.",
    parameters=(
        SCOPE,
        Parameter(name="source", description="Only what came through this door, as `mcp`."),
        KIND,
        OFFSET,
    ),
)  # fmt: skip
