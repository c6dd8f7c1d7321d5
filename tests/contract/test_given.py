"""Vectors that come with records: kept as they are, found by nearness, gone when the record is."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Draft, Engine, Invalid, Kind, Record, Scope, Settings, Where
from cofio.embed.hashed import HashedEmbedder
from cofio.text.jsonl import read_line, write_line
from cofio.values.changes import Extend, Put

from ..tiers import scale_examples

HERE = Scope("store", "a")


def keyed(key: str, vector: list[float], scope: Scope = HERE, **more: Any) -> Put:
    """An item with one vector."""
    return Put(
        draft=Draft(scope=scope, kind=Kind.ITEM, key=key, text=key, given={"$": tuple(vector)}, **more), how="key"
    )


def keys(memory: Engine, vector: list[float], **more: Any) -> list[str | None]:
    """The keys of the nearest, in order."""
    return [hit.record.key for hit in memory.nearest(vector, **more)]


def test_the_nearest_come_first_with_their_cosine(memory: Engine) -> None:
    memory.apply([keyed("east", [2, 0]), keyed("north", [0, 0.5]), keyed("west", [-3, 0]), keyed("between", [1, 1])])
    hits = memory.nearest([10, 0])
    assert [hit.record.key for hit in hits] == ["east", "between", "north", "west"]
    assert [hit.score for hit in hits] == pytest.approx([1, math.sqrt(0.5), 0, -1])
    why = hits[3].why.semantic
    assert why is not None
    assert (why.rank, why.relevance) == (4, 0)
    assert keys(memory, [1, 0], limit=2) == ["east", "between"]
    assert keys(memory, [1, 0], limit=2, offset=1) == ["between", "north"]
    assert keys(memory, [1, 0], offset=4) == []


def test_the_length_of_a_vector_is_of_no_account(memory: Engine) -> None:
    for length in (1e-14, 1.0, 1e14):
        memory.apply([keyed("same", [0.6 * length, 0.8 * length]), keyed("near", [length, length])])
        hits = memory.nearest([0.3 / length, 0.4 / length])
        assert [hit.record.key for hit in hits] == ["same", "near"]
        assert hits[0].score == pytest.approx(1, abs=1e-7)


def test_bounds_hold(memory: Engine) -> None:
    deeper = Scope("store", "a", "b")
    memory.apply([
        keyed("x", [1, 0], data={"n": 1}), keyed("y", [1, 0], data={"n": 2}), keyed("z", [1, 0], deeper),
        keyed("no", [1, 0], Scope("store", "ab")),
    ])  # fmt: skip
    for kind in (Kind.STATE, Kind.LEDGER):  # which no search finds
        memory.put(HERE, kind.value, kind=kind, text="a state", given={"$": [1, 0]})
    assert sorted(map(str, keys(memory, [1, 0], scope=HERE, kinds=[Kind.ITEM]))) == ["x", "y", "z"]
    assert sorted(map(str, keys(memory, [1, 0], scope=HERE, kinds=[Kind.ITEM], exact=True))) == ["x", "y"]
    assert keys(memory, [1, 0], scope=HERE, filter=Where("data.n", ">", 1)) == ["y"]
    assert keys(memory, [1, 0], scope=HERE, kinds=[Kind.STATE, Kind.LEDGER]) == ["state"]
    assert keys(memory, [1, 0], scope=Scope("nowhere")) == []


def test_the_vectors_of_a_record_come_back_as_float32(memory: Engine, reopen: Callable[..., Engine]) -> None:
    record = memory.put(HERE, "k", given={"a": [0.1, 2], "": [3.0]})
    for engine in (memory, reopen()):
        assert engine.given(record.id) == {"a": (pytest.approx(0.1), 2.0), "": (3.0,)}
    assert memory.given("nobody") == {}
    assert memory.given(memory.write(HERE, text="plain").id) == {}
    assert record.given is None


def test_a_put_replaces_the_vectors_by_its_own_or_by_none(memory: Engine) -> None:
    for again in ({}, {"given": None}, {"given": {"$": [0.0, 1.0]}}):
        memory.put(HERE, "k", text="same", given={"$": [1, 0], "more": [1, 0]})
        record = memory.put(HERE, "k", text="same", **again)
        assert memory.given(record.id) == ({"$": (0.0, 1.0)} if again.get("given") else {})
        assert len(memory.nearest([1, 0])) == len(memory.given(record.id))


def test_an_edit_keeps_the_vectors_as_long_as_the_record_says_the_same(memory: Engine) -> None:
    record = memory.put(HERE, "k", text="same", given={"$": [1, 0]})
    memory.edit(record.id, importance="high")
    memory.move(record.id, scope=Scope("store", "b"), key="l")
    assert keys(memory, [1, 0], scope=Scope("store", "b")) == ["l"]
    memory.edit(record.id, text="another")
    assert memory.given(record.id) == {}
    with pytest.raises(Invalid, match="cannot be changed"):
        memory.edit(record.id, given={"$": (1.0,)})


def test_vectors_go_with_their_record(memory: Engine, clock: Any) -> None:
    one, two = (memory.put(HERE, key, text=key, given={"$": [1, 0]}) for key in "ab")
    memory.put(HERE, "c", text="c", given={"$": [1, 0]}, ttl=60)
    memory.write(Scope("kept"), text="kept")
    memory.delete(one.id)
    assert sorted(map(str, keys(memory, [1, 0]))) == ["b", "c"]
    clock.advance(61)
    assert keys(memory, [1, 0]) == ["b"]
    assert memory.purge() == 1
    memory.drop(HERE)
    assert memory.nearest([1, 0]) == []
    assert memory.given(two.id) == {}


def test_reindexing_and_new_embedders_leave_them_alone(memory: Engine, backend: Any) -> None:
    record = memory.put(HERE, "k", text="hello", given={"$": [1, 0]})
    memory.settle()
    memory.reindex(vectors=True)
    assert memory.given(record.id) == {"$": (1.0, 0.0)}
    assert memory.check() == []


def test_a_backup_and_an_export_have_them(memory: Engine, tmp_path: Path, clock: Any) -> None:
    memory.put(HERE, "k", text="hello", given={"$": [0.5, 0.25], "t": [1.0]})
    memory.write(Scope("x"), text="plain")
    memory.backup(tmp_path / "copy")
    quiet = Settings(background=False, embedder="none")
    with Engine.open(tmp_path / "copy", settings=quiet, clock=clock) as copy:
        assert keys(copy, [0.5, 0.25]) == ["k"]
    lines = [write_line(record) for record in memory.export()]
    assert sum('"given":' in line for line in lines) == 1
    with Engine.open(tmp_path / "new", settings=quiet, clock=clock) as new:
        assert new.restore([read_line(line) for line in lines]) == 2
        (hit,) = new.nearest([0.5, 0.25])
        assert new.given(hit.record.id) == {"$": (0.5, 0.25), "t": (1.0,)}
        assert new.restore([read_line(line) for line in lines]) == 0
        assert [write_line(record) for record in new.export()] == lines


few = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=3).filter(any)


@settings(max_examples=scale_examples(40))
@given(
    held=st.lists(st.dictionaries(st.sampled_from("pqr"), few, max_size=3), max_size=12),
    asked=few,
    limit=st.integers(1, 5),
)
def test_the_nearest_are_those_of_a_plain_comparison(
    memory: Engine, held: list[dict[str, list[float]]], asked: list[float], limit: int
) -> None:
    memory.drop(Scope())
    records: dict[str, Record] = {}
    for number, parts in enumerate(held):
        records[str(number)] = memory.put(HERE, str(number), given=parts)

    def cosine(vector: list[float]) -> float:
        return sum(a * b for a, b in zip(asked, vector, strict=True)) / math.hypot(*asked) / math.hypot(*vector)

    expected = {
        str(number): max(cosine(vector) for vector in parts.values() if len(vector) == len(asked))
        for number, parts in enumerate(held)
        if any(len(vector) == len(asked) for vector in parts.values())
    }
    hits = memory.nearest(asked, limit=limit)
    assert [hit.score for hit in hits] == pytest.approx(sorted(expected.values(), reverse=True)[:limit])
    for hit in hits:
        assert hit.score == pytest.approx(expected[str(hit.record.key)])


def test_a_read_may_let_a_record_last_longer_without_a_new_version(memory: Engine, clock: Any) -> None:
    record, gone = (memory.put(HERE, key, text="k", ttl=60, given={"$": [1, 0]}) for key in "kl")
    memory.apply([Extend(id=record.id, expires_at=memory.expiry(3600))])
    clock.advance(61)
    after = memory.read(record.id)
    assert (after.version, after.updated_at) == (record.version, record.updated_at)
    assert memory.given(record.id)
    memory.apply([Extend(id=each, expires_at=None) for each in (record.id, gone.id, "nobody")])
    clock.advance(400 * 86_400)
    assert memory.read(record.id).expires_at is None
    assert memory.get(HERE, "l") is None  # what has expired is not brought back


def test_many_keys_are_read_as_of_one_moment(memory: Engine) -> None:
    memory.put(HERE, "a", data=1)
    memory.put(Scope("other"), "a", data=2)
    found = memory.get_many([(HERE, "a"), (HERE, "b"), (Scope("other"), "a")])
    assert [record and record.data for record in found] == [1, None, 2]


def test_scopes_and_headings_can_be_of_kinds_and_by_creation(memory: Engine) -> None:
    memory.apply([keyed("a", [1]), keyed("b", [1])])
    memory.put(HERE, "a", text="again")
    memory.write(Scope("notes"), text="a note")
    assert memory.scopes(kinds=[Kind.ITEM]) == {HERE: 2}
    headings = memory.headings(HERE, order="written", newest=False)
    assert [heading.key for heading in headings] == ["a", "b"]
    assert [record.key for record in memory.list(HERE, order="written", newest=False)] == ["a", "b"]


def test_a_given_vector_is_no_vector_of_the_stores_own(memory: Engine, reopen: Callable[..., Engine]) -> None:
    memory.put(HERE, "k", text="hello there", given={"$": [1.0] * HashedEmbedder().dimensions})
    memory.settle()
    (hit,) = memory.search("hello there")
    assert hit.record.key == "k"
