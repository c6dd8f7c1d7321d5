"""Which scan of the sign bits? Speed, import time and size of each candidate, and the recall that each depth gives.

usage: python -m benchmarks.scan [--rows 100000,1000000] [--write]

simsimd and faiss are measured when they are installed (pip install simsimd faiss-cpu); cofio needs neither.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cofio.backends.sqlite.vector_codes import compute_sign_bits

from . import corpus
from .__main__ import RESULTS, machine

DEPTHS = (200, 500, 1000, 2000, 4000)


def median_ms(work: Callable[[], object], rounds: int = 15) -> float:
    """The median time of a call, after one to warm up."""
    work()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def scans(rows: int) -> dict[str, float]:
    """Milliseconds to find the 1000 nearest of so many sign-bit codes, by each way there is."""
    columns = compute_sign_bits(corpus.vectors(min(rows, 1_000_000)))
    by_row = np.ascontiguousarray(columns.T)
    query = by_row[0]
    flat = by_row.view(np.uint8)

    def numpy_columns() -> Any:
        total = np.empty(columns.shape[1], np.uint16)
        for start in range(0, len(total), 32_768):
            block = slice(start, start + 32_768)
            total[block] = np.bitwise_count(columns[0, block] ^ query[0])
            for column in range(1, len(query)):
                total[block] += np.bitwise_count(columns[column, block] ^ query[column])
        return _nearest(total)

    ways: dict[str, Callable[[], Any]] = {
        "numpy, by columns": numpy_columns,
        "numpy, by rows": lambda: _nearest(np.bitwise_count(by_row ^ query).sum(1, dtype=np.uint16)),
    }
    if importlib.util.find_spec("simsimd"):
        import simsimd  # type: ignore[import-not-found,unused-ignore]  # only where it is installed

        one = flat[:1]
        ways["simsimd"] = lambda: _nearest(
            np.asarray(simsimd.cdist(one, flat, metric="hamming", dtype="bin8"))[0].astype(np.uint16)
        )
    if importlib.util.find_spec("faiss"):
        import faiss  # type: ignore[import-not-found,import-untyped,unused-ignore]  # only where it is installed

        index = faiss.IndexBinaryFlat(flat.shape[1] * 8)
        index.add(flat)
        ways["faiss"] = lambda: index.search(flat[:1], 1000)
    return {name: median_ms(work) for name, work in ways.items()}


def _nearest(distances: Any) -> Any:
    counts = np.cumsum(np.bincount(distances))
    return np.flatnonzero(distances <= np.searchsorted(counts, 1000))


def cost(package: str) -> tuple[float, float] | None:
    """Megabytes on disk and milliseconds to import, beyond numpy."""
    if not importlib.util.find_spec(package):
        return None
    name = {"faiss": "faiss-cpu"}.get(package, package)
    files = importlib.metadata.files(name) or []
    size = sum(file.size or 0 for file in files) / 2**20
    code = f"import numpy, time; s = time.perf_counter(); import {package}; print((time.perf_counter() - s) * 1000)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(5)
    ]
    return size, statistics.median(runs)


def recalls(rows: int, questions: int = 100) -> dict[int, float]:
    """Of the exact ten nearest, how many are among the first so many by sign bits: real vectors of real text."""
    vectors = corpus.vectors(rows + questions)
    asked, held = vectors[:questions], vectors[questions:]
    codes, sought = compute_sign_bits(held), compute_sign_bits(asked)
    found = dict.fromkeys(DEPTHS, 0.0)
    for number in range(questions):
        exact = set(np.argpartition(-(held @ asked[number]), 10)[:10].tolist())
        distances = np.zeros(len(held), np.uint16)
        for column in range(len(codes)):
            distances += np.bitwise_count(codes[column] ^ sought[column, number])
        order = np.argsort(distances, kind="stable")
        for depth in DEPTHS:
            found[depth] += len(exact & set(order[:depth].tolist())) / 10 / questions
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    sizes = [int(size) for size in given.rows.split(",")]
    speeds = {size: scans(size) for size in sizes}
    lines = ["# The scan", "", machine(), "", "Milliseconds to the 1000 nearest sign-bit codes:", ""]
    lines += [
        "| way | " + " | ".join(f"{size:,}" for size in sizes) + " | MB installed | ms to import |",
        "|---|" + "---|" * (len(sizes) + 2),
    ]
    for way in speeds[sizes[0]]:
        price = cost(way.split(",")[0]) if not way.startswith("numpy") else (0.0, 0.0)
        assert price is not None
        cells = " | ".join(f"{speeds[size][way]:.2f}" for size in sizes)
        lines.append(f"| {way} | {cells} | {price[0]:.1f} | {price[1]:.1f} |")
    lines += ["", "Recall@10 of exact by the first so many sign-bit codes, then scored exactly:", ""]
    lines += ["| vectors | " + " | ".join(f"{depth:,}" for depth in DEPTHS) + " |", "|---|" + "---|" * len(DEPTHS)]
    for size, what in ((19_900, "real"), *((size, "20,000 real, jittered") for size in sizes)):
        shares = recalls(size, 100 if size < 200_000 else 30)
        lines.append(f"| {size:,} ({what}) | " + " | ".join(f"{shares[depth]:.3f}" for depth in DEPTHS) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "scan.md").write_text(text)


if __name__ == "__main__":
    main()
