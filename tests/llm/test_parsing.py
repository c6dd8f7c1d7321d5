"""An object is found in whatever a model puts around it, and nothing is made up where there is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.llm.json_answers import find_objects, strip_thoughts
from cofio.values.records import Json

VALUE = {"title": 'A, B} and ] "C"', "facts": [{"text": "It's so.", "sources": [1, 2]}], "none": None, "yes": True}
WHOLE = json.dumps(VALUE)

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSONS, min_size=1, max_size=4)


def first(answer: str) -> dict[str, Json] | None:
    return next(find_objects(answer), None)


@pytest.mark.parametrize(
    "answer",
    [
        f"\n {WHOLE}\n",
        f"```\n{WHOLE}\n```\nThat is all.",
        f"```json\n{WHOLE}",
        f"I {{think}} that\n{WHOLE}\nis it :-}}",
        f"[{WHOLE}]",
        f"<think>Is it {{}}? Or {WHOLE[:20]}?</think>{WHOLE}",
        f"so I thought.</think>\n{WHOLE}",
        f'First I had {{"title": "x"}}, but now: {WHOLE}',
        WHOLE.replace("]}", "],}").replace("2]", "2, ]").replace("true}", "true,\n}"),
        f"```python\n{VALUE!r}\n```",
    ],
)
def test_the_object_is_found_and_thoughts_are_not_spoken(answer: str) -> None:
    assert first(answer) == VALUE
    assert first('{"text": "one\ntwo"}') == {"text": "one\ntwo"}
    assert strip_thoughts("<think>no</think> yes <THINKING>no\nno</THINKING>") == "yes"
    assert strip_thoughts("<think>never ending") == ""


@pytest.mark.parametrize(
    "answer", ["", "no", "{", "}{", "[1, 2]", "null", "<think>" + WHOLE, "{'a': __import__('os')}", "{" * 5_000]
)
def test_where_there_is_none_nothing_is_made_up(answer: str) -> None:
    assert first(answer) in (None, {})


def test_of_a_text_that_was_cut_off_what_was_complete_is_kept() -> None:
    cut = '{"title": "Boats", "facts": [{"text": "One.", "sources": [1]}, {"text": "Two.", "sources": [2, 3'
    facts: list[Json] = [{"text": "One.", "sources": [1]}, {"text": "Two.", "sources": [2]}]
    assert {"title": "Boats", "facts": facts} in list(find_objects(cut))
    assert first('{"title": "Boats", "content": "Half of a sen') == {"title": "Boats"}
    assert first('{"title": "Boats", "sufficient": tr') == {"title": "Boats"}
    assert first('{"title": "Boats", "con') == {"title": "Boats"}


@given(OBJECTS, st.text(st.characters(codec="utf-8", exclude_characters="{}[]`<"), max_size=30), st.text(max_size=300))
def test_any_object_is_found_between_any_words(value: dict[str, Json], around: str, other: str) -> None:
    assert first(f"{around}{json.dumps(value)}{around}") == value
    assert first(f"{around}\n```json\n{json.dumps(value)}\n```\n{around}") == value
    assert all(isinstance(found, dict) for found in find_objects(other))


@given(OBJECTS, st.data())
def test_what_is_kept_of_an_object_that_was_cut_off_was_in_it(value: dict[str, Json], data: st.DataObject) -> None:
    whole = json.dumps(value)
    at = data.draw(st.integers(1, len(whole) - 1))
    for found in find_objects(whole[:at]):
        assert is_part(found, value) or any(is_part(found, inner) for inner in inners(value))


def is_part(part: Json, whole: Json) -> bool:
    """Whether everything in one value is in the other."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(value, whole[name]) for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    return part == whole


def inners(value: Json) -> list[Json]:
    """Every object within a value."""
    children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [each for child in children for each in (child, *inners(child))]
