"""Servers and backends that the tests of the library share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest

from cofio import Settings
from cofio.library.providers.postgresql import PostgreSQLBackend
from cofio.library.providers.redis_backend import RedisBackend
from cofio.library.store import BaseStore

from .. import postgres, servers

QUIET = Settings(background=False, embedder="none", sync="normal")


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def redis_url(process: None) -> Iterator[str]:
    """The URL of a Redis server."""
    with servers.redis() as url:
        yield url


@pytest.fixture
def redis_backend(redis_url: str) -> Iterator[RedisBackend]:
    """An empty backend in Redis."""
    backend = RedisBackend(redis_url, prefix=uuid4().hex)
    yield backend
    asyncio.run(backend.close())


@pytest.fixture(scope="session")
def _shared_memory(process: None) -> Iterator[PostgreSQLBackend]:
    """A backend on PostgreSQL that tests use one after the other: to make its tables takes longer than a test."""
    backend = PostgreSQLBackend(dsn=postgres.find_url(), schema="library_backend", settings=QUIET)
    yield backend
    asyncio.run(backend.close())


@pytest.fixture
def postgresql_backend(_shared_memory: PostgreSQLBackend) -> Iterator[PostgreSQLBackend]:
    """A backend on PostgreSQL without items."""
    yield _shared_memory
    asyncio.run(clear(_shared_memory))


async def clear(store: BaseStore) -> None:
    """Forget every item of a store."""
    for namespace in await store.list_namespaces(limit=100_000):
        await store.clear_namespace(namespace)
