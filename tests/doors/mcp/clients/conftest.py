"""What the tests with clients of others share: the Node that runs those, and a real server for them to talk to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NODE = Path(__file__).parents[4] / ".node"
PATIENCE = 120  # seconds until something that hangs is ended; nothing takes so long, even on a busy machine

Npm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def node() -> Path:
    """The Node that runs the clients. Where npm could not install them, their tests are skipped, and say why."""
    if not (NODE / "installed").exists():
        missing = NODE / "missing"
        why = missing.read_text().strip() if missing.exists() else "run `make .node/installed` once"
        pytest.skip(f"MCP clients from npm are not installed: {why}")
    return NODE / "node_modules/node/bin/node"


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all that the clients and the servers of one run leave behind."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def environ(scratch: Path) -> dict[str, str]:
    """What every process here is started with: nothing of the person's own, hashes as vectors, answers as data."""
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


@contextmanager
def _serving(command: list[str], log: Path, environ: dict[str, str]) -> Iterator[str]:
    """A server for as long as it is needed; the address that it prints first."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environ, cwd=log.parent, text=True
        ) as process,
    ):
        hangs = threading.Timer(PATIENCE, process.kill)
        hangs.start()
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        hangs.cancel()
        try:
            assert address.startswith("http://"), log.read_text()
            yield address
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.fixture(scope="session")
def serve(node: Path, scratch: Path, environ: dict[str, str]) -> Iterator[str]:
    """The address of a real `cofio serve`."""
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", str(scratch / "http")]
    with _serving(command, scratch / "serve.log", environ) as address:
        yield address


@pytest.fixture(scope="session")
def with_fixtures(node: Path, scratch: Path, environ: dict[str, str]) -> Iterator[str]:
    """The address of the same server with the conformance suite's fixtures on top."""
    script = Path(__file__).parent / "fixtures_server.py"
    command = [sys.executable, str(script), str(scratch / "fixtures")]
    with _serving(command, scratch / "fixtures.log", environ) as address:
        yield address
