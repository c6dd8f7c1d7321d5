"""`cofio mcp` as a client starts it: a process of its own, which is there at once and gone at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, Scope
from cofio.config.address import StoreAddress

from .conftest import SETTINGS

LONGEST = 30  # seconds before a test gives up; nothing is held against the clock but the promised second
COFIO = [sys.executable, "-m", "cofio"]
KEPT = ("PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "COFIO_STORE")


class Process:
    """A server in a process of its own, and the client's end of its pipes."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        environ = {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"} | kept | variables
        self.process = subprocess.Popen(
            [*COFIO, "mcp", *arguments],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.writes, self.reads = self.process.stdin, self.process.stdout
        self.number = 0

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """The answer to a request."""
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.writes.write(json.dumps(message).encode() + b"\n")
        self.writes.flush()
        answer: dict[str, Any] = json.loads(self.reads.readline())
        assert answer["id"] == self.number
        return answer

    def call(self, name: str, **arguments: object) -> str:
        """What a tool says."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert not result["isError"], result
        return str(result["content"][0]["text"])

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the pipe, as a client does; the exit code, and what was left to read."""
        out, err = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, out, err


@pytest.fixture
def started(default_store: StoreAddress, folder: Path) -> Iterator[list[Process]]:
    """Processes that are ended with the test, whatever becomes of it."""
    processes: list[Process] = []
    yield processes
    for each in processes:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait(LONGEST)
        for stream in (each.process.stdin, each.process.stdout, each.process.stderr):
            assert stream
            with suppress(BrokenPipeError):
                stream.close()


@pytest.mark.requirement("process.durable")
def test_a_session_from_nothing_to_a_memory_that_lasts(folder: Path, started: list[Process]) -> None:
    first = Process(folder)
    started.append(first)
    first.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
    assert first.call("write_context", topic="Deploy", content="on Fridays").startswith("Chunk saved: id=`")
    first.call("set_state", key="phase", value={"n": 1})
    assert first.end() == (0, b"", b"")
    second = Process(folder)
    started.append(second)
    assert "] Deploy\n" in second.call("search_context", query="when do we deploy?")
    assert json.loads(second.call("get_state", key="phase")) == {"n": 1}
    assert second.end()[0] == 0


def children(process: int) -> list[str]:
    """The processes that a process has started and not ended."""
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


@pytest.mark.requirement("process.end")
@pytest.mark.parametrize("work", ["nothing", "handshake", "search", "writes"])
def test_it_is_gone_within_a_second_of_stdin_closing(folder: Path, started: list[Process], work: str) -> None:
    server = Process(folder, COFIO_EMBEDDER="minilm")
    started.append(server)
    if work != "nothing":
        server.ask("initialize", protocolVersion="2025-11-25")
    if work == "search":
        server.call("search_context", query="anything", search_mode="semantic")
    if work == "writes":
        for number in range(200):
            server.call("write_context", topic=f"T{number}", content=f"text number {number}")
    assert children(server.process.pid) == []
    server.writes.close()
    closed = time.monotonic()
    server.process.wait(LONGEST)
    # The one promise about the clock: a client that ends a session waits for this. The machine may be busy, so twice.
    assert time.monotonic() - closed < 2
    assert server.process.returncode == 0


@pytest.mark.requirement("process.end")
def test_it_ends_though_an_endpoint_never_answers(folder: Path, started: list[Process]) -> None:
    released = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            released.wait(LONGEST)

    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{endpoint.server_address[1]}/v1"
    server = Process(folder, COFIO_EMBEDDER="remote", COFIO_EMBED_URL=url, COFIO_EMBED_MODEL="m")
    started.append(server)
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
    server.process.wait(LONGEST)
    assert server.process.stderr
    assert (server.process.returncode, b"its calls" in server.process.stderr.read()) in ((1, True), (0, False))
    released.set()
    endpoint.shutdown()
    endpoint.server_close()


@pytest.mark.requirement("process.stdout")
def test_nothing_but_the_protocol_is_on_stdout(folder: Path, started: list[Process]) -> None:
    noisy = folder / "sitecustomize.py"
    noisy.write_text(
        "import os, threading\n"
        "def noise():\n"
        "    import time\n"
        "    while not READY():\n"
        "        time.sleep(0.01)\n"
        "    for _ in range(50):\n"
        "        os.write(1, b'from a library\\n')\n"
        "        time.sleep(0.01)\n"
        "def READY():\n"
        "    import sys\n"
        "    return 'cofio.engine.engine' in sys.modules\n"
        "threading.Thread(target=noise, daemon=True).start()\n"
    )
    server = Process(folder, PYTHONPATH=str(folder))
    started.append(server)
    server.ask("initialize", protocolVersion="2025-11-25")
    for number in range(30):
        server.call("write_context", topic=f"T{number}", content="x")
        time.sleep(0.01)  # the noise is what takes time here
    code, out, err = server.end()
    assert (code, out) == (0, b"")
    assert b"from a library" in err


@pytest.mark.requirement("process.durable")
def test_kill_9_loses_nothing_that_was_acknowledged(folder: Path, started: list[Process]) -> None:
    server = Process(folder, COFIO_SYNC="full")
    started.append(server)
    for number in range(50):
        server.call("write_context", topic=f"T{number}", content=f"unique{number}")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(LONGEST)
    again = Process(folder)
    started.append(again)
    for number in range(50):
        assert f"] T{number}\n" in again.call("search_context", query=f"unique{number}", search_mode="bm25")


@pytest.mark.requirement("concurrent")
def test_several_servers_on_one_store_lose_nothing_and_are_never_locked_out(
    folder: Path, started: list[Process]
) -> None:
    started += [Process(folder) for _ in range(4)]
    faults: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for number in range(60):
                started[me].call("write_context", topic=f"T{me}-{number}", content=f"unique{me}x{number}")
                seen = started[me].call("search_context", query=f"unique{me}x{number}", search_mode="bm25", top_k=1)
                assert f"] T{me}-{number}\n" in seen
                started[me].call("set_state", key=f"k{me}", value=number)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    for server in started:
        assert server.call("list_context", limit=500).startswith("240 chunk(s) found:")
        assert [server.call("get_state", key=f"k{me}") for me in range(4)] == ["59"] * 4
        assert server.end()[0] == 0


@pytest.mark.requirement("store.path")
@pytest.mark.folder_only("the store that is named is a folder")
def test_the_setting_of_agent_memory_store_is_honoured(folder: Path, started: list[Process]) -> None:
    shared = folder / "shared memory"
    server = Process(folder, AGENT_STORE_PATH=str(shared))
    started.append(server)
    server.call("write_context", topic="Deploy", content="on Fridays")
    server.end()
    assert (shared / "memory.db").exists()
    assert not (folder / ".cofio").exists()


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
def test_the_first_start_takes_over_an_older_memory_by_itself(
    folder: Path, started: list[Process], named: bool
) -> None:
    old = older(folder / ("elsewhere" if named else ".agent-memory-store"))
    before = (old / "store.db").read_bytes()
    variables = {"AGENT_STORE_PATH": str(old)} if named else {}
    server = Process(folder, **variables)
    started.append(server)
    server.ask("initialize", protocolVersion="2025-11-25")
    until = time.monotonic() + LONGEST
    while "2 chunk(s)" not in server.call("list_context"):
        assert time.monotonic() < until
    assert "**updated:** 2026-01-02\n\nthe zebra of old" in server.call("read_context", id="aaaaaaaaaa")
    while "not found" in (phase := server.call("get_state", key="phase")):
        assert time.monotonic() < until
    assert json.loads(phase) == {"n": 3}
    server.call("delete_context", id="bbbbbbbbbb")
    _, _, err = server.end()
    assert str(old).encode() in err
    assert (old / "store.db").read_bytes() == before
    again = Process(folder, **variables)
    started.append(again)
    assert again.call("list_context").startswith("1 chunk(s) found:")  # once is enough
    assert again.end()[2] == b""


@pytest.mark.requirement("process.faults")
@pytest.mark.folder_only("no store is opened")
def test_a_store_of_a_later_version_or_a_bad_setting_is_told_in_one_line(folder: Path, started: list[Process]) -> None:
    wrong = Process(folder, COFIO_FLOOR="high")
    started.append(wrong)
    code, out, err = wrong.end()
    assert (code, out) == (1, b"")
    assert err == b"cofio: floor: 'high' is not a number (COFIO_FLOOR)\n"


@pytest.mark.requirement("store.shared")
def test_what_the_command_line_writes_is_found_through_the_door(
    default_store: StoreAddress, folder: Path, started: list[Process]
) -> None:
    with Engine.open(default_store, settings=SETTINGS) as engine:
        engine.write(Scope("mcp"), title="From a person", text="the zebra of the command line")
    server = Process(folder)
    started.append(server)
    assert "] From a person\n" in server.call("search_context", query="zebra")


@pytest.mark.requirement("process.start")
@pytest.mark.parametrize("client", ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "opencode"])
def test_the_command_that_a_client_is_told_starts_a_server(folder: Path, client: str) -> None:
    told = subprocess.run(
        [*COFIO, "mcp", "config", client, "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    command = json.loads(told.stdout)["command"]
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    ran = subprocess.run(
        command, cwd="/", env={"HOME": str(folder)}, input=json.dumps(hello), capture_output=True, text=True, timeout=30
    )
    assert json.loads(ran.stdout)["result"]["serverInfo"]["name"] == "cofio"
    assert ran.returncode == 0, ran.stderr


@pytest.mark.requirement("process.faults")
@pytest.mark.folder_only("the store's files are deleted")
def test_a_store_that_is_deleted_under_a_server_is_told_and_not_made_anew(folder: Path, started: list[Process]) -> None:
    server = Process(folder)
    started.append(server)
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
