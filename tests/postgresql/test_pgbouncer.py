"""A store behind pgbouncer in transaction mode, which takes each transaction to any session of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cofio import Engine, Query, Scope, Settings
from cofio.embed.hashed import HashedEmbedder

from .. import postgres
from ..servers import pgbouncer
from .machines import Server, run_server

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")
CONTRACT = ("changes", "keys", "together", "two_writers")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The server behind it."""
    with run_server() as running:
        yield running


@pytest.fixture(scope="module")
def bouncer(server: Server) -> Iterator[str]:
    """The URL of the server's database, by way of pgbouncer."""
    with pgbouncer(server.port) as port:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@pytest.mark.usefixtures("wide")
def test_the_contract_holds_behind_it(bouncer: str) -> None:
    root = Path(__file__).parents[2]
    files = [root / "tests" / "contract" / f"test_{name}.py" for name in CONTRACT]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "postgres", *files],
        cwd=root, env={**os.environ, "COFIO_TEST_POSTGRESQL": bouncer}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_many_threads_share_few_sessions(server: Server, bouncer: str, tmp_path: Path) -> None:
    store = f"{bouncer}?schema={postgres.name_schema(tmp_path)}"
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as engine, ThreadPoolExecutor(8) as threads:

        def work(number: int) -> int:
            record = engine.write(HERE, text=f"walrus number {number}")
            engine.edit(record.id, text=f"walrus with number {number}")
            engine.put(HERE, "shared", data=number)
            engine.search(Query("walrus", mode="hybrid"))
            engine.checkpoints.save("space", f"thread {number % 3}", str(number), {"number": number})
            assert engine.checkpoints.load("space", f"thread {number % 3}", str(number)) is not None
            return engine.read(record.id).version

        assert list(threads.map(work, range(100))) == [2] * 100
        shared = engine.get(HERE, "shared")
        assert shared is not None
        assert shared.version == 100
        engine.settle()
        assert engine.check() == []
    sessions = server.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres'")[0][0]
    assert sessions <= 4 + 1  # and the one that asks
    # What holds for a session would hold for whoever comes next.
    assert server.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
