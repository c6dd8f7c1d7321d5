"""What all tests share: a clock that is set by hand, and a memory in a temporary folder."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis
import pytest

from cofio import Engine, Settings
from cofio.embed.hashed import Hashed

# Neither these tests nor the processes that they start look at the developer's own configuration, or write there.
_CONFIGURATION = tempfile.TemporaryDirectory(prefix="cofio-tests-")
atexit.register(_CONFIGURATION.cleanup)
os.environ["XDG_CONFIG_HOME"] = _CONFIGURATION.name

hypothesis.settings.register_profile("cofio", deadline=None, derandomize="CI" in os.environ, print_blob=True)
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
    with Engine.open(tmp_path / "store", settings=chosen, embedder=Hashed(), clock=clock) as opened:
        yield opened
