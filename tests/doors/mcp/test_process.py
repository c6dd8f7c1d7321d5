"""`cofio mcp` as a client starts it: a process of its own, which is there at once and gone at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, join, wait_until

from cofio.config.address import StoreAddress
from cofio.doors.cli import main

KEPT = ("PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "COFIO_STORE")


class Process:
    """A server in a process of its own, and the client's end of its pipes."""

    def __init__(self, folder: Path, **variables: str) -> None:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        environ = {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"} | kept | variables
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cofio", "mcp"], cwd=folder, env=environ,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin
        assert self.process.stdout
        self.writes, self.reads = self.process.stdin, self.process.stdout
        self.number = 0

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return the answer to a request."""
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.writes.write(json.dumps(message).encode() + b"\n")
        self.writes.flush()
        answer: dict[str, Any] = json.loads(self.reads.readline())
        assert answer["id"] == self.number
        return answer

    def call(self, name: str, **arguments: object) -> str:
        """Return the text of a tool's answer."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert not result["isError"], result
        return str(result["content"][0]["text"])

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the pipe, as a client does; return the exit code, and what was left to read."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


Start = Callable[..., Process]


@pytest.fixture
def start(process: None, default_store: StoreAddress, folder: Path) -> Iterator[Start]:
    """Starts servers in the folder, which end with the test."""
    processes: list[Process] = []

    def run(**variables: str) -> Process:
        processes.append(Process(folder, **variables))
        return processes[-1]

    yield run
    for each in processes:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait(PATIENCE)
        for stream in (each.process.stdin, each.process.stdout, each.process.stderr):
            assert stream
            with suppress(BrokenPipeError):
                stream.close()


@pytest.mark.requirement("process.durable", "process.end")
def test_it_ends_by_itself_with_stdin_and_what_was_written_lasts(start: Start) -> None:
    first = start()
    first.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
    assert first.call("write_context", topic="Deploy", content="on Fridays").startswith("Chunk saved: id=`")
    first.call("set_state", key="phase", value={"n": 1})
    children = Path(f"/proc/{first.process.pid}/task/{first.process.pid}/children")
    assert children.read_text() == ""  # so that nothing can outlive it
    assert first.end() == (0, b"", b"")
    second = start()
    assert "] Deploy\n" in second.call("search_context", query="when do we deploy?")
    assert json.loads(second.call("get_state", key="phase")) == {"n": 1}
    assert second.end() == (0, b"", b"")
    assert start().end() == (0, b"", b"")  # also one that was asked for nothing


@pytest.mark.requirement("process.end")
def test_it_ends_though_an_endpoint_never_answers(start: Start) -> None:
    released = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            released.wait(PATIENCE)

    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{endpoint.server_address[1]}/v1"
    server = start(COFIO_EMBEDDER="remote", COFIO_EMBED_URL=url, COFIO_EMBED_MODEL="m")
    server.call("write_context", topic="Deploy", content="on Fridays")
    search = {"name": "search_context", "arguments": {"query": "deploy"}}
    server.writes.write(json.dumps({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": search}).encode())
    server.writes.write(b"\n")
    # While the search waits for the endpoint, everything else goes on.
    for _ in range(20):
        assert server.ask("ping")["result"] == {}
    assert "Deploy" in server.call("search_context", query="deploy", search_mode="bm25")
    server.call("set_state", key="k", value=1)
    server.writes.close()
    server.process.wait(PATIENCE)
    assert server.process.stderr
    assert (server.process.returncode, b"its calls" in server.process.stderr.read()) in ((1, True), (0, False))
    released.set()
    endpoint.shutdown()
    endpoint.server_close()


@pytest.mark.requirement("process.stdout")
def test_nothing_but_the_protocol_is_on_stdout(folder: Path, start: Start) -> None:
    (folder / "sitecustomize.py").write_text(
        "import os, pathlib, sys, threading, time\n"
        "def print_as_a_library_does():\n"
        "    while 'cofio.engine.engine' not in sys.modules:\n"
        "        time.sleep(0.01)\n"
        "    for _ in range(50):\n"
        "        os.write(1, b'from a library\\n')\n"
        "    pathlib.Path('printed').touch()\n"
        "threading.Thread(target=print_as_a_library_does, daemon=True).start()\n"
    )
    server = start(PYTHONPATH=str(folder))
    server.ask("initialize", protocolVersion="2025-11-25")

    def is_printed() -> bool:
        server.call("write_context", topic="T", content="x")
        return (folder / "printed").exists()

    wait_until(is_printed)
    code, out, err = server.end()
    assert (code, out) == (0, b"")
    assert b"from a library" in err


@pytest.mark.requirement("process.durable")
def test_kill_9_loses_nothing_that_was_acknowledged(start: Start) -> None:
    server = start(COFIO_SYNC="full")
    for number in range(50):
        server.call("write_context", topic=f"T{number}", content=f"unique{number}")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(PATIENCE)
    again = start()
    for number in range(50):
        assert f"] T{number}\n" in again.call("search_context", query=f"unique{number}", search_mode="bm25")


@pytest.mark.requirement("concurrent")
def test_several_servers_on_one_store_lose_nothing_and_are_never_locked_out(start: Start) -> None:
    servers = [start() for _ in range(4)]
    faults: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for number in range(60):
                servers[me].call("write_context", topic=f"T{me}-{number}", content=f"unique{me}x{number}")
                seen = servers[me].call("search_context", query=f"unique{me}x{number}", search_mode="bm25", top_k=1)
                assert f"] T{me}-{number}\n" in seen
                servers[me].call("set_state", key=f"k{me}", value=number)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    join(*threads, seconds=2 * PATIENCE)
    assert faults == []
    for server in servers:
        assert server.call("list_context", limit=500).startswith("240 chunk(s) found:")
        assert [server.call("get_state", key=f"k{me}") for me in range(4)] == ["59"] * 4
        assert server.end()[0] == 0


def older(folder: Path) -> Path:
    """A memory of agent-memory-store with two chunks and a state."""
    import apsw

    folder.mkdir()
    database = apsw.Connection(str(folder / "store.db"))
    database.execute(
        "CREATE TABLE chunks (id TEXT PRIMARY KEY, topic TEXT NOT NULL, agent TEXT NOT NULL, tags TEXT NOT NULL,"
        " importance TEXT NOT NULL, content TEXT NOT NULL, embedding BLOB, created_at TEXT NOT NULL,"
        " updated_at TEXT NOT NULL, expires_at TEXT);"
        "CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL)"
    )
    for record_id, topic in (("aaaaaaaaaa", "Auth"), ("bbbbbbbbbb", "Billing")):
        at = "2026-01-02T03:04:05.678Z"
        database.execute(
            "INSERT INTO chunks VALUES (?, ?, 'pm', '[\"old\"]', 'high', 'the zebra of old', NULL, ?, ?, NULL)",
            (record_id, topic, at, at),
        )
    database.execute("INSERT INTO state VALUES ('phase', '{\"n\":3}', '2026-01-02T03:04:05.678Z')")
    database.close()
    return folder


@pytest.mark.requirement("process.takes-over")
@pytest.mark.parametrize("named", [True, False])
def test_the_first_start_takes_over_an_older_memory_by_itself(folder: Path, start: Start, named: bool) -> None:
    old = older(folder / ("elsewhere" if named else ".agent-memory-store"))
    before = (old / "store.db").read_bytes()
    variables = {"AGENT_STORE_PATH": str(old)} if named else {}
    server = start(**variables)
    server.ask("initialize", protocolVersion="2025-11-25")
    wait_until(lambda: "2 chunk(s)" in server.call("list_context"))
    assert "**updated:** 2026-01-02\n\nthe zebra of old" in server.call("read_context", id="aaaaaaaaaa")
    wait_until(lambda: "not found" not in server.call("get_state", key="phase"))
    assert json.loads(server.call("get_state", key="phase")) == {"n": 3}
    server.call("delete_context", id="bbbbbbbbbb")
    _, _, err = server.end()
    assert str(old).encode() in err
    assert (old / "store.db").read_bytes() == before
    again = start(**variables)
    assert again.call("list_context").startswith("1 chunk(s) found:")  # once is enough
    assert again.end()[2] == b""


@pytest.mark.requirement("process.start")
def test_the_command_that_each_client_is_told_starts_a_server(
    process: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = set()
    for client in ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "opencode"):
        assert main(["mcp", "config", client, "--json"]) == 0
        commands.add(tuple(json.loads(capsys.readouterr().out)["command"]))
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    for command in commands:
        ran = subprocess.run(
            command, cwd="/", env={"HOME": str(folder)}, input=json.dumps(hello), capture_output=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip
        assert json.loads(ran.stdout)["result"]["serverInfo"]["name"] == "cofio"
        assert ran.returncode == 0, ran.stderr


@pytest.mark.requirement("process.faults")
def test_a_bad_setting_or_a_store_that_is_deleted_under_a_server_is_told_in_one_line(
    folder: Path, start: Start
) -> None:
    assert start(COFIO_FLOOR="high").end() == (1, b"", b"cofio: floor: 'high' is not a number (COFIO_FLOOR)\n")
    server = start()
    server.call("write_context", topic="first", content="kept")
    shutil.rmtree(folder / ".cofio")
    for name, arguments in (
        ("write_context", {"topic": "second", "content": "not kept"}), ("search_context", {"query": "first"}),
    ):  # fmt: skip
        result = server.ask("tools/call", name=name, arguments=arguments)["result"]
        assert result["isError"]
        assert "was deleted, moved or replaced while it was open; start this program" in result["content"][0]["text"]
    code, out, err = server.end()
    assert (code, out) == (0, b"")
    assert err.count(b"was deleted, moved or replaced while it was open") == 1
    assert not (folder / ".cofio").exists()
