"""A store of each backend, and each state that what it has to find can be in."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from typing import Any, TypeAlias

import pytest

from cofio import Draft, Engine, Record, Settings
from cofio.backends.interface import Backend
from cofio.config.address import StoreAddress
from cofio.embed import Embedder
from cofio.embed.hashed import HashedEmbedder
from cofio.engine import opening

QUIET = Settings(background=False, embedder="none")
STATES = ("tail", "settled", "mixed")
"""Where the words of what a test wrote are: in the tail only, in the index only, or some in each."""
Made: TypeAlias = "pytest.Item | pytest.Collector | list[pytest.Item | pytest.Collector] | None"


@pytest.fixture
def open_backend(store_address: StoreAddress, clock: Callable[[], datetime]) -> Iterator[Callable[[], Backend]]:
    """Opens the test's store, once more each time."""
    opened: list[Backend] = []

    def open_() -> Backend:
        opened.append(opening.open_backend(store_address, Settings(sync="normal"), clock))
        return opened[-1]

    yield open_
    for backend in opened:
        backend.close()


@pytest.fixture
def backend(open_backend: Callable[[], Backend]) -> Backend:
    """The store that `memory` is on."""
    return open_backend()


@pytest.fixture
def reopen(open_backend: Callable[[], Backend]) -> Iterator[Callable[..., Engine]]:
    """Opens another engine on the test's store, with other settings or another embedder."""
    opened: list[Engine] = []

    def open_(settings: Settings = QUIET, embedder: Embedder | None = None) -> Engine:
        opened.append(Engine(open_backend(), settings=settings, embedder=embedder))
        return opened[-1]

    yield open_
    for engine in opened:
        engine.close()


@pytest.fixture
def memory(backend: Backend) -> Iterator[Engine]:
    """An empty memory without background work; its vectors are hashes."""
    with Engine(backend, settings=QUIET, embedder=HashedEmbedder()) as opened:
        yield opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a state in all of them; those that a backend does not have are dropped below."""
    if "state" in metafunc.fixturenames:
        metafunc.parametrize("state", STATES)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Made, Made]:
    """Make no test of a state that the backend of the test does not have."""
    made = yield
    return [each for each in made if has_state(each)] if isinstance(made, list) else made


def has_state(item: pytest.Item | pytest.Collector) -> bool:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return "state" not in params or params["state"] in params["backend_under_test"].states


@pytest.fixture
def settle(backend: Backend, memory: Engine, state: str) -> Callable[[], None]:
    """Gives vectors to what has changed and, when the state is settled, takes its words into the index."""

    def settle_() -> None:
        if state == "settled":
            memory.settle()
        else:
            _embed(backend, HashedEmbedder())

    return settle_


@pytest.fixture
def remember(memory: Engine, state: str, settle: Callable[[], None]) -> Callable[..., list[Record]]:
    """Writes drafts, and brings their words into the state under test and their vectors up to date."""

    def write(*drafts: Draft) -> list[Record]:
        early = drafts[: len(drafts) // 2 or 1] if state == "mixed" else ()
        records = memory.write_many(early)
        if early:
            memory.settle()
        records += memory.write_many(drafts[len(early) :])
        settle()
        return records

    return write


def _embed(backend: Backend, embedder: Embedder) -> None:
    """Make vectors and leave the word index alone, which `Engine.settle` does not."""
    more = True
    while more:
        with backend.claim(embedder.id, 100) as batch:
            more = batch is not None
            if batch is not None:
                batch.store(embedder.embed(batch.texts) if batch.texts else None)
