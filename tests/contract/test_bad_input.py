"""Bad input is refused with the name of what is wrong and its limit, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cofio import Draft, Engine, Importance, Invalid, Kind, LimitExceeded, Query, Record, Scope, Where

DEMO = Scope("demo")
NAN, INF, HUGE = float("nan"), float("inf"), 10**400
NOT_TEXT: list[Any] = [5, 5.0, True, b"x", ["x"], ("x",), {"x": 1}, {"x"}, object(), datetime(2026, 1, 1, tzinfo=UTC)]
BROKEN_TEXT: list[Any] = ["\ud800", "a\0b", "\0"]
NOT_INT: list[Any] = ["1", 1.0, True, False, NAN, INF, b"1", [1], {1: 1}, object()]
NOT_BOOL: list[Any] = [None, "yes", 2, [], 1.0]
NOT_SCOPE: list[Any] = [None, "demo", ("demo",), ["demo"], b"demo", 5, {"scope": "demo"}]
NOT_KINDS: list[Any] = [None, "note", b"note", 5, ["nonsense"], [None], [5], {"note": 1}, Kind.NOTE, object()]
NOT_TIME: list[Any] = [
    "2026-01-01", 5, 1e9, datetime(2026, 1, 1), date(2026, 1, 1), timedelta(1), b"x", [], True,
    datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC),
]  # fmt: skip
NOT_TTL: list[Any] = ["60", True, [60], 0, -1, 0.0, NAN, INF, -INF, HUGE, timedelta(0), timedelta(-1), timedelta.max]


def deep(levels: int) -> list[Any]:
    """Lists in lists."""
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def cyclic() -> list[Any]:
    """A list that holds itself."""
    nested: list[Any] = []
    nested.append(nested)
    return nested


NOT_JSON: list[Any] = [
    NAN, INF, {"a": NAN}, [INF], {1: "a"}, {None: 1}, {"a": {True: 1}}, {1, 2}, (1, 2), [(1,)], b"x", [b"x"], object(),
    datetime(2026, 1, 1, tzinfo=UTC), 1j, "\ud800", {"\ud800": 1}, "a\0b", {"a\0b": 1},
]  # fmt: skip
TOO_MUCH_JSON: list[Any] = [
    "x" * 1_048_576, ["x" * 600_000, "y" * 600_000], [0] * 600_000, deep(65), cyclic(), 10**5000, [-(10**5000)],
]  # fmt: skip
NOT_TAGS: list[Any] = [None, "auth", 5, [5], [None], [b"x"], b"x", [["x"]], [""], ["\ud800"], ["a\0b"], object()]

# For each parameter: what is no value for it, and what is too much of one.
FIELDS: dict[str, tuple[list[Any], list[Any]]] = {
    "text": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 1_048_577]),
    "title": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 1001]),
    "author": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 257]),
    "source": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 65]),
    "tags": (NOT_TAGS, [["x"] * 64 + ["y"] * 65 + [str(n) for n in range(65)], ["x" * 101]]),
    "importance": ([None, "nonsense", "", 5, [], "HIGH", b"low"], []),
    "data": (NOT_JSON, TOO_MUCH_JSON),
    "parent": ([*NOT_TEXT, *BROKEN_TEXT, ""], ["x" * 257]),
    "position": ([*NOT_INT, 2**53 + 1, -(2**53) - 1, HUGE], []),
    "expires_at": (NOT_TIME, []),
    "ttl": (NOT_TTL, []),
}
WRITE = FIELDS | {
    "scope": (NOT_SCOPE, []),
    "text": ([*FIELDS["text"][0], "", " ", "\n\t "], FIELDS["text"][1]),
    "kind": ([None, "nonsense", "", 5, [], "NOTE", b"note"], []),
    "created_at": (NOT_TIME, []),
    "id": ([*NOT_TEXT, *BROKEN_TEXT, ""], ["x" * 129]),
    "dedupe": (NOT_BOOL, []),
    "similar": (NOT_BOOL, []),
}
PUT = FIELDS | {
    "scope": (NOT_SCOPE, []),
    "key": ([None, *NOT_TEXT, *BROKEN_TEXT, ""], ["x" * 1025]),
    "kind": WRITE["kind"],
    "if_version": ([*NOT_INT, -1, 2**53 + 1, HUGE], []),
}
EDIT = FIELDS | {
    "scope": (NOT_SCOPE, []),
    "key": ([*NOT_TEXT, *BROKEN_TEXT, ""], ["x" * 1025]),
    "if_version": PUT["if_version"],
    "id": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 129]),
}
BOUNDS: dict[str, tuple[list[Any], list[Any]]] = {
    "scope": (NOT_SCOPE, []),
    "exact": (NOT_BOOL, []),
    "kinds": (NOT_KINDS, []),
    "filter": (["x", 5, {"title": "x"}, [Where("id", "=", "1")], True], [Where("id", "in", ("x",) * 201)]),
}
LIST = BOUNDS | {
    "limit": ([None, *NOT_INT, 0, -1, 10_001, HUGE], []),
    "offset": ([None, *NOT_INT, -1, 2**53 + 1, HUGE], []),
    "newest": (NOT_BOOL, []),
}
QUERY = BOUNDS | {
    "text": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 10_001]),
    "mode": ([None, "fuzzy", "", 5, ["hybrid"], b"hybrid"], []),
    "limit": ([None, *NOT_INT, 0, -1, 1001, HUGE], []),
    "floor": (["0.5", -0.1, 1.1, NAN, INF, True, [0.5], HUGE], []),
    "vector": (["x", 5, [], ["x"], [NAN], {"a": 1}], []),
}
DRAFT = {name: bad for name, bad in WRITE.items() if name not in ("ttl", "dedupe", "similar")} | {
    "key": EDIT["key"],
    "updated_at": (NOT_TIME, []),
    "version": ([*NOT_INT, 0, -1, HUGE], []),
    "kind": ([None, "nonsense", 5, []], []),
    "importance": ([None, "nonsense", 5, []], []),
}


def write(memory: Engine, _: Record, **given: Any) -> None:
    """Write with one parameter wrong."""
    memory.write(**{"scope": DEMO, "text": "good text"} | given)


def put(memory: Engine, _: Record, **given: Any) -> None:
    """Put with one parameter wrong."""
    memory.put(**{"scope": DEMO, "key": "key", "data": "new"} | given)


def edit(memory: Engine, record: Record, **given: Any) -> None:
    """Edit with one parameter wrong."""
    memory.edit(**{"id": record.id} | given)


def move(memory: Engine, record: Record, **given: Any) -> None:
    """Move with one parameter wrong."""
    memory.move(**{"id": record.id, "key": "elsewhere"} | given)


def delete(memory: Engine, record: Record, **given: Any) -> None:
    """Delete with one parameter wrong."""
    memory.delete(**{"id": record.id} | given)


def drop(memory: Engine, _: Record, **given: Any) -> None:
    """Drop with its parameter wrong."""
    memory.drop(**given)


def read(memory: Engine, _: Record, **given: Any) -> None:
    """Read with its parameter wrong."""
    memory.read(**given)


def get(memory: Engine, _: Record, **given: Any) -> None:
    """Get with one parameter wrong."""
    memory.get(**{"scope": DEMO, "key": "key"} | given)


def list_(memory: Engine, _: Record, **given: Any) -> None:
    """List with one parameter wrong."""
    memory.list(**given)


def count(memory: Engine, _: Record, **given: Any) -> None:
    """Count with one parameter wrong."""
    memory.count(**given)


def scopes(memory: Engine, _: Record, **given: Any) -> None:
    """Ask for scopes with the parameter wrong."""
    memory.scopes(under=given["scope"])


def export(memory: Engine, _: Record, **given: Any) -> None:
    """Export with the parameter wrong."""
    memory.export(**given)


def search(memory: Engine, _: Record, **given: Any) -> None:
    """Search with one parameter wrong."""
    memory.search(Query(**{"text": "good"} | given))


def write_many(memory: Engine, _: Record, **given: Any) -> None:
    """Write a good draft, and a draft with one field wrong."""
    good = {"scope": DEMO, "text": "good text"}
    memory.write_many([Draft(**good), Draft(**good | given)])  # type: ignore[arg-type]


VERBS: dict[Any, dict[str, tuple[list[Any], list[Any]]]] = {
    write: WRITE,
    write_many: DRAFT,
    put: PUT,
    edit: {name: bad for name, bad in EDIT.items() if name != "ttl"} | {"ttl": (NOT_TTL, [])},
    move: {"id": EDIT["id"], "scope": (NOT_SCOPE[1:], []), "key": EDIT["key"], "if_version": EDIT["if_version"]},
    delete: {"id": EDIT["id"], "if_version": EDIT["if_version"]},
    drop: {"scope": (NOT_SCOPE, [])},
    read: {"id": EDIT["id"]},
    get: {"scope": (NOT_SCOPE, []), "key": PUT["key"], "kind": WRITE["kind"]},
    list_: LIST,
    count: BOUNDS,
    scopes: {"scope": (NOT_SCOPE, [])},
    export: {"scope": (NOT_SCOPE, [])},
    search: QUERY,
}
NAMED = {"text": {"text", "query"}}  # a query's text is called the query


def cases() -> Iterator[Any]:
    """Every verb with each of its parameters."""
    for verb, fields in VERBS.items():
        for name, (wrong, too_much) in fields.items():
            yield pytest.param(verb, name, wrong, too_much, id=f"{verb.__name__.strip('_')}-{name}")


@pytest.mark.parametrize(("verb", "name", "wrong", "too_much"), list(cases()))
def test_bad_input_is_refused_by_name_and_changes_nothing(
    memory: Engine, verb: Any, name: str, wrong: list[Any], too_much: list[Any]
) -> None:
    record = memory.put(DEMO, "key", text="old text", data={"n": 1}, tags=["a"])
    before = list(memory.export())
    for value in wrong:
        with pytest.raises(Invalid) as caught:
            verb(memory, record, **{name: value})
        assert caught.value.field in NAMED.get(name, {name})
        assert str(caught.value).startswith(f"{caught.value.field}: ")
    for value in too_much:
        with pytest.raises(LimitExceeded) as caught:
            verb(memory, record, **{name: value})
        assert caught.value.field in NAMED.get(name, {name})
        assert f"{caught.value.limit:,}" in str(caught.value)  # type: ignore[attr-defined]
    assert list(memory.export()) == before
    assert memory.check() == []


@pytest.mark.parametrize("drafts", [None, 5, "drafts", b"x", ["x"], [None], {"scope": DEMO}, Draft(scope=DEMO, text="x")])
def test_only_drafts_can_be_written_in_a_batch(memory: Engine, drafts: Any) -> None:
    for verb in (memory.write_many, memory.restore):
        with pytest.raises(Invalid, match="drafts"):
            verb(drafts)
    with pytest.raises(Invalid, match="drafts"):
        memory.write_many([Draft(scope=DEMO, text="good"), "bad"])  # type: ignore[list-item]
    with pytest.raises(Invalid, match="dedupe"):
        memory.write_many([Draft(scope=DEMO, text="good")], dedupe="yes")  # type: ignore[arg-type]
    assert memory.count() == 0


def test_a_batch_of_too_many_is_refused_with_its_limit(memory: Engine) -> None:
    with pytest.raises(LimitExceeded, match="100,000") as caught:
        memory.write_many([Draft(scope=DEMO, text="x")] * 100_001)
    assert caught.value.field == "drafts"
    assert memory.count() == 0


@pytest.mark.parametrize("field", ["id", "version", "updated_at"])
def test_what_is_restored_must_once_have_been_a_record(memory: Engine, field: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    whole: dict[str, Any] = {"scope": DEMO, "text": "x", "id": "1", "version": 1, "updated_at": now, "created_at": now}
    with pytest.raises(Invalid, match="drafts"):
        memory.restore([Draft(**whole), Draft(**whole | {field: None})])
    assert memory.count() == 0


@pytest.mark.parametrize("names", [[""], ["a", ""], ["a\0b"], ["\ud800"], [5], [None], [b"a"], [["a"]], [Scope("a")]])
def test_a_name_that_cannot_be_kept_makes_no_scope(names: list[Any]) -> None:
    with pytest.raises(Invalid, match="scope"):
        Scope(*names)
    with pytest.raises(Invalid, match="scope"):
        _ = DEMO / names[-1]


def test_a_scope_too_deep_or_a_name_too_long_is_refused_with_its_limit() -> None:
    with pytest.raises(LimitExceeded, match="16"):
        Scope(*["x"] * 17)
    with pytest.raises(LimitExceeded, match="16"):
        _ = Scope(*["x"] * 16) / "y"
    with pytest.raises(LimitExceeded, match="256"):
        Scope("x" * 257)


@pytest.mark.parametrize("fields", [{"kind": "fact"}, {"version": 3}, {"created_at": None}, {"nonsense": 1}])
def test_what_an_edit_cannot_change_is_refused_by_name(memory: Engine, fields: dict[str, Any]) -> None:
    record = memory.write(DEMO, text="x")
    (name,) = fields
    with pytest.raises(Invalid, match=name):
        memory.edit(record.id, **fields)
    assert memory.read(record.id) == record


def test_a_move_to_nowhere_is_refused(memory: Engine) -> None:
    record = memory.write(DEMO, text="x")
    with pytest.raises(Invalid, match="scope"):
        memory.move(record.id)
    assert memory.read(record.id) == record


def test_a_ttl_and_a_time_of_expiry_exclude_each_other(memory: Engine) -> None:
    later = datetime(2030, 1, 1, tzinfo=UTC)
    record = memory.write(DEMO, text="x")
    for act in (
        lambda: memory.write(DEMO, text="y", ttl=60, expires_at=later),
        lambda: memory.put(DEMO, "y", ttl=60, expires_at=later),
        lambda: memory.edit(record.id, ttl=60, expires_at=later),
    ):
        with pytest.raises(Invalid, match="ttl"):
            act()
    assert list(memory.export()) == [record]


def test_an_edit_that_would_leave_nothing_to_be_found_by_is_refused(memory: Engine) -> None:
    record = memory.write(DEMO, text="x")
    with pytest.raises(Invalid, match="text"):
        memory.edit(record.id, text=" ")
    assert memory.read(record.id) == record


def test_data_too_deep_for_a_list_of_lists_is_kept_up_to_the_limit(memory: Engine) -> None:
    assert memory.put(DEMO, "key", data=deep(64)).data == deep(64)


def test_a_huge_but_bearable_number_is_kept(memory: Engine) -> None:
    assert memory.put(DEMO, "key", data=[HUGE, -HUGE]).data == [HUGE, -HUGE]


def test_lists_are_taken_where_tuples_are_kept(memory: Engine) -> None:
    draft = Draft(scope=DEMO, text="x", tags=["a", "b"])  # type: ignore[arg-type]
    assert draft.tags == ("a", "b")
    assert memory.write_many([draft])[0].tags == ("a", "b")
    assert Query("x", kinds=[Kind.NOTE]).kinds == (Kind.NOTE,)  # type: ignore[arg-type]
    assert Where("id", "in", ["a"]).value == ("a",)  # type: ignore[arg-type]


def test_the_members_of_an_enumeration_are_taken_as_they_are(memory: Engine) -> None:
    record = memory.write(DEMO, text="x", kind=Kind.FACT, importance=Importance.LOW)
    assert (record.kind, record.importance) == (Kind.FACT, Importance.LOW)
