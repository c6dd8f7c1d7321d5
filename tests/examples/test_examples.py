"""Every example runs as a process of its own, and does what the table of examples says."""

from __future__ import annotations

import ast
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
from tests.doors.memory_tool.conftest import MessagesApi, Tool
from tests.library.adapters.endpoint import Endpoint

import mcp
from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.files import home

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 180  # seconds until something that hangs is ended
_OTHERS = ("COFIO_", "EVEROS_", "AGENT_STORE", "ANTHROPIC_", "LLM_")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with nothing set."""
    for name in [name for name in os.environ if name.startswith(_OTHERS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COFIO_SYNC", "normal")
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run an example to its end."""
    runner = {".py": sys.executable, ".sh": "sh", ".mjs": "node"}[Path(name).suffix]
    return subprocess.run(
        [runner, str(EXAMPLES / name), *arguments],
        env=os.environ | environ, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def run(name: str, *arguments: str, **environ: str) -> str:
    """What an example prints."""
    done = start(name, *arguments, **environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def address(store_address: StoreAddress) -> Iterator[str]:
    """Where `cofio serve` listens."""
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", store_address.spell()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip().removesuffix("/mcp")
        server.terminate()


def test_the_table_names_every_example_and_every_example_is_tested() -> None:
    table = (EXAMPLES / "README.md").read_text()
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh", ".mjs")}
    assert set(re.findall(r"^\| \[(\S+)\]\(\1\)", table, re.MULTILINE)) == there
    strings = {node.value for node in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(node, ast.Constant)}
    assert there <= strings


def test_the_tour_explains_why_something_was_found() -> None:
    assert "Token lifetime" in run("tour.py")


def test_the_command_line_finds_keeps_and_copies(folder: Path) -> None:
    printed = run("command_line.sh", str(folder))
    assert "We deploy on Tuesdays" in printed.partition("== by words and by meaning")[2].partition("==")[0]
    assert "The staging database moved to port 5433." in printed.partition("== kept")[2]
    assert len((folder / "notes.jsonl").read_text().splitlines()) == 3
    assert (folder / "copy" / "memory.db").exists()


def test_a_client_that_starts_in_the_claude_code_project_finds_what_was_written(folder: Path) -> None:
    run("claude_code_project.sh", str(folder))
    entry = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["cofio"]
    assert (folder / ".claude/skills/agent-memory/SKILL.md").exists()

    async def ask() -> str:
        environ = {"COFIO_EMBEDDER": "hashed", "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}
        server = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=folder, env=environ)
        async with mcp.Client(stdio_client(server)) as client:
            return str((await client.call_tool("search_context", {"query": "When do we deploy?"})).content[0])

    assert "We deploy on Tuesdays" in anyio.run(ask)


def test_the_mcp_client_writes_once_and_finds_each_time(folder: Path) -> None:
    for _ in range(2):
        assert "We deploy on Tuesdays" in run("mcp_client.py")
    with Engine.open(folder / "example-memory") as engine:
        assert len(engine.list()) == 2


def test_the_chat_over_rest_knows_its_user(address: str) -> None:
    printed = run("rest_chat.py", COFIO_URL=address)
    assert re.search(r"Where did she move to\? .*Lisbon", printed)
    assert re.search(r"What is the dog called\? .*Rex", printed)
    assert "Lisbon" in printed.partition("Profile: ")[2]


def test_without_a_server_the_chat_says_what_to_start() -> None:
    done = start("rest_chat.py", COFIO_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "start `cofio serve` in another terminal" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node on this machine")
def test_the_chat_in_javascript_knows_its_user(address: str) -> None:
    printed = run("rest_chat.mjs", "kim", COFIO_URL=address)
    assert re.search(r"Where did she move to\? .*Lisbon", printed)
    assert re.search(r"What is the dog called\? .*Rex", printed)
    refused = start("rest_chat.mjs", COFIO_URL="http://127.0.0.1:9")
    assert refused.returncode == 1
    assert "start `cofio serve` in another terminal" in refused.stderr


def test_the_agent_of_the_library_knows_in_one_thread_what_it_learned_in_another() -> None:
    first, second = run("library_agent.py"), run("library_agent.py")
    assert re.findall(r"known: (\w+), messages: (\d+)", first) == [("False", "3"), ("True", "4")]
    assert [known for known, _ in re.findall(r"known: (\w+), messages: (\d+)", second)] == ["True", "True"]


def test_the_graph_waits_for_approval_in_one_process_and_goes_on_in_the_next() -> None:
    assert run("langgraph_approval.py", "yes") == "nothing waits: begin with `ask`\n"
    assert run("langgraph_approval.py", "ask").startswith("purchase-1: May I")
    assert run("langgraph_approval.py", "yes") == "purchase-1: approved\n"
    assert "It was approved to buy the blue kettle." in run("langgraph_approval.py", "ask")
    assert run("langgraph_approval.py", "no") == "purchase-2: refused\n"


def test_the_session_of_an_agent_goes_on_after_a_restart() -> None:
    assert run("agents_session.py").splitlines()[-1] == "2 so far; first: My boat is called Petrel."
    assert run("agents_session.py").splitlines()[-1] == "4 so far; first: My boat is called Petrel."


def test_the_agent_talks_to_the_model_that_is_named() -> None:
    with Endpoint() as endpoint:
        endpoint.play("Noted.", "Petrel.")
        assert run("agents_session.py", LLM_URL=endpoint.url) == "Noted.\nPetrel.\n"
        assert endpoint.asked[0]["model"]


def test_the_memory_of_llamaindex_recalls_what_has_left_the_chat() -> None:
    system, _, rest = run("llamaindex_memory.py").partition("\nuser: ")
    assert "The lighthouse keeper is called Tove." in system
    assert "Tove" not in rest


def test_claude_keeps_its_files_here(folder: Path) -> None:
    api = MessagesApi([{"command": "create", "path": "/memories/coffee.md", "file_text": "Black.\n"}])
    try:
        printed = run("claude_memory_tool.py", ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="x")
    finally:
        api.close()
    assert printed.splitlines()[-1] == "Claude: done"
    with Engine.open(folder / "example-memory") as engine:
        assert Tool(engine, home("alice")).files == {"/memories/coffee.md": "Black.\n"}
    refused = start("claude_memory_tool.py")
    assert refused.returncode == 1
    assert refused.stderr.startswith("set ANTHROPIC_API_KEY first")


def test_the_host_gets_and_finds_what_it_put() -> None:
    assert run("animus_host.py") == (
        "plugin: animus-memory-cofio\nreview: {'min_approvals': 2}\nfound: We deploy on Fridays.\n"
    )
