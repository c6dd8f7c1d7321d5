"""What the tests of the command line share: a way to run it, in this process or as a real command."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import termios
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


@pytest.fixture
def terminal(default_store: StoreAddress, folder: Path) -> Callable[..., Ran]:
    """Runs `cofio` at a pseudo-terminal, or with only its stderr there; what the terminal showed is `err`."""

    def run(*argv: str, stdout: bool = True, typed: str = "", columns: int = 100, **environ: str) -> Ran:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        with subprocess.Popen(
            [sys.executable, "-m", "cofio", *argv], cwd=folder, stdin=theirs, stderr=theirs,
            stdout=theirs if stdout else subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
            | {"TERM": "xterm-256color"} | environ,
        ) as process:  # fmt: skip
            os.close(theirs)
            os.write(ours, typed.encode())
            printed = process.stdout.read() if process.stdout else b""
            shown = b""
            while True:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # Linux says so when the other side is closed
                    break
                if not more:
                    break
                shown += more
            code = process.wait(timeout=60)
        os.close(ours)
        return Ran(code, printed.decode(), shown.decode().replace("\r\n", "\n"))

    return run


@pytest.fixture
def memory(default_store: StoreAddress, store_home: Path) -> Iterator[Engine]:
    """The memory that the commands use, for what they cannot do; it indexes and embeds nothing by itself."""
    settings = replace(Settings.load(store_home), background=False)
    with Engine.open(default_store, settings=settings) as engine:
        yield engine
