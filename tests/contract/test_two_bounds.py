"""Searches with different bounds, one after the other and at the same time, never mix what they may see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import PATIENCE

from cofio import AllOf, Draft, Engine, Kind, Query, Record, Scope, Where
from cofio.values.query import Filter, Mode

from ..tiers import scale_examples

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
SCOPES = (Scope(), Scope("a"), Scope("a", "b"), Scope("ab"), Scope("b"))
KINDS = (Kind.NOTE, Kind.FACT, Kind.TURN)
TAGS = ("x", "y")


@dataclass(frozen=True)
class Within:
    """What a search may see."""

    scope: Scope
    exact: bool
    kinds: tuple[Kind, ...]
    number: int | None
    tag: str | None

    def filter(self) -> Filter | None:
        """As the engine is told."""
        parts: list[Filter] = [] if self.number is None else [Where("data.n", "=", self.number)]
        parts += [] if self.tag is None else [Where("tags", "has", self.tag)]
        return AllOf(*parts) if parts else None

    def holds(self, record: Record) -> bool:
        """As anyone can see."""
        names, data = self.scope.names, record.data
        assert isinstance(data, dict)
        return (
            (record.scope.names == names if self.exact else record.scope.names[: len(names)] == names)
            and (not self.kinds or record.kind in self.kinds)
            and (self.number is None or data["n"] == self.number)
            and (self.tag is None or self.tag in record.tags)
        )

    def find(self, engine: Engine, mode: Mode = "keyword") -> set[str]:
        """All that is found of what every record says."""
        query = Query("common words", scope=self.scope, exact=self.exact, kinds=self.kinds, filter=self.filter(),
                      mode=mode, floor=0.0, limit=200)  # fmt: skip
        return {hit.record.id for hit in engine.search(query)}


bounds = st.builds(
    Within, st.sampled_from(SCOPES), st.booleans(),
    st.lists(st.sampled_from(KINDS), max_size=2, unique=True).map(tuple),
    st.none() | st.integers(0, 2), st.none() | st.sampled_from(TAGS),
)  # fmt: skip


def drafts() -> list[Draft]:
    """A record of each kind in each scope, with each number and tag, in conversations that cross all of these."""
    return [
        Draft(scope=scope, kind=kind, text=f"common words {number} {tag}", data={"n": number}, tags=(tag,),
              parent="p", position=number)
        for scope in SCOPES for kind in KINDS for number in range(2) for tag in TAGS
    ]  # fmt: skip


def test_searches_with_any_bounds_one_after_the_other_see_their_own(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    records = remember(*drafts())

    @settings(max_examples=scale_examples(40))
    @given(asked=st.lists(bounds, min_size=2, max_size=5), mode=st.sampled_from(MODES))
    def alternate(asked: list[Within], mode: Mode) -> None:
        for within in (*asked, *asked):
            expected = {record.id for record in records if within.holds(record)}
            assert within.find(memory, mode) == expected
            there = {"scope": within.scope, "exact": within.exact, "kinds": within.kinds, "filter": within.filter()}
            assert memory.count(**there) == len(expected)  # type: ignore[arg-type]
            assert {record.id for record in memory.list(limit=200, **there)} == expected  # type: ignore[arg-type]

    alternate()


def test_searches_with_different_bounds_at_once_see_their_own(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    records = remember(*drafts())
    asked = [
        Within(scope, False, kinds, number, None)
        for scope in SCOPES
        for kinds in ((), (Kind.FACT,))
        for number in (None, 1)
    ]
    start = threading.Barrier(4)

    def search(worker: int) -> None:
        start.wait(PATIENCE)
        for within in asked[worker:] + asked[:worker]:
            expected = {record.id for record in records if within.holds(record)}
            assert within.find(memory, "hybrid") == within.find(memory) == expected

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(search, range(4), timeout=PATIENCE))


@settings(max_examples=scale_examples(25))
@given(first=bounds, second=bounds)
def test_the_nearest_by_given_vectors_are_within_the_bounds(memory: Engine, first: Within, second: Within) -> None:
    if not memory.count():
        given_vectors = {"part": (1.0, 0.5)}
        memory.write_many([replace(draft, given=given_vectors) for draft in drafts()])
    records = memory.list(limit=200)
    for within in (first, second, first):
        hits = memory.nearest(
            [0.5, 1.0],
            scope=within.scope, exact=within.exact, kinds=within.kinds, filter=within.filter(), limit=200,
        )  # fmt: skip
        assert {hit.record.id for hit in hits} == {record.id for record in records if within.holds(record)}
