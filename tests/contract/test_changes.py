"""A change that others get in the way of is decided anew, and everything is read as of one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from tests.waiting import join

from cofio import Change, Conflict, Draft, Edit, Engine, Invalid, Kind, NotFound, Put, Query, Scope, Unavailable, Where
from cofio.backends import rules
from cofio.backends.interface import Backend
from cofio.backends.record_interface import Transaction
from cofio.embed.hashed import HashedEmbedder
from cofio.engine import retries
from cofio.values.changes import PrecomputedVector
from cofio.values.query import MAX_LIST

DEMO = Scope("demo")


def count_up(engine: Engine) -> list[Change]:
    """What adds one to the number under a key."""
    stored = engine.get(DEMO, "n")
    number = 1 if stored is None else cast(int, stored.data) + 1
    draft = Draft(scope=DEMO, kind=Kind.ITEM, key="n", data=number)
    return [Put(draft=draft, how="key", if_version=0 if stored is None else stored.version)]


def test_every_one_of_many_who_change_the_same_record_at_once_gets_through(reopen: Callable[..., Engine]) -> None:
    engines = [reopen() for _ in range(4)]

    def work(engine: Engine) -> None:
        for _ in range(10):
            engine.change(lambda: count_up(engine))

    threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    join(*threads)
    stored = engines[0].get(DEMO, "n")
    assert stored is not None
    assert (stored.data, stored.version) == (40, 40)


def test_a_change_is_decided_anew_until_it_fits(memory: Engine) -> None:
    seen: list[object] = []

    def work() -> list[Change]:
        changes = count_up(memory)
        if len(seen) < 3:
            memory.put(DEMO, "n", data=100 * (len(seen) + 1))  # another is faster
        seen.append(cast(Put, changes[0]).draft.data)
        return changes

    (record,) = memory.change(work)
    assert seen == [1, 101, 201, 301]
    assert getattr(record, "data", None) == 301


def test_what_the_work_raises_is_raised_at_once_and_no_changes_are_no_transaction(memory: Engine) -> None:
    calls: list[int] = []

    def work() -> list[Change]:
        calls.append(1)
        raise Conflict("mine")

    before = memory.identity()
    with pytest.raises(Conflict, match="mine"):
        memory.change(work)
    assert len(calls) == 1
    assert memory.change(list) == []
    assert memory.identity() == before


def test_who_is_never_fast_enough_is_told_so(memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "LONGEST_PAUSE", 0.0)
    calls: list[int] = []

    def work() -> list[Change]:
        calls.append(1)
        return [Edit(id="nothing", fields={"title": "x"})]

    with pytest.raises(Unavailable, match="all the time"):
        memory.change(work, tries=7, busy="others write all the time")
    assert len(calls) == 7


def test_each_is_every_record_within_bounds_as_of_one_moment(memory: Engine) -> None:
    drafts = [Draft(scope=DEMO, text=f"note {number}") for number in range(MAX_LIST + 1)]
    memory.write_many(drafts)
    memory.write_many(
        [
            Draft(scope=DEMO / "under", text="under"), Draft(scope=DEMO, kind=Kind.FACT, text="a fact"),
            Draft(scope=Scope("else"), text="elsewhere"),
        ]
    )  # fmt: skip
    found = memory.each(DEMO, exact=True, kinds=[Kind.NOTE])
    first = next(found)
    memory.drop(DEMO)
    assert [first.text, *(each.text for each in found)] == [draft.text for draft in drafts]
    assert [each.text for each in memory.each()] == ["elsewhere"]
    assert list(memory.each(filter=Where("author", "=", "nobody"))) == []


def test_a_transaction_sees_what_it_has_changed_and_what_has_expired(
    memory: Engine, backend: Backend, advance: Callable[[float], None]
) -> None:
    gone = memory.put(DEMO, "old", data=1, ttl=5)
    advance(6)

    def work(transaction: Transaction) -> None:
        expired = transaction.by_key(DEMO, Kind.ITEM, "old")
        assert expired is not None
        assert rules.is_expired(expired, transaction.now)
        assert transaction.first_key(DEMO, Kind.ITEM, "", "z") is None
        assert transaction.delete(gone.id) == 1
        assert transaction.by_id(gone.id) is None
        raise NotFound(gone.id)

    with pytest.raises(NotFound):
        backend.transact(work)
    with backend.snapshot() as snapshot:
        assert snapshot.by_id(gone.id) is not None


def test_a_vector_that_the_embedder_could_not_have_made_changes_nothing(memory: Engine) -> None:
    memory.write(Scope("a"), text="The hens lay in the barn.")
    memory.settle()
    own = HashedEmbedder()
    wrong: list[tuple[Any, str]] = [
        ([1.0] * 64, "expected a PrecomputedVector, got list"),
        (PrecomputedVector("another", np.ones(64, np.float32)), "not of this store's embedder"),
        (PrecomputedVector(own.id, np.ones(7, np.float32)), "is not a list of"),
        (PrecomputedVector(own.id, np.zeros(own.dimensions, np.float32)), "not all zero"),
    ]
    for vector, reason in wrong:
        with pytest.raises(Invalid, match=reason):
            memory.apply([Put(draft=Draft(scope=Scope("a"), text="The cat sleeps.", id="cat"), vector=vector)])
    found = memory.search(Query(scope=Scope("a"), text="hens in the barn", mode="semantic", floor=0.0))
    assert [hit.record.text for hit in found.hits] == ["The hens lay in the barn."]


def test_a_lifetime_shorter_than_the_clock_can_tell_ends_at_once(
    memory: Engine, advance: Callable[[float], None]
) -> None:
    record = memory.write(Scope("a"), text="Gone before it was read.", ttl=1e-9)
    advance(0.001)
    with pytest.raises(NotFound):
        memory.read(record.id)
