"""How what was found is distributed by scope, kind, author, tag, source and day, with links that narrow it down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC

from ...values.records import Record, Scope
from .list_entries import name_door
from .view_types import ViewRequest, make_link

FACET = 8  # values of a facet that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue:
    """A value that narrows the search down, with how many of the counted hits have it."""

    value: str
    label: str
    count: int
    is_active: bool
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One way to narrow the search down."""

    name: str
    label: str
    values: tuple[FacetValue, ...]


def get_state(request: ViewRequest) -> dict[str, tuple[str, ...]]:
    """The parameters that a link from here keeps."""
    names = ("q", "mode", "scope", "kind", "author", "tag", "source", "day", "near")
    return {name: values for name in names if (values := request.get_all(name))}


def make_facets(request: ViewRequest, records: Sequence[Record]) -> tuple[Facet, ...]:
    """How the hits are distributed, with links that narrow the search down to one value or widen it again."""
    find: dict[str, tuple[str, Callable[[Record], Iterable[str]], Callable[[str], str]]] = {
        "kind": ("Kind", lambda record: (str(record.kind),), str),
        "author": ("Author", lambda record: (record.author,) if record.author else (), str),
        "tag": ("Tag", lambda record: record.tags, str),
        "source": ("Came in by", lambda record: (record.source,), name_door),
        "day": ("Day", lambda record: (record.created_at.astimezone(UTC).date().isoformat(),), str),
    }
    facets = [_make_scope_facet(request, records)]
    for name, (label, list_values, render) in find.items():
        counts = Counter(value for record in records for value in list_values(record))
        active = request.get_all(name)
        values = dict.fromkeys([*active, *(value for value, _ in counts.most_common(FACET))])
        facets.append(
            Facet(
                name=name,
                label=label,
                values=tuple(
                    FacetValue(
                        value=value,
                        label=render(value),
                        count=counts[value],
                        is_active=value in active,
                        link=_toggle(request, name, value),
                    )
                    for value in values
                ),
            )
        )
    return tuple(each for each in facets if each.values)


def _toggle(request: ViewRequest, name: str, value: str) -> str:
    """The search with a value more, or without it; there is one day at a time."""
    state = get_state(request)
    active = state.get(name, ())
    if value in active:
        state[name] = tuple(each for each in active if each != value)
    else:
        state[name] = (value,) if name == "day" else (*active, value)
    return make_link("search", **state)


def _make_scope_facet(request: ViewRequest, records: Sequence[Record]) -> Facet:
    """The scopes one step below the present one, or further down where there is but one way."""
    state = get_state(request)
    values: list[FacetValue] = []
    reach, current = request.viewer.reach, request.get_scope()
    if current != reach:
        parent = Scope(*current.names[:-1])
        state["scope"] = () if parent == reach else (str(parent),)
        link = make_link("search", **state)
        values.append(FacetValue(value=str(current), label=str(current), count=len(records), is_active=True, link=link))
    for scope, count in _count_scopes(current, records).most_common(FACET):
        link = make_link("search", **{**state, "scope": str(scope)})
        values.append(FacetValue(value=str(scope), label=str(scope), count=count, is_active=False, link=link))
    return Facet(name="scope", label="Scope", values=tuple(values))


def _count_scopes(base: Scope, records: Sequence[Record]) -> Counter[Scope]:
    depth = len(base.names)
    counts: Counter[Scope] = Counter()
    while any(len(record.scope.names) > depth for record in records):
        depth += 1
        counts = Counter(Scope(*record.scope.names[:depth]) for record in records if len(record.scope.names) >= depth)
        if len(counts) > 1 or sum(counts.values()) < len(records):
            break
    return counts
