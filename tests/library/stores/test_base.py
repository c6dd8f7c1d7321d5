"""What a store of one's own inherits, and what the one in memory cannot do."""

from __future__ import annotations

from asyncio import run
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import pytest

from cofio.library import store as stores
from cofio.library.store import (
    BaseStore,
    InMemoryStore,
    SemanticSearchResult,
    StoreCapabilities,
    StoreCapabilityError,
    StoreContext,
    StoreItem,
)

NS = ("a",)


class Smallest(BaseStore):
    """A store with the four methods that every store has, and no others."""

    def __init__(self) -> None:
        self.held: dict[tuple[tuple[str, ...], str], Any] = {}

    async def put(
        self, namespace: tuple[str, ...], key: str, value: Any, metadata: dict[str, Any] | None = None
    ) -> None:
        """Store a value."""
        self.held[namespace, key] = value

    async def get(self, namespace: tuple[str, ...], key: str) -> Any | None:
        """The value."""
        return self.held.get((namespace, key))

    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        """Forget a value."""
        return self.held.pop((namespace, key), self) is not self

    async def list_keys(self, namespace: tuple[str, ...], limit: int = 100) -> list[str]:
        """The keys."""
        return [key for space, key in self.held if space == namespace][:limit]


@pytest.mark.requirement("store-base.abstract", "store-base.capabilities", "store.semantic-result")
def test_a_store_needs_four_methods_and_can_do_nothing_more_unless_it_says_so() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BaseStore()  # type: ignore[abstract]
    assert BaseStore.__abstractmethods__ == {"put", "get", "delete", "list_keys"}
    assert Smallest().capabilities == StoreCapabilities()
    assert StoreCapabilities() == StoreCapabilities(
        search=False, semantic_search=False, embedding_dimension=None, ttl=False, list_namespaces=False,
        batch_operations=False, transactions=False,
    )  # fmt: skip
    with pytest.raises(AttributeError):
        StoreCapabilities().search = True  # type: ignore[misc]
    item = StoreItem(NS, "k", 1, {}, datetime.now(UTC), datetime.now(UTC))
    assert item.version == 1
    assert SemanticSearchResult(item, 0.5).distance is None
    assert SemanticSearchResult(item=item, score=0.5, distance=0.2).distance == 0.2


@pytest.mark.requirement("store-base.defaults")
def test_the_other_methods_stand_on_the_four() -> None:
    store = Smallest()
    run(store.put_batch([(NS, "a", 1, None), (NS, "none", None, {"m": 1})]))
    assert run(store.exists(NS, "a"))
    assert run(store.exists(NS, "none"))
    assert not run(store.exists(NS, "b"))
    before = datetime.now(UTC)
    item = run(store.get_item(NS, "none"))
    assert item is not None
    assert (item.namespace, item.key, item.value, item.metadata, item.version) == (NS, "none", None, {}, 1)
    assert before <= item.created_at == item.updated_at
    assert run(store.get_item(NS, "b")) is None
    assert run(store.get_batch([(NS, "a"), (NS, "none"), (NS, "b")])) == {(NS, "a"): 1, (NS, "none"): None}
    assert run(store.clear_namespace(NS)) == 2
    run(store.close())


@pytest.mark.requirement("store-base.clear-all", "store-base.clear-stuck")
def test_clearing_goes_on_over_pages_and_ends_when_nothing_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(Smallest):
        async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
            """Forget nothing."""
            return False

    monkeypatch.setattr(stores, "_PAGE", 3)
    store, stuck = Smallest(), Stuck()
    for number in range(100):
        run(store.put(NS, str(number), None))
    assert run(store.exists(NS, "99"))
    assert not run(store.exists(NS, "100"))
    assert run(store.clear_namespace(NS)) == 100
    assert store.held == {}
    run(stuck.put(NS, "k", 1))
    assert run(stuck.clear_namespace(NS)) == 0


CANNOT = {
    "search": ("search", "Choose a backend that advertises capabilities.search (e.g., InMemoryStore, CofioStore)."),
    "put_with_embedding": ("semantic_search", "Use put() for plain storage, or pick a vector-capable backend."),
    "search_by_embedding": ("semantic_search", "Pick a vector-capable backend (e.g., CofioStore)."),
    "get_embedding": ("semantic_search", None),
    "list_namespaces": ("list_namespaces", None),
}
CALLS: dict[str, tuple[Any, ...]] = {
    "search": (NS,), "put_with_embedding": (NS, "k", 1, [1.0]), "search_by_embedding": (NS, [1.0]),
    "get_embedding": (NS, "k"), "list_namespaces": (),
}  # fmt: skip


@pytest.mark.requirement("store-base.capability-error")
@pytest.mark.parametrize("method", CANNOT)
def test_what_a_store_cannot_do_is_said_by_name(method: str) -> None:
    capability, hint = CANNOT[method]
    with pytest.raises(StoreCapabilityError) as caught:
        run(getattr(Smallest(), method)(*CALLS[method]))
    error = caught.value
    assert isinstance(error, NotImplementedError)
    assert (error.capability, error.store_class, error.hint) == (capability, "Smallest", hint)
    said = f"Smallest does not support '{capability}'"
    assert str(error) == (f"{said}. {hint}" if hint else said)


@pytest.mark.requirement("store-memory.no-vectors", "store-memory.capabilities")
def test_the_store_in_memory_keeps_no_vectors() -> None:
    store = InMemoryStore()
    context = StoreContext(store, user_id="u")
    assert store.capabilities == StoreCapabilities(search=True, list_namespaces=True, batch_operations=True)
    for call in (store.put_with_embedding(NS, "k", 1, [1.0]), context.remember_with_embedding("k", 1, [1.0])):
        with pytest.raises(StoreCapabilityError) as caught:
            run(call)
        assert str(caught.value) == (
            "InMemoryStore does not support 'semantic_search'. Use put() for plain storage, or pick a vector-capable"
            " backend."
        )
    for read in (context.search_memories_semantic([1.0]), store.get_embedding(NS, "k")):
        with pytest.raises(StoreCapabilityError):
            run(read)
    assert run(store.list_namespaces()) == []


@pytest.mark.requirement("store-memory.any-value", "store-memory.substring", "store-memory.loops")
def test_the_store_in_memory_takes_any_value_and_searches_by_parts_of_words() -> None:
    store = InMemoryStore()
    knot: list[Any] = []
    knot.append(knot)
    run(store.put(NS, "time", datetime(2026, 1, 2, tzinfo=UTC)))
    run(store.put(NS, "knot", knot))
    run(store.put(NS, "set", {"needle"}))
    run(store.put(NS, "pairs", {(1, 2): "needle"}))
    run(store.put(NS, "a", {"city": "Zürich"}))
    run(store.put(NS, "b", 7234, {"Ü": None}))
    assert run(store.get(NS, "time")) == datetime(2026, 1, 2, tzinfo=UTC)
    for query, found in (
        ("needle", ["set", "pairs"]), ("2026-01-02", ["time"]), ("ZÜR", ["a"]), ("23", ["b"]), ("ü", ["a", "b"]),
    ):  # fmt: skip
        assert [item.key for item in run(store.search(NS, query))] == found


@pytest.mark.requirement("store-memory.uncopied")
def test_the_store_in_memory_keeps_what_cannot_be_copied_itself() -> None:
    class Stubborn:
        def __deepcopy__(self, memo: dict[int, Any]) -> Stubborn:
            raise RuntimeError("there is only one of me")

    store = InMemoryStore()
    lock, stubborn = Lock(), Stubborn()
    generator = (number for number in range(3))
    for value in (lock, stubborn, generator):
        run(store.put(NS, "k", value, {"by": value}))
        assert run(store.get(NS, "k")) is value
        item = run(store.get_item(NS, "k"))
        assert item is not None
        assert item.metadata["by"] is value
        assert run(store.search(NS))[0].value is value
        assert run(store.get_batch([(NS, "k")]))[NS, "k"] is value
    # What is around it is copied all the same.
    numbers, more = [1], [2]
    run(store.put(NS, "k", {"list": numbers, "pair": (more, lock), "several": {lock}, "deep": [[stubborn, [3]]]}))
    numbers.append(2)
    more.append(3)
    for _ in range(2):
        got: Any = run(store.get(NS, "k"))
        assert got == {"list": [1], "pair": ([2], lock), "several": {lock}, "deep": [[stubborn, [3]]]}
        got["deep"][0][1].append(4)
    knot: list[Any] = [lock]
    knot.append(knot)
    run(store.put(NS, "knot", knot))
    tied: Any = run(store.get(NS, "knot"))
    assert tied is not knot
    assert tied[0] is lock
    assert tied[1] is tied
    deep: list[Any] = [lock]
    for _ in range(100_000):
        deep = [deep]
    run(store.put(NS, "deep", deep))
    assert run(store.get(NS, "deep")) is deep
