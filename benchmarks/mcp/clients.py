"""The agents' own programs: how each is installed, told of a memory and of a scripted model, and run unattended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .models import AnthropicModel, Call, GeminiModel, Json, Model, OpenAIModel, Transcript, listen

SERVER = "memory"
"""What the clients are told that the server is called."""
TOOLS = (
    "search_context", "write_context", "read_context", "list_context", "delete_context", "get_state", "set_state",
)  # fmt: skip
CLIENTS_FOLDER = Path(__file__).parents[2] / ".node" / "clients"
PATIENCE = 180  # seconds; a client that has not ended by then is stuck
ATTEMPTS = 5  # on a busy machine a server may start later than its client cares to wait


@dataclass(frozen=True)
class Launch:
    """How a client starts an MCP server."""

    command: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True)
class Agent:
    """A client that lets a model use MCP servers."""

    name: str
    package: str
    version: str
    model: type[Model]
    configure: Callable[[Path, Launch, str], dict[str, str]]
    """Write what it reads into its home folder; the variables that it needs."""
    arguments: tuple[str, ...]
    script: str
    """The program, from the folder that npm installs packages to."""

    def play(
        self, modules: Path, node: Path, home: Path, launch: Launch, calls: Sequence[Call], earlier: Transcript | None
    ) -> Transcript:
        """Run the client in a folder of its own while the scripted model makes these calls; what the model was shown.

        Raises:
            RuntimeError: the client failed, or ended before all calls were made.
        """
        home.mkdir(parents=True, exist_ok=True)
        for _ in range(ATTEMPTS):
            shown = self._run(modules, node, home, launch, self.model(TOOLS, calls, earlier))
            if shown.calls:  # else the client had asked its model before the server was ready
                break
        if len(shown.results) < len(calls):
            raise RuntimeError(f"{self.name} ended after {len(shown.results)} of {len(calls)} calls")
        return shown

    def _run(self, modules: Path, node: Path, home: Path, launch: Launch, model: Model) -> Transcript:
        with listen(model) as address:
            variables = {"HOME": str(home), "PATH": os.environ["PATH"], **self.configure(home, launch, address)}
            command = [str(node), str(modules / self.script), *self.arguments]
            done = subprocess.run(
                command, cwd=home, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{self.name} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
        return model.transcript


def _configure_claude(home: Path, launch: Launch, address: str) -> dict[str, str]:
    _write(home / ".mcp.json", {"mcpServers": {SERVER: _entry(launch)}})
    _write(home / ".claude" / "settings.local.json", {"enableAllProjectMcpServers": True})
    return {
        "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "scripted", "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip


def _configure_codex(home: Path, launch: Launch, address: str) -> dict[str, str]:
    program, *arguments = launch.command
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in launch.environment.items())
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(
        f'model = "scripted"\nmodel_provider = "scripted"\n\n'
        f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{address}/v1"\nwire_api = "responses"\n'
        f'env_key = "SCRIPTED_KEY"\n\n'
        f"[mcp_servers.{SERVER}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
        f"env = {{{variables}}}\nrequired = true\nstartup_timeout_sec = {PATIENCE}\n",
        encoding="utf-8",
    )
    return {"CODEX_HOME": str(home / ".codex"), "SCRIPTED_KEY": "scripted"}


def _configure_gemini(home: Path, launch: Launch, address: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "mcpServers": {SERVER: _entry(launch) | {"trust": True}},
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"disableLoopDetection": True},  # thirty calls in a row are what is meant
    }
    _write(home / ".gemini" / "settings.json", settings)
    return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _entry(launch: Launch) -> dict[str, Json]:
    return {"command": launch.command[0], "args": list(launch.command[1:]), "env": launch.environment}


def _write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


CLAUDE_CODE = Agent(
    "Claude Code", "@anthropic-ai/claude-code", "2.1.197", AnthropicModel, _configure_claude,
    ("-p", "Begin.", "--allowedTools", f"mcp__{SERVER}"), "@anthropic-ai/claude-code/cli-wrapper.cjs",
)  # fmt: skip
CODEX = Agent(
    "Codex", "@openai/codex", "0.166.0", OpenAIModel, _configure_codex,
    ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Begin."),
    "@openai/codex/bin/codex.js",
)  # fmt: skip
GEMINI_CLI = Agent(
    "Gemini CLI", "@google/gemini-cli", "0.61.0", GeminiModel, _configure_gemini,
    ("-p", "Begin.", "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"), "@google/gemini-cli/bundle/gemini.js",
)  # fmt: skip
AGENTS = (CLAUDE_CODE, CODEX, GEMINI_CLI)


def install(agent: Agent) -> Path:
    """Install a client from npm, once; the folder of its packages.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be installed here.
    """
    folder = CLIENTS_FOLDER / agent.package.rpartition("/")[2]
    modules = folder / "node_modules"
    if not (modules / agent.script).exists():
        print(f"installing {agent.package} into {folder}, once …", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        # Without scripts: what they would fetch or build is not needed here.
        wanted = ["--ignore-scripts", f"{agent.package}@{agent.version}"]
        npm = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", *wanted]
        subprocess.run(npm, cwd=folder, check=True, timeout=PATIENCE * 5, capture_output=True, text=True)
    return modules
