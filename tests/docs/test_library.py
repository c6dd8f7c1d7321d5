"""The programs of the library's page print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests import postgres, servers
from tests.llm.scripted import Scripted, says

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

WITH_A_MODEL, ON_A_SERVER = (
    [program for program in re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if word in program]
    for word in ("llm_extractor", "PostgreSQLBackend")
)


def test_the_programs_print_what_the_page_says_one_after_the_other_in_one_folder(tmp_path: Path) -> None:
    assert len(PROGRAMS) == PAGE.count("```python") >= 4
    for program, printed in PROGRAMS:
        assert ran(program, tmp_path) == printed
    for program, _ in PROGRAMS:
        ran(program, tmp_path)  # and again, with what is there by then


def ran(program: str, folder: Path) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_with_a_model_keeps_what_the_model_finds(tmp_path: Path) -> None:
    (program,) = WITH_A_MODEL
    found = {"memories": [{"type": "feedback", "key": "Language", "content": "Answers are to be in French."}]}
    with Scripted(says(found)) as server:
        place = {"COFIO_LLM_BASE_URL": server.url, "COFIO_LLM_MODEL": "scripted", "COFIO_LLM_API_KEY": "k"}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | place, capture_output=True, text=True
        )
        assert len(server.calls) == 1
    assert done.returncode == 0, done.stderr
    assert done.stdout == "feedback language Answers are to be in French.\n"


@pytest.mark.parametrize("name", ["PostgreSQLBackend", "RedisBackend"])
def test_the_program_on_a_server_runs_on_each_of_them(name: str, tmp_path: Path) -> None:
    (program,) = ON_A_SERVER
    with servers.redis() if name == "RedisBackend" else nullcontext(f"{postgres.find_url()}?schema=docs") as url:
        here = re.sub(
            r'PostgreSQLBackend\(dsn="[^"]*"\)', f"{name}({'url' if name[0] == 'R' else 'dsn'}={url!r})", program
        )
        here = here.replace("import AgentState", f"import {name}, AgentState")
        done = subprocess.run(
            [sys.executable, "-c", here], cwd=tmp_path, env=os.environ | {"COFIO_EMBEDDER": "none"},
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"# {done.stdout}" in program
