"""The stores that keep the same contract."""

from __future__ import annotations

import pytest

from cofio import Engine
from cofio.library.cofio_store import CofioStore
from cofio.library.store import BaseStore, InMemoryStore


@pytest.fixture(params=["memory", "cofio"])
def store(request: pytest.FixtureRequest, memory: Engine) -> BaseStore:
    """An empty store of each kind."""
    return InMemoryStore() if request.param == "memory" else CofioStore(memory)
