"""cofio in a process that lacks what Windows lacks, and refuses what Windows refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

SCRIPT = Path(__file__).with_name("windows.py")
ROOT = Path(__file__).parents[2]


PYTHON = (sys.executable, "-X", "warn_default_encoding", str(SCRIPT))
"""Where it is an error to open a file by the system's custom."""
ENVIRON = os.environ | {"PYTHONIOENCODING": "cp1252", "COFIO_EMBEDDER": "none", "COFIO_VAULT": "true"}
"""Streams that are not UTF-8 unless they are made so; and no model."""


def run(folder: Path, *commands: list[str], stdin: bytes = b"", code: int = 0, given: str = "") -> list[bytes]:
    """What commands print that are run there, in a folder, one after the other; the last ends with that code."""
    done = subprocess.run(
        [*PYTHON, given or json.dumps(commands)],
        input=stdin,
        capture_output=True,
        cwd=folder,
        env=ENVIRON,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.split(b"\x1e\n")


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    sources = list((ROOT / "src" / "cofio").rglob("*.py"))
    (count,) = run(tmp_path, given="modules")
    assert int(count) == len(sources) - 1  # the package itself


def test_a_memory_is_made_searched_listed_copied_and_rebuilt(tmp_path: Path) -> None:
    added, _, found, listed, *_, copied, _, _, restored, _, _ = run(
        tmp_path,
        ["add", "--title", "Key", "Grüße: the deploy key is in the safe"],
        ["add", "Lunch is at noon"],
        ["search", "deploy key"],
        ["list"],
        ["reindex"],
        ["backup", "copy"],
        ["--store", "copy", "search", "deploy"],
        ["export", "out.jsonl"],
        ["--store", "second", "import", "out.jsonl"],
        ["--store", "second", "list"],
        ["doctor", "--fix"],
    )
    assert added
    for each in (found, copied):
        assert "Grüße" in each.decode()
    assert len(listed.splitlines()) == len(restored.splitlines()) == 2
    assert b"\r" not in (tmp_path / "out.jsonl").read_bytes()


def test_files_and_tokens_are_written_and_no_link_is_followed(tmp_path: Path) -> None:
    run(tmp_path, ["files", "write", "/memories/notes/a.md", "one\ntwo ß\n"], ["files", "pull", "out"])
    assert (tmp_path / "out" / "notes" / "a.md").read_bytes() == "one\ntwo ß\n".encode()
    (tmp_path / "out" / "b.md").write_bytes(b"new\n")
    (tmp_path / "out" / "link.md").symlink_to(__file__)
    run(tmp_path, ["files", "push", "out"], code=1)
    shown, made, tokens, _, _ = run(
        tmp_path,
        ["files", "cat", "/memories/b.md"],
        ["token", "add", "laptop"],
        ["token", "list"],
        ["files", "cat", "/memories/link.md"],
        code=1,
    )
    assert shown == b"new\n"
    assert made.startswith(b"cofio_")
    assert tokens.startswith(b"laptop")


def test_the_vault_is_written_and_what_people_change_is_taken_in(tmp_path: Path) -> None:
    (tmp_path / "chat.txt").write_text("Ada: I live in Oslo.\nBen: Since when?\nAda: I moved to Oslo in May 2024.\n")
    run(tmp_path, ["chat", "import", "chat.txt"], ["vault", "sync"])
    written = [each for each in (tmp_path / ".cofio" / "vault").rglob("*.md") if "Oslo" in each.read_text()]
    assert written
    for each in written:
        assert b"\r" not in each.read_bytes()
        each.write_bytes(each.read_bytes().replace(b"Oslo", b"Bergen"))
    state = tmp_path / ".cofio" / "vault" / ".state" / "state.db"
    synced, found, _ = run(tmp_path, ["vault", "sync"], ["search", "Bergen"])
    assert b"taken in" in synced
    assert b"Bergen" in found
    state.write_bytes(b"no database " * 1000)
    (status, _) = run(tmp_path, ["vault", "status"])
    assert b"entr" in status


def test_a_client_of_mcp_is_answered_in_utf8_and_plain_lines(tmp_path: Path) -> None:
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "\ud800", "method": "ping"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search_context", "arguments": {"query": "deploy – key"}},
        },
    ]
    added = ["add", "Grüße: the deploy key is in the safe"]
    _, said = run(tmp_path, added, ["mcp"], stdin=b"".join(json.dumps(each).encode() + b"\r\n" for each in frames))
    assert b"\r" not in said
    answers = {json.dumps(each["id"]): each for each in map(json.loads, said.splitlines())}
    assert set(answers) == {"1", "2", '"\\ud800"'}
    assert "Grüße" in json.dumps(answers["2"], ensure_ascii=False)


def test_the_plugin_of_animus_is_answered(tmp_path: Path) -> None:
    scope = {"project_id": "p", "scope_id": "s"}
    hello = {"protocol_version": "1.0.0", "project_binding": {"project_root": str(tmp_path)}}
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "id": 2, "method": "memory/put", "params": {"scope": scope, "key": "k", "value": "Grüße"}},
        {"jsonrpc": "2.0", "id": 3, "method": "memory/get", "params": {"scope": scope, "key": "k"}},
    ]
    (said,) = run(tmp_path, ["animus"], stdin=b"".join(json.dumps(each).encode() + b"\n" for each in frames))
    first, _, second = map(json.loads, said.splitlines())
    assert "error" not in first
    assert second["result"]["value"] == "Grüße"


def test_a_server_takes_conversations_and_writes_the_vault(tmp_path: Path) -> None:
    command = [*PYTHON, json.dumps([["serve", "--port", "0"]])]
    turn = {"sender_id": "ada", "role": "user", "timestamp": 1_780_000_000_000, "content": "I live in Oslo – Grüße."}
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().removesuffix("/mcp")
            for path, body in (
                ("/health", None),
                ("/api/v1/memory/add", {"session_id": "s", "messages": [turn]}),
                ("/api/v1/memory/flush", {"session_id": "s"}),
            ):
                data = None if body is None else json.dumps(body).encode()
                request = Request(f"{address}{path}", data, {"Content-Type": "application/json"})
                with urlopen(request) as answer:
                    assert answer.status == 200
        finally:
            server.terminate()
    assert any("Grüße" in each.read_text() for each in (tmp_path / ".cofio" / "vault").rglob("*.md"))
