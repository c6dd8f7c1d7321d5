"""Search finds the right records of a small corpus, in every kind of text, and knows when there are none.

The corpus is beside this file, in the format that `python -m benchmarks.retrieval --data tests/quality/*.jsonl` reads,
which prints every figure: a chat of two people, one of a user with an assistant, and notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
from benchmarks import datasets
from benchmarks.answers import OWN, Result, WayName, select
from benchmarks.figures import Figures, average
from benchmarks.retrieval import USUAL, run

from cofio import Engine, Query, Scope, Settings

from ..conftest import BackendUnderTest


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The least that a search must reach on one part of the corpus: today's figure, or just below it."""

    hits: int
    """Questions with an answer among the first ten hits, in hybrid mode."""
    ndcg: float
    keyword_ndcg: float
    silenced: Mapping[WayName, int]
    """The most questions with an answer for which nothing is found, by the store's default floor."""
    off_topic: int
    """The most off-topic questions, of ten, for which something is found by that floor."""
    in_order: int = 0
    """Pairs of an older and a newer record that come in the order that the question asks for."""


BARS = {
    # 33 of 34; .640 and .529
    "chat": Bar(hits=33, ndcg=0.635, keyword_ndcg=0.523, silenced={"hybrid": 7, "keyword": 3}, off_topic=0),
    # 22 of 22; .983 and .822; 1 of 1 pair
    "assistant": Bar(
        hits=22, ndcg=0.978, keyword_ndcg=0.816, silenced={"hybrid": 0, "keyword": 1}, off_topic=1, in_order=1
    ),
    # 50 of 50; .963 and .883; 12 of 14 pairs
    "notes": Bar(
        hits=50, ndcg=0.958, keyword_ndcg=0.877, silenced={"hybrid": 3, "keyword": 1}, off_topic=0, in_order=12
    ),
}
SLACK = 0.02
"""How far hybrid may fall behind keyword, semantic or FTS5 in nDCG on one part: less than one question of it."""

Results: TypeAlias = Mapping[tuple[str, WayName], Result]


@pytest.fixture(scope="module")
def results(
    backend_under_test: BackendUnderTest, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Results]:
    """What each mode finds in each part; all parts are in one store, which is filled once."""
    folder = tmp_path_factory.mktemp("quality")
    address = backend_under_test.address(folder / "store")
    sets = [datasets.load(Path(__file__).parent / f"{part}.jsonl") for part in BARS]
    found = [result for way in USUAL for result in run(way, sets, folder, store=address, floor=0.0)]
    yield {(result.dataset.name, result.way): result for result in found}
    backend_under_test.remove(address)


def compute_figures(result: Result) -> Figures:
    """The average over all questions of a part."""
    return average([each.figures for each in result.answers])


@pytest.mark.parametrize("part", BARS)
def test_hybrid_finds_what_answers_and_words_alone_find_most(results: Results, part: str) -> None:
    answers = results[part, "hybrid"].answers
    missed = [each.question.text for each in answers if not each.figures.hit_10]
    assert len(answers) - len(missed) >= BARS[part].hits, missed
    assert compute_figures(results[part, "hybrid"]).ndcg_10 >= BARS[part].ndcg
    assert compute_figures(results[part, "keyword"]).ndcg_10 >= BARS[part].keyword_ndcg


@pytest.mark.parametrize("part", BARS)
@pytest.mark.parametrize("other", [way for way in USUAL if way != "hybrid"])
def test_hybrid_is_at_least_as_good_as_each_signal_alone(results: Results, part: str, other: WayName) -> None:
    hybrid, alone = (compute_figures(results[part, way]).ndcg_10 for way in ("hybrid", other))
    assert hybrid >= alone - SLACK


def test_an_identifier_finds_the_note_that_holds_it_first(results: Results) -> None:
    for way in ("hybrid", "keyword"):
        answers = select(results["notes", way], "identifier")
        assert len(answers) == 10
        assert [each.question.text for each in answers if each.figures.mrr < 1] == []


@pytest.mark.parametrize("way", ["hybrid", "keyword"])
@pytest.mark.parametrize("part", BARS)
def test_a_question_that_has_an_answer_is_seldom_met_with_silence(results: Results, part: str, way: WayName) -> None:
    answers = results[part, way].answers
    silent = [each.question.text for each in answers if each.silent]
    assert len(silent) <= BARS[part].silenced[way], silent


@pytest.mark.parametrize("part", BARS)
def test_nothing_is_found_for_most_questions_off_the_topic(results: Results, part: str) -> None:
    probes = [probe for probe in results[part, "hybrid"].probes if probe.asked == OWN]
    talkative = [probe.question.text for probe in probes if not probe.silent]
    assert len(probes) == 10
    assert len(talkative) <= BARS[part].off_topic, talkative


@pytest.mark.parametrize("part", BARS)
def test_of_two_records_that_say_the_same_the_one_of_the_time_in_question_comes_first(
    results: Results, part: str
) -> None:
    pairs = [each for each in results[part, "hybrid"].answers if each.question.below]
    reversed_ = [each.question.text for each in pairs if not each.in_order]
    assert len(pairs) - len(reversed_) >= BARS[part].in_order, reversed_


@pytest.mark.parametrize("asked", ["when do deployments happen", "release day", "when do we deploy?"])
def test_a_question_in_other_words_finds_something_among_two_notes(two_notes: Engine, asked: str) -> None:
    assert "We ship every Tuesday" in [hit.record.text for hit in two_notes.search(Query(asked))]


@pytest.mark.parametrize("asked", ["who is the CEO", "how do I bake bread", "does she own a car?", "coffee"])
def test_a_question_about_something_else_finds_nothing_among_two_notes(two_notes: Engine, asked: str) -> None:
    page = two_notes.search(Query(asked))
    assert not page.hits
    assert page.cut


@pytest.fixture(scope="module")
def two_notes(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """What somebody has who tries it out."""
    settings = Settings(background=False, models=str(models))
    with Engine.open(tmp_path_factory.mktemp("two") / "store", settings=settings) as memory:
        memory.write(Scope("mcp"), text="We ship every Tuesday")
        memory.write(Scope("mcp"), text="The staging database is refreshed on Sundays from production")
        memory.settle()
        yield memory
