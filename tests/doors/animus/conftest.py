"""What the tests of the Animus door share: a host of a plugin in this process, and of one in its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO

import jsonschema
import pytest

from cofio.config.address import StoreAddress
from cofio.doors.animus.plugin import Server
from cofio.doors.animus.protocol import VARIABLES
from cofio.doors.jsonrpc import Connection

Answer = dict[str, Any]

LONGEST = 30  # seconds before a test gives up
PLUGIN = [sys.executable, "-m", "cofio.doors.animus"]
# All that the host lets through, besides what the manifest asks for.
PASSED_ON = ["PATH", "HOME", "USER", "SHELL", "TERM", "TMPDIR", "LANG", "LC_ALL", "RUST_LOG", "RUST_BACKTRACE", "TZ"]
BLOCKS = {"seed": -32300, "crate": -32400}
NOT_FOUND, INVALID, WRONG = -32601, -32602, -32600

_SCHEMAS = Path(__file__).parent / "schemas"
_DEFINED: Answer = {
    **json.loads((_SCHEMAS / "animus-plugin-protocol._all.json").read_text())["$defs"],
    **json.loads((_SCHEMAS / "animus-memory-store-protocol._all.json").read_text())["$defs"],
}
_RESULTS = {
    "initialize": "InitializeResult", "health/check": "HealthCheckResult",
    "memory/put": "PutMemoryResponse", "memory/get": "GetMemoryResponse", "memory/query": "QueryMemoryResponse",
    "memory/list_scopes": "ListScopesResponse", "memory/delete_scope": "DeleteScopeResponse",
}  # fmt: skip


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": _DEFINED})


def check(kind: str, value: object) -> None:
    """Hold a value against a type of the protocol's own schemas."""
    _validator(kind).validate(value)


def check_answer(method: str, answer: Answer) -> None:
    """Hold an answer against the schemas: the frame, and what is in it."""
    check("RpcResponse", answer)
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if "error" in answer:
        check("RpcError", answer["error"])
        assert answer["error"]["message"]
    elif method in _RESULTS:
        check(_RESULTS[method], answer["result"])


def scope(project: str = "p", agent: str | None = None, task: str | None = None) -> dict[str, str]:
    """A scope as the protocol writes it."""
    named = {"project_id": project, "agent_id": agent, "task_id": task}
    return {name: value for name, value in named.items() if value is not None}


def handshake(root: object = None, version: str = "1.1.0") -> Answer:
    """The parameters of `initialize` in the host's two ways: with a root, and as `animus plugin ping` does without."""
    params: Answer = {
        "protocol_version": version, "host_info": {"name": "animus", "version": "0.5.0"},
        "capabilities": {"streaming": True, "progress": True, "cancellation": True},
    }  # fmt: skip
    if root is not None:
        binding = {"project_root": str(root), "repo_scope": "r"}
        params["init_extensions"] = {"project_binding": binding, "memory_mcp_stdio_command": {"command": "/bin/animus"}}
    return params


class Host:
    """Asks a plugin through a pair of pipes, and holds each answer against the schemas."""

    def __init__(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        self.reads, self.writes = reads, writes
        self.number = 0

    def send(self, *messages: object) -> None:
        """Send messages, each as a line; bytes as they are."""
        for message in messages:
            self.writes.write(message if isinstance(message, bytes) else json.dumps(message).encode())
            self.writes.write(b"\n")
        self.writes.flush()

    def next(self) -> Answer:
        """The next message that comes."""
        line = self.reads.readline()
        assert line.endswith(b"\n"), "the plugin has gone"
        answer: Answer = json.loads(line)
        return answer

    def ask(self, method: str, params: object = None) -> Answer:
        """The answer to a request that nothing else is asked beside."""
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method}
        self.send(message if params is None else message | {"params": params})
        answer = self.next()
        assert answer["id"] == self.number
        check_answer(method, answer)
        return answer

    def result(self, method: str, params: object = None) -> Answer:
        """The result of a request that is granted."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        found: Answer = answer["result"]
        return found

    def error(self, method: str, params: object = None) -> tuple[int, str, Answer]:
        """The code, the message and the data of a request that is refused."""
        answer = self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]["code"], answer["error"]["message"], answer["error"].get("data")

    def notify(self, method: str, params: object = None) -> None:
        """Tell the plugin something."""
        self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    def initialize(self, root: object = None) -> Answer:
        """Shake hands."""
        result = self.result("initialize", handshake(root))
        self.notify("initialized")
        return result

    def put(self, where: object, key: str, value: object, **more: object) -> Answer:
        """Put a value."""
        return self.result("memory/put", {"scope": where, "key": key, "value": value, **more})

    def get(self, where: object, key: str) -> Answer:
        """Get a value."""
        return self.result("memory/get", {"scope": where, "key": key})

    def query(self, where: object, query: str, top_k: int = 10, **more: object) -> list[str]:
        """The keys that a query finds."""
        result = self.result("memory/query", {"scope": where, "query": query, "top_k": top_k, **more})
        return [each["key"] for each in result["results"]]

    def scopes(self, **params: object) -> list[Answer]:
        """The scopes of one page."""
        found: list[Answer] = self.result("memory/list_scopes", params)["scopes"]
        return found


class Inside(Host):
    """The host of a plugin that runs in a thread."""

    def __init__(self, *, codes: str = "seed", clock: Callable[[], datetime] | None = None) -> None:
        self.theirs, writes = _pipe()
        reads, self.ours = _pipe()
        super().__init__(reads, writes)
        self.server = Server(codes=codes, clock=clock)
        self.dropped: list[str] = []
        server = self.server
        self.connection = Connection(
            server, self.theirs, self.ours, on_malformed=self.dropped.append, is_finished=lambda: server.has_exited
        )
        self.running = threading.Thread(target=self.connection.run, daemon=True)
        self.running.start()

    def close(self) -> None:
        """Go, and wait until the plugin has seen it."""
        with suppress(BrokenPipeError):
            self.writes.close()
        self.running.join(LONGEST)
        assert not self.running.is_alive()
        if self.server.project is not None:
            self.server.project.close()
        for stream in (self.reads, self.theirs, self.ours):
            with suppress(BrokenPipeError):
                stream.close()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reads, writes = os.pipe()
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb")


def passed_on(**variables: str) -> dict[str, str]:
    """The environment that the host gives a plugin: the little that it lets through, and what the manifest declares."""
    assert set(variables) <= set(VARIABLES), "the host would not pass it on"
    chosen = {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"} | variables
    given = [*PASSED_ON, "XDG_CONFIG_HOME", "XDG_DATA_HOME", "COFIO_STORE"]
    return {name: os.environ[name] for name in given if name in os.environ} | chosen


class Process(Host):
    """The host of a plugin in a process of its own."""

    def __init__(self, root: Path, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [*PLUGIN, *arguments], cwd=root, env=passed_on(**variables), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin
        assert self.process.stdout
        super().__init__(self.process.stdout, self.process.stdin)

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the pipe; the exit code, and what was left to read."""
        out, err = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, out, err

    def close(self) -> None:
        """Make sure that it is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LONGEST)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with suppress(BrokenPipeError):
                stream.close()


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is the working folder."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    monkeypatch.setenv("COFIO_SYNC", "normal")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def bare() -> Iterator[Inside]:
    """A plugin that nothing was said to yet."""
    host = Inside()
    yield host
    host.close()


@pytest.fixture
def host(default_store: StoreAddress, root: Path, clock: Callable[[], datetime]) -> Iterator[Inside]:
    """A plugin that is bound to the project; its clock is set by hand."""
    host = Inside(clock=clock)
    host.initialize(root)
    yield host
    host.close()


@pytest.fixture
def started(default_store: StoreAddress, root: Path) -> Iterator[list[Process]]:
    """Processes that are ended with the test, whatever becomes of it."""
    processes: list[Process] = []
    yield processes
    for each in processes:
        each.close()


@pytest.fixture
def start(root: Path, started: list[Process]) -> Callable[..., Process]:
    """Starts a plugin in the project."""

    def begin(*arguments: str, **variables: str) -> Process:
        started.append(Process(root, *arguments, **variables))
        return started[-1]

    return begin
