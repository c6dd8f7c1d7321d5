"""A store is put back to a moment before something went wrong; and who knew more of it notices."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio import Engine, Query, Scope, Settings
from cofio.embed.hashed import HashedEmbedder

from ..servers import folder_for_postgresql, give_away
from ..waiting import wait_until
from .machines import Server, copy_server, run_server

QUIET = Settings(background=False, embedder="none")
HERE = Scope("here")


@pytest.fixture
def archive() -> Iterator[Path]:
    """The folder that the server's log is copied to."""
    with folder_for_postgresql() as folder:
        yield folder


def test_a_store_can_be_put_back_to_the_moment_before_a_mistake(archive: Path) -> None:
    with (
        run_server(archive_mode="on", archive_command=f"cp %p {archive}/%f") as server,
        folder_for_postgresql() as copy,
    ):
        with Engine.open(server.url, settings=QUIET, embedder=HashedEmbedder()) as engine:
            written = [engine.write(HERE, text="before the backup")]
            copy_server(server, copy / "data")
            written += [engine.write(HERE, text=f"walrus {number}") for number in range(20)]
            engine.settle()
            engine.checkpoints.save("space", "thread", "one", {"step": 1})
            at = server.execute("SELECT clock_timestamp()::text")[0][0]
            engine.checkpoints.save("space", "thread", "two", {"step": 2})
            engine.drop(HERE)
            identity = engine.identity()
            assert engine.count() == 0
            server.execute("SELECT pg_switch_wal()")
            wait_until(lambda: _is_archived(server))

            # The same process finds the server put back at the same address, and takes nothing for true that it knew.
            server.stop()
            shutil.rmtree(server.data)
            shutil.copytree(copy / "data", server.data)
            (server.data / "recovery.signal").touch()
            give_away(server.folder)
            server.data.chmod(0o700)
            server.settings |= {
                "restore_command": f"cp {archive}/%f %p", "recovery_target_time": at,
                "recovery_target_action": "promote",
            }  # fmt: skip
            server.start()
            wait_until(lambda: server.execute("SELECT pg_is_in_recovery()") == [(False,)])

            assert list(engine.export()) == written
            assert len(list(engine.search(Query("walrus", mode="keyword", limit=50, floor=0.0)))) == 20
            assert engine.identity().store == identity.store
            assert engine.identity().position < identity.position  # by which a vault knows that it is an older one
            assert engine.checkpoints.load("space", "thread", "two") is None
            again = engine.checkpoints.save("space", "thread", "other", {"step": 3})
            assert again is not None
            other = engine.checkpoints.load("space", "thread", "other")
            assert other is not None
            assert other.state == {"step": 3}
            assert engine.check() == []
            written.append(engine.write(HERE, text="after it"))
        with Engine.open(server.url, settings=QUIET) as engine:
            assert list(engine.export()) == written


def _is_archived(server: Server) -> bool:
    """Whether the log up to the last switch is in the archive."""
    sql = "SELECT coalesce(last_archived_wal, '') >= pg_walfile_name(pg_current_wal_lsn() - 1) FROM pg_stat_archiver"
    return bool(server.execute(sql)[0][0])
