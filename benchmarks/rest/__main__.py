"""How fast is the REST door? `cofio serve` beside EverOS, whose API it has, in the same run; and under load.

usage: python -m benchmarks.rest [--quick] [--write] [--only compare scale load] [--python python3.12]
       [--minutes N] [--rate N ...] [--workers N]

compare  cofio and the peer in turns: add, flush, until it is found, the searches, memory
scale    cofio alone: searches in 100,000 turns of one user
load     cofio alone: 100, 300 and 1,000 requests a second, half add and half search

The peer is installed from PyPI into .cache when it is first needed, with a Python of 3.12 or later that is on PATH;
where that cannot be, cofio is measured alone. A part that is not run keeps the results that it had.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import cofio

from ..__main__ import RESULTS, machine
from . import load, measuring, report
from .measuring import compare
from .servers import PLAIN, WITH_THEIR_VECTORS, choose_workers, found_peer

KEPT = RESULTS / "rest.json"


def _compare(given: argparse.Namespace) -> report.Part:
    peer, what = found_peer(given.python)
    products = [] if given.peer_alone else [PLAIN, WITH_THEIR_VECTORS]
    sessions, searches = (10, 30) if given.quick else (measuring.SESSIONS, measuring.SEARCHES)
    return report.compared(compare([*products, *([peer] if peer else [])], sessions, searches), what)


def _scale(given: argparse.Namespace) -> report.Part:
    from .scale import TURNS, scaled

    return report.scaled(scaled(given.turns or (10_000 if given.quick else TURNS)))


def _load(given: argparse.Namespace) -> report.Part:
    product, minutes = choose_workers(given.workers), given.minutes or (1 if given.quick else 10)
    runs = []
    for rate in given.rate:
        time = min(minutes, 2) if rate >= report.OVERLOAD else minutes  # that is soon enough to see what is refused
        runs.append(load.load(product, rate=rate, minutes=time, share=given.share, method=given.method))
    return report.loaded(runs)


PARTS: dict[str, Callable[[argparse.Namespace], report.Part]] = {"compare": _compare, "scale": _scale, "load": _load}


def main() -> None:
    """Measure, print the page, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS], help="these parts and no other")
    parser.add_argument("--quick", action="store_true", help="fewer of everything, to see that it works")
    parser.add_argument("--python", help="the Python for the peer, 3.12 or later")
    parser.add_argument("--peer-alone", action="store_true", help="compare: leave cofio out")
    parser.add_argument("--turns", type=int, help="scale: how many turns")
    parser.add_argument("--minutes", type=float, help="load: how long each run takes (default 10, or 1 with --quick)")
    parser.add_argument(
        "--rate", type=float, nargs="+", default=load.RATES, help="load: requests a second, of each run"
    )
    parser.add_argument("--workers", type=int, help="load: with how many processes cofio is to answer")
    parser.add_argument("--share", type=float, default=load.SHARE, help="load: the part of them that add")
    parser.add_argument("--method", default=load.METHOD, help="load: how is searched")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    parts: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if given.write and KEPT.exists() else {}
    for name in given.only:
        made = PARTS[name](given)
        head = f"cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}"
        parts[name] = {"head": head, "text": made.text, "targets": made.targets, "figures": made.figures}
        parts = {part: parts[part] for part in PARTS if part in parts}
        if given.write:  # after each part: one that fails takes no other with it
            RESULTS.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(parts, indent=1) + "\n")
            (RESULTS / "rest.md").write_text(report.page(parts))
    print(report.page(parts))


if __name__ == "__main__":
    main()
