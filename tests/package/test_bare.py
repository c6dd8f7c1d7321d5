"""A bare install, without any extra, is the library, the command line, MCP on stdio, Animus and the memory tool."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(bare: Path, tmp_path: Path) -> Run:
    """Runs Python in an empty folder with nothing but what a bare install brings."""

    ours = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "PYTHON"))}

    def run(*words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [bare, *words], cwd=tmp_path, env={**ours, "COFIO_SYNC": "normal", **more}, input=stdin,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    return run


@pytest.fixture
def cofio(run: Run) -> Callable[..., str]:
    """Runs a command that is to go well, and gives what it prints."""

    def cofio(*words: str, **more: str) -> str:
        done = run("-m", "cofio", *words, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return cofio


def exchange(*messages: dict[str, object]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def test_the_modules_of_extras_are_not_to_be_had(run: Run) -> None:
    for name in ("mcp", "starlette", "uvicorn", "watchfiles", "onnx", "tokenizers", "openai", "anthropic", "pypdf"):
        assert f"No module named '{name}'" in run("-c", f"import {name}").stderr


def test_the_command_line_writes_finds_by_meaning_and_looks_after_the_store(
    cofio: Callable[..., str], tmp_path: Path, models: Path
) -> None:
    here = {"COFIO_MODELS": str(models)}
    cofio("add", "We ship every Tuesday, from main.", "--title", "Releases", **here)
    cofio("add", "The office cat is called Miso.", **here)
    hits = [
        json.loads(line)
        for line in cofio("search", "when do deployments happen", "--floor", "0", "--json", **here).splitlines()
    ]
    assert any("Tuesday" in json.dumps(hit) for hit in hits)
    for command in (["list"], ["stats"], ["scopes"], ["doctor"], ["vault", "status"], ["vault", "sync"], ["--help"]):
        assert cofio(*command, **here) or command[0] == "vault"
    cofio("export", "all.jsonl", **here)
    assert "Tuesday" in (tmp_path / "all.jsonl").read_text()
    cofio("import", "all.jsonl", "--store", "other", **here)


def test_an_mcp_client_writes_and_finds(run: Run) -> None:
    asked = exchange(
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        }},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {
            "name": "write_context", "arguments": {"topic": "Deploys", "content": "We deploy on Tuesdays."},
        }},
        {"id": 3, "method": "tools/call", "params": {
            "name": "search_context", "arguments": {"query": "deploy", "search_mode": "bm25"},
        }},
    )  # fmt: skip
    done = run("-m", "cofio", "mcp", stdin=asked, COFIO_EMBEDDER="none")
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines()) if "id" in answer}
    assert "Chunk saved" in answers[2]["content"][0]["text"]
    assert "We deploy on Tuesdays." in answers[3]["content"][0]["text"]


def test_an_animus_host_puts_and_queries(run: Run) -> None:
    scope = {"project_id": "shop"}
    asked = exchange(
        {"id": 1, "method": "initialize", "params": {"protocol_version": "1.1.0"}},
        {"id": 2, "method": "memory/put", "params": {"scope": scope, "key": "day", "value": "Fridays"}},
        {"id": 3, "method": "memory/query", "params": {"scope": scope, "query": "fridays", "top_k": 3}},
    )
    done = run("-c", "from cofio.doors.animus import main; raise SystemExit(main())", stdin=asked)
    answers = {answer["id"]: answer.get("result") for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[2]["ack"] is True
    assert [each["key"] for each in answers[3]["results"]] == ["day"]


def test_the_library_keeps_messages_memories_and_checkpoints(run: Run) -> None:
    done = run("-c", """
import cofio.library, cofio.library.providers.http
from cofio import Engine, Query, Scope
from cofio.files import dispatch, home
for name in cofio.__all__:
    getattr(cofio, name)
for name in cofio.library.__all__:
    try:
        getattr(cofio.library, name)
    except ImportError as error:
        print(name, str(error).partition(":")[0])
with Engine.open("memory") as memory:
    memory.write(Scope("demo"), text="The harbour freezes in winter.")
    print(memory.search(Query("harbour"))[0].record.text)
    dispatch(memory, home("default"), {"command": "create", "path": "/memories/a.md", "file_text": "hello"})
    assert "hello" in str(dispatch(memory, home("default"), {"command": "view", "path": "/memories/a.md"}))
""", COFIO_EMBEDDER="hashed")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "PostgreSQLBackend the backend postgresql needs its driver",
        "PostgreSQLCheckpointer the backend postgresql needs its driver",
        "RedisBackend the backend redis needs its driver",
        "RedisCheckpointer the backend redis needs its driver",
        "S3Checkpointer the checkpointer s3 needs its driver",
        "The harbour freezes in winter.",
    ]


def test_serving_over_http_says_what_to_install(run: Run, tmp_path: Path) -> None:
    done = run("-m", "cofio", "serve")
    assert done.returncode == 1
    assert done.stderr.startswith("cofio: serving over HTTP needs the extra `server`")
    assert "[server]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / ".cofio").exists()
