"""How often a search waits for the server: counted between the two, on the wire."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from cofio import Draft, Engine, Kind, Query, Scope, Settings
from cofio.backends.upkeep_interface import Tidy
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from ..waiting import join

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


class Wire:
    """Passes on what client and server say to each other, and counts how often the client has to wait."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.trips = 0
        self._was_answered = True
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Hang up."""
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        join(*self._threads)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                for source, target, asks in ((client, server, True), (server, client, False)):
                    thread = threading.Thread(target=self._pass, args=[source, target, asks])
                    self._threads.append(thread)
                    thread.start()

    def _pass(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    if asks and self._was_answered:
                        self.trips += 1
                    self._was_answered = not asks
                target.sendall(data)


@contextmanager
def open_through_wire(store: StoreAddress) -> Iterator[tuple[Engine, Wire]]:
    """A memory whose server is behind a wire."""
    url = store.spell()
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    wire = Wire(parts.hostname, parts.port)
    try:
        address = StoreAddress(url=url.replace(f":{parts.port}/", f":{wire.port}/"))
        with Engine.open(address, settings=QUIET, embedder=HashedEmbedder()) as engine:
            yield engine, wire
    finally:
        wire.close()


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
@pytest.mark.parametrize("has_sessions", [False, True])
def test_a_search_waits_for_the_server_three_times_at_most(store: StoreAddress, mode: str, has_sessions: bool) -> None:
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
        query = Query("walrus number 7", mode=mode, scope=HERE, limit=5, floor=0.0)  # type: ignore[arg-type]  # one of three
        assert len(engine.search(query)) == 5  # and there is a connection
        for _ in range(8):  # also once the statements are prepared
            before = wire.trips
            assert len(engine.search(query)) == 5
            assert wire.trips - before == 3  # for candidates, for what is in them, and for the hits


def test_a_new_store_does_not_wait_for_each_of_its_tables(store: StoreAddress) -> None:
    with open_through_wire(store) as (_, wire):
        assert wire.trips <= 60  # it is made by some seventy statements, in three steps


def test_a_write_waits_for_the_server_once(store: StoreAddress) -> None:
    with open_through_wire(store) as (engine, wire):
        engine.write(HERE, text="walrus")  # the scope and the server's time are known from now on
        taken = []
        for number in range(10):
            before = wire.trips
            engine.write(HERE, text=f"sea lion {number}")
            taken.append(wire.trips - before)
        assert sorted(taken) == [1] * 9 + [2]  # once the statement is prepared


def test_several_changes_together_wait_for_the_server_twice(store: StoreAddress) -> None:
    with open_through_wire(store) as (engine, wire):
        for number in range(8):
            engine.write(HERE, text=f"walrus {number}")
            before = wire.trips
            engine.write_many([Draft(scope=HERE, text=f"{word} {number}") for word in ("sea lion", "seal")])
            assert wire.trips - before <= 2


def test_what_has_no_vector_yet_is_embedded_and_found_all_the_same(store: StoreAddress) -> None:
    with open_through_wire(store) as (engine, wire):
        engine.write(HERE, text="walrus")
        engine.settle()
        for number in range(3):
            record = engine.write(HERE, text=f"sea lion {number}")
            page = engine.search(Query(f"sea lion {number}", mode="semantic", scope=HERE))
            assert record.id in {hit.record.id for hit in page}
            assert page.degraded is None
        assert engine.search("walrus").degraded is None
        before = wire.trips
        engine.search("walrus")
        assert wire.trips - before == 3
