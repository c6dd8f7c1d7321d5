"""A key holds one record for each scope and kind; who writes knows what was there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from cofio import Conflict, Draft, Engine, Kind, Query, Record, Scope, Where
from cofio.text.jsonl import read_line, write_line

DEMO = Scope("demo")


def test_get_is_none_when_the_key_holds_nothing(memory: Engine) -> None:
    memory.put(DEMO, "phase", data=1)
    assert memory.get(DEMO, "other") is None
    assert memory.get(DEMO, "Phase") is None
    assert memory.get(Scope("elsewhere"), "phase") is None
    assert memory.get(DEMO, "phase", kind=Kind.STATE) is None


def test_the_same_key_in_another_scope_or_kind_is_another_record(memory: Engine) -> None:
    places = [(DEMO, Kind.ITEM), (DEMO, Kind.STATE), (DEMO / "under", Kind.ITEM), (Scope(), Kind.ITEM)]
    records = [memory.put(scope, "key", data=number, kind=kind) for number, (scope, kind) in enumerate(places)]
    assert [memory.get(scope, "key", kind=kind) for scope, kind in places] == records
    assert len({record.id for record in records}) == memory.count() == 4


def test_a_key_may_hold_any_character(memory: Engine) -> None:
    for key in ("", "a/b.c", "%", "_", "'", '"', "日本", "🙂", " ", "\n", "../../etc", "k" * 1024):
        record = memory.put(DEMO, key, data=1)
        assert record.key == key
        assert memory.get(DEMO, key) == record


def test_the_empty_key_is_a_key_like_any_other(memory: Engine) -> None:
    keyless = memory.write(DEMO, text="no key", kind=Kind.ITEM)
    record = memory.put(DEMO, "", data=1)
    assert memory.put(DEMO, "", data=2, if_version=1).id == record.id
    with pytest.raises(Conflict):
        memory.put(DEMO, "", data=3, if_version=1)
    assert [found.id for found in memory.list(filter=Where("key", "=", ""))] == [record.id]
    other = memory.put(DEMO, "other", data=3)
    with pytest.raises(Conflict):
        memory.move(other.id, key="")
    memory.move(record.id, key="named")
    assert memory.move(other.id, key="").key == ""
    assert memory.move(keyless.id, key="third").key == "third"
    assert memory.restore([read_line(write_line(each)) for each in memory.export()]) == 0
    memory.delete(other.id)
    assert memory.get(DEMO, "") is None
    assert memory.check() == []


def test_put_replaces_what_the_key_held_and_keeps_its_id_and_birth(
    memory: Engine, advance: Callable[[float], None], clock: Callable[[], datetime]
) -> None:
    first = memory.put(DEMO, "key", data={"n": 1}, text="old", title="t", tags=["a"], author="x", parent="p")
    advance(60)
    second = memory.put(DEMO, "key", data={"n": 2})
    assert (second.id, second.version, second.created_at) == (first.id, 2, first.created_at)
    assert second.updated_at == clock()
    assert (second.data, second.text, second.title, second.tags) == ({"n": 2}, "", "", ())
    assert (second.author, second.parent) == ("", None)
    assert memory.get(DEMO, "key") == memory.read(first.id) == second
    assert memory.count() == 1


def test_a_put_goes_through_on_the_expected_version_alone(memory: Engine) -> None:
    for version in range(3):
        held = memory.put(DEMO, "key", data=version, if_version=version)
        assert held.version == version + 1
        for expected in ({0, 1, 2, 3, 2**53}) - {version + 1}:
            with pytest.raises(Conflict) as caught:
                memory.put(DEMO, "key", data="other", if_version=expected)
            assert (caught.value.what, caught.value.expected, caught.value.found) == ("key", expected, version + 1)
    with pytest.raises(Conflict):
        memory.write_many([Draft(scope=DEMO, kind=Kind.ITEM, key="key", data=2)])
    assert list(memory.export()) == [held]
    memory.delete(held.id)
    with pytest.raises(Conflict) as caught:
        memory.put(DEMO, "key", data=1, if_version=1)
    assert (caught.value.expected, caught.value.found) == (1, 0)
    again = memory.put(DEMO, "key", data=2, if_version=0)
    assert again.version == 1
    assert again.id != held.id


def test_a_move_gives_a_record_another_key_or_scope_and_keeps_the_rest(memory: Engine) -> None:
    record = memory.put(DEMO, "old", data=[1], title="t")
    moved = memory.move(record.id, key="new")
    assert (moved.id, moved.key, moved.scope, moved.data, moved.title) == (record.id, "new", DEMO, [1], "t")
    assert moved.version == 2
    moved = memory.move(record.id, scope=Scope("else"))
    assert (moved.key, moved.scope) == ("new", Scope("else"))
    moved = memory.move(record.id, scope=DEMO, key="old", if_version=3)
    assert memory.get(DEMO, "old") == moved
    assert memory.get(DEMO, "new") is memory.get(Scope("else"), "new") is None
    assert memory.count() == 1


def test_a_move_to_a_taken_key_is_a_conflict_that_changes_nothing(memory: Engine) -> None:
    here, there = memory.put(DEMO, "here", data=1), memory.put(DEMO, "there", data=2)
    with pytest.raises(Conflict, match="there"):
        memory.move(here.id, key="there")
    elsewhere = memory.put(Scope("else"), "here", data=3)
    with pytest.raises(Conflict):
        memory.move(here.id, scope=Scope("else"))
    assert list(memory.export()) == [here, there, elsewhere]


def test_a_move_to_its_own_place_is_no_conflict_and_one_of_a_version_that_has_passed_is(memory: Engine) -> None:
    record = memory.put(DEMO, "key", data=1)
    assert memory.move(record.id, scope=DEMO, key="key").version == 2
    with pytest.raises(Conflict):
        memory.move(record.id, key="other", if_version=1)
    assert memory.get(DEMO, "other") is None


def test_a_record_without_a_key_can_be_given_one_and_lose_it_again(memory: Engine) -> None:
    note = memory.write(DEMO, text="findable")
    moved = memory.move(note.id, key="named")
    assert memory.get(DEMO, "named", kind=Kind.NOTE) == moved
    memory.edit(note.id, key=None)
    assert memory.get(DEMO, "named", kind=Kind.NOTE) is None
    assert memory.read(note.id).text == "findable"


def test_a_keyed_record_is_found_by_its_key_and_its_data(
    memory: Engine, remember: Callable[..., list[Record]], settle: Callable[[], None]
) -> None:
    remember(Draft(scope=DEMO, text="something else entirely"), Draft(scope=DEMO, text="and one more of these"))
    record = memory.put(
        DEMO, "deploy-target", data={"region": "Reykjavik", "nodes": [3, {"rack": "basement"}], "on": True}
    )
    settle()
    for word in ("deploy", "target", "region", "reykjavik", "3", "rack", "basement"):
        assert [hit.record for hit in memory.search(Query(word, mode="keyword"))] == [record], word
    for word in ("true", "null"):
        assert len(memory.search(Query(word, mode="keyword"))) == 0
