"""The examples of docs/knowledge.md, run in order against one server, give what the page shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cofio.doors.rest.knowledge import KNOWLEDGE_CALLS

from .test_rest import SHOWN, address

__all__ = ["address"]

PAGE = (Path(__file__).parents[2] / "docs" / "knowledge.md").read_text()
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SHOWN_ID = "d_5f1c2e9a7b3d4f60"
CHANGING = ("request_id", "score", "took_ms", "created_at", "updated_at")


def steady(answer: object) -> object:
    """An answer without what is different each time."""
    if isinstance(answer, list):
        return [steady(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    return {name: "…" if name in CHANGING else steady(value) for name, value in answer.items()}


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on this machine")
def test_each_example_gives_what_the_page_shows(address: str, tmp_path: Path) -> None:
    assert len(EXAMPLES) == 5
    known = SHOWN_ID
    for command, shown in EXAMPLES:
        here = command.replace(SHOWN, address).replace("curl ", "curl --silent --show-error ").replace(SHOWN_ID, known)
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        if known == SHOWN_ID:
            known = answer["data"]["doc_id"]
        assert steady(answer) == steady(json.loads(shown.replace(SHOWN_ID, known))), command


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "none")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Guide > Tides" in done.stdout.splitlines()[0]


def test_every_call_is_on_the_page() -> None:
    for call in KNOWLEDGE_CALLS:
        path = re.sub(r"\{\w+\}", "ID", call.path.removeprefix("knowledge/"))
        assert f"`{call.method} {path}`" in PAGE
