"""How long a stranger takes from a wheel to a first recall by meaning, through a real MCP client.

usage: python -m benchmarks.first_hour [--write]

The stranger is a new user of this machine where this program may make one (as root), and else its own user with an
empty home folder. Nothing is there before: no cache of uv, no model, no configuration. What is typed is what
docs/install.md and docs/mcp.md say; then the MCP SDK's client starts what `cofio mcp config` has written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import cofio
import mcp

from .__main__ import RESULTS, machine
from .install import ROOT, UV, build_wheel

NAME = "cofio-stranger"
MOST = 60.0  # seconds that it may take
PATIENCE = 300.0  # seconds until the model is given up on
TOLD = {"topic": "Releases", "content": "We ship to production every Tuesday, from the main branch."}
ASKED = "when do deployments happen?"
PASSED_ON = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP_", "HTTPS_", "http_", "https_", "NO_PROXY", "no_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A user with an empty home folder, and how long each thing took."""

    home: Path
    name: str | None
    """Who it is, if it is another user than ours."""
    times: dict[str, float] = field(default_factory=dict)

    def wrap(self, words: list[str]) -> list[str]:
        """The words that run a command as this user, with no variable but those that lead to the package index."""
        passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        variables = {
            "HOME": str(self.home),
            "PATH": f"{self.home}/.local/bin:/usr/local/bin:/usr/bin:/bin",
            **passed_on,
        }
        as_user = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"] if self.name else []
        return [*as_user, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words]

    def type(self, line: str, folder: Path) -> str:
        """Type a line into a shell; what it prints."""
        begun = time.perf_counter()
        done = subprocess.run(self.wrap(["sh", "-c", line]), cwd=folder, capture_output=True, text=True, check=False)
        self.times[f"`{line}`"] = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(f"{line}\n{done.stderr}")
        return done.stdout


@contextmanager
def invite() -> Iterator[Stranger]:
    """A stranger, until they are no longer needed."""
    with tempfile.TemporaryDirectory(prefix="cofio-stranger-") as folder:
        os.chmod(folder, 0o755)
        home = Path(folder, "home")
        if os.geteuid() != 0:
            home.mkdir()
            yield Stranger(home=home, name=None)
            return
        subprocess.run(["useradd", "--create-home", "--home-dir", home, NAME], check=True)
        try:
            yield Stranger(home=home, name=NAME)
        finally:
            subprocess.run(["userdel", NAME], check=True)


def prepare(stranger: Stranger) -> Path:
    """Give the stranger uv, and a wheel of this checkout; the project that they work in."""
    tools, project = stranger.home / ".local" / "bin", stranger.home / "project"
    for folder in (tools, project):
        folder.mkdir(parents=True)
    uv = shutil.which(UV)
    assert uv, "uv comes with the extra `dev`"
    shutil.copy(uv, tools / "uv")
    wheel = build_wheel(ROOT, stranger.home / "Downloads")
    wheel.rename(project / wheel.name)
    if stranger.name:
        owner = pwd.getpwnam(stranger.name)
        for top, _, files in os.walk(stranger.home):
            for path in (top, *(os.path.join(top, file) for file in files)):
                os.chown(path, owner.pw_uid, owner.pw_gid)
    return project


async def recall(stranger: Stranger, project: Path) -> str:
    """Write one note through the client that `.mcp.json` is for, and ask for it in other words; the answer."""
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["cofio"]
    command, *words = stranger.wrap([entry["command"], *entry["args"]])
    begun = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal begun
        stranger.times[name] = time.perf_counter() - begun
        begun = time.perf_counter()

    server = mcp.StdioServerParameters(command=command, args=words, cwd=project)
    async with mcp.Client(server) as client:
        lap("the client's handshake")
        await client.call_tool("write_context", TOLD)
        lap("`write_context`")
        by_words = await call(client, search_mode="bm25")
        assert "Tuesday" not in by_words, "it is found by its words: that shows nothing"
        deadline = time.perf_counter() + PATIENCE
        answer = await call(client)
        lap("`search_context`, the first answer")
        while "Tuesday" not in answer and time.perf_counter() < deadline:
            await asyncio.sleep(0.2)
            answer = await call(client)
        lap("until it is found by its meaning (the model is fetched meanwhile)")
    if "Tuesday" not in answer:
        raise SystemExit(f"not found by its meaning:\n{answer}")
    return answer


async def call(client: mcp.Client, **more: str) -> str:
    """What a search says."""
    answered = await client.call_tool("search_context", {"query": ASKED, **more})
    return "\n".join(block.text for block in answered.content if block.type == "text")


def report() -> str:
    """Do it, and write it out."""
    with invite() as stranger:
        project = prepare(stranger)
        (wheel,) = project.glob("*.whl")
        begun = time.perf_counter()
        stranger.type(f"uv tool install ./{wheel.name}", project)
        stranger.type("cofio mcp config claude-code --write", project)
        answer = asyncio.run(recall(stranger, project))
        taken = time.perf_counter() - begun
        who = "a new user" if stranger.name else "a user with an empty home folder"
        steps = "\n".join(f"| {name} | {seconds:.1f} |" for name, seconds in stranger.times.items())
    return f"""\
# The first hour

cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}

From a wheel to a first recall by meaning, as {who}: nothing is cached, no model is there, and nothing else is typed.

| step | seconds |
|---|---|
{steps}

"{TOLD["content"]}" was asked for with "{ASKED}", which has no word in common with it:

```text
{answer.strip()}
```

## Target

| target | measured | asked | met |
|---|---|---|---|
| from the wheel to the recall, seconds | {taken:.1f} | under {MOST:g} | {"yes" if taken < MOST else "NO"} |
"""


def main() -> None:
    """Measure, print the report, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    text = report()
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "first_hour.md").write_text(text)


if __name__ == "__main__":
    main()
