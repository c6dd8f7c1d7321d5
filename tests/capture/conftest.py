"""What the tests of captured work share: an empty home of a user with one repository."""

from __future__ import annotations

from pathlib import Path

import pytest

VARIABLES = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "CURSOR_CONFIG_DIR", "OPENCODE_DATA_DIR",
    "COFIO_STORE", "AGENT_STORE_PATH",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder in which no agent has worked yet."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LOGNAME", "sam")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / ".local" / "share"))
    return folder


@pytest.fixture
def boats(tmp_path: Path) -> Path:
    """A repository with a remote."""
    return make_repository(tmp_path / "work" / "boats", "git@github.com:example/boats.git")


def make_repository(folder: Path, remote: str | None = None) -> Path:
    """Make a repository by hand, as git lays it out."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    config = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n' if remote else "[core]\n\tbare = false\n"
    (folder / ".git" / "config").write_text(config)
    return folder
