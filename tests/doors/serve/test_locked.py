"""`cofio serve` while another process holds the write lock: writes are refused soon, reads go on, `/health` tells."""

from __future__ import annotations

import json
import os
from contextlib import closing

import apsw
import pytest

from cofio.config.address import StoreAddress

from .conftest import ACCEPT, Start

SAVE = {"state": {"step": 1}}


def test_a_write_is_refused_after_five_seconds_and_health_says_who_holds_the_lock(
    start: Start, store: StoreAddress
) -> None:
    server = start("--workers", "0")
    assert server.ask("/threads/t/checkpoints", SAVE).status == 201
    with closing(apsw.Connection(str(store.home / "memory.db"))) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = server.ask("/threads/t/checkpoints", SAVE)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        sentence = refused.parse()["error"]["message"]
        assert sentence.startswith(f"another process (PID {os.getpid()}, ")
        assert sentence.endswith(") has held the write lock for 5 s; try again")
        assert server.ask("/threads/t/checkpoints").status == 200
        health = server.ask("/health")
        assert (health.status, health.parse()["status"], health.parse()["storage"]["status"]) == (
            503, "unavailable", "locked",
        )  # fmt: skip
        assert f"PID {os.getpid()}" in health.parse()["reason"]
    assert server.ask("/threads/t/checkpoints", SAVE).status == 201
    health = server.ask("/health")
    assert (health.status, health.parse()["status"], health.parse()["storage"]) == (200, "ok", {"status": "ok"})
    code, log = server.end()
    assert code == 0
    assert log.count("has held the write lock") == 1


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_whose_write_waits_for_the_lock_ends_by_itself(
    start: Start, store: StoreAddress, workers: str
) -> None:
    server = start("--workers", workers)
    with closing(apsw.Connection(str(store.home / "memory.db"))) as other, closing(server.connect()) as waiting:
        other.execute("BEGIN IMMEDIATE")
        waiting.request("POST", "/threads/t/checkpoints", json.dumps(SAVE), ACCEPT)
        assert server.ask("/").status == 200
        code, log = server.end()
    assert (code, "killed" in log) == (0, False), log
