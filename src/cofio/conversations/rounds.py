"""A question in several rounds: what the first answers name is looked for too, and all hits are ranked again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Protocol

from ..engine.ranking import RRF_K
from ..text.tokenizer import split_query, split_words
from ..values.errors import Unavailable
from .retrieval import Answer, MemoryHit, MemoryQuery

ROUNDS = 2  # after the first
LOOKED_AT = 8  # the best answers, which say what else to look for
QUERIES = 3  # further questions in each round
SHOWN = 1200  # characters of an answer that a model is shown

_NAME = re.compile(r"(?<![.!?:\"“] )(?<!^)\b[A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2}\b")
_DAY = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{1,2}, \d{4}\b"
)

Search = Callable[[MemoryQuery], Answer]


class Advisor(Protocol):
    """A model that judges what was found."""

    def judge_sufficiency(self, query: str, texts: Sequence[str]) -> tuple[bool, str]:
        """Whether the texts answer the question, and what is missing."""

    def propose_queries(self, query: str, texts: Sequence[str], missing: str) -> list[str]:
        """What else to look for."""

    def rank(self, query: str, items: Sequence[tuple[str, str]]) -> dict[str, float]:
        """How well each item answers, from 0 to 1, by its id."""


def search_in_rounds(search: Search, query: MemoryQuery, advisor: Advisor | None = None) -> tuple[Answer, str]:
    """What answers a question, and how it was found, in words that follow "was answered"."""
    if advisor is not None:
        try:
            return _ask_advisor(search, query, advisor)
        except Unavailable as error:
            answer, how = _follow_leads(search, query)
            return answer, f"{how}; the model could not be asked: {error}"
    return _follow_leads(search, query)


def _follow_leads(search: Search, query: MemoryQuery) -> tuple[Answer, str]:
    """Without a model: the names and days that the best answers hold are looked for beside the question itself."""
    answers, searched = [search(query)], {query.text}
    rounds = ROUNDS if query.radius is None else 0  # a radius is drawn around the question itself, and no other
    for _ in range(rounds):
        further = [
            question for question in _find_leads(query.text, _fuse(answers, query.limit)) if question not in searched
        ]
        if not further:
            break
        searched.update(further[:QUERIES])
        answers += [search(replace(query, text=question)) for question in further[:QUERIES]]
    found = _fuse(answers, query.limit)
    how = f"without a model, by {len(answers)} searches that follow names and days"
    return replace(answers[0], hits=found), how


def _ask_advisor(search: Search, query: MemoryQuery, advisor: Advisor) -> tuple[Answer, str]:
    answers = [search(query)]
    found = answers[0].hits
    for _ in range(ROUNDS):
        texts = [_render_hit(each) for each in found[:LOOKED_AT]]
        enough, missing = advisor.judge_sufficiency(query.text, texts)
        if enough:
            break
        further = advisor.propose_queries(query.text, texts, missing)[:QUERIES]
        if not further:
            break
        answers += [search(replace(query, text=question)) for question in further]
        found = _fuse(answers, max(query.limit, 2 * LOOKED_AT))
    if len(found) > 1:
        found = rerank(found, query.text, advisor)
    how = f"with the model, by {len(answers)} searches"
    return replace(answers[0], hits=found[: query.limit]), how


def rerank(found: Sequence[MemoryHit], question: str, advisor: Advisor) -> list[MemoryHit]:
    """What was found in the order in which a model finds that it answers; what it does not judge comes last.

    Raises:
        Unavailable: the model could not be asked, or made no sense.
    """
    scores = advisor.rank(question, [(each.record.id, _render_hit(each)) for each in found])
    judged = [replace(each, score=scores.get(each.record.id, 0.0)) for each in found]
    return sorted(judged, key=lambda each: -each.score)


def _find_leads(question: str, found: Sequence[MemoryHit]) -> list[str]:
    """Further questions: the names, then the days, that the best answers hold and the question does not."""
    vocabulary = set(split_words(question))
    core = " ".join(split_query(question))
    names: Counter[str] = Counter()
    days: Counter[str] = Counter()
    for each in found[:LOOKED_AT]:
        text = _render_hit(each)
        names.update({name for name in _NAME.findall(text) if not vocabulary.issuperset(split_words(name))})
        days.update(set(_DAY.findall(text)))
    ordered = [name for name, _ in sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))][:QUERIES]
    ordered += [day for day, _ in sorted(days.items(), key=lambda pair: (-pair[1], pair[0]))][:1]
    return [f"{core} {lead}" for lead in ordered]


def _fuse(answers: Sequence[Answer], limit: int) -> list[MemoryHit]:
    """All that was found, by the ranks that it has; the first search counts for as much as all the others.

    A sum of ranks says nothing to a reader who asks for a least score: each scores as its first search has it, or as
    the best of those behind it, for scores fall.
    """
    total: dict[str, float] = {}
    best: dict[str, MemoryHit] = {}
    for number, answer in enumerate(answers):
        weight = 1.0 if number == 0 else 1.0 / (len(answers) - 1)
        for rank, each in enumerate(answer.hits, 1):
            total[each.record.id] = total.get(each.record.id, 0.0) + weight / (RRF_K + rank)
            best.setdefault(each.record.id, each)
    order = sorted(total, key=lambda known: (-total[known], known))[:limit]
    scores = [*accumulate((best[known].score for known in reversed(order)), max)][::-1]
    return [replace(best[known], score=score) for known, score in zip(order, scores, strict=True)]


def _render_hit(found: MemoryHit) -> str:
    """An answer as it is read: what it was found by, then its own text."""
    facts = " ".join(hit.record.text for hit in found.facts)
    return f"{found.record.title}\n{facts}\n{found.record.text}"[:SHOWN]
