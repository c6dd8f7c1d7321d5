"""Several changes together are made in order, all or none; what they stand on must still be so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cofio import (
    Change,
    Conflict,
    Delete,
    Draft,
    Drop,
    Edit,
    Engine,
    Extend,
    Invalid,
    Kind,
    NotFound,
    Put,
    Query,
    Record,
    Scope,
    Vacant,
)

DEMO = Scope("demo")


def put(key: str, text: str, if_version: int | None = None) -> Put:
    """A file under a key."""
    return Put(draft=Draft(scope=DEMO, kind=Kind.FILE, key=key, text=text), how="key", if_version=if_version)


def files(memory: Engine) -> dict[str | None, str]:
    """What the keys hold."""
    return {record.key: record.text for record in memory.list(DEMO, kinds=[Kind.FILE])}


def test_changes_are_made_in_order_and_answered_each(memory: Engine) -> None:
    first = memory.put(DEMO, "a", text="one", kind=Kind.FILE)
    doomed = memory.write(Scope("old"), text="forgotten")
    answers = memory.apply(
        [
            put("b", "two", 0),
            Edit(id=first.id, fields={"text": "1"}, if_version=1),
            Edit(id=first.id, fields={"text": "eins"}, if_version=2),
            Drop(scope=Scope("old")),
        ]
    )
    assert [each.text if isinstance(each, Record) else each for each in answers] == ["two", "1", "eins", 1]
    assert files(memory) == {"a": "eins", "b": "two"}
    with pytest.raises(NotFound):
        memory.read(doomed.id)
    assert memory.apply([Delete(id=first.id, if_version=3)]) == [1]
    assert memory.apply([]) == []
    assert memory.check() == []


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (put("a", "again", 0), Conflict),
        (put("a", "again", 7), Conflict),
        (Edit(id="nothing", fields={"text": "x"}), NotFound),
        (Delete(id="nothing"), NotFound),
        (Edit(id="known", fields={"text": "x"}, if_version=9), Conflict),
        (Edit(id="known", fields={"title": "\0"}), Invalid),
        (Vacant(scope=DEMO, kind=Kind.FILE, first="a", past="b"), Conflict),
    ],
)
def test_one_change_that_cannot_be_made_undoes_them_all(memory: Engine, last: Change, error: type[Exception]) -> None:
    memory.put(DEMO, "a", text="one", kind=Kind.FILE)
    memory.write(DEMO, text="known", id="known")
    before = memory.stats()["changes"]
    with pytest.raises(error):
        memory.apply([put("b", "two"), put("c", "three"), last])
    assert files(memory) == {"a": "one"}
    assert memory.stats()["changes"] == before
    assert memory.check() == []


def test_a_range_of_keys_is_vacant_or_the_changes_are_not_made(
    memory: Engine, advance: Callable[[float], None]
) -> None:
    memory.put(DEMO, "/a/b", text="x", kind=Kind.FILE)
    memory.put(DEMO, "/c", text="x", kind=Kind.FILE, ttl=5)

    def vacant(first: str, past: str, scope: Scope = DEMO, kind: Kind = Kind.FILE) -> bool:
        try:
            memory.apply([Vacant(scope=scope, kind=kind, first=first, past=past)])
        except Conflict:
            return False
        return True

    assert not vacant("/a/", "/a0")
    assert not vacant("/a/b", "/a/b\1")
    assert vacant("/a", "/a/b"), "the end does not belong to the range"
    assert vacant("/a/", "/a0", kind=Kind.ITEM)
    assert vacant("/a/", "/a0", scope=DEMO / "under")
    assert not vacant("/c", "/c\1")
    advance(6)
    assert vacant("/c", "/c\1"), "what has expired holds no key"


def test_a_lifetime_counts_from_the_moment_of_the_transaction(memory: Engine, clock: Any) -> None:
    changes = [
        Put(draft=Draft(scope=DEMO, key="a", text="a"), how="key", ttl=timedelta(minutes=1)),
        Put(draft=Draft(scope=DEMO, key="b", text="b"), how="key"),
    ]
    clock.advance(30)  # between naming a change and making it
    first, second = (answer for answer in memory.apply(changes) if isinstance(answer, Record))
    assert first.expires_at == first.created_at + timedelta(minutes=1)
    edit = Edit(id=second.id, fields={"title": "B"}, ttl=timedelta(minutes=2))
    (edited, _) = memory.apply([edit, Extend(id=first.id, ttl=timedelta(minutes=3))])
    assert isinstance(edited, Record)
    assert edited.expires_at == edited.updated_at + timedelta(minutes=2)
    clock.advance(121)
    assert [each.key for each in memory.list(DEMO)] == ["a"]
    clock.advance(60)
    assert memory.list(DEMO) == []


def test_a_revision_is_kept_and_listed_and_never_found(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    told = "The zebra crossing is closed."
    revision, note = remember(
        Draft(scope=DEMO, kind=Kind.REVISION, title="zebra", text=told, parent="p", position=1, tags=("zebra",)),
        Draft(scope=DEMO, text="Another zebra crossing.", parent="p", position=2),
    )
    assert memory.read(revision.id).text == told
    assert [each.id for each in memory.list(kinds=[Kind.REVISION])] == [revision.id]
    for query in (
        Query("zebra crossing", floor=0.0),
        Query("zebra crossing", mode="keyword", floor=0.0),
        Query("zebra crossing", mode="semantic", floor=0.0),
        Query("zebra", kinds=(Kind.REVISION,), floor=0.0),
        Query("zebra", kinds=(Kind.REVISION,), mode="semantic", floor=0.0),
    ):
        found = [hit.record.id for hit in memory.search(query)]
        assert found == ([] if query.kinds else [note.id]), query
    assert memory.edit(revision.id, text="The zebra is open.").version == 2
    memory.settle()
    assert [hit.record.id for hit in memory.search(Query("zebra", floor=0.0))] == [note.id]
    assert memory.stats()["waiting_for_vectors"] == 0
    memory.reindex(vectors=True)
    assert [hit.record.id for hit in memory.search(Query("zebra", floor=0.0))] == [note.id]
    assert memory.check() == []
