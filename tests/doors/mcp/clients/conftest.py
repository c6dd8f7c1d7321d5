"""Clients of others, the Node that runs them, and a real server for them to talk to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers import running

NODE = Path(__file__).parents[4] / ".node"
PATIENCE = 120  # seconds until something that hangs is ended; nothing takes so long, even on a busy machine

Npm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def node(process: None) -> Path:
    """The Node that runs the clients; their tests are skipped where npm could not install them."""
    if not (NODE / "installed").exists():
        missing = NODE / "missing"
        why = missing.read_text().strip() if missing.exists() else "run `make .node/installed` once"
        pytest.skip(f"MCP clients from npm are not installed: {why}")
    return NODE / "node_modules/node/bin/node"


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the files of the clients and the servers."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def environ(scratch: Path) -> dict[str, str]:
    """The environment of every process here: nothing of the user's own, hashes as vectors, answers as data."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "AGENT_STORE"))}
    ours = {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", "COFIO_STRUCTURED": "true"}
    return kept | ours | {"HOME": str(scratch)}


@pytest.fixture(scope="session")
def npm(node: Path, scratch: Path, environ: dict[str, str]) -> Npm:
    """Runs a command that came from npm, by its name."""

    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(node), str(NODE / "node_modules/.bin" / name), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=environ, cwd=scratch, check=False, timeout=PATIENCE
        )

    return run


@pytest.fixture(scope="session")
def serve(node: Path, scratch: Path, environ: dict[str, str]) -> Iterator[str]:
    """The address of a real `cofio serve`."""
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", str(scratch / "http")]
    with running(command, "/mcp", cwd=scratch, env=environ) as line:
        yield line.strip()
