"""How well does a search find the right turns of a long conversation? Measured on LoCoMo, which you bring yourself.

usage: python -m benchmarks.locomo LOCOMO.json [--mode hybrid|keyword|semantic|fts5] [--fusion convex|rrf] [--floor F]
       [--store FOLDER|postgresql://…]

One record is one turn; a search sees one conversation; the query is the question, word for word.
The data's licence is non-commercial, so it is not part of this repository.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from cofio import Draft, Engine, Kind, Query, Scope, Settings

from .peers import Fts5

DEPTH = 50


@dataclass(frozen=True)
class Question:
    """A question, its category, and the turns that answer it."""

    scope: Scope
    text: str
    category: int
    gold: frozenset[str]


Ask: TypeAlias = Callable[[Question], list[tuple[object, object]]]
"""Answers a question with the turns found, best first, each with its session."""


def load(path: Path) -> tuple[list[Draft], list[Question]]:
    """Every turn as a draft, and every question that has an answer among them."""
    drafts: list[Draft] = []
    questions: list[Question] = []
    for sample in json.loads(path.read_text()):
        scope = Scope("locomo", sample["sample_id"])
        turns = list(_turns(scope, sample["conversation"]))
        known = {turn.data for turn in turns if isinstance(turn.data, str)}
        drafts += turns
        for qa in sample["qa"]:
            gold = {_turn_id(found) for item in qa["evidence"] for found in re.findall(r"D:?\d+:\d+", item)}
            if gold & known:
                questions.append(Question(scope, qa["question"], int(qa["category"]), frozenset(gold & known)))
    return drafts, questions


def _turns(scope: Scope, conversation: dict[str, Any]) -> Iterator[Draft]:
    for name, turns in conversation.items():
        if not re.fullmatch(r"session_\d+", name):
            continue
        when = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for position, turn in enumerate(turns):
            caption = f" [shared a photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Draft(
                scope=scope, kind=Kind.TURN, text=f"{turn['speaker']}: {turn['text']}{caption}", author=turn["speaker"],
                parent=name, position=position, created_at=when, data=_turn_id(turn["dia_id"]),
            )  # fmt: skip


def _turn_id(written: str) -> str:
    session, turn = re.findall(r"\d+", written)
    return f"D{int(session)}:{int(turn)}"


def asking(memory: Engine, mode: Any, floor: float | None) -> Ask:
    """Ask cofio."""

    def ask(question: Question) -> list[tuple[object, object]]:
        page = memory.search(Query(question.text, scope=question.scope, mode=mode, limit=DEPTH, floor=floor))
        return [(hit.record.data, hit.record.parent) for hit in page]

    return ask


def asking_fts5(folder: Path, drafts: list[Draft]) -> Ask:
    """Ask FTS5 as agent-memory-store does, one database for each conversation."""
    by_scope: dict[Scope, list[Draft]] = defaultdict(list)
    for draft in drafts:
        by_scope[draft.scope].append(draft)
    peers = {}
    for scope, own in by_scope.items():
        place = folder / scope.names[-1]
        place.mkdir()
        peers[scope] = Fts5(place, own)

    def ask(question: Question) -> list[tuple[object, object]]:
        rows: list[Any] = peers[question.scope].search(question.text, DEPTH)
        found = [by_scope[question.scope][int(row[0])] for row in rows]
        return [(draft.data, draft.parent) for draft in found]

    return ask


def measure(ask: Ask, questions: list[Question]) -> dict[str, list[float]]:
    """The figures of every question, by the group that it counts in."""
    figures: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        start = time.perf_counter()
        answer = ask(question)
        figures["ms"].append((time.perf_counter() - start) * 1000)
        found = [turn for turn, _ in answer]
        sessions = list(dict.fromkeys(session for _, session in answer))
        for group in (f"cat {question.category}", "all 1-5", *(["1-4"] if question.category < 5 else [])):
            for k in (5, 10, 20):
                figures[f"{group} R@{k}"].append(len(question.gold & set(found[:k])) / len(question.gold))
            figures[f"{group} hit@10"].append(float(bool(question.gold & set(found[:10]))))
            places = [place for place, turn in enumerate(found, 1) if turn in question.gold]
            figures[f"{group} MRR"].append(1 / places[0] if places else 0.0)
            gain = sum(1 / math.log2(place + 1) for place in places if place <= 10)
            ideal = sum(1 / math.log2(place + 1) for place in range(1, min(10, len(question.gold)) + 1))
            figures[f"{group} nDCG@10"].append(gain / ideal)
            gold_sessions = {f"session_{turn[1:].split(':')[0]}" for turn in question.gold}
            figures[f"{group} session R@5"].append(len(gold_sessions & set(sessions[:5])) / len(gold_sessions))
    return figures


def main() -> None:
    """Load, embed, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--fusion", default="convex")
    parser.add_argument("--floor", type=float, default=0.0)
    parser.add_argument(
        "--store", help="keep the store in this folder or database, so that the next run need not embed again"
    )
    given = parser.parse_args()
    drafts, questions = load(given.data)
    with tempfile.TemporaryDirectory() as folder:
        if given.mode == "fts5":
            figures = measure(asking_fts5(Path(folder), drafts), questions)
        else:
            embedder = "none" if given.mode == "keyword" else "minilm"
            settings = Settings(background=False, fusion=given.fusion, embedder=embedder)
            with Engine.open(given.store or folder, settings=settings) as memory:
                if not memory.count():
                    memory.write_many(drafts)
                memory.settle()
                figures = measure(asking(memory, given.mode, given.floor), questions)
    print(f"{len(drafts)} turns, {len(questions)} questions; {given.mode}, {given.fusion}, floor {given.floor}")
    for group in ("1-4", "all 1-5", *(f"cat {n}" for n in range(1, 6))):
        names = ("R@5", "R@10", "R@20", "hit@10", "MRR", "nDCG@10", "session R@5")
        shown = "  ".join(f"{name} {100 * statistics.mean(figures[f'{group} {name}']):5.1f}" for name in names)
        print(f"{group:8} {shown}")
    print(f"search p50 {statistics.median(figures['ms']):.2f} ms")


if __name__ == "__main__":
    main()
