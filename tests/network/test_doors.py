"""Every door, in a process of its own with a fresh home: no socket but its own, no name lookup, no file but its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.waiting import wait_until

import mcp
from cofio.doors.cli.command_line import build_parser

from .tracing import LONGEST, Sandbox

ROOT = Path(__file__).parents[2]
COFIO = [sys.executable, "-m", "cofio"]
# What is gathered in the background is sent some ten seconds later, if at all; only a torture waits that long.
LINGER = 45.0 if os.environ.get("COFIO_TORTURE") == "1" else 0.0


def ask(process: subprocess.Popen[str], method: str, **params: object) -> Any:
    """The result of a JSON-RPC call on a process's pipes; what the server says on its own is passed over."""
    assert process.stdin
    assert process.stdout
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    return next(answer["result"] for answer in map(json.loads, process.stdout) if answer.get("id") == 1)


def end(process: subprocess.Popen[str]) -> None:
    """Tell a process that there is no more to read, and wait until it has ended."""
    time.sleep(LINGER)
    assert process.stdin
    process.stdin.close()
    assert process.wait(LONGEST) == 0


def check(sandbox: Sandbox) -> None:
    """See that nothing was reached, although a search by meaning was made."""
    assert sandbox.foreign() == []
    assert sandbox.opened("/onnxruntime_pybind11_state")
    assert not sandbox.opened("/huggingface_hub/")  # it can send telemetry, too, and is never needed


def fetch(address: str, body: object = None) -> str:
    """What a server on this machine answers."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, sent, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=LONGEST) as answer:
        return str(answer.read().decode())


def test_mcp_on_stdin_and_stdout_reaches_nothing(sandbox: Sandbox) -> None:
    with sandbox.start([*COFIO, "mcp"]) as server:
        client = {"name": "test", "version": "1"}
        ask(server, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        note = {"topic": "Deploys", "content": "We deploy on Tuesdays."}
        assert not ask(server, "tools/call", name="write_context", arguments=note)["isError"]
        question = {"query": "the day of a release", "search_mode": "semantic"}
        assert not ask(server, "tools/call", name="search_context", arguments=question)["isError"]
        end(server)
    check(sandbox)


def test_animus_reaches_nothing(sandbox: Sandbox) -> None:
    with sandbox.start([sys.executable, "-m", "cofio.doors.animus"]) as plugin:
        ask(plugin, "initialize", protocol_version="1.1.0")
        scope = {"project_id": "shop"}
        assert ask(plugin, "memory/put", scope=scope, key="deploy", value="We deploy on Fridays.")["ack"]
        assert "results" in ask(plugin, "memory/query", scope=scope, query="release day", top_k=3, mode="hybrid")
        end(plugin)
    check(sandbox)


def test_the_doors_over_http_and_the_vault_reach_nothing(sandbox: Sandbox) -> None:
    with sandbox.start([*COFIO, "serve", "--port", "0"]) as server:
        assert server.stdout
        address = server.stdout.readline().strip().removesuffix("/mcp")
        assert address.startswith("http://127.0.0.1:")
        anyio.run(_use_mcp, f"{address}/mcp")
        _use_rest(f"{address}/api/v1/memory", sandbox.work / ".cofio" / "vault")
        view = {"command": "view", "path": "/memories"}
        assert "/memories" in fetch(f"{address}/api/v1/memory-tool?owner=ada", view)
        _upload(f"{address}/api/v2/knowledge/documents")
        fetch(f"{address}/threads/ada/checkpoints", {"state": {"messages": ["hello"]}})
        for path in ("/threads/ada/checkpoints", "/metrics", "/health", "/"):
            assert fetch(address + path)
        time.sleep(LINGER)
    check(sandbox)


async def _use_mcp(address: str) -> None:
    async with mcp.Client(address) as client:
        note = {"topic": "Deploys", "content": "We deploy on Tuesdays."}
        assert not (await client.call_tool("write_context", note)).is_error
        question = {"query": "release day", "search_mode": "semantic"}
        assert not (await client.call_tool("search_context", question)).is_error


def _use_rest(address: str, vault: Path) -> None:
    """Have a conversation kept, and written to the vault."""
    said = {"sender_id": "ada", "role": "user", "timestamp": 1779967836000, "content": "I live in Oslo."}
    fetch(f"{address}/add", {"session_id": "s", "messages": [said]})
    fetch(f"{address}/flush", {"session_id": "s"})
    assert "Oslo" in fetch(f"{address}/search", {"user_id": "ada", "query": "who lives in Oslo"})
    wait_until(lambda: [*vault.rglob("episode-2026-05-28.md")])  # the files follow in the background


def _upload(address: str) -> None:
    """Send a document that is too large to wait in memory."""
    page = b"<html><!-- " + b"much ado " * 300_000 + b"--><p>About nothing."
    parts = (b'name="title"\r\n\r\nAdo', b'name="file"; filename="ado.html"\r\n\r\n' + page)
    body = b"".join(b"--x\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + b"--x--\r\n"
    request = urllib.request.Request(address, body, {"content-type": "multipart/form-data; boundary=x"})
    with urllib.request.urlopen(request, timeout=LONGEST) as answer:
        assert answer.status == 201


COMMANDS = {
    "add 'We deploy on Tuesdays.' --title Deploys --key deploy": "",
    "search 'release day' --mode semantic --why --json": "",
    "list": "",
    "show --key deploy": "",
    "edit --key deploy --text 'We deploy on Mondays.'": "",
    "demo": "",
    "config": "",
    "completion bash": "",
    "help search": "",
    "version": "",
    "scopes": "",
    "stats": "",
    "reindex --vectors": "",
    "doctor --fix": "",
    "backup copy": "",
    "copy copy again": "",
    "export lines.jsonl": "",
    "import lines.jsonl": "",
    "chat import chat.txt --app shop": "",
    "documents add notes.md": "",
    "vault sync": "",
    "mcp": "",
    "mcp config claude-code --write": "",
    "animus": "",
    "token add laptop": "",
    "skill install": "",
    "files write /memories/tea.md": "Ada likes tea.",
    "model status": "",
    "trust": "",
    "transcripts import": "",
    "hooks install claude-code --file settings.json --store .cofio": "",
    "hook claude-code --store .cofio": '{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "Deploy"}',
    "rm --scope / --yes": "",
}
"""Commands, and what they are given to read."""


def test_every_command_reaches_nothing(sandbox: Sandbox) -> None:
    known = next(
        set(action.choices) for action in build_parser()._actions if action.dest == "command" and action.choices
    )
    assert known - {command.split()[0] for command in COMMANDS} == {"serve"}  # which has a test of its own
    (sandbox.work / "chat.txt").write_text("Ada: I live in Oslo.\nBob: And I in Bergen.\n")
    (sandbox.work / "notes.md").write_text("# Notes\n\nWe meet at noon.\n")
    for command, given in COMMANDS.items():
        sandbox.run([*COFIO, *shlex.split(command)], input=given)
    check(sandbox)


def test_the_model_is_installed_from_a_file_without_the_network(sandbox: Sandbox, weights: Path) -> None:
    own = {"COFIO_MODELS": str(sandbox.work / "models"), "TMPDIR": str(sandbox.work)}
    replace(sandbox, variables=own).run([*COFIO, "model", "install", "--source", str(weights)])
    # onnxruntime names a file by the machine's network card: libuuid asks a service on this machine for such a name,
    # or the kernel for the card, through a socket that is never connected.
    harmless = re.compile(r'connect\(.*sun_path="/(var/)?run/uuidd/request"|socket\(AF_INET, SOCK_DGRAM, ')
    assert [line for line in sandbox.foreign() if not harmless.match(line)] == []
    assert sandbox.opened("/onnxruntime_pybind11_state")


def programs(page: str, *, start: int = 0, end: int | None = None) -> list[str]:
    """The programs of a page of the docs."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return blocks[start:end]


SEARCH = """
from cofio import Engine, Query
with Engine.open("my-memory") as engine:
    engine.settle()
    engine.search(Query("release day", mode="semantic"))
"""
LIBRARY = {
    "engine": programs("README.md")[0],
    "langgraph": "\n".join(programs("docs/langgraph.md", end=2)),
    "llama_index": programs("docs/adapters.md", start=1)[0],
    "anthropic": """
from cofio.library.anthropic import MemoryTool
with MemoryTool("my-memory", owner="ada") as memory:
    memory.call({"command": "create", "path": "/memories/tea.md", "file_text": "Ada likes tea."})
    memory.call({"command": "view", "path": "/memories"})
""",
    "openai_agents": """
import asyncio
from cofio import Engine, Scope
from cofio.library.openai_agents import CofioSession, recall_tool
async def run(engine):
    session = CofioSession("ada", engine)
    await session.add_items([{"role": "user", "content": "My boat is called Petrel."}])
    assert await session.get_items()
    assert await session.search("boat")
    recall_tool(engine, Scope("openai-agents"))
with Engine.open("my-memory") as engine:
    asyncio.run(run(engine))
""",
    "store": """
import asyncio
from cofio import Engine
from cofio.library import CofioStore, get_checkpointer
async def run(engine):
    store = CofioStore(engine)
    await store.put(("users", "ada"), "boat", {"text": "My boat is called Petrel."})
    assert await store.search(("users", "ada"), query="boat")
    for name in ("memory", "file:checkpoints", "sqlite:my-memory"):
        get_checkpointer(name)
with Engine.open("my-memory") as engine:
    asyncio.run(run(engine))
""",
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_program_that_uses_the_library_reaches_nothing(name: str, sandbox: Sandbox) -> None:
    sandbox.run([sys.executable, "-c", LIBRARY[name] + SEARCH + f"import time; time.sleep({LINGER})"])
    check(sandbox)
