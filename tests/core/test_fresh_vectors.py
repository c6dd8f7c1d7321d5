"""A search makes the few vectors that are missing, and no embedder's fault is its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cofio import Engine, Query, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.background import WorkSharing

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUIET = Settings(background=False, embedder="none", sync="normal")


class OwnEmbedder:
    """An embedder as a program may have written it before there was `embed_some`."""

    id = "own"
    dimensions = 384

    def __init__(self, fault: Exception | None = None) -> None:
        self._hashed = HashedEmbedder()
        self._fault = fault

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._fault is not None:
            raise self._fault
        return self._hashed.embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._hashed.embed_query(text)


def open_with(store: StoreAddress, embedder: Any) -> Engine:
    return Engine.open(store, settings=QUIET, embedder=embedder)


def test_an_embedder_of_a_programs_own_need_not_know_of_budgets(store_address: StoreAddress) -> None:
    with open_with(store_address, OwnEmbedder()) as memory:
        memory.write(Scope("a"), text="the cat sat on the mat")
        page = memory.search(Query("cat on a mat", mode="semantic", floor=0.0))
        assert [hit.record.text for hit in page] == ["the cat sat on the mat"]
        assert page.degraded is None


@pytest.mark.parametrize("fault", [ValueError("too long"), RuntimeError("no device")])
def test_an_embedder_that_fails_costs_a_search_nothing_but_its_vectors(
    store_address: StoreAddress, fault: Exception
) -> None:
    with open_with(store_address, OwnEmbedder(fault)) as memory:
        memory.write(Scope("a"), text="the cat sat on the mat")
        page = memory.search("cat")
        assert [hit.record.text for hit in page] == ["the cat sat on the mat"]
        assert "1 record has no vector yet" in (page.degraded or "")


def test_a_search_makes_no_vectors_while_other_calls_wait(store_address: StoreAddress) -> None:
    queue = ["a call"]
    sharing = WorkSharing(has_queue=lambda: bool(queue))
    with Engine.open(store_address, settings=QUIET, embedder=HashedEmbedder(), sharing=sharing) as memory:
        memory.write(Scope("a"), text="the cat sat on the mat")
        page = memory.search("cat")
        assert [hit.record.text for hit in page] == ["the cat sat on the mat"]
        assert "1 record has no vector yet" in (page.degraded or "")
        queue.clear()
        assert memory.search("cat").degraded is None
