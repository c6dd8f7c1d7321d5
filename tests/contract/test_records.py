"""Records are kept whole: every field, its order, its versions, and nothing after it is deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from cofio import Conflict, Draft, Engine, Importance, Json, Kind, NotFound, Query, Record, Scope, Unavailable

DEMO = Scope("demo")
DAY = datetime(2026, 5, 28, tzinfo=UTC)
JSONS: list[Json] = [
    None, True, False, 0, 1, -1, 2**63, 10**30, 0.1, -0.0, 1e300, "", "text", "\u2028\n\t\"'\\", [], {}, [None, [[]]],
    {"": "", "a.b": {"c": [1, "1", 1.5, True, None]}, "鍵": "値", "🔑": "é"},
]  # fmt: skip


def test_every_field_of_a_record_is_kept_as_it_was_given(memory: Engine, clock: Callable[[], datetime]) -> None:
    east = timezone(timedelta(hours=9))
    written = memory.write(
        Scope("a", "b/c", "ü%"),
        text=" Text with 'quotes' \n and lines, left as it is. ",
        title="A title",
        tags=["Auth", "api/v2", "日本"],
        author="Zoë O’Brien",
        kind=Kind.TURN,
        data={"n": 1, "nested": [True, None, {"x": 0.5}]},
        importance=Importance.CRITICAL,
        source="mcp",
        parent="session-1",
        position=-7,
        created_at=datetime(1999, 12, 31, 23, 59, 59, 123456, tzinfo=east),
        expires_at=datetime(2031, 1, 1, tzinfo=east),
        id="my-own-id",
    )
    assert written == Record(
        id="my-own-id",
        scope=Scope("a", "b/c", "ü%"),
        kind=Kind.TURN,
        key=None,
        title="A title",
        text=" Text with 'quotes' \n and lines, left as it is. ",
        data={"n": 1, "nested": [True, None, {"x": 0.5}]},
        tags=("Auth", "api/v2", "日本"),
        importance=Importance.CRITICAL,
        author="Zoë O’Brien",
        source="mcp",
        parent="session-1",
        position=-7,
        created_at=datetime(1999, 12, 31, 14, 59, 59, 123456, tzinfo=UTC),
        updated_at=clock(),
        expires_at=datetime(2030, 12, 31, 15, tzinfo=UTC),
        version=1,
    )
    assert memory.read("my-own-id") == written
    assert written.created_at.tzinfo is UTC


def test_a_record_with_only_a_text_has_the_documented_defaults(memory: Engine, clock: Callable[[], datetime]) -> None:
    record = memory.write(DEMO, text="plain")
    assert (record.kind, record.key, record.title, record.data, record.tags) == (Kind.NOTE, None, "", None, ())
    assert (record.importance, record.author, record.source) == (Importance.MEDIUM, "", "python")
    assert (record.parent, record.position, record.expires_at, record.version) == (None, None, None, 1)
    assert record.created_at == record.updated_at == clock()
    assert record.existed is False
    assert record.similar == ()


def test_data_comes_back_as_the_same_json(memory: Engine) -> None:
    for data in JSONS:
        record = memory.put(DEMO, "key", data=data)
        again = memory.get(DEMO, "key")
        assert again is not None
        assert repr(record.data) == repr(again.data) == repr(data)


def test_a_kind_and_an_importance_can_be_given_as_a_value_or_as_its_name(memory: Engine) -> None:
    for kind in Kind:
        assert (
            memory.write(DEMO, text="x", kind=kind).kind is memory.write(DEMO, text="x", kind=kind.value).kind is kind
        )
        assert memory.count(DEMO, kinds=[kind]) == 2
    for importance in Importance:
        record = memory.write(DEMO, text="x", importance=importance.value)
        assert memory.read(record.id).importance is importance


def test_ids_are_unique_and_sort_by_the_time_of_writing(memory: Engine, advance: Callable[[float], None]) -> None:
    ids = []
    for _ in range(20):
        ids += sorted(record.id for record in memory.write_many([Draft(scope=DEMO, text="same")] * 20))
        advance(0.001)
    assert len(set(ids)) == 400
    assert ids == sorted(ids)
    assert all(len(each) == 26 and each.isalnum() and each == each.lower() for each in ids)


def test_an_id_that_is_taken_is_a_conflict_and_changes_nothing(memory: Engine) -> None:
    first = memory.write(DEMO, text="first", id="one")
    with pytest.raises(Conflict, match="one"):
        memory.write(Scope("elsewhere"), text="second", id="one")
    assert list(memory.export()) == [first]


def test_an_edit_changes_the_named_fields_and_no_others(memory: Engine, advance: Callable[[float], None]) -> None:
    before = memory.write(DEMO, text="old", title="Title", tags=["a"], data=[1], author="pm", parent="p", position=3)
    advance(5)
    after = memory.edit(before.id, text="new", tags=["b", "c"])
    assert after.text == "new"
    assert after.tags == ("b", "c")
    assert after.version == 2
    assert after.created_at == before.created_at
    assert after.updated_at == before.updated_at + timedelta(seconds=5)
    unchanged = ("id", "scope", "kind", "key", "title", "data", "importance", "author", "source", "parent", "position")
    assert [getattr(after, name) for name in unchanged] == [getattr(before, name) for name in unchanged]
    assert memory.read(before.id) == after


def test_every_editable_field_can_be_edited(memory: Engine, clock: Callable[[], datetime]) -> None:
    record = memory.put(DEMO, "key", text="old")
    later = clock() + timedelta(days=1)
    edits: dict[str, Any] = {
        "text": "", "title": "t", "data": {"a": 1}, "tags": ("x",), "importance": Importance.HIGH, "author": "a",
        "source": "s", "parent": "p", "position": 1, "expires_at": later, "key": "other", "scope": Scope("elsewhere"),
    }  # fmt: skip
    for version, (name, value) in enumerate(edits.items(), 2):
        edited = memory.edit(record.id, **{name: value})
        assert getattr(edited, name) == value
        assert edited.version == version
        assert memory.read(record.id) == edited


def test_an_edit_or_a_delete_of_a_version_that_has_passed_is_a_conflict(memory: Engine) -> None:
    record = memory.write(DEMO, text="one")
    memory.edit(record.id, text="two", if_version=1)
    with pytest.raises(Conflict) as caught:
        memory.edit(record.id, text="three", if_version=1)
    assert (caught.value.expected, caught.value.found) == (1, 2)
    with pytest.raises(Conflict):
        memory.delete(record.id, if_version=1)
    assert memory.read(record.id).text == "two"
    memory.delete(record.id, if_version=2)
    assert memory.count() == 0


def test_a_deleted_record_is_gone_from_every_read(memory: Engine) -> None:
    record = memory.put(DEMO, "key", text="doomed")
    memory.delete(record.id)
    with pytest.raises(NotFound) as caught:
        memory.read(record.id)
    assert caught.value.what == record.id
    assert memory.get(DEMO, "key") is None
    assert memory.list() == list(memory.export()) == []
    assert memory.count() == 0
    assert memory.scopes() == {}
    assert len(memory.search("doomed")) == 0


def test_what_is_not_there_cannot_be_edited_moved_or_deleted(memory: Engine) -> None:
    for act in (
        lambda: memory.read("nothing"),
        lambda: memory.edit("nothing", text="x"),
        lambda: memory.move("nothing", key="x"),
        lambda: memory.delete("nothing"),
        lambda: memory.delete(""),
    ):
        with pytest.raises(NotFound):
            act()


def test_a_list_has_the_last_changed_first(memory: Engine) -> None:
    first, second, third = (memory.write(DEMO, text=text) for text in ("1", "2", "3"))
    assert memory.list() == [third, second, first]
    first = memory.edit(first.id, text="1 again")
    assert memory.list() == [first, third, second]
    assert memory.list(newest=False) == list(memory.export()) == [second, third, first]


def test_pages_of_a_list_hold_each_record_once(memory: Engine) -> None:
    records = memory.write_many([Draft(scope=DEMO, text=str(number)) for number in range(25)])[::-1]
    pages = [memory.list(DEMO, limit=10, offset=offset) for offset in (0, 10, 20, 30, 2**53)]
    assert [len(page) for page in pages] == [10, 10, 5, 0, 0]
    assert [record for page in pages for record in page] == records
    assert memory.list(limit=1, offset=24) == [records[24]]
    assert len(memory.list(limit=10_000)) == memory.count() == 25


def test_many_are_written_in_their_order_and_answered_in_it(memory: Engine) -> None:
    drafts = [Draft(scope=DEMO / str(number % 3), text=f"text {number}") for number in range(50)]
    records = memory.write_many(draft for draft in drafts)
    assert [record.text for record in records] == [draft.text for draft in drafts]
    assert list(memory.export()) == records
    assert memory.write_many([]) == []
    (dated,) = memory.write_many([Draft(scope=DEMO, text="x", created_at=DAY, updated_at=DAY + timedelta(1))])
    assert (dated.created_at, dated.updated_at) == (DAY, DAY + timedelta(1))


def test_many_are_written_all_or_not_at_all(memory: Engine) -> None:
    kept = memory.write(DEMO, text="kept", id="kept")
    with pytest.raises(Conflict):
        memory.write_many([Draft(scope=DEMO, text="new"), Draft(scope=DEMO, text="taken", id="kept")])
    with pytest.raises(Conflict):
        memory.write_many([Draft(scope=DEMO, text="a", key="k"), Draft(scope=DEMO, text="b", key="k")])
    assert list(memory.export()) == [kept]
    assert memory.scopes() == {DEMO: 1}
    assert memory.check() == []


def test_a_record_of_the_largest_allowed_size_is_kept(memory: Engine) -> None:
    record = memory.put(
        Scope(*["名" * 256] * 16), "鍵" * 1024, text="字 " * 524_288, title="題" * 1000, data=["x" * 1_048_572],
        tags=[f"{number:0100}" for number in range(64)], author="作" * 256, source="源" * 64, parent="親" * 256,
        position=2**53,
    )  # fmt: skip
    assert memory.read(record.id) == record
    assert memory.get(record.scope, record.key or "") == record
    assert memory.check() == []


def test_what_one_engine_writes_another_sees_at_once(memory: Engine, reopen: Callable[..., Engine]) -> None:
    other = reopen()
    record = memory.write(DEMO, text="hello from one")
    assert other.read(record.id) == record
    assert other.search(Query("hello", mode="keyword"))[0].record == record
    edited = other.edit(record.id, text="goodbye from the other")
    assert memory.read(record.id) == edited
    memory.settle()
    assert [hit.record for hit in other.search(Query("goodbye", mode="keyword"))] == [edited]
    assert len(other.search(Query("hello", mode="keyword"))) == 0
    other.delete(record.id)
    assert len(memory.search(Query("goodbye", mode="keyword"))) == 0
    assert memory.check() == other.check() == []


def test_a_closed_memory_says_so_and_can_be_closed_again(memory: Engine) -> None:
    record = memory.write(DEMO, text="x")
    memory.close()
    memory.close()
    for act in (
        lambda: memory.read(record.id),
        lambda: memory.write(DEMO, text="y"),
        lambda: memory.search("x"),
        lambda: memory.settle(),
    ):
        with pytest.raises(Unavailable, match="closed"):
            act()


def test_nothing_is_lost_when_a_store_is_closed_and_opened_again(memory: Engine, reopen: Callable[..., Engine]) -> None:
    records = [memory.write(DEMO, text="settled"), memory.put(DEMO, "key", data={"not": "yet"})]
    memory.settle()
    records.append(memory.write(DEMO, text="in the tail"))
    memory.close()
    again = reopen()
    assert list(again.export()) == records
    assert [hit.record for hit in again.search(Query("tail", mode="keyword"))] == [records[2]]
    assert [hit.record for hit in again.search(Query("settled", mode="keyword"))] == [records[0]]
    assert again.check() == []


def test_a_title_is_enough_to_be_found_by(memory: Engine) -> None:
    record = memory.write(DEMO, title="The walrus colony moved")
    (batched,) = memory.write_many([Draft(scope=DEMO, title="An owl tower")])
    memory.settle()
    assert [hit.record for hit in memory.search("walrus colony")] == [record]
    assert [hit.record for hit in memory.search(Query("owl tower", mode="semantic"))] == [batched]
    assert memory.read(record.id) == record
    assert memory.check() == []


def test_a_list_can_go_by_when_records_were_made(memory: Engine) -> None:
    first = memory.write(DEMO, text="second", created_at=DAY)
    memory.write(DEMO, text="first", created_at=DAY - timedelta(days=1))
    memory.write(DEMO, text="also second", created_at=DAY)
    memory.edit(first.id, title="changed last")
    assert [each.text for each in memory.list(order="created")] == ["second", "also second", "first"]
    oldest = memory.list(order="created", newest=False)
    assert [each.text for each in oldest] == ["first", "also second", "second"]
    assert [each.text for each in memory.list(order="created", limit=1, offset=1)] == ["also second"]
    assert [each.text for each in memory.list()] == ["second", "also second", "first"]


def test_a_record_with_just_the_same_text_is_known(memory: Engine) -> None:
    kept = memory.write(DEMO, text="The  walrus\nsleeps. ", kind=Kind.FACT)
    later = memory.write(DEMO, text="The walrus sleeps.", kind=Kind.FACT)
    assert memory.same(DEMO, " The walrus sleeps.", kind="fact") == kept
    assert memory.same(DEMO, "the walrus sleeps.", kind=Kind.FACT) is None
    assert memory.same(DEMO, "The walrus sleeps.") is None
    assert memory.same(DEMO / "under", "The walrus sleeps.", kind=Kind.FACT) is None
    assert memory.same(DEMO, " ", kind=Kind.FACT) is None
    memory.delete(kept.id)
    assert memory.same(DEMO, "The walrus sleeps.", kind=Kind.FACT) == later
