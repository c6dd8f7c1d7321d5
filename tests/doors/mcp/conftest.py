"""A client of the MCP door on each transport, which speaks to a server in this process."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pytest
from hypothesis import settings
from tests.tiers import scale_examples
from tests.waiting import PATIENCE, join

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.doors import jsonrpc
from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp.stdio import Server
from cofio.doors.mcp.surface import STATELESS

Result = dict[str, Any]
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SETTINGS = Settings(embedder="hashed", sync="normal")
PROPERTY = settings(
    max_examples=scale_examples(100),
    # The settings of the test suite leave out too_slow as well, but these take the place of them.
)
"""For properties that use a memory, whose contents make no difference to them."""


class Client(Protocol):
    """Asks a server, over either transport, for texts and for data."""

    memory: Memory

    def ask(self, method: str, **params: object) -> Result:
        """The whole answer to a request: with a result, or with an error."""


class Said:
    """What a tool answered."""

    def __init__(self, result: Result) -> None:
        self.text: str = result["content"][0]["text"]
        self.notes = [block["text"] for block in result["content"][1:]]
        self.error: bool = result.get("isError", False)
        self.data: Result = result.get("structuredContent") or {}
        self.blocks: list[Result] = result["content"]


class Tools:
    """Calls the tools by their names: `tools.write_context(topic=…)`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Said]:
        def called(**arguments: object) -> Said:
            answer = self.client.ask("tools/call", name=name, arguments=arguments)
            assert "result" in answer, answer
            return Said(answer["result"])

        return called

    def write(self, topic: str = "A topic", content: str = "Some content.", **more: object) -> str:
        """Write a chunk; its id."""
        said = self.write_context(topic=topic, content=content, **more)
        assert not said.error, said.text
        return str(said.data["id"])

    @property
    def engine(self) -> Engine:
        """The engine behind the door."""
        return self.client.memory.engine


class Wires:
    """A client on the other end of the pipes of a server that runs in a thread."""

    def __init__(self, server: jsonrpc.Server) -> None:
        self.theirs, self.writes = _pipe()
        self.reads, self.ours = _pipe()
        self.connection = jsonrpc.Connection(server, self.theirs, self.ours)
        self.running = threading.Thread(target=self.connection.run, daemon=True)
        self.running.start()
        self.number = 0

    def send(self, *messages: object) -> None:
        """Send messages, each as a line; bytes as they are."""
        for message in messages:
            self.writes.write(message if isinstance(message, bytes) else json.dumps(message).encode())
            self.writes.write(b"\n")
        self.writes.flush()

    def next(self) -> Any:
        """The next message that comes."""
        line = self.reads.readline()
        assert line.endswith(b"\n"), "the server has gone"
        return json.loads(line)

    def ask(self, method: str, **params: object) -> Result:
        """The answer to a request that nothing else is asked beside."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        answer: Result = self.next()
        assert answer["id"] == self.number
        return answer

    def close(self) -> None:
        """Go, and wait until the server has seen it."""
        self.writes.close()
        join(self.running)
        self.reads.close()
        self.theirs.close()
        with suppress(BrokenPipeError):
            self.ours.close()


class Pipes(Wires):
    """A client of a memory."""

    def __init__(self, memory: Memory, *, structured: bool = True, **options: bool) -> None:
        self.memory = memory
        super().__init__(Server(memory, structured=structured, **options))


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reads, writes = os.pipe()
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb")


class Http:
    """A client of a server on a port of this machine, in the era that has no sessions."""

    def __init__(self, memory: Memory, address: tuple[str, int]) -> None:
        self.memory = memory
        self.connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
        self.number = 0

    def ask(self, method: str, **params: object) -> Result:
        """The answer to a request."""
        self.number += 1
        body = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": {**params, "_meta": ENVELOPE}}
        headers = {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": STATELESS, "Mcp-Method": method,
        }  # fmt: skip
        name = params.get("name", params.get("uri"))
        if name is not None:
            headers["Mcp-Name"] = str(name)
        self.connection.request("POST", "/mcp", json.dumps(body).encode(), headers)
        answer: Result = json.loads(self.connection.getresponse().read())
        return answer


@contextmanager
def served(memory: Memory, folder: Path) -> Iterator[Any]:
    """The product's HTTP application on a free port; give its address."""
    import uvicorn

    from cofio.server.listener import open_listener

    from ..application import make_app

    structured = replace(memory.engine.settings, structured=True)
    application = make_app(StoreAddress(folder=folder), memory.engine, settings=structured)
    with open_listener("127.0.0.1", 0) as listening:
        started = threading.Event()

        class Running(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets)
                started.set()

        running = Running(uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        assert started.wait(PATIENCE)
        try:
            yield listening.getsockname()
        finally:
            running.should_exit = True
            join(thread)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with nothing set."""
    for name in [name for name in os.environ if name.startswith("COFIO_") or name == "AGENT_STORE_PATH"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memory(default_store: StoreAddress, folder: Path) -> Iterator[Memory]:
    """A memory in the folder, not opened yet."""
    memory = Memory(default_store, SETTINGS, say=print)
    yield memory
    memory.close()


@pytest.fixture
def pipes(memory: Memory) -> Iterator[Pipes]:
    """A client on pipes."""
    client = Pipes(memory)
    yield client
    client.close()


@pytest.fixture(params=["stdio", "http"])
def client(request: pytest.FixtureRequest, memory: Memory, folder: Path) -> Iterator[Client]:
    """A client of each transport in turn."""
    with ExitStack() as stack:
        if request.param == "stdio":
            pipes = Pipes(memory)
            stack.callback(pipes.close)
            yield pipes
        else:
            over_http = Http(memory, stack.enter_context(served(memory, folder / ".cofio")))
            stack.callback(over_http.connection.close)
            yield over_http


@pytest.fixture
def tools(pipes: Pipes) -> Tools:
    """The tools, on pipes: those tests that have a `client` show that HTTP gives the same."""
    return Tools(pipes)
