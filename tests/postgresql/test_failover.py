"""A standby takes the place of a server that is gone: nothing that was acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio import Engine, Scope, Settings

from .. import postgres
from ..waiting import join, wait_until
from .machines import AtCommit, Server, run_proxy, run_server, run_standby

DURABLE = Settings(background=False, embedder="none")
HERE = Scope("here")
WRITERS = 4


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    """A server and a standby, without which it acknowledges nothing; for one test, as one of them is gone then."""
    with run_server(wal_writer_delay="10s") as primary, run_standby(primary, wal_writer_delay="10s") as standby:
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        wait_until(lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        yield primary, standby


def spell(folder: Path, *ports: int) -> str:
    """The address of a store on whichever of these servers takes writes."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    schema = postgres.name_schema(folder)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write&schema={schema}"


def test_writers_go_on_with_the_standby_that_was_promoted(pair: tuple[Server, Server], tmp_path: Path) -> None:
    primary, standby = pair
    ended = threading.Event()
    acknowledged: list[list[str]] = [[] for _ in range(WRITERS)]

    with Engine.open(spell(tmp_path, primary.port, standby.port), settings=DURABLE) as engine:

        def write(mine: list[str], writer: int) -> None:
            version = 0
            while not ended.is_set():
                text = f"writer {writer} number {len(mine)}"
                engine.write(HERE, text=text)
                version = engine.put(HERE, f"counter {writer}", data=len(mine), if_version=version).version
                mine.append(text)

        writers = [threading.Thread(target=write, args=[acknowledged[number], number]) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            wait_until(lambda: min(map(len, acknowledged)) > 10)
            primary.kill()
            standby.promote()
            before = [len(mine) for mine in acknowledged]
            wait_until(lambda: all(len(mine) > count + 10 for mine, count in zip(acknowledged, before, strict=True)))
        finally:
            ended.set()
            join(*writers)
        texts = sorted(record.text for record in engine.export() if record.text)
        assert texts == sorted(text for mine in acknowledged for text in mine)
        for number, mine in enumerate(acknowledged):
            counter = engine.get(HERE, f"counter {number}")
            assert counter is not None
            assert counter.version == len(mine)
        assert engine.check() == []


@pytest.mark.parametrize("how", ["cut", "drop answer"])
def test_a_commit_that_is_lost_with_its_server_is_asked_for_at_the_promoted_one(
    pair: tuple[Server, Server], tmp_path: Path, how: AtCommit
) -> None:
    primary, standby = pair
    with (
        run_proxy(primary) as proxy,
        Engine.open(spell(tmp_path, proxy.port, standby.port), settings=DURABLE) as engine,
        Engine.open(spell(tmp_path, primary.port, standby.port), settings=DURABLE) as other,
    ):

        def fail_over() -> None:
            primary.kill()
            standby.promote()
            for number in range(5):  # which may have the same numbers of transactions as those that were lost
                other.write(HERE, text=f"other {number}")

        other.write(HERE, text="first")
        proxy.arm(how, fail_over)
        record = engine.write(HERE, text="once")
        assert proxy.has_cut.is_set()
        assert other.count() == 7
        assert other.read(record.id) == record
        assert other.check() == []


def test_a_connection_to_a_server_that_became_a_standby_is_given_up(
    pair: tuple[Server, Server], tmp_path: Path
) -> None:
    """As a switch-over does it: the old server comes back as a standby of the new one."""
    primary, standby = pair
    with Engine.open(spell(tmp_path, primary.port, standby.port), settings=DURABLE) as engine:
        first = engine.write(HERE, text="first")
        primary.stop()
        standby.promote()
        (primary.data / "standby.signal").touch()
        primary.settings["primary_conninfo"] = f"host=127.0.0.1 port={standby.port} user=postgres"
        primary.start()
        second = engine.write(HERE, text="second")
        assert list(engine.export()) == [first, second]
        assert standby.execute("SELECT pg_is_in_recovery()") == [(False,)]
