"""What it costs to say, with every write, what the new chunk comes near to."""

from __future__ import annotations

import random
import statistics
import string
import time
from pathlib import Path

from cofio import Draft, Engine, Scope, Settings

from .stores import HOME, WORDS

CHUNKS, ROUNDS = 10_000, 60


def measure_hints(folder: Path) -> list[str]:
    """Lines of a report: a write with and without the look, in a store of 10,000 chunks, in this process."""
    lines = [
        f"| {CHUNKS:,} chunks of 50 words, p50 ms | write | write that names its like | the difference |",
        "| --- | --- | --- | --- |",
    ]
    for name, vocabulary, weights in (
        ("drawn from 48 words", WORDS, None),
        ("drawn from 20,000, some common and most rare", *_invent_words(20_000)),
    ):
        plain, related = _measure(folder / name.split()[2], vocabulary, weights)
        lines.append(f"| {name} | {plain:.2f} | {related:.2f} | {related - plain:.2f} |")
    return lines


def _measure(folder: Path, vocabulary: list[str], weights: list[float] | None) -> tuple[float, float]:
    draw = random.Random(23)

    def text(count: int) -> str:
        return " ".join(draw.choices(vocabulary, weights, k=count))

    with Engine.open(folder, settings=Settings(embedder="none", sync="normal", background=False)) as engine:
        engine.write_many(Draft(scope=HOME, title=text(6), text=text(50)) for _ in range(CHUNKS))
        engine.settle()
        taken: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * ROUNDS):  # in turns, so that a noisy machine is fair to both
            related, title, body = bool(number % 2), text(6), text(50)
            start = time.perf_counter()
            engine.write(HOME if related else Scope("other"), title=title, text=body, related=related)
            taken[related].append((time.perf_counter() - start) * 1000)
    return statistics.median(taken[False]), statistics.median(taken[True])


def _invent_words(count: int) -> tuple[list[str], list[float]]:
    draw = random.Random(29)
    made = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 10))) for _ in range(count)]
    return made, [1 / (rank + 3) for rank in range(count)]  # as often as words come in a language
