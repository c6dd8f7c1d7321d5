"""The programs of docs/memory-tool.md run, the first against a Messages API on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, files
from cofio.doors import memory_tool
from cofio.files import home

from .conftest import MessagesApi, Tool

PAGE = (Path(__file__).parents[3] / "docs" / "memory-tool.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.requirement("docs.program")
@pytest.mark.usefixtures("process")
def test_every_program_of_the_page_runs(folder: Path, messages_api: Callable[[list[Any]], MessagesApi]) -> None:
    api = messages_api(
        [
            {"command": "view", "path": "/memories"},
            {"command": "create", "path": "/memories/coffee.md", "file_text": "Black.\n"},
        ]
    )
    environ = os.environ | {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "x", "COFIO_EMBEDDER": "none"}
    assert len(PROGRAMS) >= 4
    printed = ""
    for program in PROGRAMS:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], cwd=folder, env=environ, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert printed.startswith("memory: {'command': 'view', 'path': '/memories'}\n")
    assert "done\n" in printed
    assert [is_error for _, is_error in api.results] == [False, False]
    with Engine.open(folder / "my-memory") as engine:
        assert Tool(engine, home("alice")).files["/memories/coffee.md"] == "Black.\n"


@pytest.mark.requirement("docs.imports")
def test_programs_that_import_from_the_door_go_on() -> None:
    for name in ("Limiter", "Options", "Result", "Revision", "Tree", "dispatch", "home", "log", "restore"):
        assert getattr(memory_tool, name) is getattr(files, name)
