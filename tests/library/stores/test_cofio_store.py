"""What the durable store can do beyond the contract."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cofio import Conflict, Engine, Invalid, Kind, LimitExceeded, Query, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.library.cofio_store import CofioStore
from cofio.library.store import StoreCapabilities, StoreContext

T = TypeVar("T")
NS = ("users", "u1")
QUIET = Settings(background=False, embedder="none", sync="normal")


def run(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine."""
    return asyncio.run(call)


@pytest.fixture
def store(memory: Engine) -> CofioStore:
    """An empty store."""
    return CofioStore(memory)


@pytest.mark.requirement("cofio-store.capabilities")
def test_it_can_do_everything(store: CofioStore, memory: Engine) -> None:
    assert store.capabilities == StoreCapabilities(
        search=True, semantic_search=True, embedding_dimension=None, ttl=True, list_namespaces=True,
        batch_operations=True, transactions=True,
    )  # fmt: skip
    assert store.engine is memory
    with pytest.raises(TypeError, match="engine"):
        CofioStore("folder")  # type: ignore[arg-type]


@pytest.mark.requirement("cofio-store.durable")
def test_what_was_put_is_there_when_the_folder_is_opened_again(
    store_address: StoreAddress, clock: Callable[[], datetime]
) -> None:
    with Engine.open(store_address, settings=QUIET, clock=clock) as engine:
        store = CofioStore(engine)
        run(store.put_with_embedding(NS, "k", {"theme": "dark"}, [1.0, 2.0], {"m": 1}))
        run(store.put(NS, "k2", None))
        before = run(store.search(NS))
    with Engine.open(store_address, settings=QUIET, clock=clock) as engine:
        store = CofioStore(engine)
        assert run(store.search(NS)) == before
        assert run(store.get_embedding(NS, "k")) == [1.0, 2.0]
        assert run(store.exists(NS, "k2"))


@pytest.mark.requirement("cofio-store.two-stores")
def test_two_stores_on_one_folder_see_each_other(store_address: StoreAddress, clock: Callable[[], datetime]) -> None:
    with (
        Engine.open(store_address, settings=QUIET, clock=clock) as one,
        Engine.open(store_address, settings=QUIET, clock=clock) as other,
    ):
        first, second = CofioStore(one), CofioStore(other)

        async def work() -> None:
            puts = (store.put(NS, "shared", number) for number in range(10) for store in (first, second))
            await asyncio.gather(*puts)
            await asyncio.gather(first.clear_namespace(("x",)), second.put(("x",), "k", 1), first.delete(NS, "nothing"))

        run(work())
        item = run(second.get_item(NS, "shared"))
        assert item == run(first.get_item(NS, "shared"))
        assert item is not None
        assert item.version == 20


@pytest.mark.requirement("cofio-store.two-stores")
def test_only_one_of_many_deletes_of_a_key_had_it(store: CofioStore) -> None:
    async def work() -> list[bool]:
        await store.put(NS, "k", 1)
        return await asyncio.gather(*(store.delete(NS, "k") for _ in range(8)))

    assert sum(run(work())) == 1


@pytest.mark.requirement("cofio-store.layout")
def test_an_item_is_a_record_that_every_door_can_find_and_show(store: CofioStore, memory: Engine) -> None:
    run(store.put(NS, "theme", {"theme": "dark", "why": ["easier on the eyes"]}, {"category": "preferences"}))
    (hit,) = memory.search("eyes")
    record = hit.record
    assert (record.scope, record.kind, record.key, record.source) == (Scope("store", *NS), Kind.ITEM, "theme", "store")
    assert record.text == "theme: dark\nwhy:\neasier on the eyes\n\ncategory: preferences"
    assert record.data == {
        "value": {"theme": "dark", "why": ["easier on the eyes"]},
        "metadata": {"category": "preferences"},
    }
    assert [hit.record.key for hit in memory.search("preferences")] == ["theme"]
    for word in ("value", "metadata", "data"):
        assert len(memory.search(Query(word, mode="keyword"))) == 0, word


@pytest.mark.requirement("cofio-store.layout")
@pytest.mark.parametrize("value", [None, True, "", [], {}, 0, [None], {"": ""}])
def test_what_has_no_words_is_not_found_by_ours(store: CofioStore, memory: Engine, value: Any) -> None:
    run(store.put((), "k", value))
    assert len(memory.search(Query("value metadata", mode="keyword"))) == 0
    assert run(store.get((), "k")) == value


@pytest.mark.requirement("cofio-store.foreign")
def test_what_another_door_put_there_is_an_item_too(store: CofioStore, memory: Engine) -> None:
    memory.put(Scope("store", "a"), "data", data={"value": 1, "unit": "kg"})
    memory.put(Scope("store", "a"), "text", text="plain text")
    memory.write(Scope("store", "a"), text="no key", kind=Kind.ITEM)
    memory.write(Scope("store", "b"), text="a note")
    assert run(store.get(("a",), "data")) == {"value": 1, "unit": "kg"}
    assert run(store.get(("a",), "text")) == "plain text"
    assert run(store.list_keys(("a",))) == ["data", "text"]
    assert [item.key for item in run(store.search(("a",)))] == ["data", "text"]
    assert run(store.search(("a",), "key")) == []
    assert run(store.list_namespaces()) == [("a",)]


@pytest.mark.requirement("cofio-store.search")
def test_a_search_is_by_words_and_by_meaning_in_the_namespace_alone(store: CofioStore, memory: Engine) -> None:
    run(store.put(NS, "a", {"note": "programs are written in Python"}))
    run(store.put(NS, "b", {"note": "the garden needs water"}))
    run(store.put((*NS, "x"), "c", {"note": "Python"}))
    assert [item.key for item in run(store.search(NS, "program in python"))] == ["a"]
    memory.settle()
    assert [item.key for item in run(store.search(NS, "watering gardens"))] == ["b"]
    assert len(run(store.search(NS, "python", limit=5_000))) == 1
    # What a user says may be long, or not quite text.
    assert [item.key for item in run(store.search(NS, "x " * 20_000 + "watering gardens\0 \ud800"))] == ["b"]


@pytest.mark.requirement("cofio-store.meaning")
def test_a_search_by_meaning_uses_the_engines_own_vectors(store: CofioStore, memory: Engine) -> None:
    run(store.put(NS, "a", "the cat sat on the mat"))
    run(store.put(NS, "b", "quarterly revenue report"))
    run(store.put((*NS, "x"), "c", "the cat sat on the mat"))
    memory.settle()
    best, *rest = run(store.search_by_meaning(NS, "the cat sat on the mat"))
    assert best.item.key == "a"
    assert best.score == pytest.approx(1, abs=0.01)
    assert best.distance == pytest.approx(0, abs=0.01)
    assert {result.item.key for result in rest} <= {"b"}
    assert len(run(store.search_by_meaning(NS, "the cat sat on the mat", threshold=0.9))) == 1
    assert run(store.search_by_meaning(NS, "the cat", limit=0)) == []
    with pytest.raises(ValueError, match="threshold"):
        run(store.search_by_meaning(NS, "x", threshold=2))


@pytest.mark.requirement("cofio-store.meaning")
def test_a_search_by_meaning_finds_what_was_put_a_moment_ago(store: CofioStore) -> None:
    for key, text in (("a", "the cat sat on the mat"), ("b", "quarterly revenue report")):
        run(store.put(NS, key, text))
        assert run(store.search_by_meaning(NS, text))[0].item.key == key


@pytest.mark.requirement("cofio-store.meaning")
def test_a_search_by_meaning_without_an_embedder_says_so(store_address: StoreAddress) -> None:
    with Engine.open(store_address, settings=QUIET) as engine, pytest.raises(Unavailable, match="no embedder"):
        run(CofioStore(engine).search_by_meaning(NS, "anything"))


@pytest.mark.requirement("cofio-store.vectors")
def test_given_vectors_are_compared_within_the_namespace_and_their_size(store: CofioStore) -> None:
    run(store.put_with_embedding(NS, "same", 1, [1.0, 0.0]))
    run(store.put_with_embedding(NS, "half", 2, [1.0, 1.0]))
    run(store.put_with_embedding(NS, "away", 3, [-1.0, 0.0]))
    run(store.put_with_embedding(NS, "other size", 4, [1.0, 0.0, 0.0]))
    run(store.put_with_embedding((*NS, "x"), "elsewhere", 5, [1.0, 0.0]))
    run(store.put(NS, "none", 6))
    found = run(store.search_by_embedding(NS, [2.0, 0.0]))
    assert [result.item.value for result in found] == [1, 2, 3]
    assert [result.score for result in found] == pytest.approx([1, math.sqrt(0.5), 0])
    assert [result.distance for result in found] == pytest.approx([0, 1 - math.sqrt(0.5), 2], abs=1e-9)
    assert [result.item.key for result in run(store.search_by_embedding(NS, [1, 0, 0]))] == ["other size"]
    assert [result.item.key for result in run(store.search_by_embedding(NS, [1, 0], limit=1))] == ["same"]
    assert run(store.search_by_embedding(NS, [1, 0], limit=0)) == []
    assert [r.item.key for r in run(store.search_by_embedding(NS, [1, 0], threshold=0.7))] == ["same", "half"]
    assert len(run(store.search_by_embedding(NS, [1, 0], threshold=0))) == 3
    odd = [0.1, 0.7, 1 / 3, 123.456, 1e-5]
    run(store.put_with_embedding(("odd",), "itself", 7, odd))
    (itself,) = run(store.search_by_embedding(("odd",), odd, threshold=1))
    assert itself.score == 1.0
    assert itself.distance == pytest.approx(0, abs=1e-9)
    assert run(store.search_by_embedding(("nobody",), [1, 0])) == []


@pytest.mark.requirement("cofio-store.vector-filter")
@pytest.mark.parametrize(
    ("wanted", "keys"),
    [(None, "abc"), ({}, "abc"), ({"kind": "x"}, "ab"), ({"kind": "x", "n": 2}, "b"), ({"n": {"$gt": 1}}, "bc"),
     ({"tags": ["p", "q"]}, "a"), ({"tags": ["p"]}, ""), ({"deep": {"er": 1}}, "c"), ({"n": None}, ""),
     ({"missing": None}, "abc"), ({"kind": {"$ne": "x"}}, "c"), ({"n": True}, ""), ({"n": "1"}, "")],
)  # fmt: skip
def test_a_metadata_filter_holds(store: CofioStore, wanted: Any, keys: str) -> None:
    run(store.put_with_embedding(NS, "a", 1, [1, 0.1], {"kind": "x", "n": 1, "tags": ["p", "q"]}))
    run(store.put_with_embedding(NS, "b", 2, [1, 0.2], {"kind": "x", "n": 2}))
    run(store.put_with_embedding(NS, "c", 3, [1, 0.3], {"kind": "y", "n": 3, "deep": {"er": 1}}))
    found = run(store.search_by_embedding(NS, [1, 0], metadata_filter=wanted))
    assert "".join(result.item.key for result in found) == keys
    if keys:
        (first,) = run(store.search_by_embedding(NS, [1, 0], 1, metadata_filter=wanted))
        assert first.item.key == keys[0]


@pytest.mark.requirement("cofio-store.vectors-last")
def test_a_vector_lasts_until_the_next_put(store: CofioStore) -> None:
    run(store.put_with_embedding(NS, "k", "v", [0.1, 0.2]))
    assert run(store.get_embedding(NS, "k")) == pytest.approx([0.1, 0.2])
    run(store.put_with_embedding(NS, "k", "v", [1, 2, 3]))
    assert run(store.get_embedding(NS, "k")) == [1, 2, 3]
    assert run(store.search_by_embedding(NS, [1, 0])) == []
    run(store.put(NS, "k", "v"))
    assert run(store.get_embedding(NS, "k")) is None
    assert run(store.get_embedding(NS, "nobody")) is None
    assert run(store.search_by_embedding(NS, [1, 0, 0])) == []


@pytest.mark.requirement("store-context.semantic")
def test_a_context_keeps_and_finds_memories_by_vector(store: CofioStore) -> None:
    context = StoreContext(store, user_id="u1")
    run(context.remember_with_embedding("near", {"theme": "dark"}, [1.0, 0.0], {"m": 1}))
    run(context.remember_with_embedding("far", {"theme": "light"}, [0.0, 1.0]))
    found = run(context.search_memories_semantic([1.0, 0.1]))
    assert [(result.item.key, result.item.namespace) for result in found] == [
        ("near", ("users", "u1", "memories")), ("far", ("users", "u1", "memories")),
    ]  # fmt: skip
    assert len(run(context.search_memories_semantic([1.0, 0.1], threshold=0.5))) == 1
    assert len(run(context.search_memories_semantic([1.0, 0.1], limit=1))) == 1


@pytest.mark.requirement("cofio-store.bad-input")
@pytest.mark.parametrize("embedding", [[], [0.0], [math.nan], [math.inf], "text", ["x"], 3, [1e300]])
def test_what_is_no_vector_is_refused(store: CofioStore, embedding: Any) -> None:
    with pytest.raises(Invalid, match="embedding"):
        run(store.put_with_embedding(NS, "k", 1, embedding))
    with pytest.raises(Invalid, match="query_embedding"):
        run(store.search_by_embedding(NS, embedding))
    assert not run(store.exists(NS, "k"))


@pytest.mark.requirement("cofio-store.times")
def test_times_are_kept_as_text(store: CofioStore) -> None:
    when = datetime(2026, 3, 1, 12, tzinfo=UTC)
    run(store.put(NS, "k", {"when": when, "day": when.date()}, {"at": when}))
    item = run(store.get_item(NS, "k"))
    assert item is not None
    assert item.value == {"when": "2026-03-01T12:00:00+00:00", "day": "2026-03-01"}
    assert item.metadata == {"at": "2026-03-01T12:00:00+00:00"}


@pytest.mark.requirement("cofio-store.bad-input")
def test_what_is_not_json_or_too_large_is_refused_and_changes_nothing(store: CofioStore, memory: Engine) -> None:
    knot: list[Any] = []
    knot.append(knot)
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    for value in ({1, 2}, b"bytes", object(), {1: 2}, math.nan, math.inf, "\ud800", "a\0b"):
        with pytest.raises(Invalid, match=r"value\.x\[0\]"):
            run(store.put(NS, "k", {"x": [value]}))
        with pytest.raises(Invalid, match="metadata"):
            run(store.put(NS, "k", 1, {"x": value}))
    with pytest.raises(Invalid):
        run(store.put(NS, "k", 10**5000))
    for value in (knot, deep, "x" * 1_048_577):
        with pytest.raises(LimitExceeded):
            run(store.put(NS, "k", value))
    with pytest.raises(LimitExceeded, match="namespace: longer than the limit of 15 names"):
        run(store.put(("a",) * 16, "k", 1))
    with pytest.raises(LimitExceeded, match="namespace: longer than the limit of 256 characters"):
        run(store.put(("a" * 257,), "k", 1))
    with pytest.raises(LimitExceeded, match="key"):
        run(store.put(NS, "k" * 1025, 1))
    with pytest.raises(Invalid, match="NUL"):
        run(store.put(("a\0b",), "k", 1))
    for ttl in (0, -1, math.nan, "60", True):
        with pytest.raises(Invalid, match="ttl"):
            run(store.put(NS, "k", 1, ttl=ttl))  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="ttl"):
            CofioStore(memory, ttl=ttl)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="if_version"):
        run(store.put(NS, "k", 1, if_version="1"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="threshold"):
        run(store.search_by_embedding(NS, [1.0], threshold="0.5"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="filter"):
        run(store.search_by_embedding(NS, [1.0], metadata_filter=[1]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unsupported operator: \\$near"):
        run(store.search_by_embedding(NS, [1.0], metadata_filter={"n": {"$near": 1}}))
    assert memory.count() == 0


@pytest.mark.requirement("cofio-store.tuples")
def test_a_tuple_is_a_list(store: CofioStore) -> None:
    run(store.put(NS, "k", {"x": (1, (2,))}, {"t": ("a",)}))
    item = run(store.get_item(NS, "k"))
    assert item is not None
    assert (item.value, item.metadata) == ({"x": [1, [2]]}, {"t": ["a"]})


@pytest.mark.requirement("cofio-store.ttl")
def test_items_last_as_long_as_they_are_told(memory: Engine, advance: Callable[[float], None]) -> None:
    store = CofioStore(memory, ttl=60)
    run(store.put(NS, "default", 1))
    run(store.put(NS, "short", 2, ttl=timedelta(seconds=10)))
    run(store.put(NS, "for good", 3, ttl=math.inf))
    run(store.put_batch([(("batch",), "k", 1, None)]))
    advance(11)
    assert run(store.list_keys(NS)) == ["default", "for good"]
    assert not run(store.exists(NS, "short"))
    run(store.put(NS, "default", 4))
    advance(50)
    assert run(store.get(NS, "default")) == 4
    assert run(store.list_namespaces()) == [NS]
    advance(11)
    assert run(store.get_batch([(NS, "default"), (NS, "for good")])) == {(NS, "for good"): 3}
    assert [item.key for item in run(store.search(NS))] == ["for good"]
    assert run(store.clear_namespace(NS)) == 1
    run(store.put(NS, "short", 5))
    item = run(store.get_item(NS, "short"))
    assert item is not None
    assert item.version == 1


@pytest.mark.requirement("cofio-store.transactions")
def test_a_transaction_is_made_whole_at_its_end(store: CofioStore, memory: Engine) -> None:
    async def work() -> None:
        await store.put(NS, "old", 1)
        async with store.transaction() as tx:
            await tx.put(NS, "a", {"n": 1}, {"m": 1})
            await tx.put_with_embedding(("other",), "b", 2, [1.0, 0.0], ttl=60)
            await tx.delete(NS, "old")
            await tx.delete(NS, "nothing")
            assert await store.get(NS, "a") is None
            assert await store.get(NS, "old") == 1
        assert await store.get(NS, "a") == {"n": 1}
        assert await store.get_embedding(("other",), "b") == [1.0, 0.0]
        assert not await store.exists(NS, "old")

    run(work())
    assert memory.get(Scope("store", "other"), "b").expires_at is not None  # type: ignore[union-attr]


@pytest.mark.requirement("cofio-store.transactions")
def test_a_transaction_that_raises_changes_nothing(store: CofioStore) -> None:
    async def work() -> None:
        async with store.transaction() as tx:
            await tx.put(NS, "a", 1)
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        run(work())

    async def bad() -> None:
        async with store.transaction() as tx:
            await tx.put(NS, "a", 1)
            await tx.put(NS, "b", {1})

    with pytest.raises(Invalid, match="set is not JSON"):
        run(bad())
    assert run(store.list_namespaces()) == []


@pytest.mark.requirement("cofio-store.locks")
def test_a_version_that_was_relied_on_must_still_be_there(store: CofioStore) -> None:
    async def swap(version: int, value: int) -> None:
        async with store.transaction() as tx:
            await tx.put(NS, "side", value)
            await tx.put(NS, "k", value, if_version=version)

    run(swap(0, 1))
    run(swap(1, 2))
    with pytest.raises(Conflict) as caught:
        run(swap(1, 3))
    assert (caught.value.expected, caught.value.found) == (1, 2)
    assert run(store.get_batch([(NS, "k"), (NS, "side")])) == {(NS, "k"): 2, (NS, "side"): 2}
    with pytest.raises(Conflict):
        run(store.put(NS, "k", 9, if_version=0))
    run(store.put(NS, "k", 3, if_version=2))

    async def remove(key: str, version: int) -> None:
        async with store.transaction() as tx:
            await tx.delete(NS, key, if_version=version)

    with pytest.raises(Conflict):
        run(remove("k", 2))
    with pytest.raises(Conflict):
        run(remove("k", 0))
    with pytest.raises(Conflict):
        run(remove("nothing", 1))
    run(remove("nothing", 0))
    run(remove("k", 3))
    assert not run(store.exists(NS, "k"))


@pytest.mark.requirement("cofio-store.locks")
def test_of_many_who_rely_on_one_version_one_wins(store: CofioStore) -> None:
    async def work() -> list[BaseException | None]:
        await store.put(NS, "k", 0)
        return await asyncio.gather(
            *(store.put(NS, "k", number, if_version=1) for number in range(8)), return_exceptions=True
        )

    outcomes = run(work())
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7


@pytest.mark.requirement("cofio-store.transactions")
def test_the_last_change_of_a_key_in_a_transaction_counts(store: CofioStore) -> None:
    async def work() -> None:
        await store.put(NS, "k", 0)
        async with store.transaction() as tx:
            await tx.delete(NS, "k")
            await tx.put(NS, "k", 1)
            await tx.put(NS, "new", 1)
            await tx.delete(NS, "new")
            await tx.delete(NS, "new")
        item = await store.get_item(NS, "k")
        assert item is not None
        assert (item.value, item.version) == (1, 1)
        assert not await store.exists(NS, "new")
        async with store.transaction() as tx:
            await tx.put(NS, "k", 2, if_version=5)
            await tx.delete(NS, "k")

    with pytest.raises(Conflict):
        run(work())
    assert run(store.get(NS, "k")) == 1


@pytest.mark.requirement("cofio-store.locks-before")
@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        # What the key holds before the transaction is 1, at version 2; (None, v) deletes it, relying on version v.
        ([(5, None), (None, 99)], 99),
        ([(5, None), (None, 2)], "gone"),
        ([(5, 99), (None, 2)], 99),
        ([(5, 2), (None, None)], "gone"),
        ([(5, 2), (None, 3)], 3),
        ([(5, 2), (6, 2)], 6),
        ([(5, None), (6, 2)], 6),
        ([(5, 2), (6, 3)], 3),
        ([(5, 3), (6, 2)], 3),
        ([(5, None), (6, 3)], 3),
        ([(None, None), (6, 2)], 6),
        ([(None, 2), (6, None)], 6),
        ([(None, None), (6, 0)], 0),
        ([(None, 2), (6, 0)], 0),
        ([(5, None), (None, None), (6, 2)], 6),
        ([(5, 99), (None, None), (6, None)], 99),
        ([(5, 7), (None, 8)], 7),
    ],
)
def test_a_version_in_a_transaction_is_that_before_it(
    store: CofioStore, steps: list[tuple[int | None, int | None]], outcome: int | str
) -> None:
    async def work() -> None:
        async with store.transaction() as tx:
            await tx.put(NS, "side", 1)
            for value, version in steps:
                if value is None:
                    await tx.delete(NS, "k", if_version=version)
                else:
                    await tx.put(NS, "k", value, if_version=version)

    run(store.put(NS, "k", 0))
    run(store.put(NS, "k", 1))
    if outcome == "gone" or outcome in {value for value, _ in steps}:
        run(work())
        assert run(store.get(NS, "k")) == (None if outcome == "gone" else outcome)
        assert run(store.exists(NS, "k")) is (outcome != "gone")
        return
    with pytest.raises(Conflict) as caught:
        run(work())
    assert (caught.value.expected, caught.value.found) == (outcome, 2)
    assert run(store.get(NS, "k")) == 1
    assert not run(store.exists(NS, "side"))


@pytest.mark.requirement("cofio-store.locks-before")
def test_a_key_that_held_nothing_before_a_transaction_is_at_version_0(store: CofioStore, memory: Engine) -> None:
    async def work(first: int | None, second: int | None, key: str = "k") -> None:
        async with store.transaction() as tx:
            await tx.put(NS, key, 1, if_version=first)
            await tx.delete(NS, key, if_version=second)

    for first, second in ((None, 1), (0, 1), (1, 0), (1, None)):
        with pytest.raises(Conflict) as caught:
            run(work(first, second))
        assert (caught.value.expected, caught.value.found) == (1, 0)
    run(work(0, 0))
    run(work(None, 0))
    assert run(store.list_namespaces()) == []
    for wrong in ("1", -1, True, 1.0):
        with pytest.raises(Invalid, match="if_version"):
            run(work(None, wrong))  # type: ignore[arg-type]  # that is the point
    # Keys beside it are none of its business.
    run(store.put(NS, "k!", 1))
    run(store.put(NS, "j", 1))
    run(work(0, 0))
    assert memory.count() == 2


@pytest.mark.requirement("cofio-store.transactions")
def test_a_transaction_keeps_the_order_of_its_changes(store: CofioStore) -> None:
    async def work() -> None:
        await store.put(NS, "a", 0)
        async with store.transaction() as tx:
            await tx.put(NS, "a", 1)
            await tx.put(NS, "b", 1)
            await tx.delete(NS, "a")
            await tx.put(NS, "a", 2)
            await tx.put(NS, "a", 3)

    run(work())
    assert run(store.list_keys(NS)) == ["b", "a"]
    item = run(store.get_item(NS, "a"))
    assert item is not None
    assert (item.value, item.version) == (3, 2)


@pytest.mark.requirement("cofio-store.transactions")
def test_a_transaction_is_used_inside_of_its_block(store: CofioStore) -> None:
    async def work() -> None:
        tx = store.transaction()
        for call in (tx.put(NS, "k", 1), tx.delete(NS, "k"), tx.put_with_embedding(NS, "k", 1, [1.0])):
            with pytest.raises(RuntimeError, match="not open"):
                await call
        async with tx:
            with pytest.raises(RuntimeError, match="begun"):
                await tx.__aenter__()
            await tx.put(NS, "k", 1)
        with pytest.raises(RuntimeError, match="not open"):
            await tx.put(NS, "k", 2)
        async with tx:
            pass
        assert await store.get(NS, "k") == 1

    run(work())


@pytest.mark.requirement("store.no-aliases")
def test_a_value_that_changes_before_the_end_of_a_transaction_is_kept_as_it_was(store: CofioStore) -> None:
    async def work() -> None:
        value = {"list": [1]}
        async with store.transaction() as tx:
            await tx.put(NS, "k", value)
            value["list"].append(2)
        assert await store.get(NS, "k") == {"list": [1]}

    run(work())


@pytest.mark.requirement("cofio-store.kept")
def test_items_survive_an_export_and_a_restore(store: CofioStore, memory: Engine, tmp_path: Path) -> None:
    from cofio.text.jsonl import read_line, write_line

    run(store.put_with_embedding(NS, "k", {"a": [1]}, [1.0, 0.5], {"m": 1}))
    run(store.put(NS, "l", None))
    lines = [write_line(record) for record in memory.export()]
    with Engine.open(tmp_path / "other", settings=QUIET, embedder=HashedEmbedder()) as other:
        other.restore([read_line(line) for line in lines])
        copy = CofioStore(other)
        assert run(copy.search(NS)) == run(store.search(NS))
        assert run(copy.get_embedding(NS, "k")) == [1.0, 0.5]
