"""How well does a search find the right records of other kinds of text than chats between people? You bring the data.

usage: python -m benchmarks.retrieval DATA.json [--mode hybrid|keyword|semantic|fts5] [--floor F] [--store FOLDER]

DATA.json is one of two kinds:

- chats with an assistant, as in BEAM: a list of chats, each with `messages` (id, role, batch, position, text) and
  `questions` (question, gold: ids of messages). One record is one message; a search sees one chat.
- notes, as in Cranfield: `documents` (id, title, text) and `queries` (query, gold: ids of documents).

The data's licences do not let it be part of this repository.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio import Draft, Engine, Kind, Query, Scope, Settings

from .peers import Fts5

FIRST = 10


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the records that answer it."""

    scope: Scope
    text: str
    gold: frozenset[str]


def load(path: Path) -> tuple[list[Draft], list[Question]]:
    """Every record as a draft, and every question that has an answer among them."""
    read = json.loads(path.read_text(encoding="utf-8"))
    return _load_chats(read) if isinstance(read, list) else _load_notes(read)


def _load_chats(chats: list[dict[str, Any]]) -> tuple[list[Draft], list[Question]]:
    drafts, questions = [], []
    for number, chat in enumerate(chats):
        scope = Scope("chats", str(number))
        drafts += [
            Draft(
                scope=scope, kind=Kind.TURN, text=each["text"], author=each["role"], parent=str(each["batch"]),
                position=each["position"], data=str(each["id"]),
            )
            for each in chat["messages"]
        ]  # fmt: skip
        questions += [
            Question(scope, each["question"], frozenset(map(str, each["gold"])))
            for each in chat["questions"]
            if each["gold"]
        ]
    return drafts, questions


def _load_notes(notes: dict[str, Any]) -> tuple[list[Draft], list[Question]]:
    scope = Scope("notes")
    drafts = [
        Draft(scope=scope, title=each["title"], text=each["text"], data=str(each["id"])) for each in notes["documents"]
    ]
    questions = [
        Question(scope, each.get("query") or each["text"], frozenset(map(str, each["gold"])))
        for each in notes["queries"]
    ]
    return drafts, questions


def measure(found: list[object], gold: frozenset[str]) -> tuple[float, float]:
    """Recall and nDCG among the first ten."""
    places = [place for place, record in enumerate(found[:FIRST], 1) if record in gold]
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(FIRST, len(gold)) + 1))
    return len(places) / len(gold), sum(1 / math.log2(place + 1) for place in places) / ideal


def main() -> None:
    """Load, embed, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--mode", default="hybrid", choices=["hybrid", "keyword", "semantic", "fts5"])
    parser.add_argument("--floor", type=float, default=0.0)
    parser.add_argument("--store", type=Path, help="keep the store here, so that the next run need not embed again")
    given = parser.parse_args()
    drafts, questions = load(given.data)
    with tempfile.TemporaryDirectory() as folder:
        if given.mode == "fts5":
            figures = _ask_fts5(Path(folder), drafts, questions)
        else:
            figures = _ask_cofio(given.store or Path(folder), drafts, questions, given.mode, given.floor)
    recall, ndcg = (100 * statistics.mean(each) for each in zip(*figures, strict=True))
    print(f"{len(drafts)} records, {len(questions)} questions; {given.mode}, floor {given.floor}")
    print(f"R@10 {recall:.1f}  nDCG@10 {ndcg:.1f}")


def _ask_cofio(
    folder: Path, drafts: list[Draft], questions: list[Question], mode: Any, floor: float
) -> list[tuple[float, float]]:
    embedder = "none" if mode == "keyword" else "minilm"
    with Engine.open(folder, settings=Settings(background=False, embedder=embedder)) as memory:
        if not memory.count():
            for start in range(0, len(drafts), 1000):
                memory.write_many(drafts[start : start + 1000])
        memory.settle()
        figures = []
        for question in questions:
            asked = Query(question.text, scope=question.scope, mode=mode, limit=FIRST, floor=floor)
            figures.append(measure([hit.record.data for hit in memory.search(asked)], question.gold))
        return figures


def _ask_fts5(folder: Path, drafts: list[Draft], questions: list[Question]) -> list[tuple[float, float]]:
    peers: dict[Scope, tuple[Fts5, list[Draft]]] = {}
    for scope in dict.fromkeys(draft.scope for draft in drafts):
        own = [draft for draft in drafts if draft.scope == scope]
        place = folder / scope.names[-1]
        place.mkdir()
        peers[scope] = Fts5(place, own), own
    figures = []
    for question in questions:
        peer, own = peers[question.scope]
        rows: list[Any] = peer.search(question.text, FIRST)
        figures.append(measure([own[int(row[0])].data for row in rows], question.gold))
    return figures


if __name__ == "__main__":
    main()
