"""A record survives the way through a line of JSON; anything else is refused."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Draft, Engine, Importance, Invalid, Json, Kind, Record, Scope
from cofio.text.jsonl import dump_line, read_line, to_json, write_line

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
some_text = texts.filter(bool)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
jsons: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
records = st.builds(
    Record,
    id=some_text,
    scope=st.lists(some_text, max_size=4).map(lambda names: Scope(*names)),
    kind=st.sampled_from(Kind),
    key=st.none() | texts,
    title=texts,
    text=some_text.filter(str.strip),
    data=jsons,
    tags=st.lists(some_text, max_size=3, unique=True).map(tuple),
    importance=st.sampled_from(Importance),
    author=texts,
    source=texts,
    parent=st.none() | some_text,
    position=st.sampled_from([None, 0]) | st.integers(-(2**53), 2**53),
    created_at=times,
    updated_at=times,
    expires_at=st.none() | times,
    version=st.integers(1, 2**53),
)
GOOD: dict[str, Any] = {
    "id": "1", "scope": ["demo"], "kind": "note", "text": "x", "version": 1,
    "created_at": "2026-01-01T00:00:00+00:00", "updated_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


@given(text=st.text(st.characters() | st.sampled_from("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")), value=jsons)
def test_any_value_is_one_line_to_every_reader_and_comes_back(text: str, value: Json) -> None:
    line = dump_line({text: value, "text": [text]})
    assert line.splitlines() == [line]
    assert len(re.split("[\r\n\u2028\u2029]", line)) == 1  # as Node's readline does
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert json.loads(line) == {whole: value, "text": [whole]}


@given(record=records)
def test_a_record_comes_back_from_its_line(record: Record) -> None:
    line = write_line(record)
    assert line.splitlines() == [line]
    draft = read_line(line)
    for name in to_json(record):
        assert getattr(draft, name) == getattr(record, name), name
        assert type(getattr(draft, name)) is type(getattr(record, name)) or name.endswith("_at"), name
    assert repr(draft.data) == repr(record.data)


def test_the_fewest_fields_that_restore_a_record() -> None:
    draft = read_line(json.dumps(GOOD))
    assert draft == Draft(
        id="1", scope=Scope("demo"), text="x", version=1,
        created_at=datetime(2026, 1, 1, tzinfo=UTC), updated_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["id", "scope", "kind", "created_at", "updated_at", "version"])
def test_a_line_without_a_field_that_it_needs_is_refused(name: str) -> None:
    for line in ({each: GOOD[each] for each in GOOD if each != name}, GOOD | {name: None}):
        with pytest.raises(Invalid) as caught:
            read_line(json.dumps(line))
        assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 5), ("id", ""), ("scope", "demo"), ("scope", [5]), ("scope", [""]), ("scope", {}), ("kind", "nonsense"),
        ("kind", 5), ("kind", []), ("importance", "huge"), ("importance", None), ("tags", "a"), ("tags", [5]),
        ("tags", None), ("text", None), ("text", ""), ("title", 5), ("position", "1"), ("position", 1.5),
        ("version", 0), ("version", "1"), ("version", True), ("created_at", "yesterday"), ("created_at", 5),
        ("updated_at", "2026-01-01T00:00:00"), ("expires_at", "never"), ("parent", ""), ("key", 5),
        ("data", float("nan")), ("data", float("inf")), ("data", "\ud800"), ("nonsense", 1), ("no", 1), ("text", "\0"),
    ],
)  # fmt: skip
def test_a_line_with_a_wrong_field_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(Invalid) as caught:
        read_line(json.dumps(GOOD | {name: value}))
    assert caught.value.field == name


@pytest.mark.parametrize("line", ["", "{", "null", "[]", "5", '"x"', "{}}", "\ud800", "[" * 100_000, "1" * 5000, "{,}"])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(Invalid):
        read_line(line)


@given(
    line=st.text(max_size=50) | jsons.map(json.dumps) | st.dictionaries(st.sampled_from([*GOOD]), jsons).map(json.dumps)
)
def test_no_line_does_worse_than_be_refused(line: str) -> None:
    try:
        read_line(line)
    except Invalid:
        return


def test_an_exported_store_is_restored_as_it_was(memory: Engine) -> None:
    first = memory.put(Scope("a", "b/c"), "key", data={"n": [1.5, None, "é"]}, tags=["x"], ttl=3600)
    memory.put(Scope("a", "b/c"), "key", data={"n": 2}, if_version=1)
    memory.write(Scope(), text="line\nbreaks\r\n\u2028", author="Zoë", parent=first.id, position=3)
    memory.write(Scope("a"), text="gone", id="gone")
    exported = list(memory.export())
    lines = [write_line(record) for record in exported]
    memory.drop(Scope())
    assert memory.restore([read_line(line) for line in lines]) == 3
    assert list(memory.export()) == exported
    assert memory.restore([read_line(line) for line in lines]) == 0
    assert memory.check() == []


def test_restoring_keeps_what_is_newer_here(memory: Engine) -> None:
    record = memory.write(Scope("a"), text="old")
    old = read_line(write_line(record))
    newer = memory.edit(record.id, text="new")
    assert memory.restore([old]) == 0
    assert memory.read(record.id) == newer
    memory.delete(record.id)
    assert memory.restore([read_line(write_line(newer)), old]) == 1
    assert memory.read(record.id) == newer


def test_restoring_over_a_taken_key_leaves_one_holder(memory: Engine) -> None:
    mine = memory.put(Scope("a"), "key", data="mine")
    theirs = read_line(write_line(mine).replace(mine.id, "another").replace("mine", "theirs"))
    assert memory.restore([theirs]) == 0
    assert list(memory.export()) == [mine]
    later = write_line(mine).replace(mine.id, "another").replace('"updated_at":"2026', '"updated_at":"2027')
    assert memory.restore([read_line(later)]) == 1
    assert [record.id for record in memory.export()] == ["another"]
    assert memory.check() == []


def test_restoring_a_record_whose_key_another_took_meanwhile_leaves_a_sound_store(memory: Engine) -> None:
    one = memory.put(Scope("a"), "first", data=1)
    two = memory.put(Scope("a"), "second", data=2)
    moved = memory.move(one.id, key="third")
    back = memory.move(memory.move(two.id, key="first").id, key="first")
    exported = [read_line(write_line(record)) for record in memory.export()]
    memory.drop(Scope())
    memory.restore([read_line(write_line(one)), read_line(write_line(two))])
    memory.restore(exported)
    assert {record.key: record.data for record in memory.export()} == {"third": 1, "first": 2}
    assert memory.read(moved.id) == moved
    assert memory.read(two.id) == back
    assert memory.check() == []
