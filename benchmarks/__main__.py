"""Run the speed benchmark and write its table.

usage: python -m benchmarks [--sizes 1000,10000,100000] [--million] [--write]

Every figure is p50 / p99 in milliseconds, measured in turns with its peers in the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import apsw
import numpy as np

import cofio

from . import speed
from .speed import Times

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """What this ran on."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, numpy {np.__version__}"
    )


def measure(size: int) -> dict[str, object]:
    """Everything about one size."""
    print(f"{size:,} records: filling …", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        store = speed.fill(Path(folder) / "store", size)
        peers = Path(folder)
        gc.collect()
        gc.freeze()  # the corpus that the benchmark itself holds is not for the collector to walk in a measured call
        print(f"{size:,} records: measuring …", flush=True)
        searched, recall = speed.searches(store, peers)
        written = speed.writes(store, peers)
        size_on_disk = speed.disk_bytes(store)
        store.memory.close()
        started, memory = speed.cold(store)
        loads = speed.bulk_load(peers, min(size, 100_000))
    times = {**written, **searched, started.name: started, **{each.name: each for each in loads}}
    return {
        "size": size,
        "ms": {name: [round(each.at(0.5), 3), round(each.at(0.99), 3)] for name, each in times.items()},
        "recall@10": round(recall, 4),
        "idle MiB": round(memory, 1),
        "disk MiB": round(size_on_disk / 2**20, 1),
        "targets": targets(size, times, list(store.filters), recall, memory),
    }


def targets(
    size: int, times: dict[str, Times], filters: list[str], recall: float, memory: float
) -> dict[str, list[float | bool]]:
    """Each target of this size: what was measured, what was asked, whether it holds."""
    p50 = {name: each.at(0.5) for name, each in times.items()}
    rows: dict[str, tuple[float, float, bool]] = {}

    def most(name: str, value: float, limit: float) -> None:
        rows[name] = (round(value, 3), limit, value <= limit)

    def least(name: str, value: float, limit: float) -> None:
        rows[name] = (round(value, 3), limit, value >= limit)

    most("durable write / raw fdatasync", p50["durable write"] / p50["raw 4K + fdatasync"], 2.0)
    least("single write / batched row", p50["durable write"] / p50["batch of 100, a row"], 5.0)
    least("semantic recall@10 of exact", recall, 0.99)
    most("idle memory, MiB", memory, 60.0)
    if size >= 100_000:
        least("FTS5 / keyword", p50["keyword, FTS5"] / p50["keyword"], 50.0 if size >= 1_000_000 else 20.0)
        most("hybrid, ms", p50["hybrid"], 20.0 if size >= 1_000_000 else 5.0)
        for way in ("keyword", "semantic", "hybrid"):
            most(f"{way} in a 1 % scope / unscoped", p50[f"{way}, 1 % scope"] / p50[way], 1.0)
        for way in ("keyword", "hybrid"):
            for name in filters:
                most(f"{way}, {name} / unfiltered", p50[f"{way}, {name}"] / p50[way], 2.0)
    if size == 100_000:
        most("open to first keyword answer, ms", p50["open to first keyword answer"], 150.0)
        most("first search after a bulk load, ms", p50["first search after a bulk load"], 300.0)
    return {name: list(row) for name, row in rows.items()}


def table(results: list[dict[str, object]]) -> str:
    """The results as Markdown."""
    sizes = [f"{row['size']:,}" for row in results]
    lines = [f"| p50 / p99, ms | {' | '.join(sizes)} |", "|---|" + "---|" * len(sizes)]
    all_ms = [row["ms"] for row in results]
    assert all(isinstance(ms, dict) for ms in all_ms)
    for name in all_ms[0]:  # type: ignore[attr-defined]  # asserted above
        cells = " | ".join("{} / {}".format(*ms[name]) for ms in all_ms)  # type: ignore[index]
        lines.append(f"| {name} | {cells} |")
    for name in ("recall@10", "idle MiB", "disk MiB"):
        lines.append(f"| {name} | {' | '.join(str(row[name]) for row in results)} |")
    lines += ["", "| target | records | measured | asked | met |", "|---|---|---|---|---|"]
    for row in results:
        assert isinstance(row["targets"], dict)
        for name, (value, limit, met) in row["targets"].items():
            lines.append(f"| {name} | {row['size']:,} | {value} | {limit} | {'yes' if met else 'NO'} |")
    return "\n".join(lines)


def main() -> None:
    """Measure each size, print the table, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--million", action="store_true", help="measure 1,000,000 records too (some minutes, 6 GB)")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")] + ([1_000_000] if given.million else [])
    results = [measure(size) for size in sizes]
    head = f"cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}"
    text = f"# Speed\n\n{head}\n\n{table(results)}\n"
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "speed.md").write_text(text)
        (RESULTS / "speed.json").write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
