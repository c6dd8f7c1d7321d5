"""The arithmetic of ranking, whatever the scores."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.engine import ranking
from cofio.engine.ranking import Positions
from cofio.engine.weights import WEIGHTS, Evidence, scale_weights

TODAY = date(2024, 3, 1)


class Turn(NamedTuple):
    """A candidate: its score, and where it stands."""

    score: float
    session: tuple[int, str | None]
    number: int | None
    created_at: int = 0


scores = st.lists(st.floats(0, 100), max_size=12)
by_row = st.dictionaries(st.integers(1, 30), st.floats(0, 100), max_size=12)
turns = st.lists(
    st.builds(
        Turn,
        score=st.floats(0, 100),
        session=st.tuples(st.integers(1, 2), st.none() | st.sampled_from("ab")),
        number=st.none() | st.integers(-3, 8) | st.sampled_from((-(2**53), 2**53)),
        created_at=st.integers(0, 2_500_000_000_000_000),
    ),
    max_size=12,
)


def place(given_turns: list[Turn]) -> tuple[list[float], Positions]:
    """The scores of the turns, and where they stand."""
    positions = Positions.find([each.session for each in given_turns], [each.number for each in given_turns])
    return [each.score for each in given_turns], positions


def is_beside(one: Turn, other: Turn, step: int) -> bool:
    """Whether the second stands so far from the first, in the same session."""
    return (
        one.session[1] is not None
        and one.session == other.session
        and one.number is not None
        and other.number == one.number + step
    )


@given(given_scores=scores, low=st.none() | st.just(0.0))
def test_normalised_scores_lie_between_0_and_1_in_the_same_order(given_scores: list[float], low: float | None) -> None:
    result = ranking.normalize(given_scores, low)
    assert len(result) == len(given_scores)
    assert all(0 <= score <= 1 for score in result)
    assert not result or max(result) == 1
    for one, first in zip(given_scores, result, strict=True):
        for two, second in zip(given_scores, result, strict=True):
            if one > two:
                assert first >= second


def test_equal_scores_are_all_as_good_as_can_be_and_one_below_the_lowest_is_worth_nothing() -> None:
    assert ranking.normalize([0.5, 0.5]) == [1.0, 1.0]
    assert ranking.normalize([-1.0, 0.0, 2.0], 0.0) == [0.0, 0.0, 1.0]


@given(given_scores=by_row)
def test_ranks_count_from_one_without_gaps_and_ties_go_to_the_newer(given_scores: dict[int, float]) -> None:
    result = ranking.rank(given_scores)
    assert sorted(result.values()) == list(range(1, len(given_scores) + 1))
    for one in given_scores:
        for two in given_scores:
            if (given_scores[one], one) > (given_scores[two], two):
                assert result[one] < result[two]


@given(keyword=by_row, semantic=by_row)
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


@given(given_turns=turns)
def test_who_stands_beside_whom_is_found_as_by_comparing_each_with_each(given_turns: list[Turn]) -> None:
    _, positions = place(given_turns)
    for at, turn_ in enumerate(given_turns):
        for step, beside in positions.beside.items():
            found = [other for other, each in enumerate(given_turns) if is_beside(turn_, each, step)]
            assert beside[at] == (found[-1] if found else len(given_turns))
    assert set(positions.beside) == {-2, -1, 1, 2}


@given(given_turns=turns)
def test_a_window_is_the_sum_of_what_stands_in_it(given_turns: list[Turn]) -> None:
    given_scores, positions = place(given_turns)
    result = ranking.sum_windows(given_scores, positions)
    for at, turn_ in enumerate(given_turns):
        near = [positions.beside[step][at] for step in (-2, -1, 1, 2)]
        assert result[at] == pytest.approx(turn_.score + sum(given_scores[each] for each in near if each < len(result)))


@given(given_turns=turns)
def test_only_turns_of_a_session_gain_from_their_surroundings(given_turns: list[Turn]) -> None:
    given_scores, positions = place(given_turns)
    created_at = [each.created_at for each in given_turns]
    for gains in (
        ranking.measure_neighbours(given_scores, positions),
        ranking.measure_session(given_scores, positions),
        ranking.measure_reply(given_scores, [1.0] * len(given_turns), positions),
        ranking.match_dates("in May 2023 or 1999", TODAY, [""] * len(given_turns), created_at, positions),
    ):
        assert len(gains) == len(given_turns)
        for turn_, gain in zip(given_turns, gains, strict=True):
            assert gain >= 0
            assert not gain or turn_.session[1] is not None


def turn(position: int, *, session: str = "s", score: float = 0.0) -> Turn:
    """A turn of a session."""
    return Turn(score, (1, session), position)


def test_a_turn_gains_from_those_beside_it_and_from_the_question_that_it_follows() -> None:
    around = [turn(at, score=float(at == 4)) for at in range(1, 9)] + [turn(4, session="other")]
    result = ranking.sum_windows(*place(around))
    near = [at for at in range(1, 9) if abs(at - 4) <= ranking.REACH]
    assert [at for at, total in enumerate(result, 1) if total] == near
    assert [at for at, gain in enumerate(ranking.measure_neighbours(*place(around)), 1) if gain] == [3, 5]
    scores, positions = place([turn(at, score=float(at in (2, 5))) for at in range(1, 9)])
    questions = [float(at == 5) for at in range(1, 9)]
    assert [at for at, gain in enumerate(ranking.measure_reply(scores, questions, positions), 1) if gain] == [6]


def test_which_words_stand_in_a_window() -> None:
    _, positions = place([turn(at) for at in range(1, 6)] + [turn(1, session="other")])
    assert ranking.join_windows([1, 0, 0, 4, 2, 8], positions) == [1, 5, 7, 6, 6, 8]


def test_words_of_a_long_window_are_worth_less() -> None:
    _, positions = place([turn(1), turn(2), turn(1, session="other"), turn(2, session="other")])
    result = ranking.score_windows([1.0, 1.0, 1.0, 0.0], [10, 10, 100, 900], positions)
    assert result[0] == result[1] > result[2] > result[3] == 0


@given(given_scores=st.lists(st.none() | st.floats(-1, 1), max_size=12))
def test_a_signal_whose_best_is_weak_has_no_full_say(given_scores: list[float | None]) -> None:
    others = [0.5] * len(given_scores)
    result = ranking.normalize_known(given_scores, others, 0.0, 0.25)
    best = max((score for score in given_scores if score is not None), default=0.0)
    assert all(0 <= each <= 1 for each in result)
    if best > 0:
        assert max(result) == pytest.approx(min(1.0, best / 0.25))
        known = [(score, each) for score, each in zip(given_scores, result, strict=True) if score is not None]
        assert [each for _, each in sorted(known)] == sorted(each for _, each in known)
    else:
        assert not any(result)


def test_the_length_of_turns_tells_people_from_an_assistant() -> None:
    assert ranking.measure_length([]) == ranking.measure_length([5, 20]) == 0
    assert 0 < ranking.measure_length([70]) < 1
    assert ranking.measure_length([120, 200]) == 1


def test_everyone_in_a_session_gains_the_same_from_its_best() -> None:
    result = ranking.measure_session(
        *place([turn(1, score=1.0), turn(2, score=0.5), turn(1, session="other", score=0.2)])
    )
    assert result[0] == result[1] > result[2] > 0


def test_an_author_counts_only_when_the_query_names_exactly_one() -> None:
    authors = ["Ann", "Bob Lee", "", "Cid", "ann"]
    names = {each: frozenset(each.lower().split()) for each in authors}
    _, positions = place([Turn(0.0, (1, None if each == "Cid" else "s"), at) for at, each in enumerate(authors)])

    def find_gainers(*words: str) -> list[str]:
        _, gains = ranking.match_author(words, authors, names, positions)
        assert len(gains) in (0, len(authors))
        return [author for author, gain in zip(authors, gains, strict=False) if gain]

    assert find_gainers("ann", "kayak") == ["Ann", "ann"]
    assert find_gainers("lee") == ["Bob Lee"]
    assert find_gainers("ann", "bob") == []
    assert find_gainers("kayak") == []
    assert find_gainers("cid") == []  # who is in no session
    assert find_gainers("cid", "lee") == ["Bob Lee"]


@pytest.mark.parametrize(
    ("asked", "hit"),
    [
        ("What did I say about kayaks?", True), ("what do i like", True), ("my sister's name", True),
        ("I'm from?", True), ("Tell me", True), ("Where do I’ve to go", True), ("Wo wohne ich?", True),
        ("meinem Bruder", True), ("Où est-ce que j'habite ?", True), ("¿Dónde vivo yo?", True),
        ("What does Ann like?", False), ("the mine field", True), ("file io", False),
        ("army", False), ("", False), ("Meinung", False),
    ],
)  # fmt: skip
def test_a_question_about_its_asker_is_recognised(asked: str, hit: bool) -> None:
    assert ranking.is_about_asker(asked) is hit


def test_the_asker_counts_as_a_named_author_does() -> None:
    authors = ["user", "assistant", "Ann", "u-1"]
    names = {each: frozenset({each.lower()}) for each in authors}
    _, positions = place([turn(at) for at in range(len(authors))])

    def find_gainers(askers: tuple[str, ...], *words: str) -> list[str]:
        who, gains = ranking.match_author(words, authors, names, positions, askers)
        assert who == "asker" or not gains
        return [author for author, gain in zip(authors, gains, strict=False) if gain]

    assert find_gainers(("user",), "kayak") == ["user"]
    assert find_gainers(("Ann", "u-1"), "kayak") == ["Ann", "u-1"]  # one, known by two names
    assert find_gainers(("Ann", "u-1"), "kayak", "ann") == ["Ann", "u-1"]
    assert find_gainers(("user",), "ann") == []  # two
    assert find_gainers(("nobody",), "kayak") == []


def weigh_days(asked: str, *days: datetime) -> list[float]:
    """What turns of one session, of these days, gain for a query."""
    _, positions = place([turn(at) for at in range(len(days))])
    created_at = [round(day.timestamp() * 1_000_000) for day in days]
    return ranking.match_dates(asked, TODAY, [""] * len(days), created_at, positions)


@pytest.mark.parametrize(
    ("asked", "hit"),
    [("in May 2023", True), ("8th of May", True), ("2023-05-08", True), ("what may happen", False),
     ("9 May 2023", False), ("31 February 2023", False), ("room 2023b", False), ("2023-13-45", False), ("", False)],
)  # fmt: skip
def test_a_named_time_is_recognised(asked: str, hit: bool) -> None:
    assert any(weigh_days(asked, datetime(2023, 5, 8, tzinfo=UTC))) is hit


def test_a_time_that_a_turn_speaks_of_counts_from_the_day_it_was_said() -> None:
    _, positions = place([turn(1), turn(2), turn(3)])
    said = [round(datetime(2023, 6, 20, tzinfo=UTC).timestamp() * 1_000_000)] * 3
    texts = ["we went there last month", "we go there now", "in May 2023 we moved"]
    gains = ranking.match_dates("in May 2023", TODAY, texts, said, positions)
    assert gains[0] > 0 == gains[1]
    assert gains[2] == 1


@given(asked=st.text(max_size=30) | st.from_regex(r"\A(\d{1,4}[-/. ]){1,3}(May|jan|Feb)? ?\d{0,5}\Z"))
def test_no_query_breaks_the_search_for_times(asked: str) -> None:
    weigh_days(asked, datetime(2023, 5, 8, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC))


@pytest.mark.parametrize("evidence", WEIGHTS)
@pytest.mark.parametrize("length", [0.0, 0.4, 1.0])
def test_a_turn_that_is_good_in_every_usual_way_reaches_what_such_a_note_reaches(
    evidence: Evidence, length: float
) -> None:
    usual = ("words", "window", "meaning", "tokens", "neighbours", "session")
    notes, turns = WEIGHTS[evidence].notes, WEIGHTS[evidence].mix(length)
    scaled = scale_weights(turns, notes)
    assert sum(scaled.get(name, 0.0) for name in usual) == pytest.approx(sum(notes.get(name, 0.0) for name in usual))
    assert scaled["exact"] == turns["exact"]
    order = sorted((name for name in usual if name in turns), key=turns.__getitem__)
    assert [scaled[name] for name in order] == sorted(scaled[name] for name in order)
