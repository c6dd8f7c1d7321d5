"""Changes between states: whatever two states are, the change of one into the other makes it, and costs what is new."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.checkpoints.deltas import RADIX, SPLICE, VALUE, base_position, diff, patch, same

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=150)
    | st.binary(max_size=100)
)
STATES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=6)
)


def cost(change: Any) -> int:
    """How long a change is, written down."""
    return len(json.dumps(change))


def message(number: int) -> dict[str, Any]:
    """A message like no other."""
    return {"role": "user", "content": f"message {number} " + "about this and that " * 10, "metadata": {}}


@given(STATES, STATES)
def test_a_change_makes_the_new_state_of_the_old_one_which_stays(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    change = diff(old, new)
    assert same(patch(old, change), new)
    assert same(old, before)
    with suppress(TypeError):  # bytes are no JSON
        change = json.loads(json.dumps(change))
        assert same(patch(old, change), new)


@given(st.lists(STATES, max_size=12), st.data())
def test_lists_are_cut_turned_and_grown(old: list[Any], data: st.DataObject) -> None:
    new = data.draw(st.permutations(old)) if old else []
    new = new[data.draw(st.integers(0, len(new))) :] + data.draw(st.lists(STATES, max_size=3))
    assert same(patch(old, diff(old, new)), new)


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), (0, False), ([1], [True]), ("a", b"a")])
def test_equal_values_of_different_types_are_different_states(old: Any, new: Any) -> None:
    assert not same(old, new)
    made = patch({"x": [old]}, diff({"x": [old]}, {"x": [new]}))
    assert same(made, {"x": [new]})


def test_keys_keep_their_order() -> None:
    old, new = {"a": 1, "b": 2, "c": 3}, {"c": 3, "d": 4, "a": 1}
    assert list(patch(old, diff(old, new))) == ["c", "d", "a"]


def test_a_change_costs_what_is_new() -> None:
    messages = [message(number) for number in range(500)]
    old = {"messages": messages[:-1], "iteration": 1}
    new = {"messages": [dict(each) for each in messages], "iteration": 2}
    assert cost(diff(old, new)) < cost(messages[-1]) + 100
    assert cost(diff(messages[:40], messages[10:50])) < cost(messages[40:50]) + 100, "a window that slides"
    edited = copy.deepcopy(messages)
    edited[20]["content"] += "and more"
    assert cost(diff(messages, edited)) < 150
    assert diff("x" * 10_000, "x" * 10_000 + "the end") == [SPLICE, 10_000, 0, "the end"]
    assert diff("abc", "abcd") == [VALUE, "abcd"]


@pytest.mark.parametrize(
    "change",
    [
        [9],
        [],
        [1, {"a": [3, 1, 0, ""]}, []],
        [2, [[5, 9]]],
        [2, [[-1, 1]]],
        [3, 9, 9, ""],
        [1, 5, []],
        [2, [[7, [0, 1]]]],
    ],
)
def test_a_change_of_something_else_is_refused(change: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        patch({"b": [1]} if change[:1] == [1] else [1], change)


@given(st.integers(1, RADIX**6 - 1))
def test_what_a_save_is_a_change_of_is_on_the_way_to_the_one_before_it(place: int) -> None:
    way, at = {place - 1}, place - 1
    while at:
        at = base_position(at)
        way.add(at)
    assert base_position(place) in way


@given(st.integers(1, RADIX**5 - 1))
def test_five_changes_are_enough_for_a_thousand_saves(place: int) -> None:
    steps = 0
    while place:
        place, steps = base_position(place), steps + 1
    assert steps <= 5
