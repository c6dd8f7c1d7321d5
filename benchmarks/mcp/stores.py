"""What the stores are filled with, and how."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from cofio import Draft, Engine, Scope, Settings
from cofio.backends.upkeep_interface import Tidy

from .. import corpus
from ..speed import EMBEDDER
from .servers import BY_WORDS, Arguments, Product, session

HOME = Scope("mcp")
AGENTS = ("pm", "backend-dev", "reviewer", "ops")
STATES = 100
_WORDS = (
    "agent memory store search index token vector schema query cache server client session deploy release branch merge"
    " review design decision record update delete filter ranking latency budget error retry queue worker thread process"
    " network socket handler payload header secret policy tenant region backup restore metric trace report"
    " audit"
)
WORDS = _WORDS.split()
PLAIN, REAL = "48 words", "real text"


@dataclass(frozen=True)
class Chunk:
    """A piece of memory, as both servers take it."""

    id: str
    topic: str
    content: str
    agent: str
    tags: tuple[str, ...]

    def written(self) -> Arguments:
        """The arguments that write it."""
        return {"topic": self.topic, "content": self.content, "agent": self.agent, "tags": [*self.tags]}


def chunks(text: str, count: int) -> list[Chunk]:
    """So many chunks: of documentation's own paragraphs, or as agent-memory-store's benchmark makes them."""
    draw = random.Random(17)
    made = []
    for number, draft in enumerate(corpus.drafts(count)):
        topic, content = draft.title, draft.text
        if text == PLAIN:
            topic, content = " ".join(draw.choices(WORDS, k=6)), " ".join(draw.choices(WORDS, k=50))
        made.append(Chunk(f"{number:010x}", topic, content, draw.choice(AGENTS), draft.tags))
    return made


def questions(held: Sequence[Chunk], text: str, count: int) -> list[str]:
    """Queries of three words: any three of the 48, or three that follow each other in a chunk, small words included."""
    draw = random.Random(19)
    if text == PLAIN:
        return [" ".join(draw.sample(WORDS, 3)) for _ in range(count)]
    asked: list[str] = []
    while len(asked) < count:
        words = re.findall(r"\b[a-z]{2,}\b", draw.choice(held).content.lower())  # lower: AND and NOT fail at the peer
        if len(words) >= 3:
            start = draw.randrange(len(words) - 2)
            asked.append(" ".join(words[start : start + 3]))
    return asked


def fill(folder: Path, held: Sequence[Chunk], *, vectors: bool = False) -> None:
    """A cofio store of the chunks, indexed; with MiniLM's vectors of their texts, or with none."""
    with Engine.open(folder, settings=Settings(background=False, embedder="none")) as engine:
        for start in range(0, len(held), 1000):
            engine.write_many(
                Draft(scope=HOME, id=one.id, title=one.topic, text=one.content, author=one.agent, tags=one.tags,
                      source="mcp")
                for one in held[start : start + 1000]
            )  # fmt: skip
        engine.settle()
        if vectors:
            rows = corpus.vectors(len(held))
            corpus.settle(engine, EMBEDDER, lambda done, count: rows[done : done + count])
        else:
            engine._backend.upkeep(Tidy())


def fill_peer(peer: Product, folder: Path, held: Sequence[Chunk], scratch: Path) -> None:
    """A store of the peer's: its own tables and triggers, made by itself; rows as it writes them."""
    with session(peer, folder, scratch):
        pass
    now = datetime.now(UTC) - timedelta(days=1)
    times = [(now + timedelta(milliseconds=n)).isoformat(timespec="milliseconds")[:-6] + "Z" for n in range(len(held))]
    database = apsw.Connection(str(folder / "store.db"))
    with database:
        database.executemany(
            "INSERT INTO chunks (id, topic, agent, tags, content, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (one.id, one.topic, one.agent, json.dumps(one.tags, separators=(",", ":")), one.content, at, at)
                for one, at in zip(held, times, strict=True)
            ),
        )
    database.close()


def settled(folder: Path) -> None:
    """Wait until cofio has nothing left to index in the background."""
    command = [BY_WORDS.command[0], "stats", "--json", "--store", str(folder)]
    environment = os.environ | {"COFIO_EMBEDDER": "none"}
    until = time.monotonic() + 60
    while True:
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        if not json.loads(done.stdout)["waiting_for_index"]:
            break
        if time.monotonic() > until:
            raise RuntimeError("cofio has not indexed everything after a minute")
        time.sleep(0.2)
    time.sleep(1.0)  # the tidying that follows
