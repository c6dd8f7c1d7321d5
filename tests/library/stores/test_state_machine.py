"""Any sequence of calls leaves a store as the same calls leave a plain dict."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from cofio import Engine, Json, Settings
from cofio.library.cofio_store import CofioStore
from cofio.library.store import BaseStore, InMemoryStore

from ...conftest import Stores
from ..conftest import clear
from .conftest import BACKENDS

T = TypeVar("T")
names = st.sampled_from(["a", "b", "a/b", "a:b", "%", "*", "store", "é"])
namespaces = st.lists(names, max_size=3).map(tuple)
keys = st.sampled_from(["", "k", "a:k", "b", "'", "☃"])
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
metadatas = st.none() | st.dictionaries(texts, values, max_size=2)


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dict of (namespace, key) to (value, metadata, version), in the order of the first put."""

    store: BaseStore

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model: dict[tuple[tuple[str, ...], str], tuple[Json, dict[str, Json], int]] = {}

    def teardown(self) -> None:
        """Let go of the loop."""
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(call)

    def note(self, namespace: tuple[str, ...], key: str, value: Json, metadata: dict[str, Json] | None) -> None:
        """Put it into the dict."""
        version = self.model[namespace, key][2] if (namespace, key) in self.model else 0
        self.model[namespace, key] = (copy.deepcopy(value), copy.deepcopy(metadata or {}), version + 1)

    def held(self, namespace: tuple[str, ...]) -> list[str]:
        """The keys that the dict has there."""
        return [key for space, key in self.model if space == namespace]

    @rule(namespace=namespaces, key=keys, value=values, metadata=metadatas)
    def put(self, namespace: tuple[str, ...], key: str, value: Json, metadata: dict[str, Json] | None) -> None:
        """One put."""
        self.run(self.store.put(namespace, key, value, metadata))
        self.note(namespace, key, value, metadata)

    @rule(batch=st.lists(st.tuples(namespaces, keys, values, metadatas), max_size=4))
    def put_batch(self, batch: list[tuple[tuple[str, ...], str, Json, dict[str, Json] | None]]) -> None:
        """Several puts."""
        self.run(self.store.put_batch(batch))
        for item in batch:
            self.note(*item)

    @rule(namespace=namespaces, key=keys)
    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """One deletion."""
        assert self.run(self.store.delete(namespace, key)) == ((namespace, key) in self.model)
        self.model.pop((namespace, key), None)

    @rule(namespace=namespaces)
    def clear(self, namespace: tuple[str, ...]) -> None:
        """Every deletion of a namespace."""
        doomed = self.held(namespace)
        assert self.run(self.store.clear_namespace(namespace)) == len(doomed)
        for key in doomed:
            del self.model[namespace, key]

    @rule(namespace=namespaces, key=keys, limit=st.integers(0, 4))
    def look(self, namespace: tuple[str, ...], key: str, limit: int) -> None:
        """What one namespace and key hold."""
        value, metadata, version = self.model.get((namespace, key), (None, None, 0))
        assert repr(self.run(self.store.get(namespace, key))) == repr(value)
        item = self.run(self.store.get_item(namespace, key))
        assert (item is not None) == self.run(self.store.exists(namespace, key)) == bool(version)
        if item is not None:
            assert (item.namespace, item.key, item.metadata, item.version) == (namespace, key, metadata, version)
        assert self.run(self.store.list_keys(namespace, limit)) == self.held(namespace)[:limit]
        found = self.run(self.store.search(namespace, limit=limit))
        assert [(each.namespace, each.key) for each in found] == [(namespace, k) for k in self.held(namespace)[:limit]]
        under = sorted({space for space, _ in self.model if space[: len(namespace)] == namespace})
        assert self.run(self.store.list_namespaces(namespace, limit)) == under[:limit]

    @invariant()
    def all_is_as_in_the_dict(self) -> None:
        """Everything, at once."""
        everything = self.run(self.store.get_batch(list(self.model)))
        assert everything == {place: value for place, (value, _, _) in self.model.items()}
        assert self.run(self.store.list_namespaces(limit=1000)) == sorted({space for space, _ in self.model})


class InMemoryMachine(StoreMachine):
    """The store in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.store = InMemoryStore()


class CofioMachine(StoreMachine):
    """The durable store."""

    stores: ClassVar[Stores]

    def __init__(self) -> None:
        super().__init__()
        self.address = self.stores.new()
        self.engine = Engine.open(self.address, settings=Settings(background=False, embedder="none", sync="normal"))
        self.store = CofioStore(self.engine)

    def teardown(self) -> None:
        """Let go of the engine too."""
        super().teardown()
        self.engine.close()
        self.stores.remove(self.address)


USUAL = settings(max_examples=25, stateful_step_count=20, deadline=None)


@pytest.mark.requirement("store.model")
def test_a_store_in_memory_is_a_dict() -> None:
    run_state_machine_as_test(InMemoryMachine, settings=USUAL)


@pytest.mark.requirement("store.model")
def test_a_store_is_a_dict(stores: Stores) -> None:
    chosen = settings(USUAL, max_examples=stores.scale(USUAL.max_examples))
    run_state_machine_as_test(type("CofioMachine", (CofioMachine,), {"stores": stores}), settings=chosen)


@pytest.mark.requirement("store.model")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_is_a_dict(backend: str, request: pytest.FixtureRequest) -> None:
    shared: BaseStore = request.getfixturevalue(backend)

    class BackendMachine(StoreMachine):
        """A backend, which is empty again at the end."""

        def __init__(self) -> None:
            super().__init__()
            self.store = shared

        def teardown(self) -> None:
            """Leave nothing for the next."""
            self.run(clear(shared))
            super().teardown()

    examples = 25 if backend == "redis_backend" else 6
    run_state_machine_as_test(BackendMachine, settings=settings(USUAL, max_examples=examples))
