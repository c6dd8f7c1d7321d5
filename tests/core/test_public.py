"""What the package offers, and what it costs to ask for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cofio

NAMES = [
    "AllOf", "AnyOf", "AsyncMemory", "Change", "CofioError", "Conflict", "Delete", "Draft", "Drop", "Edit", "Engine",
    "Extend", "Filter", "Heading", "Hit", "Importance", "Invalid", "Json", "Kind", "LimitExceeded", "Memory",
    "NotFound", "Page", "Profile", "Put", "Query", "Record", "Scope", "Settings", "Unavailable", "Vacant", "Where",
    "__version__",
]  # fmt: skip
HEAVY = ("numpy", "apsw", "tantivy", "onnxruntime", "tokenizers", "mcp", "rich", "hypothesis")


def loaded_by(script: str, folder: Path) -> set[str]:
    """The heavy modules that a fresh interpreter has loaded after running `script`."""
    script += f"\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=folder)
    return set(done.stdout.split())


def test_the_public_names_are_these_and_no_others() -> None:
    assert cofio.__all__ == NAMES
    for name in NAMES:
        assert getattr(cofio, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cofio.nonsense


def test_errors_have_one_root() -> None:
    for error in (cofio.NotFound, cofio.Conflict, cofio.Invalid, cofio.LimitExceeded, cofio.Unavailable):
        assert issubclass(error, cofio.CofioError)
    assert issubclass(cofio.LimitExceeded, cofio.Invalid)


@pytest.mark.usefixtures("process")
def test_the_nouns_load_nothing_heavy(tmp_path: Path) -> None:
    assert loaded_by("from cofio import Scope, Query, Kind, Where, Draft, Settings, Invalid", tmp_path) == set()


@pytest.mark.usefixtures("process")
def test_writing_and_searching_by_words_loads_neither_numpy_nor_a_model(tmp_path: Path) -> None:
    script = """
from cofio import Engine, Query, Scope
with Engine.open("store") as memory:
    memory.write(Scope("demo"), text="hello")
    assert len(memory.search(Query("hello", mode="keyword"))) == 1
"""
    assert loaded_by(script, tmp_path) & {"numpy", "onnxruntime", "tokenizers", "mcp", "rich"} == set()
