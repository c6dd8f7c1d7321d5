"""Two engines on one store, used in any order, agree with a plain dict at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cofio import (
    AllOf,
    AnyOf,
    CofioError,
    Draft,
    Engine,
    Filter,
    Heading,
    Importance,
    Kind,
    Query,
    Record,
    Scope,
    Settings,
    Where,
)
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.text.jsonl import read_line, write_line

from ..conftest import Stores
from .plain import Plain

T = TypeVar("T")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMMON = ("apple", "pear", "plum")

sides = st.integers(0, 1)
scopes = st.sampled_from([Scope(), Scope("a"), Scope("a", "b"), Scope("ab"), Scope("a%")])
kinds = st.sampled_from([Kind.NOTE, Kind.STATE, Kind.TURN])
keys = st.sampled_from(["k", "K", "k/2", ""])
tag_lists = st.lists(st.sampled_from(["x", "X", "y%"]), unique=True, max_size=2).map(tuple)
datas = st.sampled_from(
    [None, 1, {"n": 1}, {"n": 1.0}, {"n": "1"}, {"n": True}, {"n": None}, {"n": {"m": 2}}, {"n": [1]}]
)
titles = st.sampled_from(["", "T", "t"])
authors = st.sampled_from(["", "ann", "Bob"])
parents = st.none() | st.sampled_from(["p", "q"])
positions = st.none() | st.integers(0, 4)
ttls = st.none() | st.sampled_from([5.0, 50.0])
versions = st.sampled_from([None, None, None, None, 0, 1, 2, 3])
commons = st.lists(st.sampled_from(COMMON), min_size=1, max_size=2).map(" ".join)
fixed_ids = st.none() | st.sampled_from(["i", "j"])
picks = st.integers(0, 1000)
contents = st.fixed_dictionaries(
    {},
    optional={
        "title": titles, "data": datas, "tags": tag_lists, "author": authors, "parent": parents, "position": positions,
        "importance": st.sampled_from(Importance),
    },
)  # fmt: skip

numbers = st.sampled_from([0, 1, 1.0, 2, 2.5])
comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
times = st.integers(-2, 100).map(lambda seconds: START + timedelta(seconds=seconds))
tests = st.one_of(
    st.builds(Where, st.just("tags"), st.just("has"), st.sampled_from(["x", "X", "Y%", "y", "%"])),
    st.builds(Where, st.just("tags"), st.just("in"), st.sampled_from([(), ("x",), ("Y%", "z"), ("X", "y%")])),
    st.builds(Where, st.just("scope"), st.sampled_from(["=", "!=", "has"]), scopes),
    st.builds(Where, st.just("scope"), st.just("in"), st.lists(scopes, max_size=2).map(tuple)),
    st.builds(Where, st.just("kind"), st.sampled_from(["=", "!="]), kinds),
    st.builds(Where, st.just("kind"), st.just("in"), st.lists(kinds, max_size=2).map(tuple)),
    st.builds(Where, st.just("importance"), st.sampled_from(["=", "!="]), st.sampled_from(Importance)),
    st.builds(Where, st.sampled_from(["title", "author", "key", "parent", "id"]), comparisons,
              st.sampled_from(["", "T", "t", "ann", "Bob", "k", "K", "p", "i"])),
    st.builds(Where, st.sampled_from(["author", "source"]), st.just("in"),
              st.lists(st.sampled_from(["", "ann", "python"]), max_size=2).map(tuple)),
    st.builds(Where, st.sampled_from(["position", "version"]), comparisons, numbers),
    st.builds(Where, st.sampled_from(["created_at", "updated_at", "expires_at"]), comparisons, times),
    st.builds(Where, st.sampled_from(["data.n", "data.n.m", "data.x"]), comparisons,
              numbers | st.sampled_from(["1", "", "2"])),
    st.builds(Where, st.sampled_from(["data.n", "data.x"]), st.sampled_from(["=", "!="]),
              st.sampled_from([None, True, False])),
    st.builds(Where, st.just("data.n"), st.just("in"),
              st.lists(st.sampled_from([1, "1", True, None, 2.5]), max_size=3).map(tuple)),
)  # fmt: skip
filters: st.SearchStrategy[Filter] = st.recursive(
    tests,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: AllOf(*parts))
        | st.lists(inner, max_size=3).map(lambda parts: AnyOf(*parts))
    ),
    max_leaves=5,
)
bounds = st.fixed_dictionaries(
    {"scope": scopes, "exact": st.booleans(), "kinds": st.lists(kinds, max_size=2, unique=True).map(tuple)},
    optional={"filter": filters},
)


def outcome(act: Callable[[], T]) -> tuple[T | None, type[CofioError] | None]:
    """What an act returns, or the type of what it raises."""
    try:
        return act(), None
    except CofioError as error:
        return None, type(error)


class Memories(RuleBasedStateMachine):
    """Two engines on one store, and a plain dict."""

    stores: Stores
    """Where its stores come from; the test sets it."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.stores.new()
        self.clock = START
        self.plain = Plain()
        self.plain.at(START)
        self.engines = [self.opened(self.store), self.opened(self.store)]
        self.unique = 0
        self.forgotten: list[str] = []

    def opened(self, store: StoreAddress) -> Engine:
        """An engine without background work."""
        chosen = Settings(background=False, embedder="none", sync="normal")
        return Engine.open(store, settings=chosen, embedder=HashedEmbedder(), clock=lambda: self.clock)

    def teardown(self) -> None:
        faults = [fault for engine in self.engines for fault in engine.check()]
        for engine in self.engines:
            engine.close()
        self.stores.remove(self.store)
        assert faults == []

    # What an act does to the engine, it must do to the dict: change it alike, or fail alike.

    def both(self, act: Callable[[], T], model: Callable[[T | None], T], *, changes: bool = True) -> T | None:
        """Do a thing to an engine and to the dict, and compare the answers or the errors."""
        self.plain.at(self.clock)
        before = deepcopy(self.plain)
        answer, error = outcome(act)
        expected, expected_error = outcome(lambda: model(answer))
        assert error == expected_error
        assert answer == expected
        if error is not None:
            self.plain = before
        elif changes:
            self.plain.updated = self.plain.now
        self.plain.at(self.clock)
        return answer

    def text(self, common: str, unique: bool) -> str:
        """A text of common words, and perhaps of one that no other record has."""
        self.unique += unique
        return f"{common} u{self.unique}" if unique else common

    def expiry(self, ttl: float | None) -> datetime | None:
        """When a record with this ttl expires, by the store's time."""
        self.plain.at(self.clock)
        return None if ttl is None else self.plain.now + timedelta(seconds=ttl)

    def some(self, pick: int) -> str:
        """The id of some record, alive or expired, or of none."""
        known = [*self.plain.records, "nothing"]
        return known[pick % len(known)]

    def forget(self, *records: Record) -> None:
        """Note the words that nothing should be found by any more."""
        self.forgotten += [word for record in records for word in record.text.split() if word not in COMMON]

    # Writing.

    @initialize(drafts=st.lists(st.tuples(scopes, kinds, contents), min_size=4, max_size=8))
    def begin(self, drafts: Sequence[tuple[Scope, Kind, dict[str, Any]]]) -> None:
        for number, (scope, kind, content) in enumerate(drafts):
            self.write(number % 2, scope, kind, COMMON[number % 3], True, None, None, False, content)

    @rule(side=sides, scope=scopes, kind=kinds, common=commons, unique=st.booleans(), ttl=ttls, id=fixed_ids,
          dedupe=st.booleans(), content=contents)  # fmt: skip
    def write(self, side: int, scope: Scope, kind: Kind, common: str, unique: bool, ttl: float | None, id: str | None,
              dedupe: bool, content: dict[str, Any]) -> None:  # fmt: skip
        text = self.text(common, unique)
        draft = Draft(scope=scope, kind=kind, text=text, expires_at=self.expiry(ttl), id=id, **content)

        def model(answer: Record | None) -> Record:
            same = self.plain.same(draft) if dedupe else None
            assert answer is None or answer.existed == (same is not None)
            return same or self.plain.new(draft, id or (answer.id if answer else ""))

        act = self.engines[side].write
        self.both(lambda: act(scope, kind=kind, text=text, ttl=ttl, id=id, dedupe=dedupe, **content), model)

    @rule(side=sides, data=st.data(), dedupe=st.booleans(), size=st.integers(0, 4))
    def write_many(self, side: int, data: st.DataObject, dedupe: bool, size: int) -> None:
        drafts = [
            Draft(
                scope=data.draw(scopes), kind=data.draw(kinds), key=data.draw(st.none() | keys),
                id=data.draw(fixed_ids), text=self.text(data.draw(commons), data.draw(st.booleans())),
                expires_at=self.expiry(data.draw(ttls)), **data.draw(contents),
            )
            for _ in range(size)
        ]  # fmt: skip

        def model(answer: list[Record] | None) -> list[Record]:
            expected = []
            for number, draft in enumerate(drafts):
                same = self.plain.same(draft) if dedupe and draft.key is None else None
                chosen = draft.id or (answer[number].id if answer else f"unknown {number}")
                expected.append(same or self.plain.new(draft, chosen))
            return expected

        self.both(lambda: self.engines[side].write_many(drafts, dedupe=dedupe), model, changes=bool(drafts))

    @rule(side=sides, scope=scopes, kind=kinds, key=keys, common=commons, unique=st.booleans(), ttl=ttls,
          if_version=versions, content=contents)  # fmt: skip
    def put(self, side: int, scope: Scope, kind: Kind, key: str, common: str, unique: bool, ttl: float | None,
            if_version: int | None, content: dict[str, Any]) -> None:  # fmt: skip
        text = self.text(common, unique)
        draft = Draft(scope=scope, kind=kind, key=key, text=text, expires_at=self.expiry(ttl), **content)
        held = self.plain.get(scope, kind, key)

        def model(answer: Record | None) -> Record:
            return self.plain.put(draft, answer.id if answer else "", if_version)

        act = self.engines[side].put
        done = self.both(
            lambda: act(scope, key, kind=kind, text=text, ttl=ttl, if_version=if_version, **content), model
        )
        if done and held:
            self.forget(held)

    @rule(side=sides, pick=picks, common=commons, unique=st.booleans(), if_version=versions, content=contents)
    def edit(
        self, side: int, pick: int, common: str, unique: bool, if_version: int | None, content: dict[str, Any]
    ) -> None:
        which = self.some(pick)
        old = self.plain.records.get(which)
        fields = {"text": self.text(common, unique), **content}
        done = self.both(
            lambda: self.engines[side].edit(which, if_version=if_version, **fields),
            lambda _: self.plain.edit(which, fields, if_version),
        )
        if done and old:
            self.forget(old)

    @rule(side=sides, pick=picks, scope=st.none() | scopes, key=st.none() | keys, if_version=versions)
    def move(self, side: int, pick: int, scope: Scope | None, key: str | None, if_version: int | None) -> None:
        assume(scope is not None or key is not None)
        which = self.some(pick)
        fields: dict[str, object] = {name: new for name, new in (("scope", scope), ("key", key)) if new is not None}
        self.both(
            lambda: self.engines[side].move(which, scope=scope, key=key, if_version=if_version),
            lambda _: self.plain.edit(which, fields, if_version),
        )

    @rule(side=sides, pick=picks, if_version=versions)
    def delete(self, side: int, pick: int, if_version: int | None) -> None:
        which = self.some(pick)
        old = self.plain.records.get(which)
        self.both(
            lambda: self.engines[side].delete(which, if_version=if_version),
            lambda _: self.plain.delete(which, if_version),
        )
        if old and which not in self.plain.records:
            self.forget(old)

    @rule(side=sides, scope=st.sampled_from([Scope("a", "b"), Scope("ab"), Scope("a"), Scope("nowhere")]))
    def drop(self, side: int, scope: Scope) -> None:
        doomed = [record for record in self.plain.records.values() if record.scope in scope]
        self.both(lambda: self.engines[side].drop(scope), lambda _: self.plain.drop(scope))
        self.forget(*doomed)

    # Reading.

    @rule(side=sides, scope=scopes, kind=kinds, key=keys)
    def get(self, side: int, scope: Scope, kind: Kind, key: str) -> None:
        assert self.engines[side].get(scope, key, kind=kind) == self.plain.get(scope, kind, key)

    @rule(side=sides, pick=picks)
    def read(self, side: int, pick: int) -> None:
        which = self.some(pick)
        self.both(lambda: self.engines[side].read(which), lambda _: self.plain.read(which), changes=False)

    @rule(side=sides, within=bounds, limit=st.integers(1, 5), offset=st.integers(0, 3), newest=st.booleans())
    def list_and_count(self, side: int, within: dict[str, Any], limit: int, offset: int, newest: bool) -> None:
        expected = self.seen(within)[:: -1 if newest else 1]
        engine = self.engines[side]
        page = expected[offset : offset + limit]
        assert engine.list(**within, limit=limit, offset=offset, newest=newest) == page
        headings = engine.headings(**within, limit=limit, offset=offset, newest=newest)
        assert headings == [tuple(getattr(record, name) for name in Heading._fields) for record in page]
        assert engine.count(**within) == len(expected)

    @rule(side=sides, under=scopes)
    def scopes(self, side: int, under: Scope) -> None:
        expected: dict[Scope, int] = {}
        for record in self.plain.within(under, False, (), None):
            expected[record.scope] = expected.get(record.scope, 0) + 1
        assert self.engines[side].scopes(under) == expected

    def seen(self, within: dict[str, Any]) -> list[Record]:
        """What the dict has within bounds."""
        return self.plain.within(within["scope"], within["exact"], within["kinds"], within.get("filter"))

    # Searching.

    @rule(side=sides, pick=picks, upper=st.booleans())
    def find_by_its_own_word(self, side: int, pick: int, upper: bool) -> None:
        record = self.plain.records.get(self.some(pick))
        assume(record is not None and record.text.split()[-1] not in COMMON)
        assert record is not None
        word = record.text.split()[-1]
        hits = self.engines[side].search(Query(word.upper() if upper else word, mode="keyword", floor=0.0))
        expected = [record.id] if record in self.plain.alive() else []
        assert [hit.record.id for hit in hits if hit.why.keyword] == expected

    @precondition(lambda self: self.forgotten)
    @rule(side=sides, pick=picks)
    def find_nothing_by_a_forgotten_word(self, side: int, pick: int) -> None:
        word = self.forgotten[pick % len(self.forgotten)]
        assert not self.engines[side].search(Query(word, mode="keyword", floor=0.0))

    @rule(side=sides, word=st.sampled_from(COMMON), within=bounds)
    def find_by_a_common_word(self, side: int, word: str, within: dict[str, Any]) -> None:
        seen = self.seen(within)
        hits = self.engines[side].search(Query(word, mode="keyword", floor=0.0, limit=1000, **within))
        assert sorted(hit.record.id for hit in hits if hit.why.keyword) == sorted(
            record.id for record in seen if word in record.text.split()
        )
        for hit in hits:
            assert hit.record in seen
            assert hit.why.keyword or (hit.record.parent is not None and hit.record.position is not None)

    @rule(side=sides, pick=picks, within=bounds)
    def find_by_meaning(self, side: int, pick: int, within: dict[str, Any]) -> None:
        engine = self.engines[side]
        engine.settle()
        seen = self.seen(within)
        assume(seen)
        record = seen[pick % len(seen)]
        asked = "\n".join(part for part in (record.title, " ".join(record.tags), record.text) if part)
        hits = engine.search(Query(asked, mode="semantic", floor=0.0, limit=1000, **within))
        assert hits.degraded is None
        assert sorted(hit.record.id for hit in hits) == sorted(each.id for each in seen)
        likeness = {hit.record.id: hit.why.semantic.score for hit in hits if hit.why.semantic}
        assert likeness[record.id] == pytest.approx(1, abs=0.01)

    # Time and housekeeping.

    @rule(seconds=st.sampled_from([0.001, 1, 6, 60, -3, -30, -600]))
    def move_the_clock(self, seconds: float) -> None:
        self.clock += timedelta(seconds=seconds)
        self.plain.at(self.clock)

    @rule(side=sides)
    def settle(self, side: int) -> None:
        self.engines[side].settle()

    @rule(side=sides)
    def scrub(self, side: int) -> None:
        assert self.engines[side].scrub()
        assert self.engines[side].remains() == {}

    @rule(side=sides, vectors=st.booleans())
    def reindex(self, side: int, vectors: bool) -> None:
        self.plain.at(self.clock)
        self.engines[side].reindex(vectors=vectors)
        self.plain.purge(self.clock)  # what has expired goes with it
        self.plain.at(self.clock)

    @rule(side=sides)
    def reopen(self, side: int) -> None:
        self.engines[side].close()
        self.engines[side] = self.opened(self.store)

    @rule(side=sides)
    def export_and_restore(self, side: int) -> None:
        exported = list(self.engines[side].export())
        address = self.stores.new()
        with self.opened(address) as fresh:
            assert fresh.restore([read_line(write_line(record)) for record in exported]) == len(exported)
            assert list(fresh.export()) == exported
            assert fresh.check() == []
        self.stores.remove(address)

    @rule(side=sides)
    def check(self, side: int) -> None:
        assert self.engines[side].check() == []

    @invariant()
    def both_hold_what_the_dict_holds(self) -> None:
        for engine in self.engines:
            assert list(engine.export()) == self.plain.alive()


def test_two_engines_on_one_store_agree_with_a_plain_dict(stores: Stores) -> None:
    run_state_machine_as_test(
        type("Memories", (Memories,), {"stores": stores}),
        settings=settings(max_examples=stores.scale(40), stateful_step_count=50),
    )
