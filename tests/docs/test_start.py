"""The start pages: from their first command to a first recall, as a reader would type it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

import mcp

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = "http://127.0.0.1:8427"
INSTALLS = ("uv tool install ", "make run", "pip install ")  # what tests/package and every run of the tests do


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with nothing set, and `cofio` on the PATH."""
    for name in [name for name in os.environ if name.startswith(("COFIO_", "EVEROS_", "AGENT_STORE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_commands(page: str) -> list[str]:
    """The commands of a page, in order; one may go over several lines."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [each for block in blocks for each in re.split(r"\n(?=\w)", block.strip())]


def run(command: str) -> str:
    """What a command prints."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_an_agent_recalls_what_it_was_told_in_the_session_before(project: Path) -> None:
    printed = [run(command) for command in read_commands("start-agent.md") if not command.startswith(INSTALLS)]
    assert "We deploy on Tuesdays, from main." in printed[-2]
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["cofio"]

    async def call(tool: str, **arguments: object) -> str:
        environ = {"COFIO_EMBEDDER": "hashed", "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}
        server = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=project, env=environ)
        async with mcp.Client(stdio_client(server)) as client:
            return str((await client.call_tool(tool, arguments)).content[0])

    async def talk() -> str:
        await call("write_context", topic="Deploys", content="From main, because the support team is complete then.")
        return await call("search_context", query="Why do we deploy from main?")

    assert "the support team is complete" in anyio.run(talk)


@pytest.fixture
def address() -> Iterator[str]:
    """Where a server listens."""
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", "served"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip().removesuffix("/mcp")
        server.terminate()


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on this machine")
def test_an_app_finds_what_a_user_said(address: str) -> None:
    commands = [each for each in read_commands("start-app.md") if not each.startswith(INSTALLS)]
    answers = [json.loads(run(each.replace(SHOWN, address).replace("curl ", "curl -sS "))) for each in commands]
    added, flushed, found, profile, files = answers
    assert added["data"]["message_count"] == 1
    assert flushed["data"]["status"] == "extracted"
    facts = [fact["content"] for episode in found["data"]["episodes"] for fact in episode["atomic_facts"]]
    assert any("allergic to peanuts" in fact for fact in facts)
    assert "Porto" in json.dumps(profile["data"]["profiles"][0])
    assert files["is_error"] is False
    assert "/api/v2/memory/" in run(f"curl -sS {address}/docs")


def test_a_program_finds_what_it_wrote_and_a_graph_has_its_checkpointer() -> None:
    page = (DOCS / "start-library.md").read_text()
    first, graph = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, check=True)
        assert "Ada's boat is called Petrel.\n" in done.stdout
    done = subprocess.run([sys.executable, "-c", graph], capture_output=True, text=True, check=True)
    assert done.stdout == "CofioSaver 0 checkpoints\n"
