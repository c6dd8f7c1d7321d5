"""The programs of the library's page print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import cofio.library

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_program_has_its_output() -> None:
    assert len(PROGRAMS) == PAGE.count("```python") >= 4


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_prints_what_the_page_says(program: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in cofio.library.__all__ if f"`{name}" not in PAGE] == []


def test_the_names_are_all_there_is() -> None:
    for name in cofio.library.__all__:
        assert getattr(cofio.library, name).__module__.startswith("cofio.library.")
