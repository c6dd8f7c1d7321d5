"""What has expired is gone from every read at once, and no clock brings it back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from cofio import Draft, Engine, Kind, NotFound, Query, Record, Scope, Where
from cofio.backends.interface import Backend
from cofio.backends.upkeep_interface import Tidy
from cofio.values.query import Mode

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
DEMO = Scope("demo")
DAY = 86_400


def test_a_record_lasts_as_long_as_its_ttl(
    memory: Engine, advance: Callable[[float], None], clock: Callable[[], datetime]
) -> None:
    record = memory.write(DEMO, text="short lived", ttl=60)
    assert record.expires_at == clock() + timedelta(seconds=60)
    advance(59.999)
    assert memory.read(record.id) == record
    advance(0.001)
    with pytest.raises(NotFound):
        memory.read(record.id)


def test_a_ttl_is_seconds_or_a_timedelta(memory: Engine, clock: Callable[[], datetime]) -> None:
    soon = clock() + timedelta(seconds=30)
    for ttl in (30, 30.0, timedelta(seconds=30)):
        record = memory.write(DEMO, text="x", ttl=ttl)
        assert record.expires_at == memory.put(DEMO, "k", ttl=ttl).expires_at == soon
        assert memory.edit(record.id, expires_at=None).expires_at is None
        assert memory.edit(record.id, ttl=ttl).expires_at == soon
        assert memory.edit(record.id, ttl=None).expires_at is None


def test_every_read_misses_what_has_expired(
    memory: Engine,
    remember: Callable[..., list[Record]],
    advance: Callable[[float], None],
    clock: Callable[[], datetime],
) -> None:
    soon = clock() + timedelta(seconds=60)
    doomed, kept, other = remember(
        Draft(scope=DEMO / "a", text="mortal remains", key="key", expires_at=soon, parent="p", position=1),
        Draft(scope=DEMO / "b", text="mortal soul", parent="p", position=2),
        Draft(scope=DEMO / "a", text="mortal neighbour", parent="p", position=2),
    )
    for mode in MODES:
        hits = memory.search(Query("mortal remains", mode=mode, floor=0.0))
        assert hits[0].record == doomed
    advance(60)
    with pytest.raises(NotFound):
        memory.read(doomed.id)
    assert memory.get(doomed.scope, "key", kind=Kind.NOTE) is None
    assert memory.list() == [other, kept]
    assert memory.list(filter=Where("key", "=", "key")) == []
    assert list(memory.export()) == [kept, other]
    assert memory.count() == 2
    assert memory.scopes() == {DEMO / "a": 1, DEMO / "b": 1}
    for mode in MODES:
        hits = memory.search(Query("mortal remains", mode=mode, floor=0.0))
        assert {hit.record for hit in hits} == {kept, other}
        assert hits.cut == 0


def test_what_has_expired_cannot_be_changed(memory: Engine, advance: Callable[[float], None]) -> None:
    record = memory.write(DEMO, text="x", ttl=1)
    advance(1)
    for act in (
        lambda: memory.edit(record.id, ttl=100),
        lambda: memory.move(record.id, key="k"),
        lambda: memory.delete(record.id),
    ):
        with pytest.raises(NotFound):
            act()


def test_the_key_and_the_id_of_what_has_expired_are_free(memory: Engine, advance: Callable[[float], None]) -> None:
    old = memory.put(DEMO, "key", data="old", ttl=1)
    for key in ("moved to", "written to"):
        memory.put(DEMO, key, data="old", ttl=1)
    memory.write(DEMO, text="old words", id="one", ttl=1)
    mover = memory.put(DEMO, "mover", data="mover")
    advance(1)
    new = memory.put(DEMO, "key", data="new", if_version=0)
    assert new.version == 1
    assert new.id != old.id
    assert memory.get(DEMO, "key") == new
    assert memory.move(mover.id, key="moved to").key == "moved to"
    memory.write_many([Draft(scope=DEMO, kind=Kind.ITEM, key="written to", data="new")])
    fresh = memory.write(DEMO, text="fresh words", id="one")
    assert (fresh, memory.read("one").version) == (memory.read("one"), 1)
    assert [hit.record for hit in memory.search("words")] == [fresh]
    assert memory.check() == []
    memory.write(DEMO, text="x", ttl=1)
    advance(1)
    assert memory.count() == 4
    memory.drop(DEMO)
    assert memory.count() == 0
    assert memory.check() == []


def test_expired_text_is_no_duplicate_and_nothing_is_similar_to_it(
    memory: Engine, advance: Callable[[float], None]
) -> None:
    old = memory.write(DEMO, text="exactly this text of several words", ttl=1)
    assert memory.write(DEMO, text=old.text, dedupe=True).existed
    advance(1)
    new = memory.write(DEMO, text=old.text, dedupe=True, similar=True)
    assert not new.existed
    assert new.id != old.id
    assert new.similar == ()


def test_a_clock_that_is_set_back_does_not_bring_back_what_has_expired(
    memory: Engine, reopen: Callable[..., Engine], advance: Callable[[float], None]
) -> None:
    doomed = memory.put(DEMO, "key", text="mortal", ttl=60)
    memory.settle()
    advance(240)
    memory.write(DEMO, text="a sign that this time has been")
    advance(-240)
    for engine in (memory, reopen()):
        with pytest.raises(NotFound):
            engine.read(doomed.id)
        assert engine.get(DEMO, "key") is None
        assert engine.count() == len(engine.list()) == len(list(engine.export())) == 1
        assert len(engine.search(Query("mortal", mode="keyword"))) == 0
        with pytest.raises(NotFound):
            engine.edit(doomed.id, ttl=None)


def test_a_clock_that_is_set_back_neither_loses_nor_reorders_what_is_written_then(
    memory: Engine, advance: Callable[[float], None]
) -> None:
    first = memory.write(DEMO, text="first")
    advance(-240)
    second = memory.write(DEMO, text="second")
    assert second.updated_at >= first.updated_at
    advance(-7 * DAY)
    third = memory.write(DEMO, text="third", ttl=60)
    assert memory.list() == [third, second, first]
    assert memory.put(DEMO, "key", data=1, ttl=60) == memory.get(DEMO, "key")
    assert memory.edit(third.id, ttl=30) == memory.read(third.id)


@pytest.mark.parametrize("ahead", [3600, 400 * DAY])
def test_a_record_does_not_expire_early_because_a_clock_once_jumped_ahead(
    memory: Engine, reopen: Callable[..., Engine], advance: Callable[[float], None], clock: Callable[[], datetime],
    backend: Backend, ahead: float,
) -> None:  # fmt: skip
    short = memory.put(DEMO, "short", text="half an hour", ttl=1800)
    memory.checkpoints.save("library", "t", "c", {"kept": 1}, ttl=1800)
    advance(ahead)
    memory.write(DEMO, text="written while the clock was wrong")
    memory.checkpoints.save("library", "u", "c", {}, ttl=60)
    backend.upkeep(Tidy())
    memory.settle()
    assert memory.get(DEMO, "short") is None
    advance(-ahead)
    for engine in (memory, reopen()):
        assert engine.get(DEMO, "short") == short
        assert engine.checkpoints.load("library", "t") is not None
        assert engine.check() == []
    new = memory.write(DEMO, text="written now", ttl=60)
    assert (new.created_at, new.expires_at) == (clock(), clock() + timedelta(seconds=60))
    assert memory.purge() == 0
    advance(1800)
    assert memory.get(DEMO, "short") is None
    assert memory.checkpoints.load("library", "t") is None


@pytest.mark.parametrize("correct", ["a write", "a checkpoint", "background work"])
def test_a_wrong_time_that_was_kept_does_not_count_when_the_clock_comes_near_it(
    memory: Engine, advance: Callable[[float], None], clock: Callable[[], datetime], backend: Backend, correct: str
) -> None:
    advance(3600)
    memory.write(DEMO, text="written while the clock was wrong")
    memory.settle()
    advance(-3600)
    if correct == "a write":
        memory.write(DEMO, text="written now")
    elif correct == "a checkpoint":
        memory.checkpoints.save("library", "t", "c", {}, ttl=DAY)
    else:
        backend.upkeep(Tidy())
    advance(3500)
    record = memory.write(DEMO, text="written later")
    assert record.updated_at == clock()
    assert memory.stats()["updated"] == clock().isoformat()


def test_a_purge_removes_what_has_expired_and_leaves_a_sound_store(
    memory: Engine,
    remember: Callable[..., list[Record]],
    advance: Callable[[float], None],
    clock: Callable[[], datetime],
) -> None:
    soon = clock() + timedelta(seconds=60)
    _, kept, _ = remember(
        Draft(scope=DEMO, text="mortal one", key="k", expires_at=soon, tags=("t",)),
        Draft(scope=DEMO, text="lasting"),
        Draft(scope=DEMO, text="mortal two", expires_at=soon),
    )
    assert memory.purge() == 0
    advance(60)
    assert memory.purge() == 2
    assert memory.purge() == 0
    assert memory.check() == []
    assert memory.stats()["records"] == 1
    later = [memory.write(DEMO, text="after the purge"), memory.put(DEMO, "k", data=1)]
    memory.delete(later[0].id)
    memory.settle()
    assert list(memory.export()) == [kept, later[1]]
    assert memory.check() == []


def test_a_drop_counts_for_the_time_of_the_store_although_it_finds_nothing(
    memory: Engine, advance: Callable[[float], None], clock: Callable[[], datetime]
) -> None:
    memory.write(DEMO, text="first")
    advance(60)
    dropped_at = clock()
    assert memory.drop(Scope("empty")) == 0
    advance(-30)
    assert memory.write(DEMO, text="second").created_at == dropped_at
