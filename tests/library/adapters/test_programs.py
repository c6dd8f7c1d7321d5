"""The programs of docs/adapters.md run, each as a process of its own, against an endpoint on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Engine, Scope

from .endpoint import Call, Endpoint, texts

pytestmark = pytest.mark.usefixtures("process")

PAGE = (Path(__file__).parents[3] / "docs" / "adapters.md").read_text()


def program(title: str) -> str:
    """The program under a heading of the page."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(code)


def run(title: str, folder: Path, **settings: str) -> str:
    """What the program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program(title)], cwd=folder, capture_output=True, text=True, env=os.environ | settings
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("agents.docs")
def test_the_program_with_an_agent_remembers_when_it_is_run_again(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.play("Noted.", "Petrel.", "I know.", Call("recall", {"query": "boat"}), "Still Petrel.")
    settings = {"LLM_URL": endpoint.url, "LLM_MODEL": "scripted"}
    assert run("OpenAI's Agents SDK", tmp_path, **settings) == "Noted.\nPetrel.\n"
    with Engine.open(tmp_path / "my-memory") as engine:
        assert engine.search("boat")
        engine.write(Scope("openai-agents", "bob"), text="The boat of Ada lies in Bergen.")
    assert run("OpenAI's Agents SDK", tmp_path, **settings) == "I know.\nStill Petrel.\n"
    first, second = "My boat is called Petrel.", "What is my boat called?"
    assert texts(endpoint.asked[2]["messages"]) == [first, "Noted.", second, "Petrel.", first]
    assert "The boat of Ada lies in Bergen." in texts(endpoint.asked[4]["messages"])[-1]


@pytest.mark.requirement("llama.docs")
def test_the_program_with_a_memory_recalls_what_has_left_the_chat(tmp_path: Path) -> None:
    system, *rest = run("LlamaIndex", tmp_path).split("\nuser: ")
    assert "<recalled-memory>" in system
    assert "The lighthouse keeper is called Tove." in system
    assert rest[-1] == "Who keeps the lighthouse?\n"
    assert all("Tove" not in text for text in rest)
