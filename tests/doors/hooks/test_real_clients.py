"""The real Claude Code, Codex and Gemini CLI, with scripted models behind them, run the hooks; and the plugins.

Codex and Gemini CLI are half a gigabyte, so `make torture` installs them; where they are installed, `make test` runs
them, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mcp.clients import CLAUDE_CODE, CLIENTS_FOLDER, CODEX, GEMINI_CLI, Agent, install
from benchmarks.mcp.models import AnthropicModel, GeminiModel, Json, Model, OpenAIModel, listen

from cofio import Engine, Kind, __version__
from cofio.doors.cli import main
from cofio.doors.cli.hook_files import HOOK_FILES
from cofio.doors.mcp import skill

from .conftest import LONGEST, PROMPT, SETTINGS, Host

pytestmark = pytest.mark.usefixtures("process")

ROOT = Path(__file__).parents[3]
NODE = ROOT / ".node"
DECISION = "We decided that thumbnails go to the queue named kestrel, because heron drops jobs."
QUESTION = "Which queue do thumbnails go to?"
CODEX_CONFIG = """model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{address}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"""


class Attentive(Model):
    """A model that says "done" to everything, and keeps what it was told."""

    def answer(self, path: str, request: Json) -> tuple[str, bytes]:
        """Keep what the messages say."""
        with self._lock:
            self.transcript.results.append(json.dumps(request.get("messages", request), ensure_ascii=False))
            return self.render(path, request, None)


class AttentiveAnthropic(Attentive, AnthropicModel):
    """The same for Anthropic's API."""


class AttentiveOpenAI(Attentive, OpenAIModel):
    """The same for OpenAI's API."""


class AttentiveGemini(Attentive, GeminiModel):
    """The same for Gemini's API."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client, the model that it talks to, its options before the prompt, and the events that it tells of."""

    agent: Agent
    name: str
    model: type[Attentive]
    words: tuple[str, ...]
    events: frozenset[str]

    def find_program(self) -> list[str]:
        """Return the command that is the client; skip the test where it is not installed."""
        folder = CLIENTS_FOLDER / self.agent.package.rpartition("/")[2] / "node_modules"
        if self.agent is CLAUDE_CODE:
            folder = NODE / "node_modules"
        elif "COFIO_TORTURE" in os.environ:
            folder = install(self.agent)
        node = NODE / "node_modules" / "node" / "bin" / "node"
        if not (folder / self.agent.script).exists() or not node.exists():
            missing = NODE / "missing"
            why = missing.read_text().strip() if missing.exists() else "run `make .node/installed` or `make torture`"
            pytest.skip(f"{self.agent.package} from npm is not installed: {why}")
        return [str(node), str(folder / self.agent.script)]

    def configure(self, home: Path, address: str) -> dict[str, str]:
        """Tell it of its model, beside what is in its files; the variables that it needs."""
        if self.agent is CLAUDE_CODE:
            return {
                "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "scripted", "DISABLE_TELEMETRY": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }  # fmt: skip
        if self.agent is CODEX:
            (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(address=address))
            return {"SCRIPTED_KEY": "scripted"}
        file = home / ".gemini" / "settings.json"
        more = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
        file.write_text(json.dumps(json.loads(file.read_text()) | more))
        return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


CLAUDE = Client(
    CLAUDE_CODE, "claude-code", AttentiveAnthropic, ("-p",), frozenset({"SessionStart", "UserPromptSubmit", "Stop"})
)
OTHERS = [
    Client(
        CODEX, "codex", AttentiveOpenAI,
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
         "--dangerously-bypass-hook-trust"),
        frozenset({"SessionStart", "UserPromptSubmit", "Stop"}),
    ),
    Client(
        GEMINI_CLI, "gemini", AttentiveGemini, ("--yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-p"),
        frozenset({"SessionStart", "BeforeAgent", "AfterAgent"}),
    ),
]  # fmt: skip


@pytest.fixture
def claude(bare_host: Host) -> list[str]:
    """The command that is Claude Code, with `cofio` on its user's PATH."""
    program = CLAUDE.find_program()
    cofio = bare_host.home / "bin" / "cofio"
    cofio.parent.mkdir()
    cofio.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cofio "$@"\n')
    cofio.chmod(0o755)
    bare_host.variables["PATH"] = f"{cofio.parent}{os.pathsep}{os.environ['PATH']}"
    return program


def say(host: Host, client: Client, prompt: str, *options: str) -> str:
    """Have a session of one prompt; all that the model was told in it."""
    model = client.model((), ())
    with listen(model) as address:
        variables = client.configure(host.home, address)
        done = subprocess.run(
            [*client.find_program(), *client.words, prompt, *options], cwd=host.project, check=False, text=True,
            env=host.environment | variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * LONGEST,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return "\n".join(model.transcript.results)


def list_texts(host: Host, *kinds: Kind) -> list[str]:
    """The texts of all records of these kinds."""
    with Engine.open(host.store, settings=SETTINGS) as engine:
        return [record.text for record in engine.each() if record.kind in kinds]


def play(host: Host, client: Client, *options: str) -> None:
    """Decide something in one session, and ask for it in the next."""
    first = say(host, client, DECISION, *options)
    assert "recalled-memory" not in first
    assert DECISION in list_texts(host, Kind.TURN)
    second = say(host, client, QUESTION, *options)
    assert "recalled-memory" in second
    assert "queue named kestrel" in second
    runs = host.log()
    assert client.events <= {run["event"] for run in runs}
    assert [run for run in runs if run["outcome"] in ("failed", "late")] == []
    assert [list_texts(host, Kind.TURN).count(text) for text in (DECISION, QUESTION)] == [1, 1]
    kept = list_texts(host, Kind.TURN, Kind.FACT)
    assert not [text for text in kept if "recalled-memory" in text or "by cofio" in text]


def install_hooks(host: Host, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the hooks of a client in the host's home."""
    monkeypatch.setenv("HOME", str(host.home))
    for name in ("COFIO_STORE", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert main(["hooks", "install", client.name]) == 0


@pytest.mark.requirement("client.claude-code")
@pytest.mark.usefixtures("claude")
def test_claude_code_remembers_from_one_session_to_the_next(bare_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    install_hooks(bare_host, CLAUDE, monkeypatch)
    play(bare_host, CLAUDE)


@pytest.mark.requirement("client.others")
@pytest.mark.parametrize("client", OTHERS, ids=[client.name for client in OTHERS])
def test_another_client_remembers_from_one_session_to_the_next(
    bare_host: Host, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.find_program()
    install_hooks(bare_host, client, monkeypatch)
    play(bare_host, client)


@pytest.mark.requirement("client.plugin")
@pytest.mark.usefixtures("claude")
def test_the_plugin_does_the_same_in_claude_code(bare_host: Host) -> None:
    Engine.open(bare_host.store, settings=SETTINGS).close()
    plugin = bare_host.home / "plugin"
    shutil.copytree(ROOT / "plugin", plugin)
    play(bare_host, CLAUDE, "--plugin-dir", str(plugin))


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
@pytest.mark.parametrize("command", ["", "exit 3", "echo garbage"])
def test_the_plugin_of_opencode_adds_what_hooks_say_and_survives_what_they_do(
    host: Host, claude: list[str], tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    line = command or f'"{sys.executable}" -m cofio hook opencode'
    (folder / "cofio.mjs").write_text(HOOK_FILES["opencode"].install(None, line, "it"))
    (folder / "run.mjs").write_text(OPENCODE)
    done = subprocess.run(
        [claude[0], str(folder / "run.mjs"), str(host.project), PROMPT], env=host.environment, check=False,
        capture_output=True, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    own, *added = json.loads(done.stdout)
    assert own == {"type": "text", "text": PROMPT}
    if command:
        assert added == []
        return
    (part,) = added
    assert (part["sessionID"], part["messageID"], part["synthetic"]) == ("ses_1", "msg_1", True)
    assert part["id"].startswith("prt_")
    assert "retries five times with jitter" in part["text"]
    assert sorted(run["event"] for run in host.log()) == ["SessionStart", "Stop", "UserPromptSubmit"]
