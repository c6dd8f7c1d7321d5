"""Does a question get what holds now, what held before when that is asked for, and no answer where there is none?

usage: python -m benchmarks.currency [--data FILE] [--half development|"held back"] [--details] [--write]

Thirteen invented lives of nine or ten sessions each, typed as people type (`benchmarks/data/lives.json`), three of them
partly or wholly in German, Spanish or French, go in by the REST API as any chat does, with a flush after each session.
Then their questions are asked of `memory/search`, as it is by default. The memory is tuned on the eight lives of the
development half alone; the others were written before that, and are there to see whether it held.

A hit is an episode. It says what the facts say that are shown with it, or where none is, what its text says. It is
right if that holds one of the question's `right` words, and stale if it does not, but one of its `stale` ones. A
question is refused if nothing is found, or nothing that scores .5.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter
from starlette.testclient import TestClient

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations
from cofio.doors.lazy_memory import Memory
from cofio.doors.rest import http as rest
from cofio.http.admission import ServerLoad
from cofio.http.metrics import Metrics
from cofio.server.app import build_app
from cofio.server.options import ServerOptions

from .__main__ import RESULTS, machine

DATA = Path(__file__).parent / "data" / "lives.json"
HALVES = ("development", "held back")
KINDS = {"now": "what changed", "past": "the past", "steady": "what never changed"}
NONE = "none"
SURE = 0.5
FIRST = 3
MINUTE = 60_000
ROUNDS = 10  # one may leave some vectors to the next: without them, figures would change from run to run


class Message(BaseModel):
    """What one of the two said."""

    role: str
    text: str


class Session(BaseModel):
    """One sitting, and when it began."""

    at: datetime
    messages: list[Message]


class Question(BaseModel):
    """A question, and the words by which an answer is known as right, or as one that no longer holds."""

    kind: str
    question: str
    right: list[str] = []
    stale: list[str] = []


class Life(BaseModel):
    """What one user said over some months, and what is asked of it."""

    user: str
    name: str
    half: str
    sessions: list[Session]
    questions: list[Question]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one question."""

    life: Life
    question: Question
    score: float
    """Of the first hit; 0 if there is none."""
    hits: tuple[str, ...]
    """What each of the first hits says."""

    @property
    def is_refused(self) -> bool:
        """Whether it is answered with nothing, or with nothing that is likely."""
        return self.score < SURE

    def is_right(self, first: int) -> bool:
        """Whether one of the first hits is right."""
        return any(_holds(hit, self.question.right) for hit in self.hits[:first])

    @property
    def is_stale(self) -> bool:
        """Whether the first hit says what no longer holds."""
        return bool(self.hits) and not self.is_right(1) and _holds(self.hits[0], self.question.stale)


def _holds(text: str, words: Sequence[str]) -> bool:
    return any(each.casefold() in text.casefold() for each in words)


def load(path: Path) -> list[Life]:
    """The lives of a file."""
    return TypeAdapter(list[Life]).validate_json(path.read_bytes())


@contextmanager
def serve(folder: Path, settings: Settings) -> Iterator[tuple[TestClient, Engine]]:
    """The REST API on an empty memory, in this process."""
    store = StoreAddress(folder=folder)
    memory = Memory(store, settings, say=lambda _: None)
    with Engine.open(store, settings=settings) as engine:
        door = rest.Door(Conversations(engine), UTC, folder=store.home)
        options = ServerOptions(address=store, settings=settings, host="localhost", port=0)
        app = build_app(options, memory, door, Metrics(lambda: engine), ServerLoad())
        with closing(memory), closing(door), TestClient(app, base_url="http://localhost") as client:
            yield client, engine


def _call(client: TestClient, verb: str, **body: object) -> Any:
    answer = client.post(f"/api/v2/memory/{verb}", json=body)
    answer.raise_for_status()
    return answer.json()["data"]


def tell(client: TestClient, life: Life) -> None:
    """Let a user live a life: send their sessions, and have each become memory."""
    for number, session in enumerate(life.sessions):
        name = f"{life.user}-{number}"
        at = int(session.at.timestamp() * 1000)
        messages = [
            {
                "sender_id": life.user if each.role == "user" else "helper",
                "sender_name": life.name if each.role == "user" else "Helper",
                "role": each.role, "timestamp": at + place * MINUTE, "content": each.text,
            }
            for place, each in enumerate(session.messages)
        ]  # fmt: skip
        _call(client, "add", session_id=name, messages=messages)
        _call(client, "flush", session_id=name)


def ask(client: TestClient, life: Life, question: Question) -> Verdict:
    """Ask a question of its user's memory."""
    episodes = _call(client, "search", user_id=life.user, query=question.question)["episodes"]
    said = ["\n".join(fact["content"] for fact in each["atomic_facts"]) or each["episode"] for each in episodes]
    score = episodes[0]["score"] if episodes else 0.0
    return Verdict(life=life, question=question, score=score, hits=tuple(said[:FIRST]))


def measure(lives: Sequence[Life], folder: Path) -> list[Verdict]:
    """Tell and ask everything."""
    settings = Settings(background=False, embedder="minilm", models=os.environ.get("COFIO_MODELS", ""))
    with serve(folder, settings) as (client, engine):
        for life in lives:
            tell(client, life)
        for _ in range(ROUNDS):
            engine.settle()
            if not engine.stats().waiting_for_vectors:
                break
        return [ask(client, life, question) for life in lives for question in life.questions]


def render(verdicts: Sequence[Verdict]) -> list[str]:
    """A table with a row for each half, and below each for its kinds of questions."""
    lines = [
        f"| half | questions | with an answer | first hit right | right in the first {FIRST} | stale first | refused"
        " though the first hit is right | without an answer | refused |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for half in HALVES:
        own = [each for each in verdicts if each.life.half == half]
        if own:
            lines.append(_render_row(f"**{half}**", own))
            lines += [_render_row(name, [each for each in own if each.question.kind == kind])
                      for kind, name in KINDS.items()]  # fmt: skip
    return lines


def _render_row(name: str, verdicts: Sequence[Verdict]) -> str:
    answerable = [each for each in verdicts if each.question.kind != NONE]
    others = [each for each in verdicts if each.question.kind == NONE]
    right = [each for each in answerable if each.is_right(1)]
    cells = [
        name, str(len(verdicts)), str(len(answerable)), _render_share([each.is_right(1) for each in answerable]),
        _render_share([each.is_right(FIRST) for each in answerable]),
        _render_share([each.is_stale for each in answerable]), _render_share([each.is_refused for each in right]),
        str(len(others)) if others else "", _render_share([each.is_refused for each in others]),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _render_share(cases: Sequence[bool]) -> str:
    return f"{100 * sum(cases) / len(cases):.0f} %" if cases else ""


def describe(verdict: Verdict) -> str:
    """One question, what came first, and what is to be said of it."""
    question = verdict.question
    if question.kind == NONE:
        mark = "refused" if verdict.is_refused else "ANSWERED"
    else:
        mark = (
            "right"
            if verdict.is_right(1)
            else "STALE"
            if verdict.is_stale
            else "later"
            if verdict.is_right(3)
            else "WRONG"
        )
        mark += " (unsure)" if verdict.is_refused else ""
    first = verdict.hits[0].replace("\n", " / ")[:150] if verdict.hits else "nothing"
    return f"{mark:16} {verdict.score:.2f} {question.kind:6} {verdict.life.user}: {question.question}\n{'':24}{first}"


def main() -> None:
    """Tell, ask, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.currency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE", help="lives of your own, in the same form")
    parser.add_argument("--half", choices=HALVES, help="one half alone")
    parser.add_argument("--details", action="store_true", help="print what came first for each question, too")
    parser.add_argument("--write", action="store_true", help="keep the table under benchmarks/results")
    given = parser.parse_args()
    lives = [each for each in load(given.data) if given.half in (None, each.half)]
    with tempfile.TemporaryDirectory() as folder:
        verdicts = measure(lives, Path(folder) / "store")
    if given.details:
        print("\n".join(map(describe, verdicts)), "\n")
    lines = ["# What holds now, what held before, and what nobody said", "", machine(), "", *render(verdicts)]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "currency.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
