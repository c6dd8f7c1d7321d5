"""What the tests of the command line share: a way to run it, in this process or as a real command."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.values.records import Json

from ...postgres import PASSWORD


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert PASSWORD not in self.out + self.err

    @property
    def json(self) -> dict[str, Json]:
        """The one object that it printed."""
        read = json.loads(self.out)
        assert isinstance(read, dict)
        return read

    @property
    def id(self) -> str:
        """The id that it printed."""
        assert self.code == 0, self.err
        return self.out.strip()

    @property
    def rows(self) -> list[list[str]]:
        """The columns of each line that it printed."""
        return [line.split("\t") for line in self.out.splitlines()]


Cofio = Callable[..., Ran]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, where vectors are hashes and nothing else is set."""
    for name in [name for name in os.environ if name.startswith("COFIO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    monkeypatch.setenv("COFIO_SYNC", "normal")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store_home(default_store: StoreAddress) -> Path:
    """The folder of what is on disk of the memory that the commands use, wherever its records are."""
    return default_store.home


@pytest.fixture
def cofio(default_store: StoreAddress, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cofio:
    """Runs a command in this process."""

    def run(*argv: str, stdin: str | bytes | io.BytesIO = b"") -> Ran:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        stream = io.BytesIO(given) if isinstance(given, bytes) else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream, encoding="utf-8"))
        capsys.readouterr()
        code = main(argv)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def command(default_store: StoreAddress, folder: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a line of shell, in which `cofio` is a real process."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(line: str) -> subprocess.CompletedProcess[str]:
        bash = ["bash", "-o", "pipefail", "-c", line]
        return subprocess.run(bash, capture_output=True, text=True, env=environ, cwd=folder, check=False, timeout=60)

    return run


class Screen(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(default_store: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a command in this process at a terminal; what that showed is `err`. `stdout=False` leaves stdout a pipe."""

    def run(*argv: str, stdout: bool = True, typed: str = "", columns: int = 100, **environ: str) -> Ran:
        screen, pipe = Screen(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "24", **environ}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", Screen(io.BytesIO(typed.encode()), "utf-8"))
            patch.setattr(sys, "stdout", screen if stdout else pipe)
            patch.setattr(sys, "stderr", screen)
            code = main(argv)
            sys.stdout.flush()
            screen.flush()
        shown = [stream.detach().getvalue().decode() for stream in (pipe, screen)]  # type: ignore[attr-defined]
        return Ran(code, *shown)

    return run


@pytest.fixture
def memory(default_store: StoreAddress, store_home: Path) -> Iterator[Engine]:
    """The memory that the commands use, for what they cannot do; it indexes and embeds nothing by itself."""
    settings = replace(Settings.load(store_home), background=False)
    with Engine.open(default_store, settings=settings) as engine:
        yield engine
