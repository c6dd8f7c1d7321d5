"""The stores that keep the same contract."""

from __future__ import annotations

import pytest

from cofio import Engine
from cofio.library.cofio_store import CofioStore
from cofio.library.store import BaseStore, InMemoryStore

BACKENDS = ("redis_backend", "postgresql_backend")
"""Those that are a checkpointer too, by their fixtures."""


@pytest.fixture(params=["memory", "cofio", *BACKENDS])
def store(request: pytest.FixtureRequest, memory: Engine) -> BaseStore:
    """An empty store of each kind."""
    if request.param in BACKENDS:
        backend: BaseStore = request.getfixturevalue(request.param)
        return backend
    return InMemoryStore() if request.param == "memory" else CofioStore(memory)
