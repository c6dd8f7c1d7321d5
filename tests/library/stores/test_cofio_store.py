"""What the durable store can do beyond the contract."""

from __future__ import annotations

import asyncio
import math
from asyncio import run
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from cofio import Conflict, Engine, Invalid, Kind, LimitExceeded, Query, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.library.cofio_store import CofioStore
from cofio.library.store import StoreCapabilities, StoreContext
from cofio.text.jsonl import read_line, write_line

NS = ("users", "u1")
QUIET = Settings(background=False, embedder="none", sync="normal")


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


@pytest.mark.requirement("cofio-store.durable", "cofio-store.kept")
def test_items_survive_a_restart_an_export_and_a_restore(
    store_address: StoreAddress, clock: Callable[[], datetime], tmp_path: Path
) -> None:
    with Engine.open(store_address, settings=QUIET, clock=clock) as engine:
        store = CofioStore(engine)
        run(store.put_with_embedding(NS, "k", {"theme": "dark"}, [1.0, 2.0], {"m": 1}))
        run(store.put(NS, "k2", None))
        before = run(store.search(NS))
        lines = [write_line(record) for record in engine.export()]
    with Engine.open(tmp_path / "other", settings=QUIET, clock=clock) as other:
        other.restore([read_line(line) for line in lines])
    for address in (store_address, tmp_path / "other"):
        with Engine.open(address, settings=QUIET, clock=clock) as engine:
            store = CofioStore(engine)
            assert run(store.search(NS)) == before
            assert run(store.get_embedding(NS, "k")) == [1.0, 2.0]
            assert run(store.exists(NS, "k2"))


@pytest.mark.requirement("cofio-store.two-stores", "cofio-store.locks", "cofio-store.meaning")
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
            item = await second.get_item(NS, "shared")
            assert item == await first.get_item(NS, "shared")
            assert item is not None
            assert item.version == 20
            relying = (store.put(NS, "shared", 1, if_version=20) for _ in range(4) for store in (first, second))
            outcomes = await asyncio.gather(*relying, return_exceptions=True)
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 7 + ["NoneType"]
            assert sum(await asyncio.gather(*(each.delete(NS, "shared") for each in (first, second) * 4))) == 1

        run(work())
        with pytest.raises(Unavailable, match="no embedder"):
            run(first.search_by_meaning(NS, "anything"))


@pytest.mark.requirement("cofio-store.layout")
def test_an_item_is_a_record_that_every_door_can_find_and_show(store: CofioStore, memory: Engine) -> None:
    run(store.put(NS, "theme", {"theme": "dark", "why": ["easier on the eyes"]}, {"category": "preferences"}))
    (hit,) = memory.search("eyes")
    record = hit.record
    assert (record.scope, record.kind, record.key, record.source) == (Scope("store", *NS), Kind.ITEM, "theme", "store")
    assert record.text == "theme: dark\nwhy:\neasier on the eyes\n\ncategory: preferences"
    assert record.data == {
        "value": {"theme": "dark", "why": ["easier on the eyes"]}, "metadata": {"category": "preferences"},
    }  # fmt: skip
    assert [hit.record.key for hit in memory.search("preferences")] == ["theme"]
    values: list[Any] = [None, True, "", [], {}, 0, [None], {"": ""}]
    for number, value in enumerate(values):
        run(store.put((), str(number), value))
    for word in ("value", "metadata", "data"):
        assert len(memory.search(Query(word, mode="keyword"))) == 0, word


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
def test_a_search_by_meaning_uses_the_engines_own_vectors(store: CofioStore) -> None:
    run(store.put((*NS, "x"), "c", "the cat sat on the mat"))
    for key, text in (("a", "the cat sat on the mat"), ("b", "quarterly revenue report")):
        run(store.put(NS, key, text))
        assert run(store.search_by_meaning(NS, text))[0].item.key == key  # though it was put only just now
    best, *rest = run(store.search_by_meaning(NS, "the cat sat on the mat"))
    assert best.item.key == "a"
    assert best.score == pytest.approx(1, abs=0.01)
    assert best.distance == pytest.approx(0, abs=0.01)
    assert {result.item.key for result in rest} <= {"b"}
    assert len(run(store.search_by_meaning(NS, "the cat sat on the mat", threshold=0.9))) == 1
    assert run(store.search_by_meaning(NS, "the cat", limit=0)) == []
    with pytest.raises(ValueError, match="threshold"):
        run(store.search_by_meaning(NS, "x", threshold=2))


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
def test_a_metadata_filter_holds(store: CofioStore) -> None:
    run(store.put_with_embedding(NS, "a", 1, [1, 0.1], {"kind": "x", "n": 1, "tags": ["p", "q"]}))
    run(store.put_with_embedding(NS, "b", 2, [1, 0.2], {"kind": "x", "n": 2}))
    run(store.put_with_embedding(NS, "c", 3, [1, 0.3], {"kind": "y", "n": 3, "deep": {"er": 1}}))
    wanted: Any
    for wanted, keys in (
        (None, "abc"), ({}, "abc"), ({"kind": "x"}, "ab"), ({"kind": "x", "n": 2}, "b"), ({"n": {"$gt": 1}}, "bc"),
        ({"tags": ["p", "q"]}, "a"), ({"tags": ["p"]}, ""), ({"deep": {"er": 1}}, "c"), ({"n": None}, ""),
        ({"missing": None}, "abc"), ({"kind": {"$ne": "x"}}, "c"), ({"n": True}, ""), ({"n": "1"}, ""),
    ):  # fmt: skip
        found = run(store.search_by_embedding(NS, [1, 0], metadata_filter=wanted))
        assert "".join(result.item.key for result in found) == keys
        first = run(store.search_by_embedding(NS, [1, 0], 1, metadata_filter=wanted))
        assert "".join(result.item.key for result in first) == keys[:1]


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
def test_bad_values_vectors_and_options_are_refused_and_change_nothing(store: CofioStore, memory: Engine) -> None:
    knot: list[Any] = []
    knot.append(knot)
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    bad: Any
    for bad in ({1, 2}, b"bytes", object(), {1: 2}, math.nan, math.inf, "\ud800", "a\0b"):
        with pytest.raises(Invalid, match=r"value\.x\[0\]"):
            run(store.put(NS, "k", {"x": [bad]}))
        with pytest.raises(Invalid, match="metadata"):
            run(store.put(NS, "k", 1, {"x": bad}))
    for bad in ([], [0.0], [math.nan], [math.inf], "text", ["x"], 3, [1e300]):
        with pytest.raises(Invalid, match="embedding"):
            run(store.put_with_embedding(NS, "k", 1, bad))
        with pytest.raises(Invalid, match="query_embedding"):
            run(store.search_by_embedding(NS, bad))
    for bad in (0, -1, math.nan, "60", True):
        with pytest.raises(Invalid, match="ttl"):
            run(store.put(NS, "k", 1, ttl=bad))
        with pytest.raises(Invalid, match="ttl"):
            CofioStore(memory, ttl=bad)
    for error, match, call in (
        (Invalid, "value|data", store.put(NS, "k", 10**5000)), (LimitExceeded, "value|data", store.put(NS, "k", knot)),
        (LimitExceeded, "value|data", store.put(NS, "k", deep)),
        (LimitExceeded, "value|data", store.put(NS, "k", "x" * 1_048_577)),
        (LimitExceeded, "namespace: longer than the limit of 15 names", store.put(("a",) * 16, "k", 1)),
        (LimitExceeded, "namespace: longer than the limit of 256 characters", store.put(("a" * 257,), "k", 1)),
        (LimitExceeded, "key", store.put(NS, "k" * 1025, 1)), (Invalid, "NUL", store.put(("a\0b",), "k", 1)),
        (Invalid, "if_version", store.put(NS, "k", 1, if_version=cast(int, "1"))),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            run(call)
    for wrong, match, bad in (
        (TypeError, "threshold", {"threshold": "0.5"}), (TypeError, "filter", {"metadata_filter": [1]}),
        (ValueError, r"Unsupported operator: \$near", {"metadata_filter": {"n": {"$near": 1}}}),
    ):  # fmt: skip
        with pytest.raises(wrong, match=match):
            run(store.search_by_embedding(NS, [1.0], **bad))
    assert memory.count() == 0


@pytest.mark.requirement("cofio-store.tuples", "cofio-store.times")
def test_a_tuple_is_a_list_and_a_time_is_text(store: CofioStore) -> None:
    when = datetime(2026, 3, 1, 12, tzinfo=UTC)
    run(store.put(NS, "k", {"x": (1, (2,)), "when": when, "day": when.date()}, {"t": ("a",), "at": when}))
    item = run(store.get_item(NS, "k"))
    assert item is not None
    assert item.value == {"x": [1, [2]], "when": "2026-03-01T12:00:00+00:00", "day": "2026-03-01"}
    assert item.metadata == {"t": ["a"], "at": "2026-03-01T12:00:00+00:00"}


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


@pytest.mark.requirement("cofio-store.transactions", "store.no-aliases")
def test_a_transaction_is_made_whole_at_its_end_or_not_at_all(store: CofioStore, memory: Engine) -> None:
    value: dict[str, Any] = {"list": [1]}

    async def work() -> None:
        await store.put(NS, "old", 1)
        async with store.transaction() as tx:
            await tx.put(NS, "a", value, {"m": 1})
            value["list"].append(2)
            await tx.put_with_embedding(("other",), "b", 2, [1.0, 0.0], ttl=60)
            await tx.delete(NS, "old")
            await tx.delete(NS, "nothing")
            assert await store.get(NS, "a") is None
            assert await store.get(NS, "old") == 1
        assert await store.get(NS, "a") == {"list": [1]}
        assert await store.get_embedding(("other",), "b") == [1.0, 0.0]
        assert not await store.exists(NS, "old")

    async def stop(*, bad: bool) -> None:
        async with store.transaction() as tx:
            await tx.put(NS, "new", 1)
            if bad:
                await tx.put(NS, "b", {1})
            raise KeyError("stop")

    run(work())
    assert memory.get(Scope("store", "other"), "b").expires_at is not None  # type: ignore[union-attr]
    with pytest.raises(KeyError, match="stop"):
        run(stop(bad=False))
    with pytest.raises(Invalid, match="set is not JSON"):
        run(stop(bad=True))
    assert run(store.list_keys(NS)) == ["a"]


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


@pytest.mark.requirement("cofio-store.transactions")
def test_the_last_change_of_a_key_in_a_transaction_counts(store: CofioStore) -> None:
    async def work() -> None:
        await store.put(NS, "k", 0)
        async with store.transaction() as tx:
            await tx.put(NS, "k", 5)
            await tx.put(NS, "b", 1)
            await tx.delete(NS, "k")
            await tx.put(NS, "k", 1)
            await tx.put(NS, "k", 2)
            await tx.put(NS, "new", 1)
            await tx.delete(NS, "new")
            await tx.delete(NS, "new")
        item = await store.get_item(NS, "k")
        assert item is not None
        assert (item.value, item.version) == (2, 2)
        assert await store.list_keys(NS) == ["b", "k"]
        async with store.transaction() as tx:
            await tx.put(NS, "k", 3, if_version=5)
            await tx.delete(NS, "k")

    with pytest.raises(Conflict):
        run(work())
    assert run(store.get(NS, "k")) == 2


@pytest.mark.requirement("cofio-store.locks-before")
def test_a_version_in_a_transaction_is_that_before_it(store: CofioStore, memory: Engine) -> None:
    async def work(*steps: tuple[int | None, int | None], key: str = "k") -> None:
        async with store.transaction() as tx:
            await tx.put(NS, "side", 1)
            for value, version in steps:
                if value is None:
                    await tx.delete(NS, key, if_version=version)
                else:
                    await tx.put(NS, key, value, if_version=version)

    # The key holds 1, at version 2, before the transaction; (None, v) deletes it, relying on version v.
    run(store.put(NS, "k", 0))
    run(store.put(NS, "k", 1))
    for steps, expected in (
        ([(5, None), (None, 99)], 99), ([(5, 99), (None, 2)], 99), ([(5, 2), (None, 3)], 3), ([(5, 2), (6, 3)], 3),
        ([(5, 3), (6, 2)], 3), ([(5, None), (6, 3)], 3), ([(None, None), (6, 0)], 0), ([(None, 2), (6, 0)], 0),
        ([(5, 99), (None, None), (6, None)], 99), ([(5, 7), (None, 8)], 7),
    ):  # fmt: skip
        with pytest.raises(Conflict) as caught:
            run(work(*steps))
        assert (caught.value.expected, caught.value.found) == (expected, 2)
        assert run(store.get(NS, "k")) == 1
        assert not run(store.exists(NS, "side"))
    for steps, value in (
        ([(5, None), (None, 2)], None), ([(5, 2), (None, None)], None), ([(5, 2), (6, 2)], 6), ([(5, None), (6, 2)], 6),
        ([(None, None), (6, 2)], 6), ([(None, 2), (6, None)], 6), ([(5, None), (None, None), (6, 2)], 6),
    ):  # fmt: skip
        run(store.clear_namespace(NS))
        run(store.put(NS, "k", 0))
        run(store.put(NS, "k", 1))
        run(work(*steps))
        assert run(store.get(NS, "k")) == value
        assert run(store.exists(NS, "k")) is (value is not None)
    # A key that held nothing is at version 0.
    for first, second in ((None, 1), (0, 1), (1, 0), (1, None)):
        with pytest.raises(Conflict) as caught:
            run(work((1, first), (None, second), key="new"))
        assert (caught.value.expected, caught.value.found) == (1, 0)
    run(work((1, 0), (None, 0), key="new"))
    run(work((1, None), (None, 0), key="new"))
    assert run(store.list_keys(NS)) == ["side", "k"]
    for wrong in ("1", -1, True, 1.0):
        with pytest.raises(Invalid, match="if_version"):
            run(work((1, None), (None, wrong)))  # type: ignore[arg-type]  # that is the point


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
