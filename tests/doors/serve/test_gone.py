"""`cofio serve` whose store is deleted, moved or replaced: every door and /health say so, and nothing is made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from cofio.config.address import StoreAddress
from cofio.doors.cli import main

from .conftest import Server, Start, remove

GONE = "The memory was deleted, moved or replaced while it was open: start the program that serves it again"
MESSAGE = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": "I live in Oslo."}
ADD = {"session_id": "s", "messages": [MESSAGE]}


def lose(store: Path, how: str) -> None:
    """Take a store away, as `rm -rf` or the restoring of a backup does."""
    if how == "delete":
        wait_until(lambda: remove(store))
        return
    assert main(["--store", str(store), "backup", str(store.with_name("copy"))]) == 0
    store.rename(store.with_name("elsewhere"))
    store.with_name("copy").rename(store)


def read_files(store: Path) -> dict[str, bytes]:
    """Return the files at a store's place."""
    return {str(file): file.read_bytes() if file.is_file() else b"" for file in store.parent.rglob("store/**/*")}


def call_tool(server: Server, name: str, **arguments: object) -> dict[str, Any]:
    answer = server.call_mcp("tools/call", {"name": name, "arguments": arguments})
    assert answer.status == 200, answer.text
    result: dict[str, Any] = answer.parse()["result"]
    return result


@pytest.mark.parametrize("how", ["delete", "replace"])
def test_every_door_says_that_the_store_is_gone_and_makes_nothing_in_its_place(
    start: Start, store: StoreAddress, how: str
) -> None:
    server = start()
    assert server.ask("/api/v1/memory/add", ADD).status == 200
    assert server.ask("/api/v1/memory/flush", {"session_id": "s"}).parse()["data"]["status"] == "extracted"
    assert server.ask("/health").parse()["status"] == "ok"
    lose(store.home, how)
    there = read_files(store.home)
    health = server.ask("/health")
    assert (health.status, health.parse()) == (503, {"status": "unavailable", "reason": GONE})
    calls: dict[str, dict[str, Any]] = {
        "/api/v1/memory/add": ADD, "/api/v1/memory/flush": {"session_id": "s"},
        "/api/v1/memory/search": {"user_id": "alice", "query": "Oslo"},
        "/api/v1/memory/get": {"user_id": "alice", "memory_type": "episode"},
        "/api/v1/memory/delete": {"user_id": "alice"}, "/threads/t/checkpoints": {"state": {"a": 1}},
    }  # fmt: skip
    for path, body in calls.items():
        answer = server.ask(path, body)
        assert (path, answer.status, answer.parse()["error"]["message"]) == (path, 503, GONE)
    assert server.ask("/threads/t/checkpoints").status == 503
    for command in ({"command": "create", "path": "/memories/a.md", "file_text": "x"}, {"command": "view"}):
        answer = server.ask("/api/v1/memory-tool", {"path": "/memories", **command})
        assert answer.parse() == {"content": f"Error: {GONE}", "is_error": True}
    for result in (
        call_tool(server, "write_context", topic="t", content="c"), call_tool(server, "search_context", query="t"),
    ):  # fmt: skip
        assert result["isError"]
        assert "start this program again" in result["content"][0]["text"]
    code, log = server.end()
    assert code == 0
    assert 1 <= log.count("was deleted, moved or replaced while it was open") <= 4  # each process says it
    assert "Traceback" not in log
    assert read_files(store.home) == there
