"""An id can be found by how it begins, and shown by as little of it as tells it from all others."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Draft, Engine, Scope

from ..tiers import scale_examples

DEMO = Scope("demo")


def write(memory: Engine, *ids: str) -> None:
    memory.write_many([Draft(scope=DEMO, text=f"text {each}", id=each) for each in ids])


def test_ids_are_found_by_how_they_begin_in_their_order(memory: Engine, advance: Callable[[float], None]) -> None:
    write(memory, "abcd", "abce", "abc", "abd", "ABCD", "abc\U0010fffe", "ab%d", "ab_d")
    assert memory.ids("abc") == ["abc", "abcd", "abce", "abc\U0010fffe"]
    assert memory.ids("abc", limit=2) == ["abc", "abcd"]
    assert memory.ids("ab%") == ["ab%d"]
    assert memory.ids("ab_") == ["ab_d"]
    assert memory.ids("x") == []
    assert len(memory.ids("", limit=100)) == 8
    memory.write(DEMO, text="soon gone", id="gone-1", ttl=60)
    assert memory.ids("gone") == ["gone-1"]
    advance(61)
    assert memory.ids("gone") == []


def test_an_abbreviation_is_no_longer_than_it_must_be(memory: Engine) -> None:
    write(memory, "0123456789a", "0123456789b", "0123abcdefgh", "short")
    assert memory.abbreviate(["0123456789a", "0123456789b", "0123abcdefgh", "short"]) == {
        "0123456789a": "0123456789a", "0123456789b": "0123456789b", "0123abcdefgh": "0123abcd", "short": "short",
    }  # fmt: skip
    assert memory.abbreviate(["0123abcdefgh"], least=4) == {"0123abcdefgh": "0123a"}


@settings(max_examples=scale_examples(40))
@given(ids=st.sets(st.text("ab\U0001f642é", min_size=1, max_size=6), min_size=1, max_size=12))
def test_every_abbreviation_finds_its_own_record_alone(memory: Engine, ids: set[str]) -> None:
    memory.drop(DEMO)
    write(memory, *ids)
    for whole, short in memory.abbreviate(ids, least=1).items():
        assert whole.startswith(short)
        assert memory.ids(short) == [whole] or short == whole
