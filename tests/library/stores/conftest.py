"""The stores that keep the same contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio import Engine
from cofio.library.cofio_store import CofioStore
from cofio.library.store import BaseStore, InMemoryStore

from ...conftest import FOLDER

BACKENDS = ("redis_backend", "postgresql_backend")
"""Those that are a checkpointer too, by their fixtures."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what stands on no engine of the test's once, not on each backend that the engine could be on."""
    items[:] = [item for item in items if not _is_repeated(item)]


def _is_repeated(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not item.path.is_relative_to(Path(__file__).parent):
        return False
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    return "store" in chosen and chosen["store"] != "cofio" and chosen.get("backend_under_test") not in FOLDER


@pytest.fixture(params=["memory", "cofio", *BACKENDS])
def store(request: pytest.FixtureRequest, memory: Engine) -> BaseStore:
    """An empty store of each kind."""
    if request.param in BACKENDS:
        backend: BaseStore = request.getfixturevalue(request.param)
        return backend
    return InMemoryStore() if request.param == "memory" else CofioStore(memory)
