"""The real Codex and Gemini CLI, with scripted models behind them, run the hooks.

They are half a gigabyte, so `make torture` installs them; where they are installed, `make test` runs them, too.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks.mcp.clients import CLIENTS_FOLDER, CODEX, GEMINI_CLI, Agent, install
from benchmarks.mcp.models import GeminiModel, Json, Model, OpenAIModel, listen

from cofio import Engine, Kind
from cofio.doors.cli import main

from .conftest import LONGEST, SETTINGS, Host

NODE = Path(__file__).parents[3] / ".node" / "node_modules" / "node" / "bin" / "node"
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


class AttentiveOpenAI(OpenAIModel):
    """A model that says "done" to everything, and keeps what it was told."""

    def answer(self, path: str, request: Json) -> tuple[str, bytes]:
        """Keep the request."""
        self.transcript.results.append(json.dumps(request, ensure_ascii=False))
        return self.render(path, request, None)


class AttentiveGemini(GeminiModel):
    """The same for Gemini's API."""

    def answer(self, path: str, request: Json) -> tuple[str, bytes]:
        """Keep the request."""
        self.transcript.results.append(json.dumps(request, ensure_ascii=False))
        return self.render(path, request, None)


@dataclass(frozen=True, slots=True)
class Client:
    """A client, the model that it talks to, and its options beside the prompt."""

    agent: Agent
    name: str
    model: type[Model]
    words: tuple[str, ...]
    events: frozenset[str]

    def configure(self, home: Path, address: str) -> dict[str, str]:
        """Tell it of its model, beside what is in its files; the variables that it needs."""
        if self.agent is CODEX:
            (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(address=address))
            return {"SCRIPTED_KEY": "scripted"}
        file = home / ".gemini" / "settings.json"
        more = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
        }
        file.write_text(json.dumps(json.loads(file.read_text()) | more))
        return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


CLIENTS = [
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


def find_program(client: Client) -> list[str]:
    """The command that is the client; the test is skipped where it is not installed."""
    folder = CLIENTS_FOLDER / client.agent.package.rpartition("/")[2] / "node_modules"
    if "COFIO_TORTURE" in os.environ:
        folder = install(client.agent)
    if not (folder / client.agent.script).exists() or not NODE.exists():
        pytest.skip(f"{client.agent.package} from npm is not installed: `make torture` does that")
    return [str(NODE), str(folder / client.agent.script)]


def say(host: Host, client: Client, prompt: str) -> str:
    """Have a session of one prompt; all that the model was told in it."""
    program = find_program(client)
    model = client.model((), ())
    with listen(model) as address:
        variables = client.configure(host.home, address)
        done = subprocess.run(
            [*program, *client.words, prompt], cwd=host.project, env=host.environment | variables, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LONGEST,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return "\n".join(model.transcript.results)


@pytest.mark.requirement("client.others")
@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_it_remembers_from_one_session_to_the_next(
    bare_host: Host, client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_program(client)
    monkeypatch.setenv("HOME", str(bare_host.home))
    for name in ("COFIO_STORE", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert main(["hooks", "install", client.name]) == 0
    capsys.readouterr()
    first = say(bare_host, client, DECISION)
    assert "recalled-memory" not in first
    second = say(bare_host, client, QUESTION)
    assert "queue named kestrel" in second
    runs = bare_host.log()
    assert client.events <= {run["event"] for run in runs}
    assert [run for run in runs if run["outcome"] in ("failed", "late")] == []
    with Engine.open(bare_host.store, settings=SETTINGS) as engine:
        turns = [record.text for record in engine.each() if record.kind is Kind.TURN]
    assert [turns.count(text) for text in (DECISION, QUESTION)] == [1, 1]
    assert not [text for text in turns if "recalled-memory" in text or "by cofio" in text]
