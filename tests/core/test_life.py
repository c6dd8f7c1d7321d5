"""An engine's life: how it ends, what its background work survives, and what is left behind."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.waiting import PATIENCE, wait_until

from cofio import Draft, Engine, Query, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine import background

DEMO, OTHER = Scope("demo"), Scope("other")
QUIET = Settings(background=False, embedder="none")
BUSY = Settings(embedder="none")


class Wide:
    """An embedder whose vectors may change their size, or that fails."""

    id = "wide"

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.fails = False

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        return self.embed(texts)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.fails:
            raise RuntimeError("out of order")
        made = np.array([[1.0 + len(text) % (n + 2) for n in range(self.dimensions)] for text in texts], np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made


def test_a_program_that_ends_without_closing_ends_well(store_address: StoreAddress, models: Path) -> None:
    program = f"""
import time
from cofio import *
memory = Engine.open({store_address.spell()!r}, settings=Settings(models={str(models)!r}))
memory.write_many([Draft(scope=Scope("demo"), text=f"word{{n}} " * 80) for n in range(200)])
while memory.stats()["waiting_for_vectors"] == 200:
    time.sleep(0.01)
"""  # it ends in the middle of the embedding
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    with Engine.open(store_address, settings=QUIET) as memory:
        assert memory.count() == 200


def test_an_engine_that_is_dropped_takes_its_thread_along(store_address: StoreAddress) -> None:
    memory = Engine.open(store_address, settings=BUSY, embedder=HashedEmbedder())
    memory.write(DEMO, text="walrus")
    assert any(thread.name == "cofio-indexing" for thread in threading.enumerate())
    del memory
    gc.collect()
    assert not any(thread.name == "cofio-indexing" for thread in threading.enumerate())


def test_background_work_survives_an_embedder_that_raises_and_tells_of_it(
    store_address: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE", 0.01)
    embedder = Wide(64)
    embedder.fails = True
    with Engine.open(store_address, settings=BUSY, embedder=embedder) as memory:
        memory.write(DEMO, text="walrus")
        wait_until(lambda: memory.stats()["background_fault"])
        assert memory.check() == ["background work fails: RuntimeError: out of order"]
        embedder.fails = False
        memory.write(DEMO, text="narwhal")
        wait_until(lambda: memory.stats()["waiting_for_vectors"] == 0 and not memory.stats()["background_fault"])
        assert memory.check() == []


def test_closing_does_not_wait_for_an_endpoint_that_never_answers(
    store_address: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = Settings(embedder="remote", embed_url=url, embed_model="m")
        memory = Engine.open(store_address, settings=settings)
        memory.write(DEMO, text="walrus")
        silent.settimeout(30)
        connection, _ = silent.accept()
        memory.close()  # hangs for two minutes if it waits
        connection.close()


def test_vectors_that_change_their_size_are_made_anew_and_never_mixed(store_address: StoreAddress) -> None:
    with Engine.open(store_address, settings=QUIET, embedder=Wide(64)) as memory:
        memory.write_many([Draft(scope=DEMO, text="walrus " * n) for n in range(1, 40)])
        memory.settle()
        assert len(memory.search(Query("walrus", mode="semantic", floor=0.0))) == 10
        with Engine.open(store_address, settings=QUIET, embedder=Wide(128)) as changed:
            before = changed.search(Query("walrus", floor=0.0))
            assert before
            assert before.degraded is not None
            changed.write(DEMO, text="narwhal")
            changed.settle()
            changed.settle()
            after = changed.search(Query("walrus", mode="semantic", floor=0.0, limit=40))
            assert (len(after), after.degraded) == (40, None)
            assert changed.check() == []


def test_what_is_deleted_is_gone_from_the_database_file(tmp_path: Path) -> None:
    with Engine.open(tmp_path, settings=QUIET, embedder=HashedEmbedder()) as memory:
        secret = memory.write(Scope("secret-scope"), text="xylophonequartz", title="zephyrglyph")
        memory.write(DEMO, text="walrus")
        memory.settle()
        memory.delete(secret.id)
        memory.drop(Scope("secret-scope"))
        memory.reindex()
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for word in (b"xylophonequartz", b"zephyrglyph", b"secret-scope"):
        assert word not in held


def test_reindexing_removes_what_has_expired(store_address: StoreAddress) -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    with Engine.open(store_address, settings=QUIET, clock=lambda: now[0]) as memory:
        memory.write(DEMO, text="walrus", ttl=60)
        memory.write(DEMO, text="narwhal")
        now[0] += timedelta(minutes=2)
        assert (memory.stats()["records"], memory.stats()["expired"]) == (1, 1)
        memory.reindex()
        assert (memory.stats()["records"], memory.stats()["expired"]) == (1, 0)


def test_a_search_is_degraded_neither_by_another_scope_nor_by_a_change_that_leaves_the_text(
    store_address: StoreAddress,
) -> None:
    with Engine.open(store_address, settings=QUIET, embedder=HashedEmbedder()) as memory:
        record = memory.write(DEMO, text="walrus")
        memory.settle()
        memory.edit(record.id, importance="high")
        assert memory.search(Query("walrus")).degraded is None
        memory.write_many([Draft(scope=OTHER, text=f"narwhal {number}") for number in range(65)])
        assert memory.search(Query("walrus", scope=DEMO)).degraded is None
        assert memory.search(Query("narwhal", scope=OTHER)).degraded is not None


@pytest.mark.usefixtures("process")
def test_a_forked_child_does_not_keep_the_lease(tmp_path: Path) -> None:
    program = f"""
import os, sys
from pathlib import Path
from cofio.backends.sqlite import SqliteBackend
one = SqliteBackend(Path({str(tmp_path)!r}))
with one.derived.lock.try_acquire() as locked:
    assert locked
    read, write = os.pipe()
    alive, living = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.write(living, b"x")
        os.read(read, 1)  # lives on until its parent has seen what it had to
        os._exit(0)
    os.read(alive, 1)
with SqliteBackend(Path({str(tmp_path)!r})).derived.lock.try_acquire() as free:
    print(free)
os.close(write)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_reindex_drops_the_vectors_of_embedders_no_longer_used(store_address: StoreAddress) -> None:
    for embedder in (Wide(64), HashedEmbedder()):
        with Engine.open(store_address, settings=QUIET, embedder=embedder) as memory:
            memory.write(DEMO, text="walrus")
            memory.reindex()
            assert memory.check() == []
            assert [name for name in memory.stats() if name.startswith("vectors:")] == [f"vectors:{embedder.id}"]
