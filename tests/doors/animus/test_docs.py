"""The session of docs/animus.md prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("process")

PAGE = Path(__file__).parents[3] / "docs" / "animus.md"
_ID = re.compile(r'"record_id":"\w{26}"')


@pytest.mark.requirement("docs")
def test_the_session_by_hand_prints_what_the_page_says(root: Path, tmp_path: Path) -> None:
    for name, module in (("animus-memory-cofio", "cofio.doors.animus"), ("cofio", "cofio")):
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        command.chmod(0o755)
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    script = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    environ = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "COFIO_EMBEDDER": "none"}
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    done = subprocess.run(["bash", "-c", script], cwd=root, env=environ, capture_output=True, text=True)
    printed = [line for line in lines if not line.startswith("$ ")]
    assert [_ID.sub("ID", line) for line in done.stdout.splitlines()] == [_ID.sub("ID", line) for line in printed]
