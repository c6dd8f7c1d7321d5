"""The two servers, and the client that both are driven by."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Arguments: TypeAlias = dict[str, Any]
Stores: TypeAlias = "dict[str, tuple[Product, Path]]"
"""A store of each product, by the product's name."""

PATIENCE = 1800.0  # seconds; a server that has not ended by then is stuck
PEER, PEER_VERSION = "agent-memory-store", "0.0.9"
PEER_FOLDER = Path(__file__).parents[2] / ".node" / "peer"


@dataclass(frozen=True)
class Product:
    """A server that can be started on a folder."""

    name: str
    command: tuple[str, ...]
    folder_variable: str
    settings: tuple[tuple[str, str], ...] = ()

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables that it is started with."""
        ours = ("COFIO_STORE", "COFIO_EMBEDDER", "AGENT_STORE_PATH")
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        return kept | dict(self.settings) | {self.folder_variable: str(folder)}


_COFIO = (str(Path(sysconfig.get_path("scripts")) / "cofio"), "mcp")
BY_WORDS = Product("cofio", _COFIO, "COFIO_STORE", (("COFIO_EMBEDDER", "none"),))
BY_DEFAULT = Product("cofio", _COFIO, "COFIO_STORE")


def installed_peer() -> Product:
    """agent-memory-store, on a node of its own that is new enough for it.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be installed here.
    """
    modules = PEER_FOLDER / "node_modules"
    node, script = modules / "node" / "bin" / "node", modules / PEER / "src" / "index.js"
    if not (node.exists() and script.exists()):
        print(f"installing {PEER} into {PEER_FOLDER}, once …", flush=True)
        PEER_FOLDER.mkdir(parents=True, exist_ok=True)
        (PEER_FOLDER / "package.json").write_text('{"private": true}\n')
        # The second without scripts: one of its parts would download a model's runtime from elsewhere.
        for wanted in (["node@22"], ["--ignore-scripts", f"{PEER}@{PEER_VERSION}"]):
            npm = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", *wanted]
            subprocess.run(npm, cwd=PEER_FOLDER, check=True, timeout=PATIENCE, capture_output=True, text=True)
    # By words alone, on every machine alike: a model that cannot be read is to it as one that cannot be downloaded.
    model = modules / "@huggingface" / "transformers" / ".cache" / "Xenova" / "all-MiniLM-L6-v2"
    model.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (model / name).write_text("no model: measured by words alone\n")
    return Product(PEER, (str(node), str(script)), "AGENT_STORE_PATH")


class Client:
    """One session with a server: one JSON-RPC message a line, one question at a time."""

    def __init__(self, product: Product, folder: Path, scratch: Path) -> None:
        self._said = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115  # open as long as the session is
        self.spawned = time.perf_counter()
        self._process = subprocess.Popen(
            product.command, cwd=scratch, env=product.environment(folder),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
        )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self._asks, self._answers = self._process.stdin, self._process.stdout
        self._timer = threading.Timer(PATIENCE, self._process.kill)
        self._timer.daemon = True
        self._timer.start()
        self._last = 0
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", version)
        self.initialized = (time.perf_counter() - self.spawned) * 1000
        self._send({"method": "notifications/initialized"})

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def request(self, method: str, params: Arguments | None = None) -> tuple[float, Arguments]:
        """Ask; the milliseconds until the answer was there, and its result."""
        self._last += 1
        line = _line({"id": self._last, "method": method, "params": params or {}})
        start = time.perf_counter()
        self._asks.write(line)
        self._asks.flush()
        answer = self._answers.readline()
        taken = (time.perf_counter() - start) * 1000
        if not answer:
            self._said.seek(0)
            raise RuntimeError(f"the server has ended: {self._said.read().decode()[-2000:]}")
        message = json.loads(answer)
        if message.get("id") != self._last or "result" not in message:
            raise RuntimeError(f"{method} was answered with {message}")
        return taken, message["result"]

    def call(self, tool: str, given: Arguments) -> tuple[float, str, bool]:
        """Call a tool; the milliseconds, what it says, and whether it failed."""
        taken, result = self.request("tools/call", {"name": tool, "arguments": given})
        return taken, result["content"][0]["text"], bool(result.get("isError"))

    def close(self) -> float:
        """Close the server's stdin; the milliseconds until it has ended."""
        start = time.perf_counter()
        self._asks.close()
        self._process.wait()
        taken = (time.perf_counter() - start) * 1000
        self._timer.cancel()
        self._answers.close()
        self._said.close()
        return taken

    def _send(self, message: Arguments) -> None:
        self._asks.write(_line(message))
        self._asks.flush()


def _line(message: Arguments) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


@contextmanager
def session(product: Product, folder: Path, scratch: Path) -> Iterator[Client]:
    """A client that is closed in the end."""
    client = Client(product, folder, scratch)
    try:
        yield client
    finally:
        client.close()


def found_peer() -> tuple[Product | None, str]:
    """The peer and what it is, or none and why."""
    try:
        peer = installed_peer()
        version = subprocess.run([peer.command[0], "--version"], check=True, capture_output=True, text=True).stdout
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "npm failed").strip().splitlines()
        reason = next((line for line in said if "npm error" in line), said[-1])
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    else:
        return peer, f"The peer is {PEER} {PEER_VERSION} on node {version.strip()}, started without npx."
    return None, f"{PEER} could not be installed here, so cofio was measured alone: {reason}"
