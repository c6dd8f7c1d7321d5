"""A traced program with a fresh home, and the model that makes its searches real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .tracing import Sandbox, unable


@pytest.fixture(scope="session")
def _tracer() -> None:
    """Leave out what cannot be traced here; where tracing is promised, fail."""
    problem = unable()
    if problem and os.environ.get("COFIO_TEST_SERVERS") == "1":
        pytest.fail(f"{problem}, and COFIO_TEST_SERVERS=1 says that it is there")
    if problem:
        pytest.skip(problem)


@pytest.fixture
def sandbox(_tracer: None, models: Path, tmp_path: Path) -> Sandbox:
    """Folders for one traced program; the model that is installed on this machine is the only thing that it shares."""
    folders = {name: tmp_path / name for name in ("home", "temporary", "work", "logs")}
    for folder in folders.values():
        folder.mkdir()
    return Sandbox(**folders, variables={"COFIO_MODELS": str(models)})
