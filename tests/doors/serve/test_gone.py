"""`cofio serve` whose store is deleted, moved or replaced: every door and /health say so, and nothing is made anew."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

PATIENCE = 30.0
GONE = "The memory was deleted, moved or replaced while it was open: start the program that serves it again"
MESSAGE = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": "I live in Oslo."}
ADD = {"session_id": "s", "messages": [MESSAGE]}
COFIO = [sys.executable, "-m", "cofio"]


class Server:
    """A server in a process of its own, as a client sees it."""

    def __init__(self, store: Path, process: subprocess.Popen[str]) -> None:
        self.store = store
        self.process = process
        assert process.stdout is not None
        self._port = int(process.stdout.readline().rsplit(":", 1)[1].split("/")[0])

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON that a request is answered with."""
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): said for name, said in headers.items()}}
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as connection:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if data is None else "POST", path, data, sent)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def call_tool(self, name: str, **arguments: object) -> dict[str, Any]:
        """What a tool answers over MCP."""
        version, meta = "2026-07-28", "io.modelcontextprotocol/"
        params = {
            "name": name, "arguments": arguments,
            "_meta": {f"{meta}protocolVersion": version, f"{meta}clientCapabilities": {}},
        }  # fmt: skip
        status, answer = self.ask(
            "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            Accept="application/json, text/event-stream", MCP_Protocol_Version=version, Mcp_Method="tools/call",
            Mcp_Name=name,
        )  # fmt: skip
        assert status == 200, answer
        result: dict[str, Any] = answer["result"]
        return result

    def end(self) -> str:
        """Stop it; what it said in its log."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return said


@contextmanager
def serving(store: Path) -> Iterator[Server]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    environ |= {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", "AGENT_STORE_PATH": str(store.parent / "none")}
    command = [*COFIO, "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(
        command, env=environ, cwd=store.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(store, process)
        finally:
            process.kill()


def _remove(store: Path) -> bool:
    """Remove a folder; whether it is gone. A file that the server removes at the same moment is no reason to fail."""
    shutil.rmtree(store, ignore_errors=True)
    return not store.exists()


def lose(store: Path, how: str) -> None:
    """Take a store away, as `rm -rf`, `mv` or the restoring of a backup does."""
    if how == "delete":
        wait_until(lambda: _remove(store))
        return
    if how == "replace":
        subprocess.run([*COFIO, "backup", "copy", "--store", str(store)], cwd=store.parent, check=True)
    store.rename(store.with_name("elsewhere"))
    if how == "replace":
        store.with_name("copy").rename(store)


def files(store: Path) -> dict[str, bytes]:
    """What is at a store's place."""
    found = store.parent.rglob(f"{store.name}/**/*")
    return {str(file): file.read_bytes() if file.is_file() else b"" for file in found}


@pytest.mark.parametrize("how", ["delete", "move", "replace"])
def test_every_door_says_that_the_store_is_gone_and_makes_nothing_in_its_place(tmp_path: Path, how: str) -> None:
    store = tmp_path / "store"
    with serving(store) as server:
        assert server.ask("/api/v1/memory/add", ADD)[0] == 200
        assert server.ask("/api/v1/memory/flush", {"session_id": "s"})[1]["data"]["status"] == "extracted"
        status, health = server.ask("/health")
        assert (status, health["status"]) == (200, "ok")
        lose(store, how)
        there = files(store)
        assert server.ask("/health") == (503, {"status": "unavailable", "reason": GONE})
        calls: dict[str, dict[str, Any]] = {
            "add": ADD, "flush": {"session_id": "s"}, "search": {"user_id": "alice", "query": "Oslo"},
            "get": {"user_id": "alice", "memory_type": "episode"}, "delete": {"user_id": "alice"},
        }  # fmt: skip
        for call, body in calls.items():
            status, answer = server.ask(f"/api/v1/memory/{call}", body)
            assert (call, status, answer["error"]["message"]) == (call, 503, GONE)
        for command in ({"command": "create", "path": "/memories/a.md", "file_text": "x"}, {"command": "view"}):
            _, answer = server.ask("/api/v1/memory-tool", {"path": "/memories", **command})
            assert answer == {"content": f"Error: {GONE}", "is_error": True}
        status, answer = server.ask("/threads/t/checkpoints", {"state": {"a": 1}})
        assert (status, answer["error"]["message"]) == (503, GONE)
        assert server.ask("/threads/t/checkpoints")[0] == 503
        for result in (
            server.call_tool("write_context", topic="t", content="c"), server.call_tool("search_context", query="t"),
        ):  # fmt: skip
            assert result["isError"]
            assert "start this program again" in result["content"][0]["text"]
        said = server.end()
        assert said.count("was deleted, moved or replaced while it was open") == 1
        assert "Traceback" not in said
        assert files(store) == there
