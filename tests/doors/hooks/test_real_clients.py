"""The real Claude Code, with a scripted model behind it, runs the hooks; and what it says of the plugin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mcp.clients import CLAUDE_CODE
from benchmarks.mcp.models import AnthropicModel, Json, listen

from cofio import Engine, Kind, __version__
from cofio.doors.cli import main
from cofio.doors.cli.hook_files import HOOK_FILES
from cofio.doors.mcp import skill

from .conftest import LONGEST, SETTINGS, Host

ROOT = Path(__file__).parents[3]
NODE = ROOT / ".node"
DECISION = "We decided that thumbnails go to the queue named kestrel, because heron drops jobs."
QUESTION = "Which queue do thumbnails go to?"


class AttentiveModel(AnthropicModel):
    """A model that says "done" to everything, and keeps what it was told."""

    def __init__(self) -> None:
        super().__init__((), ())
        self.heard: list[str] = []

    def answer(self, path: str, request: Json) -> tuple[str, bytes]:
        """Keep what the messages say."""
        with self._lock:
            self.heard.append(json.dumps(request.get("messages", []), ensure_ascii=False))
            return self.render(path, request, None)


@pytest.fixture
def claude(bare_host: Host) -> list[str]:
    """The command that is Claude Code."""
    script = NODE / "node_modules" / CLAUDE_CODE.script
    if not script.exists():
        missing = NODE / "missing"
        why = missing.read_text().strip() if missing.exists() else "run `make .node/installed` once"
        pytest.skip(f"Claude Code from npm is not installed: {why}")
    cofio = bare_host.home / "bin" / "cofio"  # as it would be on the user's PATH
    cofio.parent.mkdir()
    cofio.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cofio "$@"\n')
    cofio.chmod(0o755)
    bare_host.variables["PATH"] = f"{cofio.parent}{os.pathsep}{os.environ['PATH']}"
    return [str(NODE / "node_modules/node/bin/node"), str(script)]


def say(host: Host, claude: list[str], prompt: str, *options: str) -> str:
    """Have a session of one prompt; all that the model was told in it."""
    model = AttentiveModel()
    with listen(model) as address:
        variables = {
            "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "scripted", "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        done = subprocess.run(
            [*claude, "-p", prompt, *options], cwd=host.project, env=host.environment | variables, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LONGEST,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return "\n".join(model.heard)


def list_texts(host: Host, kind: Kind) -> list[str]:
    """The texts of all records of a kind."""
    with Engine.open(host.store, settings=SETTINGS) as engine:
        return [record.text for record in engine.each() if record.kind is kind]


def play(host: Host, claude: list[str], *options: str) -> None:
    """Decide something in one session, and ask for it in the next."""
    first = say(host, claude, DECISION, *options)
    assert "recalled-memory" not in first
    assert DECISION in list_texts(host, Kind.TURN)
    second = say(host, claude, QUESTION, *options)
    assert "<recalled-memory>" in second
    assert "queue named kestrel" in second
    runs = host.log()
    assert {"SessionStart", "UserPromptSubmit", "Stop"} <= {run["event"] for run in runs}
    assert [run for run in runs if run["outcome"] in ("failed", "late")] == []
    kept = [*list_texts(host, Kind.TURN), *list_texts(host, Kind.FACT)]
    assert QUESTION in kept
    assert not [text for text in kept if "recalled-memory" in text or "by cofio" in text]
    assert list_texts(host, Kind.TURN).count(DECISION) == 1


@pytest.mark.requirement("client.claude-code")
def test_claude_code_remembers_from_one_session_to_the_next(
    bare_host: Host, claude: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(bare_host.home))
    monkeypatch.delenv("COFIO_STORE", raising=False)
    assert main(["hooks", "install", "claude-code"]) == 0
    capsys.readouterr()
    play(bare_host, claude)


@pytest.mark.requirement("client.plugin")
def test_the_plugin_does_the_same_in_claude_code(bare_host: Host, claude: list[str]) -> None:
    Engine.open(bare_host.store, settings=SETTINGS).close()
    plugin = bare_host.home / "plugin"
    shutil.copytree(ROOT / "plugin", plugin)
    play(bare_host, claude, "--plugin-dir", str(plugin))


@pytest.mark.requirement("client.plugin")
@pytest.mark.parametrize("path", [".", "plugin"])
def test_claude_code_finds_nothing_wrong_with_the_plugin(bare_host: Host, claude: list[str], path: str) -> None:
    done = subprocess.run(
        [*claude, "plugin", "validate", "--strict", str(ROOT / path)], env=bare_host.environment, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def read(path: str) -> Any:
    """A file of the repository, as JSON."""
    return json.loads((ROOT / path).read_text())


@pytest.mark.requirement("client.plugin")
@pytest.mark.parametrize(("client", "file"), [("claude-code", "hooks"), ("codex", "codex"), ("cursor", "cursor")])
def test_the_plugins_have_the_hooks_that_the_command_line_installs(client: str, file: str) -> None:
    expected = json.loads(HOOK_FILES[client].install(None, f"cofio hook {client}", "it"))
    assert read(f"plugin/hooks/{file}.json") == expected


@pytest.mark.requirement("client.plugin")
def test_the_plugins_have_the_skill_and_the_version_of_this_cofio() -> None:
    assert (ROOT / "plugin" / "skills" / skill.name / "SKILL.md").read_text() == skill.load_text()
    manifests = [read(f"plugin/.{client}-plugin/plugin.json") for client in ("claude", "codex", "cursor")]
    assert {manifest["version"] for manifest in manifests} == {__version__}
    assert len({manifest["description"] for manifest in manifests}) == 1
    for manifest in manifests[1:]:
        for name in ("hooks", "skills", "mcpServers"):
            assert (ROOT / "plugin" / manifest[name]).exists()
    markets = [read(f"{place}/marketplace.json") for place in (".claude-plugin", ".cursor-plugin", ".agents/plugins")]
    assert [market["plugins"][0]["name"] for market in markets] == ["cofio"] * 3
    assert markets[0]["plugins"][0]["version"] == __version__


OPENCODE = """
import { CofioHooks } from "./cofio.mjs"
const hooks = await CofioHooks({ directory: process.argv[2] })
const output = { message: { id: "msg_1" }, parts: [{ type: "text", text: process.argv[3] }] }
await hooks["chat.message"]({ sessionID: "ses_1" }, output)
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "ses_1" } } })
await hooks.event({ event: { type: "something.else", properties: {} } })
console.log(JSON.stringify(output.parts))
"""


@pytest.mark.requirement("client.opencode")
@pytest.mark.parametrize("command", ["", "exit 3", "/nowhere/cofio hook opencode", "echo garbage"])
def test_the_plugin_of_opencode_adds_what_hooks_say_and_survives_what_they_do(
    host: Host, claude: list[str], tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    line = command or f'"{sys.executable}" -m cofio hook opencode'
    (folder / "cofio.mjs").write_text(HOOK_FILES["opencode"].install(None, line, "it"))
    (folder / "run.mjs").write_text(OPENCODE)
    prompt = "How often does the uploader retry when the gateway fails over?"
    done = subprocess.run(
        [claude[0], str(folder / "run.mjs"), str(host.project), prompt], env=host.environment, check=False,
        capture_output=True, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    own, *added = json.loads(done.stdout)
    assert own == {"type": "text", "text": prompt}
    if command:
        assert added == []
        return
    (part,) = added
    assert (part["sessionID"], part["messageID"], part["synthetic"]) == ("ses_1", "msg_1", True)
    assert part["id"].startswith("prt_")
    assert "retries five times with jitter" in part["text"]
    assert sorted(run["event"] for run in host.log()) == ["SessionStart", "Stop", "UserPromptSubmit"]
