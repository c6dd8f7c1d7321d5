"""A server whose processes are killed or stopped all the time: is anything lost, and how soon is it back?

usage: python -m benchmarks.rest.chaos [--minutes 10] [--rate 50] [--every 5] [--seed 1] [--write]

Clients add messages at a steady rate. Every few seconds a random worker, or the background process, gets SIGKILL or
SIGSTOP. Afterwards every message that was acknowledged is looked for in the store, one by one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import cofio
from cofio import Engine, Kind, Scope, Settings

from ..__main__ import RESULTS, machine

CLIENTS = 10
TIMEOUT_SECONDS = 8.0  # after which a client gives a call up and sends the message again
MAX_BACK_SECONDS = 6.0


class Run:
    """One run: what was sent, acknowledged, and done to the server."""

    def __init__(self, command: list[str], store: Path, seconds: float, rate: float, every: float, seed: int) -> None:
        self._draw = random.Random(seed)
        self._seconds, self._rate, self._every = seconds, rate, every
        self._store = store
        self._log = store.parent / "log"
        self._process = subprocess.Popen(command, stdout=self._log.open("w"), stderr=subprocess.STDOUT)
        self._end = threading.Event()
        self.acknowledged: dict[str, float] = {}
        self.statuses: Counter[str] = Counter()
        self.waits: list[float] = []
        self.faults: list[str] = []

    def run(self) -> dict[str, Any]:
        """Do it, and return what was seen."""
        port = self._wait_for_port()
        clients = [threading.Thread(target=self._send, args=(number, port)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        until = time.monotonic() + self._seconds
        seen: set[int] = set()
        while time.monotonic() < until:
            time.sleep(self._every)
            seen.update(self._list_children())
            self._hurt()
        time.sleep(2 * MAX_BACK_SECONDS)
        self._end.set()
        for client in clients:
            client.join(60)
        begun = time.monotonic()
        self._process.terminate()
        code = self._process.wait(30)
        stopped = time.monotonic() - begun
        lost = self._find_lost()
        orphans = [each for each in seen if Path(f"/proc/{each}").exists()]
        times = sorted(self.acknowledged.values())
        return {
            "faults": dict(Counter(self.faults)),
            "acknowledged": len(self.acknowledged),
            "lost": len(lost),
            "statuses": dict(self.statuses),
            "longest time without any acknowledged write, s": round(max(b - a for a, b in pairwise(times)), 2),
            "longest wait of a client until its write was acknowledged, s": round(max(self.waits), 2),
            "orphan processes": len(orphans),
            "exit code": code,
            "seconds to stop": round(stopped, 2),
            "tracebacks in the log": self._log.read_text().count("Traceback"),
        }

    def _wait_for_port(self) -> int:
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", self._log.read_text())):
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.05)
        return int(found[1])

    def _list_children(self) -> list[int]:
        process = self._process.pid
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]

    def _hurt(self) -> None:
        children = self._list_children()
        if not children:
            return
        child, fault = self._draw.choice(children), self._draw.choice((signal.SIGKILL, signal.SIGSTOP))
        with suppress(ProcessLookupError):
            os.kill(child, fault)
            self.faults.append(fault.name)

    def _send(self, client: int, port: int) -> None:
        """Send messages at set times; one that is not acknowledged is sent again, under the same id."""
        connection, number, start = None, 0, time.monotonic() + client / self._rate
        while not self._end.is_set():
            number += 1
            time.sleep(max(0.0, start + number * CLIENTS / self._rate - time.monotonic()))
            name = f"m-{client}-{number}"
            message = {"sender_id": f"user-{client}", "role": "user", "timestamp": 1779967816000 + number}
            body = {
                "session_id": f"s-{client}", "defer_extraction": True,
                "messages": [{**message, "message_id": name, "content": f"Note {number} of {client}."}],
            }  # fmt: skip
            begun = time.monotonic()
            while not self._end.is_set():
                try:
                    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
                    connection.request(
                        "POST", "/api/v2/memory/add", json.dumps(body), {"Content-Type": "application/json"}
                    )
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException) as error:
                    self.statuses[type(error).__name__] += 1
                    connection = None
                    time.sleep(0.05)
                    continue
                self.statuses[str(answer.status)] += 1
                if answer.status == 200:
                    self.acknowledged[name] = time.monotonic()
                    self.waits.append(self.acknowledged[name] - begun)
                    break
                time.sleep(0.2)

    def _find_lost(self) -> set[str]:
        with Engine.open(self._store, settings=Settings(embedder="none", background=False)) as engine:
            kept = {
                str(record.data["message_id"])
                for record in engine.each(Scope("rest"), kinds=(Kind.TURN,))
                if isinstance(record.data, dict)
            }
        return self.acknowledged.keys() - kept


def main() -> None:
    """Run, print what was seen, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store = Path(folder) / "store"
        cofio_command = str(Path(sysconfig.get_path("scripts")) / "cofio")
        command = [cofio_command, "serve", "--store", str(store), "--port", "0", "--workers", "2"]
        seen = Run(command, store, given.minutes * 60, given.rate, given.every, given.seed).run()
    rows = "\n".join(f"| {name} | {value} |" for name, value in seen.items())
    text = f"""# Processes killed and stopped

{given.minutes:g} minutes, {given.rate:g} messages a second from {CLIENTS} clients. Every {given.every:g} s a worker
or the background process, drawn at random (seed {given.seed}), gets SIGKILL or SIGSTOP.
A client without an answer sends its message again.

| what | seen |
|---|---|
{rows}

Measured: cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}.
"""
    print(text)
    if given.write:
        (RESULTS / "chaos.md").write_text(text)
    sys.exit(seen["lost"] > 0 or seen["orphan processes"] > 0)


if __name__ == "__main__":
    main()
