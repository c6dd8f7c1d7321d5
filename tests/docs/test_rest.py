"""The examples of docs/rest.md, run in order against one server, give what the page shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.config.address import StoreAddress

PAGE = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SHOWN = "http://127.0.0.1:8427"


@pytest.fixture
def address(store: StoreAddress) -> Iterator[str]:
    """Where a server listens."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "EVEROS_"))}
    server = subprocess.Popen(
        [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", store.spell()],
        env={**ours, "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with server:
        assert server.stdout
        yield server.stdout.readline().strip().removesuffix("/mcp")
        server.terminate()


def known(answer: object) -> object:
    """An answer without what is different each time: ids of requests, and how well things fit."""
    if isinstance(answer, list):
        return [known(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    shown = dict.fromkeys(["request_id", "score"], "…")
    if "code" in answer:
        shown["timestamp"] = "…"
    return {name: shown.get(name) or known(value) for name, value in answer.items()}


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on this machine")
def test_each_example_gives_what_the_page_shows(address: str) -> None:
    assert len(EXAMPLES) >= 9
    for command, shown in EXAMPLES:
        here = command.replace(SHOWN, address).replace("curl ", "curl --silent --show-error ")
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert known(json.loads(done.stdout)) == known(json.loads(shown)), command


def test_each_program_runs(address: str) -> None:
    assert PROGRAMS
    for program in PROGRAMS:
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "COFIO_URL": address}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "Lisbon" in done.stdout
