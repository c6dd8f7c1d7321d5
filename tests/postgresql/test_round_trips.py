"""How often a search waits for the server: counted between the two, on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from cofio import Draft, Engine, Kind, Query, Scope, Settings
from cofio.backends.upkeep_interface import Tidy
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .processes import Gateway

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


@contextmanager
def open_through_wire(store: StoreAddress) -> Iterator[tuple[Engine, Gateway]]:
    """A memory whose server is behind a wire."""
    with closing(Gateway(store.spell())) as wire:
        address = StoreAddress(url=wire.url)
        with Engine.open(address, settings=QUIET, embedder=HashedEmbedder()) as engine:
            yield engine, wire


@pytest.mark.parametrize("has_sessions", [False, True])
def test_a_search_waits_for_the_server_three_times_at_most(store: StoreAddress, has_sessions: bool) -> None:
    with open_through_wire(store) as (engine, wire):
        engine.write_many([
            Draft(
                scope=HERE, text=f"walrus number {number}", kind=Kind.TURN if has_sessions else Kind.NOTE,
                parent="session" if has_sessions else None, position=number if has_sessions else None,
            )
            for number in range(40)
        ])  # fmt: skip
        engine.settle()
        engine._backend.upkeep(Tidy())
        for mode in ("keyword", "semantic", "hybrid"):
            query = Query("walrus number 7", mode=mode, scope=HERE, limit=5, floor=0.0)
            assert len(engine.search(query)) == 5  # and there is a connection
            for _ in range(8):  # also once the statements are prepared
                before = wire.trips
                assert len(engine.search(query)) == 5
                assert wire.trips - before == 3  # for candidates, for what is in them, and for the hits


def test_a_write_waits_for_the_server_once(store: StoreAddress) -> None:
    with open_through_wire(store) as (engine, wire):
        engine.write(HERE, text="walrus")  # the scope and the server's time are known from now on
        taken = []
        for number in range(10):
            before = wire.trips
            engine.write(HERE, text=f"sea lion {number}")
            taken.append(wire.trips - before)
        assert sorted(taken) == [1] * 9 + [2]  # once the statement is prepared
