"""What the tests of hooks share: a home with a repository and a memory, and a client that runs hooks as others do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, Settings
from cofio.capture.repositories import find_repository
from cofio.conversations.conversations import Conversations
from cofio.extract.extractor import Message

DAY = datetime(2026, 11, 1, 10, tzinfo=UTC)
RETRIES = "We decided that the uploader retries five times with jitter, since the storage gateway fails over slowly."
PROMPT = "How often does the uploader retry when the gateway fails over?"
HAIKU = "Write a haiku about the sea in autumn."
SETTINGS = Settings(embedder="none", background=False, sync="normal")
LONGEST = 60.0  # seconds; a hook that has not ended by then hangs


@dataclass(frozen=True, slots=True)
class Answer:
    """How a hook ended, and what it wrote."""

    code: int
    out: bytes
    err: bytes

    @property
    def json(self) -> Any:
        """The one JSON that it wrote."""
        return json.loads(self.out)

    def check_silent(self) -> None:
        """It ended as if there were no hook."""
        assert (self.code, self.out, self.err) == (0, b"", b"")


@dataclass(slots=True)
class Host:
    """A client of hooks, with a home folder and a repository of its own."""

    home: Path
    project: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        """The user's own memory."""
        return self.home / ".cofio"

    @property
    def environment(self) -> dict[str, str]:
        """What a hook's process sees."""
        own = {"HOME": str(self.home), "COFIO_HOOKS_PATIENCE": "60", "COFIO_SYNC": "normal", "LANG": "C.UTF-8"}
        return {"PATH": os.environ["PATH"]} | own | self.variables

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a hook; its streams are pipes."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-m", "cofio", "hook", *words], cwd=self.project, env=self.environment, stdin=pipe,
            stdout=pipe, stderr=pipe, start_new_session=True, **options,
        )  # fmt: skip

    def run(self, *words: str, content: bytes = b"", **options: Any) -> Answer:
        """Run a hook with this on stdin."""
        process = self.start(*words, **options)
        out, err = process.communicate(content, timeout=LONGEST)
        return Answer(process.returncode, out, err)

    def tell(self, event: str, session: str = "now", **more: Any) -> bytes:
        """Return what Claude Code says of an event."""
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(self.project), **more}
        return json.dumps(payload).encode()

    def fire(self, event: str, client: str = "claude-code", session: str = "now", **more: Any) -> Answer:
        """Let an event happen, as the client tells it."""
        payload = json.loads(self.tell(event, session, **more))
        if client == "cursor":
            payload = {"conversation_id": session, "hook_event_name": event, "workspace_roots": [str(self.project)]}
            payload |= more
        words = [client]
        if client == "copilot":  # whose JSON does not name the event
            payload = {"sessionId": session, "cwd": str(self.project), "timestamp": 1794921430000, **more}
            words += ["--event", event]
        return self.run(*words, content=json.dumps(payload).encode())

    def log(self) -> list[dict[str, Any]]:
        """What is in the log of hooks."""
        file = self.home / ".local" / "share" / "cofio" / "hooks.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def remember(self, *turns: tuple[str, str], session: str = "earlier", project: Path | None = None) -> None:
        """Keep turns of an earlier session, each with its role."""
        repository = find_repository(project or self.project)
        with Engine.open(self.store, settings=SETTINGS) as engine:
            Conversations(engine).append(repository.project, session, make_messages(session, turns))

    def write_transcript(self, turns: Sequence[tuple[str, str]], session: str = "now") -> Path:
        """A transcript of Claude Code."""
        path = self.home / "transcripts" / f"{session}.jsonl"
        path.parent.mkdir(exist_ok=True)
        lines = [
            {
                "type": role, "uuid": f"{session}-{number}", "parentUuid": None, "isSidechain": False,
                "sessionId": session, "cwd": str(self.project), "version": "2.1.197",
                "timestamp": (DAY + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                "message": {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]},
            }
            for number, (role, text) in enumerate(turns)
        ]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path


def make_messages(session: str, turns: Sequence[tuple[str, str]]) -> list[Message]:
    """Turns as messages, a minute apart."""
    return [
        Message(
            id=f"{session}-{number}", sender="ann" if role == "user" else "claude", at=DAY + timedelta(minutes=number),
            role="user" if role == "user" else "assistant", text=text,
        )
        for number, (role, text) in enumerate(turns)
    ]  # fmt: skip


def make_repository(folder: Path, remote: str) -> Path:
    """A folder that is a git repository with this remote."""
    git = folder / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return folder


@pytest.fixture
def bare_host(tmp_path: Path) -> Host:
    """A client on a machine without a memory."""
    home = tmp_path / "home"
    return Host(home, make_repository(home / "uploader", "https://git.example/team/uploader.git"))


@pytest.fixture
def host(bare_host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A client whose user has worked in the repository before."""
    monkeypatch.setenv("HOME", str(bare_host.home))  # whose key marks the store as the user's own
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    bare_host.remember(
        ("user", "Should the uploader retry on a 503?"),
        ("assistant", RETRIES),
        ("user", "Good. Tomorrow we look at the invoice templates."),
    )
    return bare_host
