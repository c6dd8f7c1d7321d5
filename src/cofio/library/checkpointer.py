"""What keeps the states of an agent between its runs: the contract of every checkpointer, and what it may leave out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from .state import AgentState

__all__ = ["BaseCheckpointer", "CheckpointerCapabilities"]


@dataclass(frozen=True, slots=True)
class CheckpointerCapabilities:
    """What a checkpointer can do beside saving, loading and listing; everything is off until it says so."""

    search: bool = False
    """`search`: find checkpoints by the words in them."""
    metadata_query: bool = False
    """`query_by_metadata` and `get_metadata`."""
    vacuum: bool = False
    """`vacuum`: forget what is older than some days."""
    branching: bool = False
    """`copy_thread`: go on from a copy of a thread."""
    ttl: bool = False
    """Checkpoints can be given a time to live, after which they are gone."""
    list_threads: bool = False
    """`list_threads`."""
    list_with_metadata: bool = False
    """`list_with_metadata`."""
    persistent_checkpoint_ids: bool = False
    """An id that `save` returned finds its checkpoint in another process too."""

    @classmethod
    def all_but(cls, *missing: str) -> CheckpointerCapabilities:
        """Every capability but these."""
        return cls(**{each.name: each.name not in missing for each in fields(cls)})


class BaseCheckpointer(ABC):
    """Saves the state of an agent under a thread, and loads it again: the latest, or any by its id.

    A checkpointer has at least `save`, `load` and `list_checkpoints`. What else it has stands in `capabilities`; a
    method that it does not have raises NotImplementedError, with the name of the capability. All of them are
    coroutines, also where the storage is not. Used with `async with`, it is closed at the end.
    """

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """What this checkpointer can do; nothing beyond the basics, unless a subclass says more."""
        return CheckpointerCapabilities()

    @abstractmethod
    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Keep the state, and return the id of its checkpoint: the given one, or without one (or an empty one) a new.

        A checkpoint of that id in the thread is replaced, and becomes the newest.
        """

    @abstractmethod
    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """Load a state: that of the checkpoint, or without an id the newest of the thread; None where there is none."""

    @abstractmethod
    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """List the ids of a thread's checkpoints, newest first."""

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Forget a checkpoint, or without an id the whole thread; whether there was something to forget."""
        raise NotImplementedError("delete not implemented for this backend")

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Tell whether there is such a checkpoint, or without an id any in the thread."""
        if checkpoint_id is None:
            return bool(await self.list_checkpoints(thread_id, limit=1))
        return await self.load(thread_id, checkpoint_id) is not None

    async def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Close connections and files; a checkpointer without any does nothing."""

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Find checkpoints that hold all words of the query, the best first.

        Each is a dict with `thread_id`, `checkpoint_id`, `created_at`, `metadata` and `score`.
        Needs `capabilities.search`.
        """
        self._require_capability("search")
        raise NotImplementedError("search not implemented")

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """Find the checkpoints, of all threads, whose metadata has this value under this key; newest first.

        Each is a dict with `thread_id`, `checkpoint_id`, `created_at` and `metadata`.
        Needs `capabilities.metadata_query`.
        """
        self._require_capability("metadata_query")
        raise NotImplementedError("query_by_metadata not implemented")

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """Get the metadata that was saved with a checkpoint (the newest, without an id); None where there is none.

        Needs `capabilities.metadata_query`.
        """
        self._require_capability("metadata_query")
        raise NotImplementedError("get_metadata not implemented")

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Forget the checkpoints that were saved longer ago than this, and return how many.

        Needs `capabilities.vacuum`.
        """
        self._require_capability("vacuum")
        raise NotImplementedError("vacuum not implemented")

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Save every checkpoint of a thread in another one too, under the same ids and in the same order.

        False, and nothing done, where the source has none. Needs `capabilities.branching`.

        Raises:
            Invalid: There are checkpoints in the other one already.
        """
        self._require_capability("branching")
        raise NotImplementedError("copy_thread not implemented")

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """List the threads that have checkpoints, the one saved to last first; `pattern` is a glob such as `user-*`.

        Needs `capabilities.list_threads`.
        """
        self._require_capability("list_threads")
        raise NotImplementedError("list_threads not implemented")

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """List the checkpoints of all threads, newest first, in the form that `query_by_metadata` has.

        Needs `capabilities.list_with_metadata`.
        """
        self._require_capability("list_with_metadata")
        raise NotImplementedError("list_with_metadata not implemented")

    def _require_capability(self, capability: str) -> None:
        """Raise NotImplementedError unless `capabilities` has this one."""
        if not getattr(self.capabilities, capability, False):
            raise NotImplementedError(
                f"{type(self).__name__} does not support '{capability}'. "
                f"Check capabilities before calling: checkpointer.capabilities.{capability}"
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
