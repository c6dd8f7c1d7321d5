"""A full disk: reads and deletes go on, a server starts, and all recovers by itself once there is room."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cofio import Draft, Engine, Scope, Settings, Unavailable
from cofio.backends.sqlite.database_files import FULL
from cofio.backends.sqlite.reserve import RESERVE_BYTES
from cofio.backends.upkeep_interface import Tidy
from cofio.config.address import StoreAddress

from ..doors.serve.conftest import Server
from ..waiting import wait_until
from .conftest import fill

QUIET = Settings(embedder="none", background=False, sync="normal")
HERE, THERE = Scope("here"), Scope("there")
TEXT = "word " * 4000
SIZE = "48m"


@pytest.fixture
def disk(mount: Callable[[str], Path]) -> Path:
    """A small disk."""
    return mount(SIZE)


def open_engine(disk: Path) -> Engine:
    """The memory on a disk, as a server opens it."""
    return Engine.open(disk / "store", settings=QUIET, keep_reserve=True)


def test_deletes_pass_on_a_full_disk_and_writes_once_there_is_room(disk: Path, tmp_path: Path) -> None:
    reserve = disk / "store" / "reserve"
    with open_engine(disk) as engine:
        assert reserve.stat().st_blocks * 512 == reserve.stat().st_size == RESERVE_BYTES
        ids = [record.id for record in engine.write_many(Draft(scope=HERE, text=f"{n} {TEXT}") for n in range(50))]
        engine.checkpoints.save("space", "thread", "saved", {"a": 1})
        ballast = fill(disk)
        with pytest.raises(Unavailable) as raised:
            engine.write(THERE, text=TEXT * 20)
        assert (raised.value.public, raised.value.trouble) == (FULL, "disk full")
        trouble = engine.find_trouble()
        assert trouble is not None
        assert (trouble.kind, trouble.reason) == ("disk full", FULL)
        assert reserve.exists()
        assert engine.read(ids[0]).text.startswith("0 ")
        for each in ids[:10]:
            engine.delete(each)
        assert not reserve.exists()
        assert engine.drop(HERE) == 40
        assert engine.checkpoints.delete("space", "thread") == 1
        assert engine.count() == 0
        engine._backend.upkeep(Tidy())
        assert not reserve.exists()
        ballast.unlink()
        engine.write(THERE, text=TEXT * 20)
        assert engine.find_trouble() is None
        engine._backend.upkeep(Tidy())
        assert reserve.stat().st_size == RESERVE_BYTES
        engine.backup(tmp_path / "copy")
        assert not (tmp_path / "copy" / "reserve").exists()
        assert engine.check() == []


def test_a_store_on_a_full_disk_is_opened_with_a_part_of_the_reserve(disk: Path) -> None:
    with open_engine(disk) as engine:
        written = engine.write(HERE, text="walrus")
    fill(disk)
    with open_engine(disk) as engine:
        assert [hit.record.id for hit in engine.search("walrus")] == [written.id]
        assert 0 < (disk / "store" / "reserve").stat().st_size < RESERVE_BYTES


def test_only_a_server_that_has_plenty_of_room_keeps_a_reserve(mount: Callable[[str], Path], tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=QUIET) as engine:
        engine.write(HERE, text="walrus")
    assert not (tmp_path / "store" / "reserve").exists()
    disk = mount("20m")
    with open_engine(disk) as engine:
        engine.write(HERE, text="walrus")
        assert not (disk / "store" / "reserve").exists()


def add(server: Server, session: str, text: str) -> tuple[int, str]:
    """Say something, and have it carved; the status of the answer, and why it was refused."""
    message = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": text}
    answer = server.ask("/api/v2/memory/add", {"session_id": session, "messages": [message]})
    if answer.status == 200:
        answer = server.ask("/api/v2/memory/flush", {"session_id": session})
    return answer.status, answer.parse().get("error", {}).get("message", "")


def kill(server: Server) -> None:
    """Kill a server with all of its processes."""
    children = server.find_children().values()
    server.process.kill()
    for each in children:
        with suppress(ProcessLookupError):  # it has ended with its parent
            os.kill(each, signal.SIGKILL)
    server.wait()


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_server_starts_on_a_full_disk_and_recovers_without_another_start(
    disk: Path, tmp_path: Path, workers: str
) -> None:
    store = StoreAddress(folder=disk / "store")
    episodes = store.home / "vault/default_app/default_project/users/alice/episodes/episode-2026-05-28.md"
    search = {"user_id": "alice", "query": "Oslo", "include_unprocessed": True}
    server = Server(store, tmp_path, "--workers", workers)
    try:
        assert add(server, "s", "I live in Oslo.") == (200, "")
        wait_until(lambda: episodes.exists() and "Oslo" in episodes.read_text())
        fill(disk)
        assert add(server, "t", TEXT) == (503, FULL)
        health = server.ask("/health")
        assert (health.status, health.parse()["storage"]) == (503, {"status": "disk full", "reason": FULL})
        kill(server)
        ballast = fill(disk)
        server = Server(store, tmp_path, "--workers", workers)
        assert server.first_line
        assert "Oslo" in server.ask("/api/v2/memory/search", search).text
        assert add(server, "t", TEXT * 40) == (503, FULL)
        deleted = server.ask("/api/v2/memory/delete", {"session_id": "s"})
        assert (deleted.status, deleted.parse()["data"]["episodes"]) == (200, 1)
        assert "Oslo" not in server.ask("/api/v2/memory/search", search).text
        ballast.unlink()
        assert add(server, "u", "I live in Bergen.") == (200, "")
        wait_until(lambda: episodes.exists() and "Bergen" in episodes.read_text())
        assert "Oslo" not in episodes.read_text()
        assert server.ask("/health").status == 200
        wait_until((store.home / "reserve").exists)
        code, log = server.end()
        assert (code, log.count("Traceback")) == (0, 0)
    finally:
        if server.process.poll() is None:
            kill(server)
