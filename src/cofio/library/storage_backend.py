"""A store and a checkpointer in one object, on one server: what the backends for production have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

from .checkpointer import BaseCheckpointer, CheckpointerCapabilities
from .store import BaseStore, StoreCapabilities, StoreItem

if TYPE_CHECKING:
    from .state import AgentState

__all__ = ["BackendCapabilities", "StorageBackend"]


@dataclass(frozen=True)
class BackendCapabilities(StoreCapabilities, CheckpointerCapabilities):
    """What a backend can do as a store and as a checkpointer; `search` and `ttl` hold for both."""

    @classmethod
    def combine(cls, store: StoreCapabilities, checkpointer: CheckpointerCapabilities) -> BackendCapabilities:
        """The capabilities of both."""
        own, other = asdict(store), asdict(checkpointer)
        return cls(**{**own, **other, **{name: own[name] and other[name] for name in own.keys() & other.keys()}})


class StorageBackend(BaseStore, BaseCheckpointer):
    """A BaseStore and a BaseCheckpointer: the same object goes wherever either is asked for.

    Both have a `delete`, an `exists` and a `search`. What is meant is told by the first argument: a namespace is a
    tuple, a thread (or a query for checkpoints) is a string; or by its keyword.
    """

    @property
    @abstractmethod
    def capabilities(self) -> BackendCapabilities:
        """What this backend can do, as a store and as a checkpointer."""

    @abstractmethod
    async def _open_store(self) -> BaseStore:
        """The store, opened when it is first asked for."""

    @abstractmethod
    async def _open_checkpointer(self) -> BaseCheckpointer:
        """The checkpointer, opened when it is first asked for."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""

    # Both.

    @overload
    async def delete(self, namespace: tuple[str, ...], key: str) -> bool: ...

    @overload
    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool: ...

    async def delete(self, *args: Any, **kwargs: Any) -> bool:
        """Forget a value, a checkpoint or, by its id alone, a thread; whether there was something to forget."""
        if _is_about_items(args, kwargs):
            return await (await self._open_store()).delete(*args, **kwargs)
        return await (await self._open_checkpointer()).delete(*args, **kwargs)

    @overload
    async def exists(self, namespace: tuple[str, ...], key: str) -> bool: ...

    @overload
    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool: ...

    async def exists(self, *args: Any, **kwargs: Any) -> bool:
        """Tell whether there is such a value, such a checkpoint or, by its id alone, such a thread."""
        if _is_about_items(args, kwargs):
            return await (await self._open_store()).exists(*args, **kwargs)
        return await (await self._open_checkpointer()).exists(*args, **kwargs)

    @overload
    async def search(
        self, namespace: tuple[str, ...], query: str | None = None, limit: int = 10
    ) -> list[StoreItem]: ...

    @overload
    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]: ...

    async def search(self, *args: Any, **kwargs: Any) -> Any:
        """Find items of a namespace, or checkpoints of any thread."""
        if _is_about_items(args, kwargs):
            return await (await self._open_store()).search(*args, **kwargs)
        return await (await self._open_checkpointer()).search(*args, **kwargs)

    # The store.

    async def get(self, namespace: tuple[str, ...], key: str) -> Any | None:
        """The value; None when the key holds nothing, or holds None."""
        return await (await self._open_store()).get(namespace, key)

    async def get_item(self, namespace: tuple[str, ...], key: str) -> StoreItem | None:
        """The value with its metadata, times and version; None when the key holds nothing."""
        return await (await self._open_store()).get_item(namespace, key)

    async def list_keys(self, namespace: tuple[str, ...], limit: int = 100) -> list[str]:
        """The keys of the namespace in the order in which they were first put."""
        return await (await self._open_store()).list_keys(namespace, limit)

    async def put_batch(self, items: list[tuple[tuple[str, ...], str, Any, dict[str, Any] | None]]) -> None:
        """Store all of the (namespace, key, value, metadata) items, or none."""
        await (await self._open_store()).put_batch(items)

    async def get_batch(self, keys: list[tuple[tuple[str, ...], str]]) -> dict[tuple[tuple[str, ...], str], Any]:
        """The values of those (namespace, key) pairs that hold one, all as of one moment."""
        return await (await self._open_store()).get_batch(keys)

    async def list_namespaces(self, prefix: tuple[str, ...] | None = None, limit: int = 100) -> list[tuple[str, ...]]:
        """The namespaces that hold items and begin with the names of `prefix`, sorted."""
        return await (await self._open_store()).list_namespaces(prefix, limit)

    async def clear_namespace(self, namespace: tuple[str, ...]) -> int:
        """Forget every item of the namespace, and none of those under it; how many there were."""
        return await (await self._open_store()).clear_namespace(namespace)

    # The checkpointer.

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Keep the state, and return the id of its checkpoint: the given one, or a new one."""
        return await (await self._open_checkpointer()).save(state, thread_id, checkpoint_id, metadata)

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """Load the state of a checkpoint, or without an id of the newest; None where there is none."""
        return await (await self._open_checkpointer()).load(thread_id, checkpoint_id)

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """List the ids of a thread's checkpoints, newest first."""
        return await (await self._open_checkpointer()).list_checkpoints(thread_id, limit)

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """Find the checkpoints, of all threads, whose metadata has this value under this key; newest first."""
        return await (await self._open_checkpointer()).query_by_metadata(key, value, limit)

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """Get the metadata that was saved with a checkpoint (the newest, without an id); None where there is none."""
        return await (await self._open_checkpointer()).get_metadata(thread_id, checkpoint_id)

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Forget the checkpoints that were saved longer ago than this, and return how many."""
        return await (await self._open_checkpointer()).vacuum(older_than_days)

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Save every checkpoint of a thread in another one too, under the same ids and in the same order."""
        return await (await self._open_checkpointer()).copy_thread(source_thread_id, dest_thread_id)

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """List the threads whose ids fit the pattern, the one saved to last first."""
        return await (await self._open_checkpointer()).list_threads(limit, pattern)

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """List checkpoints of all threads with their metadata, newest first."""
        return await (await self._open_checkpointer()).list_with_metadata(limit)


def _is_about_items(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call that a store and a checkpointer both have is for the store."""
    return "namespace" in kwargs or (bool(args) and not isinstance(args[0], str))
