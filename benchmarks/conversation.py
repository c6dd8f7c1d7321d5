"""What does a search in a conversation cost, where what stands around a message counts? Beside FTS5 in the same run.

usage: python -m benchmarks.conversation [--turns 600] [--rounds 300] [--model] [--busy N] [--label after] [--write]

The vectors of the questions are made beforehand: what a model takes for one is measured by `benchmarks.model`. With
--model they are the model's, made by the search, which then compares texts token by token, too. --busy has so many
other processes do nothing but reckon meanwhile, as on a laptop that builds something. To compare two versions, run it
once with each on PYTHONPATH, with another --label; --write puts a section of that label into the results and leaves the
others.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import apsw

from cofio import Draft, Engine, Kind, Query, Scope, Settings
from cofio.embed.hashed import HashedEmbedder
from cofio.values.times import from_millis

from .__main__ import RESULTS
from .peers import Fts5
from .rest import talk
from .speed import LIMIT, Times
from .threads import count_steps, write

SESSION = 40  # turns
ONE = Scope("users", "one", "chat")
COUNTED = 20  # questions of which the calls are counted


def make_turns(count: int) -> list[Draft]:
    """The turns of a conversation of several sessions."""
    said = [message for number in range(-(-count // 3)) for message in talk.messages(number)]
    return [
        Draft(
            scope=ONE,
            kind=Kind.TURN,
            text=str(message["content"]),
            author=str(message["sender_id"]),
            parent=f"session {number // SESSION}",
            position=number % SESSION,
            created_at=from_millis(talk.BEGUN + number * 60_000),
        )
        for number, message in enumerate(said[:count])
    ]


def count_calls(work: Callable[[], object]) -> int:
    """How many functions a call enters, Python's own and those in C."""
    count = 0

    def note(_frame: FrameType, event: str, _detail: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@contextmanager
def keep_busy(processes: int) -> Iterator[None]:
    """Have so many processes reckon meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(9999))"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def measure(turns: int, rounds: int, *, with_model: bool = False) -> list[str]:
    """The lines of the table."""
    connections: list[apsw.Connection] = []
    apsw.connection_hooks.append(connections.append)
    records, embedder = make_turns(turns), None if with_model else HashedEmbedder()
    questions = [talk.question(number % (turns // 3), number) for number in range(rounds)]
    settings = Settings(background=False, embedder="minilm" if with_model else "none", sync="normal")
    with tempfile.TemporaryDirectory() as folder:
        fts5 = Fts5(Path(folder), records)
        with Engine.open(Path(folder) / "store", settings=settings, embedder=embedder) as memory:
            memory.write_many(records)
            memory.settle()
            by_words = Query("", scope=ONE, limit=LIMIT, mode="keyword")
            ways: dict[str, list[Callable[[], object]]] = {
                "by words": [partial(memory.search, replace(by_words, text=text)) for text in questions],
                "by words, FTS5": [partial(fts5.search, text, LIMIT) for text in questions],
            }
            for mode in ("semantic", "hybrid"):
                asked = [
                    replace(
                        by_words,
                        text=text,
                        mode=mode,
                        vector=None if embedder is None else embedder.embed_query(text).tolist(),
                    )
                    for text in questions
                ]
                ways["by meaning" if mode == "semantic" else "by words and meaning"] = [
                    partial(memory.search, query) for query in asked
                ]
            times = {name: Times(name) for name in ways}
            processor = dict.fromkeys(ways, 0.0)
            draw = random.Random(3)
            for each in zip(*ways.values(), strict=True):
                for name, work in draw.sample(list(zip(ways, each, strict=True)), len(ways)):
                    start = time.thread_time()
                    times[name].run(work)
                    processor[name] += (time.thread_time() - start) * 1000
            lines = []
            for name, works in ways.items():
                steps = count_steps(connections, works[0])
                calls = sum(map(count_calls, works[:COUNTED])) // min(COUNTED, len(works))
                p50, p99 = times[name].at(0.5), times[name].at(0.99)
                lines.append(
                    f"| {name} | {p50:.2f} / {p99:.2f} | {processor[name] / rounds:.2f} | {calls:,}"
                    f" | {steps['statements']} |"
                )
        fts5.close()
    apsw.connection_hooks.remove(connections.append)
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversation", description=__doc__)
    parser.add_argument("--turns", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--model", action="store_true", help="search with the model, and not with vectors made before")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="how many other processes reckon meanwhile")
    parser.add_argument("--label", default="now")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS / 'conversation.md'}")
    chosen = parser.parse_args()
    meanwhile = f", beside {chosen.busy} processes that reckon" if chosen.busy else ""
    with keep_busy(chosen.busy):
        measured = measure(chosen.turns, chosen.rounds, with_model=chosen.model)
    lines = [
        f"A search in a conversation of {chosen.turns:,} turns{meanwhile}; milliseconds, p50 / p99, and the"
        f" processor's, mean{', with the model' if chosen.model else ''}:",
        "",
        "| search | ms | processor | calls of functions | statements |",
        "|---|---|---|---|---|",
        *measured,
    ]
    print("\n".join(lines))
    if chosen.write:
        write(RESULTS / "conversation.md", chosen.label, lines, title="A search in a conversation")


if __name__ == "__main__":
    main()
