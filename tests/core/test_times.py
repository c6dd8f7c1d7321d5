"""Times as numbers, and JSON as JSON compares it."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from cofio.values.json_values import is_same_json
from cofio.values.times import from_micros, from_millis, to_micros, to_millis

MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(MOMENTS)
def test_a_time_survives_as_microseconds(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@given(st.integers(-(10**12), 10**13))
def test_a_time_survives_as_milliseconds(millis: int) -> None:
    assert to_millis(from_millis(millis)) == millis


def test_json_is_compared_by_its_types() -> None:
    assert is_same_json({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert is_same_json({"a": 1, "b": 2}, {"b": 2, "a": 1})
    for one, other in ((1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True}), ([1], [1, 2]), ({}, [])):
        assert not is_same_json(one, other)
        assert not is_same_json(other, one)
