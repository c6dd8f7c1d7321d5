"""A real `cofio serve` in a process of its own, as its clients and its system see it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.waiting import PATIENCE

from cofio.config.address import StoreAddress

META = "io.modelcontextprotocol/"
REVISION = "2026-07-28"
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
GOODBYE = "cofio: stopped; all that was written is kept. Goodbye"


class Answer(NamedTuple):
    """The answer to a request; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    text: str

    def parse(self) -> Any:
        return json.loads(self.text)


class Server:
    """A server and its processes."""

    def __init__(
        self, store: StoreAddress, folder: Path, *arguments: str, max_files: int | None = None, **environ: str
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
        kept |= {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", "AGENT_STORE_PATH": str(folder / "none")}
        limited = [] if max_files is None else ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(max_files)]
        command = [sys.executable, "-m", "cofio", "serve", "--store", store.spell(), "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [*limited, *command], cwd=folder, env=kept | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self.process.stdout
        self.first_line = self.process.stdout.readline().strip()

    @property
    def port(self) -> int:
        return int(self.first_line.rsplit(":", 1)[1].split("/")[0])

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that stays open."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, path: str, body: object = None, method: str | None = None, **headers: str) -> Answer:
        """Send a request over a connection of its own."""
        with closing(self.connect()) as connection:
            return ask(connection, path, body, method, **headers)

    def call_mcp(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> Answer:
        """Send a request over MCP, in the revision without sessions."""
        meta = {f"{META}protocolVersion": REVISION, f"{META}clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
        named = {"Mcp-Name": params["name"]} if params else {}
        return self.ask("/mcp", message, **{"MCP-Protocol-Version": REVISION, "Mcp-Method": method, **named, **headers})

    def list_tools(self, **headers: str) -> int:
        """Return the status that a list of the tools is answered with."""
        return self.call_mcp("tools/list", None, **headers).status

    def find_children(self) -> dict[str, int]:
        """Return the ids of its processes, by `background` or `worker N`."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = {}
        for each in map(int, listed):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                nice = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[16])
                found["background" if nice > 0 else f"worker {each}"] = each
        return found

    def find_worker(self) -> int:
        """Return the id of one of its workers."""
        return next(process for name, process in self.find_children().items() if name != "background")

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop it; return its exit code and its log."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Wait until it has ended by itself; return its exit code and its log."""
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log


def ask(
    connection: http.client.HTTPConnection, path: str, body: object = None, method: str | None = None, **headers: str
) -> Answer:
    """Send a request over this connection: a GET, or a POST where there is a body."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    sent = {**ACCEPT, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method or ("GET" if body is None else "POST"), path, data, sent)
    answer = connection.getresponse()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode())


def is_gone(process: int) -> bool:
    """Tell whether a process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def remove(folder: Path) -> bool:
    """Remove a folder, unless the server removes one of its files at the same moment; return whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


Start = Callable[..., Server]


@pytest.fixture
def start(process: None, store_address: StoreAddress, tmp_path: Path) -> Iterator[Start]:
    """Starts servers on one store, which end with the test."""
    servers: list[Server] = []

    def run(*arguments: str, max_files: int | None = None, **environ: str) -> Server:
        servers.append(Server(store_address, tmp_path, *arguments, max_files=max_files, **environ))
        return servers[-1]

    yield run
    for each in servers:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate(timeout=PATIENCE)
