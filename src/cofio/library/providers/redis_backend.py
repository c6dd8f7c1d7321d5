"""A store and a checkpointer in Redis (the extra `redis`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ...values.records import check_int
from ..storage_backend import BackendCapabilities, StorageBackend
from .document_checkpointer import Clock
from .redis import RedisCheckpointer
from .redis_client import end_prefix
from .redis_store import RedisStore

__all__ = ["RedisBackend"]


class RedisBackend(StorageBackend):
    """Keeps items and checkpoints in a Redis server, each change in one atomic step.

    It is a BaseStore and a BaseCheckpointer. What it holds is as durable as the server was set up to be: with
    `appendonly yes` and `appendfsync always`, whatever was acknowledged. It needs one server, not a cluster.

    Args:
        url: Where the server is: `redis://`, `rediss://` or `unix://`.
        prefix: What the name of every key begins with, up to a colon; backends with different prefixes do not see each
            other. Checkpoints are behind `checkpoints:`, where RedisCheckpointer finds them too, items behind `store:`.
        ttl_seconds: How long what is saved or put lives; without it, for good.
        db: The number of the database, where the URL does not say.
        options: Anything else that `redis.Redis.from_url` takes, such as `socket_timeout`.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        prefix: str = "cofio:",
        ttl_seconds: int | None = None,
        db: int = 0,
        *,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        if ttl_seconds is not None:
            check_int("ttl_seconds", ttl_seconds, 1, 2**31)
        self.prefix = end_prefix(prefix)
        self.ttl_seconds = ttl_seconds
        self._store = RedisStore(url, f"{self.prefix}store:", ttl=ttl_seconds, db=db, clock=clock, **options)
        self._checkpointer = RedisCheckpointer(
            url, f"{self.prefix}checkpoints:", ttl_seconds, db, clock=clock, **options
        )

    @property
    def capabilities(self) -> BackendCapabilities:
        """Everything but vectors and transactions of several calls; a batch is one step."""
        return BackendCapabilities.combine(self._store.capabilities, self._checkpointer.capabilities)

    async def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value, in place of what the key held; the options are those of CofioStore.put."""
        await self._store.put(namespace, key, value, metadata, ttl=ttl, if_version=if_version)

    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._store.close()
        await self._checkpointer.close()

    async def _open_store(self) -> RedisStore:
        return self._store

    async def _open_checkpointer(self) -> RedisCheckpointer:
        return self._checkpointer

    def __repr__(self) -> str:
        return f"RedisBackend(prefix={self.prefix!r})"
