"""How long an Animus host waits for the plugin: from the start of its process, and within one that stays.

usage: python -m benchmarks.animus [--rounds 40] [--write]

The host starts a process for each call, so every figure but the last table's is from the start of a process to the
answer. `python -c pass` in the same rounds is the floor under them all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import cofio

from .__main__ import RESULTS, machine

ENTRIES = 1000  # in the scope that is asked
CALLS = 200  # within one process
SCOPE = {"project_id": "bench"}
FLOOR, INITIALIZE = "python -c pass", "initialize"
ASKED = 100.0  # ms that the plugin may take beyond the floor until initialize is answered
CALLED: dict[str, tuple[str, dict[str, object]]] = {
    "put": ("memory/put", {"scope": SCOPE, "key": "new", "value": "a fact about the harbour"}),
    "get": ("memory/get", {"scope": SCOPE, "key": "k7"}),
    "query, by words": ("memory/query", {"scope": SCOPE, "query": "harbour in winter", "top_k": 10}),
    "query, by words and meaning": (
        "memory/query", {"scope": SCOPE, "query": "harbour in winter", "top_k": 10, "mode": "hybrid"},
    ),
}  # fmt: skip
WORDS = (
    "harbour", "winter", "ship", "crane", "night", "shift", "cargo", "tide", "pilot", "storm", "quay", "rope", "light",
)  # fmt: skip


class Plugin:
    """A plugin's process, and the host's end of its pipes."""

    def __init__(self, root: str) -> None:
        names = ("PATH", "HOME", "LANG", "XDG_CACHE_HOME")
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from cofio.doors.animus import main; raise SystemExit(main())"],
            cwd=root, env={name: os.environ[name] for name in names if name in os.environ},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.root, self.number = root, 0

    def ask(self, method: str, params: object = None) -> dict[str, object]:
        """The result of a request."""
        assert self.process.stdin
        assert self.process.stdout
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, dict[str, object]] = json.loads(self.process.stdout.readline())
        return answer["result"]

    def initialize(self) -> None:
        """Shake hands."""
        binding = {"project_binding": {"project_root": self.root}}
        self.ask("initialize", {"protocol_version": "1.1.0", "init_extensions": binding})

    def end(self) -> None:
        """Say `exit`, and wait for it."""
        self.ask("exit")
        self.process.communicate()


def spawned(root: str, call: tuple[str, dict[str, object]] | None) -> tuple[float, float, float]:
    """Milliseconds from the start of a process until initialize is answered, the call is, and the process is gone."""
    begun = time.perf_counter()
    plugin = Plugin(root)
    plugin.initialize()
    ready = time.perf_counter()
    if call is not None:
        plugin.ask(*call)
    answered = time.perf_counter()
    plugin.end()
    return (ready - begun) * 1e3, (answered - begun) * 1e3, (time.perf_counter() - begun) * 1e3


def floor() -> float:
    """Milliseconds that an empty Python takes."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1e3


def filled(root: str) -> None:
    """Put ENTRIES, and let them be embedded."""
    chance = random.Random(1)
    plugin = Plugin(root)
    plugin.initialize()
    for number in range(ENTRIES):
        value = {"n": number, "note": " ".join(chance.choices(WORDS, k=20))}
        plugin.ask("memory/put", {"scope": SCOPE, "key": f"k{number}", "value": value})
    plugin.end()
    with cofio.Engine.open(Path(root) / ".cofio") as engine:
        engine.settle()


def fresh(root: str, rounds: int) -> dict[str, list[float]]:
    """Every call in a process of its own, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in (FLOOR, INITIALIZE, *CALLED, "ended, after a put")}
    for _ in range(rounds):
        taken[FLOOR].append(floor())
        taken[INITIALIZE].append(spawned(root, None)[0])
        for name, call in CALLED.items():
            _, answered, gone = spawned(root, call)
            taken[name].append(answered)
            if name == "put":
                taken["ended, after a put"].append(gone)
    return taken


def within(root: str) -> dict[str, list[float]]:
    """The same calls within one process, in turns, each after one to warm up."""
    plugin = Plugin(root)
    plugin.initialize()
    calls = {"$/ping": ("$/ping", {}), **CALLED}
    calls["query, by words"] = ("memory/query", {**CALLED["query, by words"][1], "mode": "keyword"})
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(CALLS + 1):
        for name, call in calls.items():
            begun = time.perf_counter()
            plugin.ask(*call)
            if turn:
                taken[name].append((time.perf_counter() - begun) * 1e3)
    plugin.end()
    return taken


def table(taken: dict[str, list[float]], least: float | None) -> str:
    """p50 and p90 of each; with a floor, also how far above it."""
    head = ["", "p50, ms", "p90, ms"] + ([] if least is None else ["beyond the floor"])
    rows: list[Sequence[str]] = [head, ["---"] * len(head)]
    for name, times in taken.items():
        middle, most = statistics.median(times), statistics.quantiles(times, n=10)[-1]
        beyond = [] if least is None else [f"{middle - least:.1f}"]
        rows.append([name, f"{middle:.3g}", f"{most:.3g}", *beyond])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def report(rounds: int) -> str:
    """Measure, and write it out."""
    with tempfile.TemporaryDirectory() as root:
        filled(root)
        by_process, in_one = fresh(root, rounds), within(root)
    least = statistics.median(by_process[FLOOR])
    beyond = statistics.median(by_process[INITIALIZE]) - least
    met = "yes" if beyond < ASKED else "NO"
    return f"""\
# Animus

cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}

A scope of {ENTRIES:,} entries, all with vectors; writes are synced to the disk (`sync=full`).

## A process for each call

From the start of the process to the answer, {rounds} rounds in turns.

{table(by_process, least)}

## Within one process

{CALLS} calls of each, in turns.

{table(in_one, None)}

## Target

| target | measured | asked | met |
| --- | --- | --- | --- |
| spawn to initialize beyond `{FLOOR}`, ms | {beyond:.1f} | under {ASKED:g} | {met} |
"""


def main() -> None:
    """Measure, print the report, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="how many processes are started for each figure")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    text = report(max(2, given.rounds))
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "animus.md").write_text(text)


if __name__ == "__main__":
    main()
