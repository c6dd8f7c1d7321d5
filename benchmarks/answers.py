"""What the retrieval benchmark found: answers to questions, probes of the floor, the result of one set in one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cofio import Scope

from .datasets import Dataset, Question
from .figures import FIRST, Figures, Judgement, is_in_order

WayName = Literal["hybrid", "keyword", "semantic", "fts5", "rrf"]
"""A way to search: cofio's modes, `rrf` for hybrid with that fusion, and FTS5 as agent-memory-store asks it."""
OWN, ANOTHER = "its own scope", "another scope"
"""What a question may be asked of, beside other sets by their names."""


@dataclass(frozen=True, slots=True)
class Found:
    """A hit: the data's id of the record, and its score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was found for a question that some record of its scope answers."""

    question: Question
    found: tuple[Found, ...]
    figures: Figures
    milliseconds: float
    silent: bool
    """Whether nothing is found with the store's default floor."""

    @property
    def judgements(self) -> list[Judgement]:
        """The first hits with their scores, and whether each answers."""
        return [Judgement(each.score, each.id in self.question.gold) for each in self.found[:FIRST]]

    @property
    def in_order(self) -> bool:
        """Whether nothing that should come after the gold comes before it."""
        return is_in_order([each.id for each in self.found], self.question.gold, self.question.below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question asked where nothing answers it."""

    question: Question
    asked: str
    """Of what: OWN, ANOTHER, or the name of another set."""
    scope: Scope
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One set of data, searched in one way."""

    dataset: Dataset
    way: WayName
    bytes_each: float
    """What a record takes on disk, with all that is derived from it."""
    answers: tuple[Answer, ...]
    probes: tuple[Probe, ...]

    @property
    def gives_probabilities(self) -> bool:
        """Whether a score means to be the probability that the hit is relevant."""
        return self.way != "fts5"

    @property
    def judgements(self) -> list[Judgement]:
        """The first hits of every question, with their scores and whether each answers."""
        return [judgement for each in self.answers for judgement in each.judgements]


def select(result: Result, group: str) -> list[Answer]:
    """Return the answers to the questions of one kind or group of the set."""
    return [each for each in result.answers if each.question.counts_in(group)]
