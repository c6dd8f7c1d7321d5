"""A connection that is lost just when a change is committed: it is made once, whatever becomes of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio import Engine, Scope, Settings, Unavailable
from cofio.backends.upkeep_interface import Tidy

from .. import postgres
from .machines import AtCommit, Proxy, Server, run_proxy, run_server

DURABLE = Settings(background=False, embedder="none")
HERE = Scope("here")
PATIENCE = "cofio.backends.postgres.database.PATIENCE"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose log reaches the disk with commits only."""
    with run_server(wal_writer_delay="10s", fsync="on", autovacuum="off") as running:
        yield running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """The way to it."""
    with run_proxy(server) as opened:
        yield opened


@pytest.fixture
def direct(server: Server, tmp_path: Path) -> Iterator[Engine]:
    """A memory on it."""
    with Engine.open(f"{server.url}?schema={postgres.name_schema(tmp_path)}", settings=DURABLE) as opened:
        opened.write(HERE, text="first")
        yield opened


@pytest.fixture
def engine(direct: Engine, proxy: Proxy, tmp_path: Path) -> Iterator[Engine]:
    """The same through the proxy."""
    url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?schema={postgres.name_schema(tmp_path)}"
    with Engine.open(url, settings=DURABLE) as opened:
        yield opened


@pytest.mark.parametrize("restart", ["", "kill"])
@pytest.mark.parametrize("how", ["cut", "drop answer"])
@pytest.mark.parametrize("trips", [1, 2])
def test_a_change_is_made_once_though_its_commit_is_not_heard_of(
    server: Server, proxy: Proxy, direct: Engine, engine: Engine, how: AtCommit, restart: str, trips: int
) -> None:
    if trips == 1:  # it is, once a write has told the server's time
        engine.write(HERE, text="before")

    def disturb() -> None:
        if restart:
            server.restart(restart)
        # After a crash the server gives the numbers of transactions that it had not written to its disk to others.
        for number in range(5):
            direct.write(HERE, text=f"other {number}")

    before = direct.count()
    proxy.arm(how, disturb)
    record = engine.write(HERE, text="once")
    assert proxy.has_cut.is_set()
    assert direct.count() == before + 6
    assert direct.read(record.id) == record
    assert direct.check() == []


def test_a_transaction_that_lost_its_client_is_ended(proxy: Proxy, direct: Engine, engine: Engine) -> None:
    """The server does not notice: it waits for the rest of the transaction, with the record locked."""
    record = engine.put(HERE, "key", data=1)
    proxy.arm("withhold")
    changed = engine.put(HERE, "key", data=2, if_version=record.version)
    assert proxy.has_cut.is_set()
    assert direct.read(record.id) == changed
    assert (changed.version, changed.data) == (2, 2)
    proxy.arm("withhold")
    once = engine.write(HERE, text="once")  # of one statement
    assert [each.text for each in direct.list(HERE)].count("once") == 1
    assert direct.read(once.id) == once
    assert direct.check() == []


@pytest.mark.parametrize("how", ["cut", "drop answer"])
def test_a_commit_that_cannot_be_asked_for_is_said_to_be_unknown(
    server: Server, proxy: Proxy, direct: Engine, engine: Engine, how: AtCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PATIENCE, 0.5)
    proxy.arm(how, server.stop)
    try:
        with pytest.raises(
            Unavailable, match=r"does not say whether it was .*: read it before you try again"
        ) as raised:
            engine.write(HERE, id="once", text="once")
    finally:
        server.start()
    monkeypatch.undo()
    assert raised.value.public == "it is not known whether the change was made: read it before you try again"
    assert direct.count() == (2 if how == "drop answer" else 1)
    assert direct.check() == []


def test_marks_of_transactions_are_removed_after_an_hour(server: Server, direct: Engine, tmp_path: Path) -> None:
    table = f"{postgres.name_schema(tmp_path)}.commit_mark"
    assert server.execute(f"SELECT count(*) FROM {table}") == [(1,)]
    server.execute(f"INSERT INTO {table} (at, token) SELECT at - 3600 * 1000000::bigint, 1 FROM {table}")
    direct.settle()
    direct.purge()
    direct._backend.upkeep(Tidy())
    assert [token for (token,) in server.execute(f"SELECT token FROM {table} WHERE token = 1")] == []
    assert server.execute(f"SELECT count(*) > 0 FROM {table}") == [(True,)]
