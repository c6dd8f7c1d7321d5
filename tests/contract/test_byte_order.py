"""Keys, ids and names are in the order of their bytes in UTF-8: not in that of UTF-16, nor in that of a language."""

from __future__ import annotations

from itertools import product

import pytest

from cofio import Conflict, Draft, Engine, Kind, Query, Record, Scope, Where
from cofio.backends.interface import Backend
from cofio.checkpoints.checkpoints import Checkpoints
from cofio.values.changes import Vacant
from cofio.values.query import Operator

DEMO = Scope("demo")
# UTF-16 has U+10000 before U+E000 and U+FFFD, for its halves begin with D8; a language has é beside e, a beside A, and
# passes over hyphens and spaces at first.
NAMES = (
    "A", "B", "Z", "_", "a", "a b", "a!", "a-b", "a/", "a/b", "a0", "aB", "aa", "ab", "b", "e", "f", "z", "~", "\x7f",
    "\x80", "ß", "ä", "é", "e\u0301", "ü", "ı", "ſ", "Ω", "א", "文", "\ud7ff", "\ue000", "\ufffd", "\uffff",
    "\U00010000", "\U0001f642", "\U0010ffff", "a\uffff", "a\U00010000",
)  # fmt: skip
IN_ORDER = sorted(NAMES, key=lambda name: name.encode())
COMPARED: dict[Operator, str] = {"<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def test_comparisons_of_texts_are_of_their_bytes(memory: Engine) -> None:
    memory.write_many(
        [
            Draft(scope=DEMO, kind=Kind.FILE, text="x", id=f"i{name}", key=name, author=name, title=name)
            for name in reversed(NAMES)
        ]
    )
    for field, bound, (operator, method) in product(("key", "id", "title"), NAMES, COMPARED.items()):
        start = "i" if field == "id" else ""
        found = memory.list(filter=Where(field, operator, start + bound), limit=100)
        expected = {name for name in NAMES if getattr(name.encode(), method)(bound.encode())}
        assert {record.key for record in found} == expected, (field, bound, operator)


def test_ids_come_in_the_order_of_their_bytes(memory: Engine) -> None:
    memory.write_many([Draft(scope=DEMO, text="x", id=name) for name in reversed(NAMES)])
    assert memory.ids("", limit=100) == IN_ORDER
    assert memory.ids("a", limit=100) == [name for name in IN_ORDER if name.startswith("a")]


def test_a_range_of_keys_is_vacant_by_its_bytes(memory: Engine) -> None:
    ends = [*IN_ORDER, "\U0010ffff\U0010ffff"]
    for at, key in enumerate(IN_ORDER):
        memory.drop(DEMO)
        memory.put(DEMO, key, text="x", kind=Kind.FILE)
        for first, past in ((ends[0], key), (ends[at + 1], ends[-1])):
            memory.apply([Vacant(scope=DEMO, kind=Kind.FILE, first=first, past=past)])
        for first, past in ((ends[0], ends[at + 1]), (key, ends[-1])):
            with pytest.raises(Conflict):
                memory.apply([Vacant(scope=DEMO, kind=Kind.FILE, first=first, past=past)])


def test_a_scope_holds_its_own_names_and_none_that_only_begin_so(memory: Engine) -> None:
    records = memory.write_many([Draft(scope=DEMO / name / "inner", text="walrus", author=name) for name in NAMES])
    memory.settle()
    for record in records:
        scope = DEMO / record.author
        assert memory.list(scope, limit=100) == [record]
        assert [hit.record for hit in memory.search(Query("walrus", scope=scope, mode="keyword"))] == [record]
        assert memory.scopes(scope) == {record.scope: 1}
    assert {record.author for record in records if _dropped(memory, record)} == set(NAMES)
    assert memory.count() == 0


def _dropped(memory: Engine, record: Record) -> bool:
    return memory.drop(DEMO / record.author) == 1


def test_the_highest_checkpoint_is_the_highest_by_its_bytes(backend: Backend) -> None:
    checkpoints = Checkpoints(backend)
    for name in sorted(NAMES, key=lambda name: name.encode("utf-16-be")):
        checkpoints.save("langgraph", "t", name, {"at": name})
        highest = checkpoints.load("langgraph", "t", by_id=True)
        assert highest is not None
        saved = [each.id for each in checkpoints.list("langgraph", "t", by_id=True, limit=None)]
        assert saved == sorted(saved, key=str.encode, reverse=True)
        assert highest.id == saved[0]
    for before in NAMES:
        listed = [each.id for each in checkpoints.list("langgraph", "t", by_id=True, before=before, limit=None)]
        assert listed == [name for name in reversed(IN_ORDER) if name.encode() < before.encode()]
