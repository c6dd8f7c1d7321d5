"""Four `cofio serve` on one database, beside one on a folder: requests at set times, half of them writes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

RATE, SECONDS = 60.0, 20  # requests a second in all, and for how long
WARM_UP = 10  # seconds of the same before that


def measure_servers(url: str) -> dict[str, Any]:
    """Load them with the same requests, and return what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        result = {"one, on a folder": _load([folder])}
    result["one, on PostgreSQL"] = _load([f"{url}?schema=serve_one"])
    result["four, on PostgreSQL"] = _load([f"{url}?schema=serve_four"] * 4)
    return result


def _load(stores: list[str]) -> dict[str, float]:
    print(f"{len(stores)} servers …", flush=True)
    with ExitStack() as stack:
        ports = [stack.enter_context(_serve(store)) for store in stores]
        _ask(ports, WARM_UP)  # processes load what they need with the first requests
        seen = _ask(ports, SECONDS)
    return {
        "asked": sum(each["asked"] for each in seen),
        "answered": sum(each["answered"] for each in seen),
        "errors": sum(sum(each["errors"].values()) for each in seen),
        **{
            f"{kind} {name}": max(each["ms from due"][kind][name] for each in seen)
            for kind in ("add", "search")
            for name in ("p50", "p99")
        },
    }


def _ask(ports: list[int], seconds: int) -> list[dict[str, Any]]:
    """Ask all servers at once; what each generator saw."""
    rate = str(RATE / len(ports))
    command = [sys.executable, "-m", "benchmarks.rest.load", "--rate", rate, "--seconds", str(seconds)]
    started = [
        subprocess.Popen([*command, "--method", "keyword", "--port", str(port)], stdout=subprocess.PIPE)
        for port in ports
    ]
    return [json.loads(each.communicate(timeout=seconds * 10)[0]) for each in started]


@contextmanager
def _serve(store: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    own = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    command = [sys.executable, "-m", "cofio", "serve", "--port", str(port), "--store", store]
    with tempfile.TemporaryDirectory() as folder:
        environ = own | {"COFIO_EMBEDDER": "none", "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
        process = subprocess.Popen(
            command, env=environ, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > until:
                        raise
                    time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(60)
