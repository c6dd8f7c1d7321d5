"""JSON is measured before it is parsed: what is within the limits passes, wherever a slice of it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cofio.http import json_limits
from cofio.http.json_limits import JsonLimits, TooComplex

JSON = st.recursive(
    st.none() | st.integers(-100, 100) | st.text('ab"\\[]{},\n é', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\[,', max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(params=[2, 5, 262_144])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are scanned in slices of this many bytes."""
    monkeypatch.setattr(json_limits, "SLICE", request.param)


def count_marks(value: Any) -> int:
    """How many commas and brackets the JSON of a value has outside of its strings."""
    if not isinstance(value, dict | list):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return 2 + max(0, len(inner) - 1) + sum(count_marks(each) for each in inner)


def find_depth(value: Any) -> int:
    """How deep a value is nested."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max((find_depth(each) for each in (value.values() if isinstance(value, dict) else value)), default=0)


@pytest.mark.usefixtures("slices")
def test_exactly_what_exceeds_a_limit_is_refused() -> None:
    @given(JSON, st.booleans())
    @example(["\\"], True)
    @example([{"": '\\"'}], False)
    def check(value: Any, escaped: bool) -> None:
        body = json.dumps(value, ensure_ascii=escaped).encode()
        values, depth = count_marks(value), find_depth(value)
        JsonLimits(values=values, depth=depth, text=None).check(body)
        JsonLimits(values=values, depth=depth, text=6).check(bytearray(body))
        if depth:
            with pytest.raises(TooComplex, match=f"more than {values - 1} values"):
                JsonLimits(values=values - 1, depth=depth).check(body)
            with pytest.raises(TooComplex, match=f"deeper than {depth - 1} levels"):
                JsonLimits(values=values, depth=depth - 1).check(body)

    check()


@pytest.mark.usefixtures("slices")
def test_a_string_that_is_too_long_is_refused_also_when_it_does_not_end() -> None:
    limits = JsonLimits(text=2)
    for end in (b'"', b"", b"\\", b'\\"', b'"]'):
        limits.check(b'["' + b"x" * 10 + end)
        for content in (b"x" * 30, b"\\n" * 15, b"\\\\" * 15, b'\\"' * 15):
            with pytest.raises(TooComplex, match="longer than 2 characters"):
                limits.check(b'["' + content + end)
    with pytest.raises(TooComplex, match="more than 10 values"):
        JsonLimits(values=10).check(b'""' * 100)  # strings that nothing parts


@given(st.binary(max_size=60))
def test_any_bytes_are_measured(body: bytes) -> None:
    JsonLimits(values=100, depth=100).check(body)
