"""A scripted model behind a real server, and tracing switched off: nothing leaves this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # read when the SDK is imported

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .endpoint import Endpoint

Opening = Callable[[], Engine]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A model that says what it is told to say."""
    monkeypatch.setenv("no_proxy", "*")
    with Endpoint() as server:
        yield server


@pytest.fixture
def opening(store_address: StoreAddress) -> Opening:
    """Opens the memory of the test anew, as another process would."""
    chosen = Settings(background=False, embedder="none", sync="normal")
    return lambda: Engine.open(store_address, settings=chosen, embedder=HashedEmbedder())
