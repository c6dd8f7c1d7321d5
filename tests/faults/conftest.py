"""What the crash and fault tests share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .children import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Forks processes that are there to be killed."""
    with Nursery() as opened:
        yield opened


def fill(disk: Path) -> Path:
    """Leave no room on a disk; the file to remove, so that there is some again."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return ballast
    raise AssertionError("the disk has no end")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a real disk of a given size."""
    place = tmp_path / "disk"
    place.mkdir()

    def make(size: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
        return place

    yield make
    subprocess.run(["umount", "--lazy", place], capture_output=True)
