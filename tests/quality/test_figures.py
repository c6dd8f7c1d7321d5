"""The figures of the retrieval benchmark, against examples that can be computed by hand."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from benchmarks.answers import OWN, Answer, Found, Probe, Result
from benchmarks.datasets import Dataset, Question
from benchmarks.figures import Bin, Judgement, average, calibrate, compute_error, is_in_order, measure
from benchmarks.reliability import draw_reliability
from benchmarks.retrieval import list_probes
from benchmarks.retrieval_tables import render
from hypothesis import given
from hypothesis import strategies as st

from cofio import Draft, Scope

GOLD = frozenset({"a", "b"})

judgements = st.lists(st.builds(Judgement, st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def test_gold_counts_by_its_rank() -> None:
    figures = measure(["b", "a", "x"], GOLD)
    assert (figures.recall_5, figures.recall_10, figures.hit_10, figures.mrr, figures.ndcg_10) == (1, 1, 1, 1, 1)
    assert average([measure([], GOLD), measure(["x"], GOLD)]) == measure([], GOLD)
    gold = [f"g{number}" for number in range(12)]
    assert measure(gold, frozenset(gold)).ndcg_10 == 1, "more gold than ten can still be answered perfectly"
    assert measure(gold, frozenset(gold)).recall_10 == pytest.approx(10 / 12)
    found = ["x", "a", *(f"x{number}" for number in range(13)), "b"]
    figures = measure(found, GOLD)
    assert (figures.recall_5, figures.recall_10, figures.recall_20) == (0.5, 0.5, 1.0)
    assert (figures.hit_10, figures.mrr) == (1.0, 0.5)
    assert figures.ndcg_10 == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))


@pytest.mark.parametrize(
    ("found", "held"), [(["new", "old"], True), (["old", "new"], False), (["x", "new"], True), (["x"], False)]
)
def test_records_are_in_order_when_the_gold_comes_first(found: list[str], held: bool) -> None:
    assert is_in_order(found, frozenset({"new"}), frozenset({"old"})) is held


def test_scores_that_come_true_as_often_as_they_say_have_no_error() -> None:
    found = calibrate([Judgement(0.25, number == 0) for number in range(4)])
    assert found.by_width == (Bin(score=0.25, share=0.25, count=4),)
    assert found.error == 0
    assert found.error_by_count == pytest.approx(0.375)  # each of the four is a bin of its own
    assert found.brier == pytest.approx(0.1875)


def test_the_error_is_the_distance_of_score_and_share_by_the_size_of_a_bin() -> None:
    bins = [Bin(score=0.9, share=0.5, count=3), Bin(score=0.1, share=0.1, count=1)]
    assert compute_error(bins) == pytest.approx(0.3)


@given(given_judgements=judgements)
def test_no_hit_is_lost_between_the_bins(given_judgements: list[Judgement]) -> None:
    found = calibrate(given_judgements)
    for bins in (found.by_width, found.by_count):
        assert sum(each.count for each in bins) == found.count == len(given_judgements)
        assert sum(each.count * each.share for each in bins) == pytest.approx(
            sum(each.relevant for each in given_judgements)
        )
        assert [each.score for each in bins] == sorted(each.score for each in bins)
    sizes = {each.count for each in found.by_count}
    assert max(sizes) - min(sizes) <= 1
    assert 0 <= found.error <= 1
    assert 0 <= found.brier <= 1


def make_dataset(name: str, *scopes: str) -> Dataset:
    """A set with one record and one question in each scope, and one question that nothing answers."""
    root = Scope(name)
    drafts = tuple(Draft(scope=root / scope, text="Tea at four.", data="a") for scope in scopes)
    questions = [Question(scope=root / scope, text="When is tea?", gold=frozenset({"a"})) for scope in scopes]
    lost = Question(scope=root / scopes[0], text="Who is she?", gold=frozenset())
    return Dataset(name=name, root=root, drafts=drafts, questions=(*questions, lost))


def test_a_question_off_the_topic_is_one_of_another_scope_or_set() -> None:
    chats, notes = make_dataset("chats", "1", "2"), make_dataset("notes", "all")
    assert [(asked, of.name, str(scope)) for _, asked, of, scope in list_probes(chats, [notes])] == [
        ("its own scope", "chats", "chats/1"),
        ("another scope", "chats", "chats/2"),
        ("another scope", "chats", "chats/1"),
        ("notes", "notes", "notes/all"),
        ("notes", "notes", "notes/all"),
    ]
    assert [(asked, str(scope)) for _, asked, _, scope in list_probes(notes, [chats])] == [
        ("its own scope", "notes/all"),
        ("chats", "chats/1"),
    ]


def test_two_sets_of_many_scopes_are_not_asked_of_each_other() -> None:
    one, other = make_dataset("one", "1", "2"), make_dataset("other", "1", "2")
    assert {of.name for _, _, of, _ in list_probes(one, [other])} == {"one"}


def make_result(dataset: Dataset) -> Result:
    """What a search of the set may find: the right record with .8, and another with .3."""
    answers = [
        Answer(
            question=question, found=(Found("a", 0.8), Found("x", 0.3)), figures=measure(["a", "x"], question.gold),
            milliseconds=2.0, silent=False,
        )
        for question in dataset.answerable
    ]  # fmt: skip
    probes = [
        Probe(question=question, asked=OWN, scope=question.scope, silent=True) for question in dataset.unanswerable
    ]
    return Result(dataset=dataset, way="hybrid", bytes_each=1234.5, answers=tuple(answers), probes=tuple(probes))


def test_the_tables_and_the_diagram_can_be_drawn() -> None:
    assert "| all | 2 | hybrid | 100.0 |" in render([make_result(make_dataset("chats", "1", "2"))])
    drawn = draw_reliability([make_result(make_dataset(name, "1")) for name in ("chats", "<notes>")])
    lines = ET.fromstring(drawn).findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3
    assert "&lt;notes&gt;" in drawn
