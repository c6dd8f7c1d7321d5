"""The commands on a disk that is really full: one sentence that names the file, nothing half made, nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import fill

TEXT = "word " * 20_000


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `cofio`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    return subprocess.run(
        [sys.executable, "-m", "cofio", *map(str, argv)], capture_output=True, text=True, check=False, timeout=60,
        env={**environ, "COFIO_EMBEDDER": "none"},
    )  # fmt: skip


def tree(folder: Path) -> list[tuple[str, bytes]]:
    """Every file of a folder, with what it holds."""
    return sorted((str(path), path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*"))


@pytest.fixture
def full(mount: Callable[[str], Path]) -> Path:
    """A disk with no room left, on which there are a memory with a token, an empty folder, and a client's file."""
    disk = mount("2m")
    for argv in (["add", "hello"], ["token", "add", "first"]):
        assert run(*argv, "--store", disk / "store").returncode == 0
    (disk / "out").mkdir()
    (disk / "mcp.json").write_text("{}")
    fill(disk)
    return disk


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A memory on a disk that has room, with more in it than the other disk has room for."""
    store = tmp_path / "store"
    assert run("add", TEXT, "--store", store).returncode == 0
    assert run("files", "write", "a.md", TEXT, "--store", store).returncode == 0
    return store


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["token", "add", "second", "--store", "{disk}/store"], "store/tokens.json"),
        (["export", "{disk}/all.jsonl.gz", "--store", "{store}"], "all.jsonl.gz"),
        (["files", "pull", "{disk}/out", "--store", "{store}"], "out/a.md"),
        (["skill", "install", "--path", "{disk}/SKILL.md"], "SKILL.md"),
        (["mcp", "config", "cursor", "--write", "--file", "{disk}/mcp.json"], "mcp.json"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else None,
)
def test_a_command_that_finds_no_room_names_the_file_and_leaves_all_as_it_was(
    full: Path, store: Path, argv: list[str], named: str
) -> None:
    before = tree(full)
    ran = run(*(word.format(disk=full, store=store) for word in argv))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"cofio: the disk that holds {full}/{named} is full; free some space and try again\n"
    assert tree(full) == before


@pytest.mark.parametrize("argv", [["add", TEXT], ["import", "{export}"]], ids=lambda argv: argv[0])
def test_a_memory_that_finds_no_room_says_so_and_works_again_once_there_is(
    full: Path, store: Path, tmp_path: Path, argv: list[str]
) -> None:
    export = tmp_path / "all.jsonl"
    assert run("export", export, "--store", store).returncode == 0
    ran = run(*(word.format(export=export) for word in argv), "--store", full / "store")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"cofio: the disk that holds {full}/store/memory.db is full; free some space and try again\n"
    (full / "ballast").unlink()
    assert "hello" in run("list", "--store", full / "store").stdout
    assert run("token", "list", "--store", full / "store").stdout.startswith("first\t")


def test_the_doctor_says_that_the_disk_is_full(full: Path) -> None:
    ran = run("doctor", "--store", full / "store")
    assert ran.returncode == 1
    assert f"problem\tthe disk of {full}/store has only 0 B left; free some space\n" in ran.stdout
