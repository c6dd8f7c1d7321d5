"""The turns around candidates are read in stretches of positions, each of them once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.backends.search_interface import Candidate
from cofio.backends.sqlite.searcher import _join_stretches

REACH = 2
candidates = st.lists(
    st.builds(
        Candidate,
        row=st.integers(1, 2**50),
        id=st.just(""),
        scope=st.integers(1, 2),
        parent=st.none() | st.sampled_from("ab"),
        position=st.none() | st.integers(-20, 20) | st.integers(-(2**40), 2**40),
    ),
    max_size=30,
    unique_by=lambda each: each.row,
)


def expand(given_candidates: list[Candidate], reach: int = REACH) -> list[tuple[int, str | None, int]]:
    """Each position of the stretches, with its session, as the statement reads them."""
    by_row = {each.row: each for each in given_candidates}
    positions = []
    for stretch in _join_stretches(given_candidates, reach):
        seed, length = by_row[stretch >> 12], stretch & 4095
        assert seed.position is not None
        positions += [(seed.scope, seed.parent, at) for at in range(seed.position - reach, seed.position + length + 1)]
    return positions


@given(given_candidates=candidates)
def test_stretches_have_each_position_within_reach_once_and_no_other(given_candidates: list[Candidate]) -> None:
    expected = {
        (each.scope, each.parent, each.position + step)
        for each in given_candidates
        if each.parent is not None and each.position is not None
        for step in range(-REACH, REACH + 1)
    }
    found = expand(given_candidates)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_a_run_longer_than_a_stretch_can_be_is_read_in_several() -> None:
    run = [Candidate(row=number + 1, id="", scope=1, parent="a", position=number) for number in range(10_000)]
    assert {at for _, _, at in expand(run)} == set(range(-REACH, 10_000 + REACH))
