"""The arithmetic of ranking, whatever the scores."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.engine import ranking
from cofio.engine.ranking import Position

scores = st.dictionaries(st.integers(1, 30), st.floats(0, 100), max_size=12)
places = st.dictionaries(
    st.integers(1, 30),
    st.builds(
        Position,
        session=st.none() | st.tuples(st.integers(1, 2), st.sampled_from("ab")),
        number=st.none() | st.integers(-3, 8),
        author=st.sampled_from(["", "Ann", "Bob"]),
        created_at=st.integers(0, 2_500_000_000_000_000),
    ),
    max_size=12,
)


@given(given_scores=scores, low=st.none() | st.just(0.0))
def test_normalised_scores_lie_between_0_and_1_in_the_same_order(
    given_scores: dict[int, float], low: float | None
) -> None:
    result = ranking.normalize(given_scores, low)
    assert result.keys() == given_scores.keys()
    assert all(0 <= score <= 1 for score in result.values())
    assert not result or max(result.values()) == 1
    for one in given_scores:
        for two in given_scores:
            if given_scores[one] > given_scores[two]:
                assert result[one] >= result[two]


def test_equal_scores_are_all_as_good_as_can_be() -> None:
    assert ranking.normalize({1: 0.5, 2: 0.5}) == {1: 1.0, 2: 1.0}
    assert ranking.normalize({}) == {}


@given(given_scores=scores)
def test_ranks_count_from_one_without_gaps_and_ties_go_to_the_newer(given_scores: dict[int, float]) -> None:
    result = ranking.rank(given_scores)
    assert sorted(result.values()) == list(range(1, len(given_scores) + 1))
    for one in given_scores:
        for two in given_scores:
            if (given_scores[one], one) > (given_scores[two], two):
                assert result[one] < result[two]


@given(keyword=scores, semantic=scores)
def test_reciprocal_fusion_rewards_better_ranks_and_both_signals(
    keyword: dict[int, float], semantic: dict[int, float]
) -> None:
    by_words, by_meaning = ranking.rank(keyword), ranking.rank(semantic)
    fused = ranking.fuse_ranks(by_words, by_meaning)
    assert fused.keys() == keyword.keys() | semantic.keys()
    for no, (words, meaning) in fused.items():
        assert words == (0.4 / (60 + by_words[no]) if no in by_words else 0)
        assert meaning == (0.6 / (60 + by_meaning[no]) if no in by_meaning else 0)
        assert words + meaning > 0


@given(given_scores=scores, given_places=places)
def test_a_window_never_lessens_a_score(given_scores: dict[int, float], given_places: dict[int, Position]) -> None:
    result = ranking.sum_windows(given_scores, given_places)
    assert result.keys() == given_places.keys()
    for no, total in result.items():
        assert total >= given_scores.get(no, 0.0)
        if given_places[no].session is None or given_places[no].number is None:
            assert total == given_scores.get(no, 0.0)


@given(given_scores=scores, given_places=places)
def test_only_turns_of_a_session_gain_from_their_surroundings(
    given_scores: dict[int, float], given_places: dict[int, Position]
) -> None:
    for gains in (
        ranking.weigh_neighbours(given_scores, given_places),
        ranking.weigh_session(given_scores, given_places),
        ranking.weigh_date("in May 2023 or 1999", given_places),
    ):
        for no, gain in gains.items():
            assert gain >= 0
            assert given_places[no].session is not None


def turn(position: int, *, session: str = "s", day: datetime = datetime(2023, 5, 8, tzinfo=UTC)) -> Position:
    """A turn of a session."""
    return Position(session=(1, session), number=position, author="", created_at=round(day.timestamp() * 1_000_000))


def test_a_window_reaches_as_far_as_it_says_and_no_further() -> None:
    around = {at: turn(at) for at in range(1, 9)} | {10: turn(4, session="other")}
    result = ranking.sum_windows({4: 1.0}, around)
    assert [at for at, total in result.items() if total] == [at for at in range(1, 9) if abs(at - 4) <= ranking.REACH]


def test_a_turn_gains_from_the_turns_right_beside_it() -> None:
    result = ranking.weigh_neighbours({4: 1.0}, {at: turn(at) for at in range(1, 9)})
    assert set(result) == {3, 5}


def test_everyone_in_a_session_gains_the_same_from_its_best() -> None:
    result = ranking.weigh_session({1: 1.0, 2: 0.5, 3: 0.2}, {1: turn(1), 2: turn(2), 3: turn(1, session="other")})
    assert result[1] == result[2] > result[3] > 0


def test_an_author_counts_only_when_the_query_names_exactly_one() -> None:
    authors = {1: frozenset({"ann"}), 2: frozenset({"bob", "lee"}), 3: frozenset[str]()}
    assert set(ranking.weigh_author(["ann", "kayak"], authors)) == {1}
    assert set(ranking.weigh_author(["lee"], authors)) == {2}
    assert ranking.weigh_author(["ann", "bob"], authors) == {}
    assert ranking.weigh_author(["kayak"], authors) == {}


@pytest.mark.parametrize(
    ("asked", "hit"),
    [
        ("in May 2023", True), ("May 8, 2023", True), ("8 May 2023", True), ("8th of May", True), ("2023-05-08", True),
        ("2023-05", True), ("2023", True), ("on 3 May 2023", True), ("in may 2023", True), ("In May", True),
        ("what may happen", False), ("June 2023", False), ("May 2022", False), ("9 May 2023", False),
        ("2023-05-09", False), ("1 January 2023", False), ("31 February 2023", False), ("2022", False), ("", False),
        ("room 2023b", False), ("version 12023", False), ("2023-13-45", False), ("99 May 2023", False),
    ],
)  # fmt: skip
def test_a_named_time_is_recognised(asked: str, hit: bool) -> None:
    assert bool(ranking.weigh_date(asked, {1: turn(1)})) is hit


@given(asked=st.text(max_size=30) | st.from_regex(r"\A(\d{1,4}[-/. ]){1,3}(May|jan|Feb)? ?\d{0,5}\Z"))
def test_no_query_breaks_the_search_for_times(asked: str) -> None:
    ranking.weigh_date(asked, {1: turn(1), 2: turn(2, day=datetime(2024, 2, 29, tzinfo=UTC))})
