"""Stores of values under a namespace and a key, which outlive a conversation: the interface, and one in memory."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

Namespace: TypeAlias = tuple[str, ...]
ItemToPut: TypeAlias = tuple[Namespace, str, Any, dict[str, Any] | None]

_PAGE = 10_000  # keys asked for at a time where a store has no better way to see all of them


@dataclass(frozen=True)
class StoreCapabilities:
    """What a store can do beyond putting, getting, deleting and listing keys."""

    search: bool = False
    """Finding items by words."""
    semantic_search: bool = False
    """Finding items by vectors."""
    embedding_dimension: int | None = None
    """The size that vectors must have; None when any will do, or there are none."""
    ttl: bool = False
    """Items that expire."""
    list_namespaces: bool = False
    batch_operations: bool = False
    """Batches that are stored as one."""
    transactions: bool = False
    """Changes of several items, made all together or not at all."""


class StoreCapabilityError(NotImplementedError):
    """A store was asked for something that it cannot do; `capability` names it."""

    def __init__(self, capability: str, store_class: str, hint: str | None = None) -> None:
        message = f"{store_class} does not support {capability!r}"
        super().__init__(f"{message}. {hint}" if hint else message)
        self.capability = capability
        self.store_class = store_class
        self.hint = hint


@dataclass
class StoreItem:
    """A stored value with what is known about it; `version` counts how often it was put."""

    namespace: tuple[str, ...]
    key: str
    value: Any
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    version: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The item as JSON values, given that its own are; times in ISO 8601."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "metadata": self.metadata,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "version": self.version,
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> StoreItem:
        """The item that `to_dict` gave this of; metadata and version may be missing."""
        return cls(
            namespace=tuple(d["namespace"]),
            key=d["key"],
            value=d["value"],
            metadata=d.get("metadata", {}),
            created_at=datetime.fromisoformat(d["created_at"]),
            updated_at=datetime.fromisoformat(d["updated_at"]),
            version=d.get("version", 1),
        )


@dataclass
class SemanticSearchResult:
    """An item that was found by its vector: how alike, from 0 to 1, and how far apart the two vectors are."""

    item: StoreItem
    score: float
    distance: float | None = None


class BaseStore(ABC):
    """What every store can do, and what it may say it can do in its `capabilities`.

    A store has four methods of its own at least; the others here stand on those, or say that they are not supported.
    A namespace is a tuple of names, of which none is empty, and holds its own items only: not those of a namespace
    that begins with it. None is a value like any other.
    """

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        return StoreCapabilities()

    @abstractmethod
    async def put(
        self, namespace: tuple[str, ...], key: str, value: Any, metadata: dict[str, Any] | None = None
    ) -> None:
        """Store a value and its metadata, in place of what the key held."""

    @abstractmethod
    async def get(self, namespace: tuple[str, ...], key: str) -> Any | None:
        """The value; None when the key holds nothing, or holds None."""

    @abstractmethod
    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        """Forget a value; whether there was one."""

    @abstractmethod
    async def list_keys(self, namespace: tuple[str, ...], limit: int = 100) -> list[str]:
        """The keys of a namespace, `limit` at most."""

    async def exists(self, namespace: tuple[str, ...], key: str) -> bool:
        """Whether the key holds a value, be it None."""
        if await self.get(namespace, key) is not None:
            return True
        limit = _PAGE
        while len(keys := await self.list_keys(namespace, limit)) >= limit and key not in keys:
            limit *= 10
        return key in keys

    async def get_item(self, namespace: tuple[str, ...], key: str) -> StoreItem | None:
        """The value with what is known about it; a store that keeps no times gives the present one."""
        value = await self.get(namespace, key)
        if value is None and not await self.exists(namespace, key):
            return None
        now = datetime.now(UTC)
        return StoreItem(namespace, key, value, {}, now, now)

    async def search(self, namespace: tuple[str, ...], query: str | None = None, limit: int = 10) -> list[StoreItem]:
        """Items of the namespace that answer the query, `limit` at most; without a query, any.

        Raises:
            StoreCapabilityError: the store cannot search.
        """
        raise StoreCapabilityError(
            "search",
            type(self).__name__,
            "Choose a backend that advertises capabilities.search (e.g., InMemoryStore, CofioStore).",
        )

    async def put_with_embedding(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        embedding: list[float],
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Store a value with a vector that it is found by.

        Raises:
            StoreCapabilityError: the store keeps no vectors.
        """
        raise StoreCapabilityError(
            "semantic_search",
            type(self).__name__,
            "Use put() for plain storage, or pick a vector-capable backend.",
        )

    async def search_by_embedding(
        self,
        namespace: tuple[str, ...],
        query_embedding: list[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[SemanticSearchResult]:
        """Items of the namespace whose vectors are most like the query's, the most alike first.

        None has a score below the `threshold`, and each has what the `metadata_filter` holds in its metadata.

        Raises:
            StoreCapabilityError: the store keeps no vectors.
        """
        raise StoreCapabilityError(
            "semantic_search", type(self).__name__, "Pick a vector-capable backend (e.g., CofioStore)."
        )

    async def get_embedding(self, namespace: tuple[str, ...], key: str) -> list[float] | None:
        """The vector that came with the item; None when there is none.

        Raises:
            StoreCapabilityError: the store keeps no vectors.
        """
        raise StoreCapabilityError("semantic_search", type(self).__name__)

    async def put_batch(self, items: list[tuple[tuple[str, ...], str, Any, dict[str, Any] | None]]) -> None:
        """Store (namespace, key, value, metadata) items, one by one unless the store has batches of its own."""
        for namespace, key, value, metadata in items:
            await self.put(namespace, key, value, metadata)

    async def get_batch(self, keys: list[tuple[tuple[str, ...], str]]) -> dict[tuple[tuple[str, ...], str], Any]:
        """The values of those (namespace, key) pairs that hold one."""
        found = {}
        for namespace, key in keys:
            value = await self.get(namespace, key)
            if value is not None or await self.exists(namespace, key):
                found[namespace, key] = value
        return found

    async def list_namespaces(self, prefix: tuple[str, ...] | None = None, limit: int = 100) -> list[tuple[str, ...]]:
        """The namespaces that hold items and begin with the names of `prefix`, `limit` at most.

        Raises:
            StoreCapabilityError: the store cannot list them.
        """
        raise StoreCapabilityError("list_namespaces", type(self).__name__)

    async def clear_namespace(self, namespace: tuple[str, ...]) -> int:
        """Forget every item of the namespace; how many there were."""
        count = 0
        while keys := await self.list_keys(namespace, _PAGE):
            deleted = [await self.delete(namespace, key) for key in keys]
            if not any(deleted):
                break
            count += sum(deleted)
        return count

    async def close(self) -> None:  # noqa: B027  # most stores have nothing to close
        """Close what the store holds open."""


class InMemoryStore(BaseStore):
    """A store that lasts as long as it is referred to, for tests and for trying things out.

    It keeps copies, so what a caller does to a value after the put, or to one that it got, changes nothing here. What
    cannot be copied, such as a lock or a client with open connections, is kept and given back itself.
    It may be used from many threads and event loops.
    """

    def __init__(self) -> None:
        self._items: dict[tuple[str, ...], dict[str, StoreItem]] = {}
        self._lock = threading.Lock()  # never held across an await

    @property
    def capabilities(self) -> StoreCapabilities:
        """Searching, listing namespaces, and batches."""
        return StoreCapabilities(search=True, list_namespaces=True, batch_operations=True)

    async def put(
        self, namespace: tuple[str, ...], key: str, value: Any, metadata: dict[str, Any] | None = None
    ) -> None:
        """Store a copy of the value and of its metadata."""
        await self.put_batch([(namespace, key, value, metadata)])

    async def get(self, namespace: tuple[str, ...], key: str) -> Any | None:
        """A copy of the value; None when the key holds nothing, or holds None."""
        item = await self.get_item(namespace, key)
        return None if item is None else item.value

    async def get_item(self, namespace: tuple[str, ...], key: str) -> StoreItem | None:
        """A copy of the item; None when the key holds nothing."""
        check_namespace(namespace)
        check_key(key)
        with self._lock:
            item = self._items.get(namespace, {}).get(key)
        return None if item is None else _copy_item(item)

    async def exists(self, namespace: tuple[str, ...], key: str) -> bool:
        """Whether the key holds a value, be it None."""
        check_namespace(namespace)
        check_key(key)
        with self._lock:
            return key in self._items.get(namespace, {})

    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        """Forget a value; whether there was one."""
        check_namespace(namespace)
        check_key(key)
        with self._lock:
            stored = self._items.get(namespace, {})
            found = stored.pop(key, None) is not None
            if found and not stored:
                del self._items[namespace]
            return found

    async def list_keys(self, namespace: tuple[str, ...], limit: int = 100) -> list[str]:
        """The keys of the namespace in the order in which they were first put."""
        check_namespace(namespace)
        check_limit(limit)
        with self._lock:
            return list(self._items.get(namespace, {}))[:limit]

    async def search(self, namespace: tuple[str, ...], query: str | None = None, limit: int = 10) -> list[StoreItem]:
        """Items whose value or metadata, written as JSON, holds the query, upper and lower case alike.

        They come in the order in which they were first put; without a query, all do.
        """
        check_namespace(namespace)
        check_query(query)
        check_limit(limit)
        folded = (query or "").casefold()
        with self._lock:
            stored = list(self._items.get(namespace, {}).values())
        found = (item for item in stored if not folded or _holds(item, folded))
        return [_copy_item(item) for item, _ in zip(found, range(limit), strict=False)]

    async def put_batch(self, items: list[tuple[tuple[str, ...], str, Any, dict[str, Any] | None]]) -> None:
        """Store all of the (namespace, key, value, metadata) items, or none when one of them is wrong."""
        now = datetime.now(UTC)
        fresh = [
            _copy_item(StoreItem(namespace, key, value, metadata or {}, now, now))
            for namespace, key, value, metadata in check_batch(items)
        ]
        with self._lock:
            for item in fresh:
                stored = self._items.setdefault(item.namespace, {})
                old = stored.get(item.key)
                if old is not None:
                    item = replace(item, created_at=old.created_at, version=old.version + 1)
                stored[item.key] = item

    async def list_namespaces(self, prefix: tuple[str, ...] | None = None, limit: int = 100) -> list[tuple[str, ...]]:
        """The namespaces that hold items and begin with the names of `prefix`, sorted."""
        start = () if prefix is None else prefix
        check_namespace(start)
        check_limit(limit)
        with self._lock:
            return sorted(each for each in self._items if each[: len(start)] == start)[:limit]

    async def clear_namespace(self, namespace: tuple[str, ...]) -> int:
        """Forget every item of the namespace; how many there were."""
        check_namespace(namespace)
        with self._lock:
            return len(self._items.pop(namespace, {}))


class NamespacedStore:
    """A store seen from one namespace, which need not be named again."""

    def __init__(self, store: BaseStore, namespace: tuple[str, ...]) -> None:
        check_namespace(namespace)
        self._store = store
        self._namespace = namespace

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace that every call is about."""
        return self._namespace

    def scoped(self, *suffix: str) -> NamespacedStore:
        """The same store seen from a namespace under this one."""
        return NamespacedStore(self._store, (*self._namespace, *suffix))

    async def put(self, key: str, value: Any, metadata: dict[str, Any] | None = None) -> None:
        """Store a value, in place of what the key held."""
        await self._store.put(self._namespace, key, value, metadata)

    async def get(self, key: str) -> Any | None:
        """The value; None when the key holds nothing, or holds None."""
        return await self._store.get(self._namespace, key)

    async def delete(self, key: str) -> bool:
        """Forget a value; whether there was one."""
        return await self._store.delete(self._namespace, key)

    async def list_keys(self, limit: int = 100) -> list[str]:
        """The keys of the namespace, `limit` at most."""
        return await self._store.list_keys(self._namespace, limit)

    async def exists(self, key: str) -> bool:
        """Whether the key holds a value, be it None."""
        return await self._store.exists(self._namespace, key)

    async def search(self, query: str | None = None, limit: int = 10) -> list[StoreItem]:
        """Items of the namespace that answer the query, `limit` at most.

        Raises:
            StoreCapabilityError: the store cannot search.
        """
        return await self._store.search(self._namespace, query, limit)

    async def clear(self) -> int:
        """Forget every item of the namespace; how many there were."""
        return await self._store.clear_namespace(self._namespace)


class StoreContext:
    """A store as a step of an agent sees it: for this user, in this session.

    A user's memories are in the namespace ("users", user_id, "memories"), values for everyone in ("global",).
    """

    def __init__(self, store: BaseStore, user_id: str | None = None, session_id: str | None = None) -> None:
        self._store = store
        self._user_id = user_id
        self._session_id = session_id

    @property
    def store(self) -> BaseStore:
        """The whole store."""
        return self._store

    def for_user(self, user_id: str | None = None) -> NamespacedStore:
        """The store seen from ("users", user_id); the context's user unless another is named.

        Raises:
            ValueError: neither names a user.
        """
        chosen = user_id or self._user_id
        if not chosen:
            raise ValueError("user_id must be provided or set in context")
        return NamespacedStore(self._store, ("users", chosen))

    def for_session(self, session_id: str | None = None) -> NamespacedStore:
        """The store seen from ("sessions", session_id); the context's session unless another is named.

        Raises:
            ValueError: neither names a session.
        """
        chosen = session_id or self._session_id
        if not chosen:
            raise ValueError("session_id must be provided or set in context")
        return NamespacedStore(self._store, ("sessions", chosen))

    async def get_user_memory(self, key: str) -> Any | None:
        """A memory of the user; None when there is none, or no user."""
        return await self._store.get(self._memories(), key) if self._user_id else None

    async def remember(self, key: str, value: Any, metadata: dict[str, Any] | None = None) -> None:
        """Keep a memory for the user.

        Raises:
            ValueError: the context has no user.
        """
        await self._store.put(self._memories(), key, value, metadata)

    async def forget(self, key: str) -> bool:
        """Delete a memory of the user; whether there was one."""
        return await self._store.delete(self._memories(), key) if self._user_id else False

    async def search_memories(self, query: str, limit: int = 10) -> list[StoreItem]:
        """The user's memories that answer the query; none without a user."""
        return await self._store.search(self._memories(), query, limit) if self._user_id else []

    async def remember_with_embedding(
        self, key: str, value: Any, embedding: list[float], metadata: dict[str, Any] | None = None
    ) -> None:
        """Keep a memory for the user with a vector that it is found by.

        Raises:
            ValueError: the context has no user.
            StoreCapabilityError: the store keeps no vectors.
        """
        await self._store.put_with_embedding(self._memories(), key, value, embedding, metadata)

    async def search_memories_semantic(
        self, query_embedding: list[float], limit: int = 10, threshold: float | None = None
    ) -> list[SemanticSearchResult]:
        """The user's memories whose vectors are most like this one, none with a score below the threshold.

        Raises:
            StoreCapabilityError: the store keeps no vectors.
        """
        if not self._user_id:
            return []
        return await self._store.search_by_embedding(self._memories(), query_embedding, limit, threshold)

    async def get_global(self, key: str) -> Any | None:
        """A value that is everyone's."""
        return await self._store.get(("global",), key)

    async def set_global(self, key: str, value: Any, metadata: dict[str, Any] | None = None) -> None:
        """Keep a value for everyone."""
        await self._store.put(("global",), key, value, metadata)

    def _memories(self) -> Namespace:
        if not self._user_id:
            raise ValueError("No user_id set in store context")
        return ("users", self._user_id, "memories")


def check_namespace(namespace: object) -> None:
    """Raise TypeError unless `namespace` is a tuple of strings, and ValueError when one of them is empty."""
    if not isinstance(namespace, tuple):
        raise TypeError(f"namespace: expected a tuple of strings, got {type(namespace).__name__}")
    for name in namespace:
        if not isinstance(name, str):
            raise TypeError(f"namespace: expected a tuple of strings, got {type(name).__name__} in it")
        if not name:
            raise ValueError(f"namespace: {namespace!r} has an empty name in it")


def check_key(key: object) -> None:
    """Raise TypeError unless `key` is a string."""
    if not isinstance(key, str):
        raise TypeError(f"key: expected a string, got {type(key).__name__}")


def check_metadata(metadata: object) -> None:
    """Raise TypeError unless `metadata` is None or a dict."""
    if metadata is not None and not isinstance(metadata, dict):
        raise TypeError(f"metadata: expected a dict or None, got {type(metadata).__name__}")


def check_query(query: object) -> None:
    """Raise TypeError unless `query` is None or a string."""
    if query is not None and not isinstance(query, str):
        raise TypeError(f"query: expected a string or None, got {type(query).__name__}")


def check_limit(limit: object) -> None:
    """Raise TypeError unless `limit` is a whole number, and ValueError when it is below 0."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit: expected a whole number, got {type(limit).__name__}")
    if limit < 0:
        raise ValueError(f"limit: {limit} is below 0")


def check_batch(items: Sequence[ItemToPut]) -> list[ItemToPut]:
    """The items of a batch, each of which is sound; raises TypeError or ValueError for the first that is not."""
    batch = list(items)
    for item in batch:
        if not isinstance(item, tuple | list) or len(item) != 4:
            raise TypeError("items: expected (namespace, key, value, metadata) tuples")
        check_namespace(item[0])
        check_key(item[1])
        check_metadata(item[3])
    return batch


def _copy_item(item: StoreItem) -> StoreItem:
    """The item with copies of its value and metadata."""
    return replace(item, value=_copy_value(item.value), metadata=_copy_value(item.metadata))


def _copy_value(value: Any) -> Any:
    """A copy of a value, in which what cannot be copied is itself."""
    try:
        return _copy_part(value, {})
    except RecursionError:
        return value


def _copy_part(value: Any, copies: dict[int, Any]) -> Any:
    try:
        return deepcopy(value)
    except RecursionError:
        raise
    except Exception:  # whatever anybody's class raises when it is copied
        return _copy_parts(value, copies)


def _copy_parts(value: Any, copies: dict[int, Any]) -> Any:
    """A copy of a list, dict, tuple or set with copies of those parts that can be copied; anything else itself."""
    if id(value) in copies:
        return copies[id(value)]
    copy: Any
    if type(value) is dict:
        copy = copies[id(value)] = {}
        copy.update((key, _copy_part(inner, copies)) for key, inner in value.items())
    elif type(value) is list:
        copy = copies[id(value)] = []
        copy.extend(_copy_part(inner, copies) for inner in value)
    elif type(value) is tuple:
        copy = tuple(_copy_part(inner, copies) for inner in value)
    elif type(value) is set:
        copy = {_copy_part(inner, copies) for inner in value}
    else:
        copy = value
    return copy


def _holds(item: StoreItem, folded: str) -> bool:
    return folded in _render_json(item.value).casefold() or folded in _render_json(item.metadata).casefold()


def _render_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # nothing that this store took may break the search for others
        return repr(value)
