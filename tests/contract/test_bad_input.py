"""Bad input is refused with the name of what is wrong and its limit, and changes nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cofio import Draft, Engine, Importance, Invalid, Kind, LimitExceeded, Query, Scope, Where

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
    "related": (NOT_BOOL, []),
}
PUT = FIELDS | {
    "scope": (NOT_SCOPE, []),
    "key": ([None, *NOT_TEXT, *BROKEN_TEXT], ["x" * 1025]),
    "kind": WRITE["kind"],
    "if_version": ([*NOT_INT, -1, 2**53 + 1, HUGE], []),
}
EDIT = FIELDS | {
    "scope": (NOT_SCOPE, []),
    "key": ([*NOT_TEXT, *BROKEN_TEXT], ["x" * 1025]),
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
DRAFT = {name: bad for name, bad in WRITE.items() if name not in ("ttl", "dedupe", "similar", "related")} | {
    "key": EDIT["key"],
    "updated_at": (NOT_TIME, []),
    "version": ([*NOT_INT, 0, -1, HUGE], []),
    "kind": ([None, "nonsense", 5, []], []),
    "importance": ([None, "nonsense", 5, []], []),
}


VERBS: dict[str, tuple[dict[str, Any], dict[str, tuple[list[Any], list[Any]]]]] = {
    "write": ({"scope": DEMO, "text": "good text"}, WRITE),
    "write_many": ({"scope": DEMO, "text": "good text"}, DRAFT),
    "put": ({"scope": DEMO, "key": "key", "data": "new"}, PUT),
    "edit": ({"id": "known"}, EDIT),
    "move": ({"id": "known", "key": "other"}, {name: EDIT[name] for name in ("id", "key", "if_version")}),
    "delete": ({"id": "known"}, {name: EDIT[name] for name in ("id", "if_version")}),
    "drop": ({}, {"scope": (NOT_SCOPE, [])}),
    "read": ({}, {"id": EDIT["id"]}),
    "get": ({"scope": DEMO, "key": "key"}, {name: PUT[name] for name in ("scope", "key", "kind")}),
    "list": ({}, LIST),
    "count": ({}, BOUNDS),
    "scopes": ({}, {"under": (NOT_SCOPE, [])}),
    "export": ({}, {"scope": (NOT_SCOPE, [])}),
    "search": ({"text": "good"}, QUERY),
}  # fmt: skip
CASES = [(verb, name) for verb, (_, fields) in VERBS.items() for name in fields]


def call(memory: Any, verb: str, given: dict[str, Any]) -> None:
    """Call a verb; the drafts and the query that some take are made of the same arguments."""
    if verb == "write_many":
        memory.write_many([Draft(scope=DEMO, text="a good draft"), Draft(**given)])
    elif verb == "search":
        memory.search(Query(**given))
    else:
        getattr(memory, verb)(**given)


@pytest.mark.parametrize(("verb", "name"), CASES)
def test_bad_input_is_refused_by_name_and_changes_nothing(memory: Engine, verb: str, name: str) -> None:
    good, fields = VERBS[verb]
    wrong, too_much = fields[name]
    called = {("search", "text"): "query", ("scopes", "under"): "scope"}.get((verb, name), name)
    memory.write_many(
        [Draft(scope=DEMO, kind=Kind.ITEM, key="key", id="known", text="old", data={"n": 1}, tags=("a",))]
    )
    before = list(memory.export())
    for value in wrong:
        with pytest.raises(Invalid) as caught:
            call(memory, verb, good | {name: value})
        assert caught.value.field == called
        assert str(caught.value).startswith(f"{called}: ")
    for value in too_much:
        with pytest.raises(LimitExceeded) as exceeded:
            call(memory, verb, good | {name: value})
        assert exceeded.value.field == called
        assert f"{exceeded.value.limit:,}" in str(exceeded.value)
    assert list(memory.export()) == before
    assert memory.check() == []


@pytest.mark.parametrize("scope", NOT_SCOPE[1:])
def test_a_move_to_what_is_no_scope_is_refused(memory: Engine, scope: Any) -> None:
    record = memory.write(DEMO, text="x")
    with pytest.raises(Invalid, match="scope"):
        memory.move(record.id, scope=scope)
    assert memory.read(record.id) == record


@pytest.mark.parametrize(
    "drafts", [None, 5, "drafts", b"x", ["x"], [None], {"scope": DEMO}, Draft(scope=DEMO, text="x")]
)
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
    with pytest.raises(Invalid, match="ttl"):
        memory.write(DEMO, text="y", ttl=60, expires_at=later)
    with pytest.raises(Invalid, match="ttl"):
        memory.put(DEMO, "y", ttl=60, expires_at=later)
    with pytest.raises(Invalid, match="ttl"):
        memory.edit(record.id, ttl=60, expires_at=later)
    assert list(memory.export()) == [record]


def test_an_edit_that_would_leave_nothing_to_be_found_by_is_refused(memory: Engine) -> None:
    record = memory.write(DEMO, text="x")
    with pytest.raises(Invalid, match="text"):
        memory.edit(record.id, text=" ")
    assert memory.read(record.id) == record
    titled = memory.edit(record.id, title="T", text="")
    with pytest.raises(Invalid, match="text"):
        memory.edit(record.id, title="")
    assert memory.read(record.id) == titled


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
