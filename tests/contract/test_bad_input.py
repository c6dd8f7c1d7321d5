"""What a verb refuses changes nothing; tests/core/test_bad_values.py has all that values refuse by themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cofio import Draft, Engine, Invalid, LimitExceeded, Put, Query, Scope

DEMO = Scope("demo")
LATER = datetime(2030, 1, 1, tzinfo=UTC)
WHOLE: dict[str, Any] = {"scope": DEMO, "text": "x", "id": "1", "version": 1, "updated_at": LATER, "created_at": LATER}
NOT_TTL: list[Any] = ["60", True, [60], 0, -1.0, float("nan"), float("inf"), 10**400, timedelta(0), timedelta.max]
NOT_VECTOR: list[Any] = [
    [], [0.0] * 384, [float("nan")] * 384, [*[1.0] * 383, float("inf")], [1.0] * 383, [[1.0] * 384], ["x"] * 384,
    [None] * 384, "x", b"x", 5, {"a": 1.0}, [10**400] * 384,
]  # fmt: skip
# What is refused: the name that is said, and the verb with each bad value that it takes.
REFUSED: list[tuple[str, Callable[[Engine, Any], object], list[Any]]] = [
    *(
        (name, lambda engine, bad, name=name: engine.write(DEMO, text="x", **{name: bad}), [None, "yes", 2])
        for name in ("dedupe", "similar", "related")
    ),
    ("kind", lambda engine, bad: engine.write(DEMO, text="x", kind=bad), [None, "nonsense", "", 5, [], "NOTE", b"x"]),
    ("importance", lambda engine, bad: engine.put(DEMO, "k", importance=bad), [None, "nonsense", 5, "HIGH"]),
    ("tags", lambda engine, bad: engine.edit("known", tags=bad), [None, "auth", 5, [5], [""], ["x" * 101]]),
    ("ttl", lambda engine, bad: engine.write(DEMO, text="x", ttl=bad), NOT_TTL),
    ("ttl", lambda engine, bad: engine.put(DEMO, "y", expires_at=bad, ttl=60), [LATER]),
    ("ttl", lambda engine, bad: engine.edit("known", expires_at=bad, ttl=60), [LATER]),
    ("ttl", lambda engine, bad: engine.expiry(bad), [None]),
    ("text", lambda engine, bad: engine.edit("known", text=bad), [" ", 5, "a\0b", "x" * 1_048_577]),
    ("data", lambda engine, bad: engine.edit("known", data=bad), [{1: 2}, float("nan"), object()]),
    ("parent", lambda engine, bad: engine.edit("known", parent=bad), ["", 5]),
    ("version", lambda engine, bad: engine.edit("known", version=bad), [3]),
    ("scope", lambda engine, bad: engine.move("known", scope=bad), ["demo", ("demo",), None]),
    ("key", lambda engine, bad: engine.move("known", key=bad), [5, "x" * 1025]),
    ("key", lambda engine, bad: engine.get(DEMO, bad), [None, 5, "\0"]),
    ("scope", lambda engine, bad: engine.get(bad, "k"), [None, "demo"]),
    ("scope", lambda engine, bad: engine.get_many([(bad, "b")]), ["a"]),
    ("id", lambda engine, bad: engine.read(bad), [None, 5, "x" * 129]),
    ("scope", lambda engine, bad: engine.scopes(bad), ["demo"]),
    ("scope", lambda engine, bad: engine.export(bad), ["demo"]),
    ("order", lambda engine, bad: engine.headings(order=bad), ["sideways"]),
    ("limit", lambda engine, bad: engine.ids("a", limit=bad), [0, -1, 10_000_000]),
    ("limit", lambda engine, bad: engine.nearest([1.0], limit=bad), [0, 10_001]),
    ("vector", lambda engine, bad: engine.nearest(bad), ["text", [], [0.0], [float("nan")], [[1.0]], None, 3]),
    ("kinds", lambda engine, bad: engine.nearest([1.0], kinds=bad), ["item"]),
    *(
        (name, lambda engine, bad, verb=verb, name=name: getattr(engine, verb)(**{name: bad}), [bad])
        for verb in ("list", "count", "each")
        for name, bad in (("scope", "demo"), ("kinds", "note"), ("filter", "x"), ("exact", 1))
    ),
    ("query", lambda engine, bad: engine.search(bad), [None, 5]),
    ("vector", lambda engine, bad: engine.search(Query("x", mode="semantic", vector=bad)), NOT_VECTOR),
    ("text", lambda engine, bad: engine.same(DEMO, bad), ["x" * 1_048_577, "\0", None]),
    ("drafts", lambda engine, bad: engine.write_many(bad), [None, 5, "drafts", ["x"], [None], {"scope": DEMO}]),
    ("drafts", lambda engine, bad: engine.write_many([Draft(scope=DEMO, text="good"), bad]), ["bad", None]),
    ("drafts", lambda engine, bad: engine.write_many([Draft(scope=DEMO, text="x")] * bad), [100_001]),
    ("drafts", lambda engine, bad: engine.restore(bad), [None, 5, ["x"], Draft(scope=DEMO, text="x")]),
    *(
        ("drafts", lambda engine, bad: engine.restore([Draft(**WHOLE), Draft(**WHOLE | {bad: None})]), [field])
        for field in ("id", "version", "updated_at")
    ),
    ("changes", lambda engine, bad: engine.apply(bad), [None, 5, [1], {"a": 1}, [Put(draft=Draft(**WHOLE)), "x"]]),
    (
        "vectors",
        lambda engine, bad: engine.restore([Draft(**WHOLE), Draft(**WHOLE | {"id": "2"})], vectors=bad),
        [[[1.0]], "x", 5, {"other": [1.0] * 384}, *({"1": [1.0] * 384, "2": each} for each in NOT_VECTOR)],
    ),
]


def refuse(verb: Callable[[Engine, Any], object], memory: Engine, value: Any) -> str:
    """The name of what a verb refuses; nothing if it does not."""
    try:
        verb(memory, value)
    except Invalid as error:
        return error.field
    return ""


def test_what_a_verb_refuses_is_named_and_changes_nothing(memory: Engine) -> None:
    memory.write_many([Draft(scope=DEMO, id="known", text="old", data={"n": 1})])
    memory.settle()
    before, identity = list(memory.export()), memory.identity()
    for name, verb, values in REFUSED:
        for value in values:
            refused = refuse(verb, memory, value)
            assert refused == name, repr(value)[:80]
    assert list(memory.export()) == before
    assert memory.identity() == identity
    assert memory.stats()["waiting_for_vectors"] == 0
    assert memory.check() == []


def test_limits_are_told_with_the_input_that_exceeds_them(memory: Engine) -> None:
    with pytest.raises(LimitExceeded, match="100,000"):
        memory.write_many([Draft(scope=DEMO, text="x")] * 100_001)
    assert memory.count() == 0


def test_an_edit_that_would_leave_nothing_to_be_found_by_is_refused(memory: Engine) -> None:
    titled = memory.write(DEMO, title="T")
    with pytest.raises(Invalid, match="text"):
        memory.edit(titled.id, title="")
    keyed = memory.put(DEMO, "key", data=1)
    with pytest.raises(Invalid, match="text"):
        memory.edit(keyed.id, key=None)
    assert list(memory.export()) == [titled, keyed]


def test_data_is_kept_up_to_its_limits(memory: Engine) -> None:
    deep: list[Any] = []
    for _ in range(64):
        deep = [deep]
    allowed: list[Any] = [deep, [10**400, -(10**400)]]
    for data in allowed:
        memory.put(DEMO, "key", data=data)
        found = memory.get(DEMO, "key")
        assert found is not None
        assert found.data == data
