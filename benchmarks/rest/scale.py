"""cofio alone, with a user who has said a great deal: how long does a search take?"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cofio import Engine, Kind, Query, Settings
from cofio.backends.upkeep_interface import Tidy
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.retrieval import EACH
from cofio.extract.extractor import Message

from .. import corpus
from ..speed import EMBEDDER, Times
from . import talk
from .measuring import METHODS, say
from .servers import PLAIN, quiet, running

TURNS, LENGTH, SEARCHES, WARM, TURN, LIMIT = 100_000, 20, 200, 20, 20, 10
EMBEDDED = 5000
KINDS = (Kind.EPISODE, Kind.FACT, Kind.TURN)
ENGINE, EMBEDDING, HTTP = "engine, hybrid, the vector given", "embedding the query", "over HTTP, {}"


@dataclass
class Scaled:
    """What was measured of a large store."""

    turns: int
    records: int
    seconds: float
    """How long the filling took, without vectors."""
    rss: float
    times: dict[str, Times] = field(default_factory=dict)

    @property
    def apart(self) -> float:
        """A hybrid search over HTTP without the model's work on the query: the median over pairs of the same query."""
        pairs = zip(self.times[HTTP.format("hybrid")].taken, self.times[EMBEDDING].taken, strict=True)
        return statistics.median(whole - embedding for whole, embedding in pairs)


def scaled(turns: int) -> Scaled:
    """Fill a store with the conversations of one user, and search in it."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        folder = Path(scratch) / "store"
        say(f"{turns:,} turns: filling")
        start = time.perf_counter()
        with Engine.open(folder, settings=Settings(background=False)) as engine:
            _fill(engine, turns)
            taken = time.perf_counter() - start
            say(f"{turns:,} turns: their vectors")
            _embed(engine)
            made = Scaled(turns, int(engine.stats()["records"]), taken, 0.0)
            gc.collect()
            gc.freeze()
            say(f"{turns:,} turns: searching")
            _search(made, engine, folder)
    return made


def _fill(engine: Engine, turns: int) -> None:
    """Every conversation is added and flushed as by the door."""
    talks, place = Conversations(engine), Project()
    texts = [draft.text for draft in corpus.drafts(turns)]
    begun = datetime.fromtimestamp(talk.BEGUN / 1000, UTC) - timedelta(days=turns // LENGTH // 10)
    for number, start in enumerate(range(0, turns, LENGTH)):
        name, at = talk.session(number), begun + timedelta(hours=2.4 * number)
        talks.append(place, name, [*_messages(texts[start : start + LENGTH], name, at)])
        talks.carve(place, name, whole=True)
        if number % 100 == 99:
            engine.settle(limit=0)
            engine._backend.upkeep(Tidy())
    engine.settle(limit=0)


def _messages(texts: list[str], session: str, at: datetime) -> Iterator[Message]:
    for index, text in enumerate(texts):
        ours = index % 2 == 1
        yield Message(
            id=f"m_{session}_{index:03d}", sender=talk.ASSISTANT if ours else talk.USER,
            role="assistant" if ours else "user", at=at + timedelta(seconds=20 * index), text=text,
        )  # fmt: skip


def _embed(engine: Engine) -> None:
    """Give every record a vector: one that the model made of some text, jittered. The model would take an hour."""
    real = corpus.vectors(EMBEDDED)
    draw = np.random.default_rng(3)
    corpus.settle(engine, EMBEDDER, lambda _, count: _jittered(real, count, draw))


def _jittered(real: NDArray[np.float32], count: int, draw: np.random.Generator) -> NDArray[np.float32]:
    made: NDArray[np.float32] = real[draw.integers(0, len(real), count)]
    made += draw.normal(0, 0.2 / np.sqrt(made.shape[1]), made.shape).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def _search(made: Scaled, engine: Engine, folder: Path) -> None:
    """The engine and each way over HTTP, in turns; every way has questions of its own, so that none warms another."""
    count = WARM + SEARCHES
    asked = dict(zip(METHODS, _questions(made.turns, count), strict=True))
    embedder = engine.embedder()
    assert embedder is not None
    vectors: list[list[float]] = []
    made.times = {name: Times(name) for name in (ENGINE, EMBEDDING, *(HTTP.format(method) for method in METHODS))}
    for query in asked["hybrid"]:
        start = time.perf_counter()
        vector = embedder.embed_query(query)
        made.times[EMBEDDING].taken.append((time.perf_counter() - start) * 1000)
        vectors.append(vector.tolist())
    home = Project().owner("user", talk.USER)
    with running(PLAIN, folder, "") as server:
        for first in range(0, count, TURN):
            quiet([server])
            turn = range(first, min(first + TURN, count))
            for method, queries in asked.items():
                for number in turn:
                    taken, data = server.client.post("search", talk.searched(queries[number], method, LIMIT))
                    made.times[HTTP.format(method)].taken.append(taken)
                    if method == "hybrid" and not data["episodes"]:
                        raise RuntimeError(f"nothing was found for {queries[number]!r}")
            for number in turn:
                text, given = asked["hybrid"][number], vectors[number]
                wanted = Query(
                    text, scope=home, exact=True, kinds=KINDS, vector=given, limit=LIMIT, each=EACH, floor=0.0
                )
                made.times[ENGINE].run(partial(engine.search, wanted))
        made.rss = server.rss()
    for times in made.times.values():
        del times.taken[:WARM]


def _questions(turns: int, count: int) -> Iterator[list[str]]:
    """For each method as many questions as are asked."""
    asked = corpus.questions(corpus.drafts(min(turns, 20_000)), len(METHODS) * count)
    return (asked[start : start + count] for start in range(0, len(asked), count))
