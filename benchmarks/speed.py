"""How fast is it? One store of a size, and its peers, measured in turns so that a noisy machine is fair to all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cofio import Draft, Engine, Filter, Query, Scope, Settings, Where
from cofio.backends.upkeep_interface import Tidy

from . import corpus
from .peers import BruteForce, Fts5, RawDisk

LIMIT = 10
ROUNDS = 300
EMBEDDER = "minilm-l6-v2-int8"


@dataclass
class Times:
    """Milliseconds of one operation."""

    name: str
    taken: list[float] = field(default_factory=list)

    def run(self, work: Callable[[], object]) -> None:
        """Time one call."""
        start = time.perf_counter()
        work()
        self.taken.append((time.perf_counter() - start) * 1000)

    def at(self, share: float) -> float:
        """A percentile."""
        ordered = sorted(self.taken)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Store:
    """A filled store."""

    folder: Path
    memory: Engine
    records: list[Draft]
    ids: list[str]
    vectors: Any
    filters: dict[str, Filter]


def fill(folder: Path, size: int) -> Store:
    """A store of `size` records, indexed and with vectors."""
    settings = Settings(background=False)
    memory = Engine.open(folder, settings=settings)
    records = corpus.drafts(size)
    vectors = corpus.vectors(size)
    ids: list[str] = []
    for start in range(0, size, 1000):
        ids += [record.id for record in memory.write_many(records[start : start + 1000])]
    corpus.settle(memory, EMBEDDER, lambda done, count: vectors[done : done + count])
    newest = memory.read(ids[size * 9 // 10]).created_at
    filters: dict[str, Filter] = {
        "filtered": Where("tags", "has", "auth") & Where("author", "=", "pm"),
        "newest tenth": Where("created_at", ">=", newest),
        "2 % by data": Where("data.n", "<", 20),
        "0.1 % by data": Where("data.n", "=", 7),
    }
    return Store(folder, memory, records, ids, vectors, filters)


def writes(store: Store, folder: Path) -> dict[str, Times]:
    """Durable writes beside the raw disk."""
    disk = RawDisk(folder)
    fresh = iter(corpus.drafts(len(store.records) + 12 * ROUNDS)[-12 * ROUNDS :])
    one, many, raw = Times("durable write"), Times("batch of 100, a row"), Times("raw 4K + fdatasync")
    for number in range(ROUNDS):
        raw.run(disk.write)
        draft = next(fresh)
        one.run(partial(_write, store.memory, draft))
        if number % 10 == 0:
            batch = [next(fresh) for _ in range(100)]
            many.run(partial(store.memory.write_many, batch))
            many.taken[-1] /= 100
        if number % 100 == 99:
            store.memory._backend.upkeep(Tidy())
    disk.close()
    store.memory.settle(limit=0)
    return {times.name: times for times in (raw, one, many)}


def _write(memory: Engine, draft: Draft) -> None:
    memory.write(draft.scope, title=draft.title, text=draft.text, tags=draft.tags, author=draft.author, data=draft.data)


def searches(store: Store, folder: Path) -> tuple[dict[str, Times], float]:
    """Searches beside FTS5 and numpy; and the recall of the semantic leg against exact."""
    fts5, brute = Fts5(folder, store.records), BruteForce(store.vectors)
    asked = corpus.questions(store.records, ROUNDS)
    draw = np.random.default_rng(5)
    rows = draw.integers(0, min(len(store.records), corpus.EMBEDDED), ROUNDS)
    # A question is near its answer, not equal to it.
    given = store.vectors[rows] + draw.normal(0, 0.5 / np.sqrt(384), (ROUNDS, 384)).astype(np.float32)
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    times: dict[str, Times] = {}
    found = 0
    place = {record_id: row for row, record_id in enumerate(store.ids)}
    for number, (text, vector) in enumerate(zip(asked, given, strict=True)):
        calls = _calls(store, fts5, brute, text, vector, store.ids[number * 31 % len(store.ids)])
        if len(store.records) > 200_000 and number % 5:
            del calls["keyword, FTS5"]  # a fifth of the rounds is enough to know its hundreds of milliseconds
        answers: dict[str, Any] = {}
        for name in sorted(calls, key=lambda _: draw.random()):
            times.setdefault(name, Times(name)).run(partial(_keep, answers, name, calls[name]))
        near = {place.get(hit.record.id) for hit in answers["semantic"]}
        found += len(near & set(answers["semantic, numpy exact"]))
    fts5.close()
    return times, found / (LIMIT * ROUNDS)


def _calls(
    store: Store, fts5: Fts5, brute: BruteForce, text: str, vector: Any, record_id: str
) -> dict[str, Callable[[], object]]:
    """One round: each way of asking the same."""
    search = store.memory.search
    one = Scope("bench", "project-7")
    filtered: dict[str, Callable[[], object]] = {}
    for name, filter_ in store.filters.items():
        filtered[f"keyword, {name}"] = partial(_search, search, text, mode="keyword", filter=filter_)
        filtered[f"hybrid, {name}"] = partial(_search, search, text, vector=vector, filter=filter_)
    return filtered | {
        "read by id": lambda: store.memory.read(record_id),
        "keyword": lambda: search(Query(text, mode="keyword", limit=LIMIT)),
        "keyword, FTS5": lambda: fts5.search(text, LIMIT),
        "keyword, 1 % scope": lambda: search(Query(text, mode="keyword", scope=one, limit=LIMIT)),
        "semantic": lambda: search(Query(text, mode="semantic", vector=vector, limit=LIMIT, floor=0.0)),
        "semantic, numpy exact": lambda: brute.nearest(vector, LIMIT),
        "semantic, 1 % scope": lambda: search(Query(text, mode="semantic", vector=vector, scope=one, limit=LIMIT)),
        "hybrid": lambda: search(Query(text, vector=vector, limit=LIMIT)),
        "hybrid, 1 % scope": lambda: search(Query(text, vector=vector, scope=one, limit=LIMIT)),
    }


def _search(search: Callable[[Query], object], text: str, **options: Any) -> object:
    return search(Query(text, limit=LIMIT, **options))


def _keep(answers: dict[str, Any], name: str, call: Callable[[], object]) -> None:
    answers[name] = call()


COLD = """
import time
start = time.perf_counter()
from cofio import Engine, Query
with Engine.open({folder!r}) as memory:
    memory.search(Query({text!r}, mode="keyword"))
    taken = (time.perf_counter() - start) * 1000
    memory_kib = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
    print(taken, memory_kib / 1024)
"""


def cold(store: Store, rounds: int = 15) -> tuple[Times, float]:
    """From a started interpreter to the first keyword answer, in a new process; and its memory then."""
    times = Times("open to first keyword answer")
    used: list[float] = []
    environment = os.environ | {"COFIO_EMBEDDER": "minilm"}
    for text in corpus.questions(store.records, rounds):
        code = COLD.format(folder=str(store.folder), text=text)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        taken, memory = map(float, done.stdout.split())
        times.taken.append(taken)
        used.append(memory)
    return times, sorted(used)[len(used) // 2]


def bulk_load(folder: Path, size: int, rounds: int = 5) -> tuple[Times, Times]:
    """A load of `size` records that nothing was done for in the background, and the first answers of new processes."""
    load, first = Times("bulk load, a row"), Times("first search after a bulk load")
    records = corpus.drafts(size)
    with Engine.open(folder / "load", settings=Settings(background=False, embedder="none")) as memory:
        load.run(lambda: [memory.write_many(records[start : start + 1000]) for start in range(0, size, 1000)])
        load.taken[-1] /= size  # all together: what is put off until some of the batches counts too
    environment = os.environ | {"COFIO_EMBEDDER": "none", "COFIO_BACKGROUND": "false"}
    for text in corpus.questions(records, rounds):
        code = COLD.format(folder=str(folder / "load"), text=text)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        first.taken.append(float(done.stdout.split()[0]))
    return load, first


def disk_bytes(store: Store) -> int:
    """What the store takes on disk."""
    return sum(file.stat().st_size for file in store.folder.rglob("*") if file.is_file())
