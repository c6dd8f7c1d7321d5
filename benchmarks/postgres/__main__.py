"""How fast is a store on PostgreSQL beside one in a folder? Both in one run, on one machine.

usage: python -m benchmarks.postgres [--sizes 100000 1000000] [--only folder postgresql recall serve]
       [--url URL] [--write]

folder      a store in a folder: writes and searches in tenants of 1,000 records each
postgresql  the same store on PostgreSQL, beside a bare INSERT of the same row
recall      PostgreSQL: how much of what an exact comparison finds is found, in scopes of different sizes, with a filter
            and without, for vectors in clusters and for random ones
serve       four `cofio serve` on one database beside one on a folder

The server is the one from PyPI, and syncs every commit. Vectors are drawn, not embedded. What is not run keeps the
results that it had; so do the sections under "kept" in postgres.json, which were measured in other ways.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cofio

from ..__main__ import RESULTS, machine
from . import load, recall, report, speed
from .server import SETTINGS, run_server

KEPT = RESULTS / "postgres.json"
PARTS = ("folder", "postgresql", "recall", "serve")


def measure(sizes: list[int], only: list[str], url: str | None, results: dict[str, Any]) -> None:
    """Measure what is asked for, into the results."""
    with run_server() if url is None else nullcontext(url) as url:
        for size in sizes:
            for part, measure_store in (("folder", speed.measure_folder), ("postgresql", speed.measure_postgresql)):
                if part in only:
                    print(f"{part}, {size:,} records …", flush=True)
                    results.setdefault(part, {})[str(size)] = measure_store(size, url)
        if "recall" in only:
            results["recall"] = recall.measure_distributions(url)
        if "serve" in only:
            results["serve"] = load.measure_servers(url)


def main() -> None:
    """Measure, print the page, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000], help="records of the stores")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts and no other")
    parser.add_argument("--url", help="a server of your own, with pgvector; stores that are filled stay so")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    results: dict[str, Any] = json.loads(KEPT.read_text()) if given.write and KEPT.exists() else {}
    measure(given.sizes, given.only, given.url, results)
    settings = ", ".join(f"{name} {value}" for name, value in SETTINGS.items() if name != "listen_addresses")
    results["head"] = (
        f"cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}\n\nPostgreSQL with {settings}"
    )
    text = report.render(results)
    print(text)
    if given.write:
        KEPT.write_text(json.dumps(results, indent=1) + "\n")
        Path(RESULTS / "postgres.md").write_text(text)


if __name__ == "__main__":
    main()
