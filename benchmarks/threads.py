"""What does a search cost while other threads compute? Each step of a SQL statement lets go of the interpreter lock.

usage: python -m benchmarks.threads [--rows 1000,10000] [--rounds 60] [--seconds 2] [--label after] [--write]

To compare two versions, run it once with each on PYTHONPATH, with another --label; --write puts a section of that label
into the results and leaves the others.

Vectors are drawn by a generator and take no time to speak of: what a model takes is measured elsewhere, and would hide
what is asked here.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from cofio import Draft, Engine, Query, Settings
from cofio.values.query import Mode

from . import corpus
from .__main__ import RESULTS, machine

BESIDE = (0, 1, 3)
MODES: tuple[Mode, ...] = ("keyword", "hybrid")
SESSION = 40  # turns
SEARCHERS, ROUNDS = 4, 5
LONGEST, FEWEST = 3.0, 5  # seconds after which no further call is timed; and how many are in any case


class DrawnEmbedder:
    """Draws a vector for each text, the same each time, in far less time than a model or a hash of its words takes."""

    id = "drawn-384"
    dimensions = 384

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one for each text."""
        rows = [np.random.Generator(np.random.SFC64(zlib.crc32(text.encode()))).normal(size=384) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question."""
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """One row for each of the texts, all of which are done in any time."""
        return self.embed(texts)


def drafts(count: int) -> list[Draft]:
    """Records of which the second half are turns of conversations."""
    made = corpus.drafts(count)
    turns = [
        replace(draft, parent=f"session {number // SESSION}", position=number % SESSION)
        for number, draft in enumerate(made[count // 2 :])
    ]
    return made[: count // 2] + turns


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many threads that compute in Python all the while."""
    ended = threading.Event()

    def compute() -> None:
        number = 0
        while not ended.is_set():
            number += 1

    threads = [threading.Thread(target=compute, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def count_steps(connections: list[apsw.Connection], work: Callable[[], object]) -> Counter[str]:
    """How many statements a call runs, and how many rows they return."""
    counted: Counter[str] = Counter()

    def note(event: dict[str, Any]) -> None:
        counted["statements" if event["code"] == apsw.SQLITE_TRACE_STMT else "rows"] += 1

    for connection in connections:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_ROW, note)
    work()
    for connection in connections:
        connection.trace_v2(0, None)
    return counted


def time_calls(works: list[Callable[[], object]]) -> tuple[float, float]:
    """The median and the mean time of the calls in milliseconds."""
    taken: list[float] = []
    until = time.perf_counter() + LONGEST
    for work in works:
        start = time.perf_counter()
        if start > until and len(taken) >= FEWEST:
            break
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken), statistics.fmean(taken)


def measure(size: int, rounds: int) -> Iterator[str]:
    """A line of the table for each kind of search in a store of a size."""
    connections: list[apsw.Connection] = []
    apsw.connection_hooks.append(connections.append)
    records = drafts(size)
    questions = corpus.questions(records, rounds)
    settings = Settings(background=False, embedder="none", sync="normal")
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(Path(folder), settings=settings, embedder=DrawnEmbedder()) as memory,
    ):
        for start in range(0, size, 1000):
            memory.write_many(records[start : start + 1000])
        memory.settle()
        cases: dict[str, list[Callable[[], object]]] = {
            mode: [partial(memory.search, Query(question, mode=mode)) for question in questions] for mode in MODES
        }
        cases["list of 100"] = [partial(memory.list, limit=100)] * (rounds // 3)
        for name, works in cases.items():
            works[0]()
            steps = count_steps(connections, works[0])
            times = []
            for count in BESIDE:
                with busy(count):
                    times.append(time_calls(works))
            cells = " | ".join(f"{median:.2f} / {mean:.2f}" for median, mean in times)
            yield f"| {name}, {size:,} | {steps['statements']} | {steps['rows']} | {cells} |"
    apsw.connection_hooks.remove(connections.append)


@dataclass
class Work:
    """What a thread does over and over, and how long each call took, in milliseconds."""

    calls: Iterator[Callable[[], object]]
    taken: list[float] = field(default_factory=list)

    def run(self, until: float) -> None:
        """Call until then."""
        while (start := time.perf_counter()) < until:
            next(self.calls)()
            self.taken.append((time.perf_counter() - start) * 1000)


def run_together(works: list[Work], seconds: float) -> None:
    """Let each work in a thread of its own, all at the same time."""
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=work.run, args=(until,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_together(size: int, seconds: float) -> Iterator[str]:
    """A line for each kind of search: one thread alone, and several that search while another writes."""
    records = drafts(size)
    questions = corpus.questions(records, 500)
    for mode in MODES:
        embedder = DrawnEmbedder() if mode != "keyword" else None
        queries = [
            Query(question, mode=mode, vector=embedder.embed_query(question).tolist() if embedder else None)
            for question in questions
        ]
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine.open(Path(folder), settings=Settings(embedder="none"), embedder=embedder) as memory,
        ):
            for start in range(0, size, 1000):
                memory.write_many(records[start : start + 1000])
            memory.settle()
            alone, together, written = _time_together(memory, queries, records, seconds)
        rate, rate_alone = (len(each) / seconds / ROUNDS for each in (together, alone))
        ordered, middle = sorted(together), statistics.median(together)
        p99, most = ordered[int(0.99 * len(ordered))], ordered[-1]
        yield (
            f"| {mode}, {size:,} | {rate_alone:.0f} | {rate:.0f} | {rate / rate_alone:.2f}"
            f" | {middle:.1f} / {p99:.1f} / {most:.1f} | {most / middle:.1f}"
            f" | {len(written) / seconds / ROUNDS:.0f} | {statistics.median(written):.1f} / {max(written):.1f} |"
        )


def _time_together(
    memory: Engine, queries: list[Query], records: list[Draft], seconds: float
) -> tuple[list[float], list[float], list[float]]:
    """How long searches of one thread alone took, those of several beside a writer, and the writes."""
    alone: list[float] = []
    together: list[float] = []
    written: list[float] = []
    stores = cycle(
        [partial(memory.write, each.scope, title=each.title, text=each.text, tags=each.tags) for each in records]
    )
    for turn in range(ROUNDS):  # in turns, as a machine has slow minutes
        one, *several = (Work(_shuffle(memory, queries, turn * 10 + number)) for number in range(1 + SEARCHERS))
        writer = Work(stores)
        memory.settle()  # else the background work of the round before is still at it
        run_together([one], seconds)
        run_together([*several, writer], seconds)
        alone += one.taken
        together += [each for work in several for each in work.taken]
        written += writer.taken
    return alone, together, written


def _shuffle(memory: Engine, queries: list[Query], seed: int) -> Iterator[Callable[[], object]]:
    """Searches without end, in an order of their own."""
    draw = random.Random(seed)
    while True:
        yield partial(memory.search, draw.choice(queries))


def write(path: Path, label: str, lines: list[str], title: str = "Beside other threads") -> None:
    """Put a section into the results, in place of an earlier one of that label."""
    text = path.read_text() if path.exists() else f"# {title}\n"
    section = "\n".join([f"## {label}", "", machine(), "", *lines, ""])
    old = re.compile(rf"^## {re.escape(label)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    path.write_text(old.sub(lambda _: section, text) if old.search(text) else f"{text}\n{section}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--rows", default="1000,10000")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each of the five rounds of threads that search")
    parser.add_argument("--label", default="now")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS / 'threads.md'}")
    chosen = parser.parse_args()
    lines = [
        "Milliseconds, median / mean, with so many threads beside it that compute in Python:",
        "",
        "| search | statements | rows | alone | one | three |",
        "|---|---|---|---|---|---|",
    ]
    for size in chosen.rows.split(","):
        lines += measure(int(size), chosen.rounds)
    lines += [
        "",
        f"Searches a second of one thread alone, and of {SEARCHERS} threads while another writes without a pause:",
        "",
        "| search | alone | together | share | ms, p50 / p99 / most | most / p50 | writes a second | ms, p50 / most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size in chosen.rows.split(","):
        lines += measure_together(int(size), chosen.seconds)
    print("\n".join(lines))
    if chosen.write:
        write(RESULTS / "threads.md", chosen.label, lines)


if __name__ == "__main__":
    main()
