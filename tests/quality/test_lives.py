"""A question about a life gets what holds now, what held before where that is asked for, and no answer where none is.

The lives are those of `python -m benchmarks.currency`, which prints every figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.currency import DATA, HALVES, NONE, Verdict, load, measure

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.conversations.projects import Project
from cofio.conversations.retrieval import MemoryQuery, search_episodes
from cofio.values.records import Json, Kind

SOME = ("tess", "yuki", "priya", "walter")
"""Two lives of each half: all would take a minute."""
FIRST = {"development": 0.70, "held back": 0.43}
AMONG_THREE = {"development": 0.86, "held back": 0.70}
MOST_STALE = {"development": 0.12, "held back": 0.14}
REFUSED, UNSURE = 0.8, 0.3
"""The least share of questions without an answer that are refused, and the most of those that are answered rightly."""


@pytest.fixture(scope="module")
def verdicts(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Verdict]:
    """What came of each question."""
    return measure([life for life in load(DATA) if life.user in SOME], tmp_path_factory.mktemp("lives") / "store")


def _share(cases: Sequence[bool]) -> float:
    return sum(cases) / len(cases)


@pytest.mark.parametrize("half", HALVES)
def test_what_holds_now_comes_first_and_what_nobody_said_is_refused(verdicts: Sequence[Verdict], half: str) -> None:
    own = [each for each in verdicts if each.life.half == half]
    answerable = [each for each in own if each.question.kind != NONE]
    right = [each for each in answerable if each.is_right(1)]
    assert _share([each.is_right(1) for each in answerable]) >= FIRST[half]
    assert _share([each.is_right(3) for each in answerable]) >= AMONG_THREE[half]
    assert _share([each.is_stale for each in answerable]) <= MOST_STALE[half]
    assert _share([each.is_refused for each in own if each.question.kind == NONE]) >= REFUSED
    assert _share([each.is_refused for each in right]) <= UNSURE


def test_an_episode_shows_the_message_that_says_more_than_its_facts(store: StoreAddress, models: Path) -> None:
    home = Project().owner("user", "hugo")
    said = "the fabia is dead. gearbox. we bought an enyaq, electric, used"
    with Engine.open(store, settings=Settings(background=False, models=str(models), sync="normal")) as memory:
        episode = memory.write(home, kind=Kind.EPISODE, title="The car", text=f'Hugo said: "{said}".')
        data: Json = {"message_id": "m1", "sender_id": "hugo", "role": "user"}
        memory.write(home, kind=Kind.TURN, text=said, author="Hugo", data=data, parent=episode.id, position=1)
        memory.write(home, kind=Kind.FACT, text="Hugo said that the fabia is dead.", author="Hugo", parent=episode.id)
        memory.settle()
        query = MemoryQuery(text="What was wrong with the Fabia?", limit=5, floor=None)
        (found,) = search_episodes(memory, home, query).hits
        assert sorted(hit.record.kind for hit in found.facts) == [Kind.FACT, Kind.TURN]
        memory.write(
            home, kind=Kind.FACT, text=f'Hugo said: "{said}".', author="Hugo", parent=episode.id
        )  # now a fact tells all of it
        memory.settle()
        (found,) = search_episodes(memory, home, query).hits
        assert {hit.record.kind for hit in found.facts} == {Kind.FACT}
