"""What goes through the streams is UTF-8 with plain line breaks, whatever the system takes for usual."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("process")

CODE = """
import sys
from cofio.system.streams import prepare_streams
prepare_streams()
print(sys.stdin.readline().strip() + {text!r})
print({text!r}, file=sys.stderr)
"""
USUAL = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}


def run(text: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """What a process prints that was given a word to read."""
    return subprocess.run(
        [sys.executable, "-c", CODE.format(text=text)],
        input="Grüße ".encode(),
        capture_output=True,
        env=os.environ | USUAL | variables,
        check=True,
    )


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_streams_are_utf8_and_break_lines_in_one_way(variables: dict[str, str]) -> None:
    done = run("日本語 – ß", **variables)
    assert done.stdout == "Grüße日本語 – ß\n".encode()
    assert done.stderr == "日本語 – ß\n".encode()


def test_half_of_a_surrogate_pair_ends_no_stream() -> None:
    done = run("a\ud800b\udcffc\udfff")
    assert done.stdout == "Grüße".encode() + b"a?b\xffc?\n"
    assert done.stderr == b"a\\ud800b\\udcffc\\udfff\n"


def test_streams_that_are_closed_lead_nowhere() -> None:
    code = "import os, sys; sys.stdin = sys.stdout = sys.stderr = None\n" + CODE.format(text="x")
    code += "os._exit(7)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7
