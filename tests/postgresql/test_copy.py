"""A whole memory between a folder and PostgreSQL, either way: nothing is lost, and what was cut off goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio import Draft, Engine, Invalid, Query, Record, Scope, Settings, Unavailable
from cofio.backends import store_copy
from cofio.backends.checkpoint_interface import PendingWrite
from cofio.backends.record_interface import Transaction
from cofio.backends.store_copy import Inventory, StoredRecord, StorePart
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.opening import copy_store

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


def open_memory(address: StoreAddress) -> Engine:
    return Engine.open(address, settings=QUIET, embedder=HashedEmbedder())


def fill(address: StoreAddress, records: int = 450) -> None:
    """Write some of everything."""
    with open_memory(address) as engine:
        engine.write_many([
            Draft(scope=HERE / str(number % 3), text=f"walrus number {number}", tags=("Sea", f"t{number % 5}"))
            for number in range(records)
        ])  # fmt: skip
        engine.put(HERE, "state", data={"n": [1, 2.5, None, "ü"]}, given={"part": [1.0, 2.0, 3.0]})
        engine.put(HERE, "state", data={"n": 2}, given={"part": [3.0, 2.0, 1.0]})
        engine.put(HERE, "x" * 1000 + "😀", text="a long key", ttl=3600)
        engine.write(HERE, text="gone soon", ttl=0.000001)
        for turn in range(12):
            engine.checkpoints.save("library", "t", f"c{turn}", {"messages": [f"turn {each}" for each in range(turn)]})
        engine.checkpoints.write("library", "t", "c11", [(PendingWrite("task", 0, "p", "ch", "json", b"{}"), False)])
        engine.settle()


def assert_same(one: StoreAddress, other: StoreAddress) -> None:
    with open_memory(one) as a, open_memory(other) as b:
        assert list(a.export()) == list(b.export())
        assert [record.given for record in a.export()] == [record.given for record in b.export()]
        assert a.identity() == b.identity()
        a.purge()  # what has expired was not copied
        assert [a.check(), b.check()] == [[], []]
        for mode in ("keyword", "semantic", "hybrid"):
            query = Query("walrus number 17", mode=mode, limit=10)
            assert {hit.record.id for hit in a.search(query)} == {hit.record.id for hit in b.search(query)}
        listed = a.checkpoints.list("library", "t", limit=None)
        assert [row.id for row in listed] == [row.id for row in b.checkpoints.list("library", "t", limit=None)]
        for row in listed:
            found = [each.checkpoints.load("library", "t", row.id, pending=True) for each in (a, b)]
            assert found[0] is not None
            assert found[1] is not None
            assert (found[0].state, found[0].pending) == (found[1].state, found[1].pending)
        assert a.stats().vectors == b.stats().vectors == {"hashed-384": 452}


def test_a_memory_comes_back_from_postgresql_as_it_went_there(tmp_path: Path, store: StoreAddress) -> None:
    first, back = StoreAddress(folder=tmp_path / "first"), StoreAddress(folder=tmp_path / "back")
    fill(first)
    copied = copy_store(first, store)
    assert (copied.records, copied.checkpoints, copied.pending) == (452, 12, 1)
    assert_same(first, store)
    assert copy_store(store, back).is_copy_of(copied)
    assert_same(store, back)


def test_a_copy_that_was_cut_off_goes_on(tmp_path: Path, store: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    source = StoreAddress(folder=tmp_path / "first")
    fill(source)
    store_parts, done = store_copy._store, []

    def fail(transaction: Transaction, parts: tuple[StorePart, ...], rows: dict[int, int]) -> None:
        store_parts(transaction, parts, rows)
        done.append(parts)
        if len(done) == 2:
            raise Unavailable("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(store_copy, "_store", fail)
        with pytest.raises(Unavailable, match="cut off"):
            copy_store(source, store)
    copy_store(source, store)
    assert_same(source, store)
    assert copy_store(source, store).records == 452  # once more changes nothing


def test_another_memory_is_not_written_into(tmp_path: Path, store: StoreAddress) -> None:
    fill(StoreAddress(folder=tmp_path / "first"), 3)
    with open_memory(store) as engine:
        engine.write(HERE, text="something else")
    with pytest.raises(Invalid, match="holds another memory"):
        copy_store(StoreAddress(folder=tmp_path / "first"), store)
    with pytest.raises(Unavailable, match="there is no memory"):
        copy_store(StoreAddress(folder=tmp_path / "none"), store)
    assert not (tmp_path / "none").exists()


def test_the_command_says_what_was_copied(
    tmp_path: Path, store: StoreAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(StoreAddress(folder=tmp_path / "first"), 3)
    assert main(["copy", str(tmp_path / "first"), store.spell()]) == 0
    assert "copied 5 records, 5 vectors, 12 checkpoints to postgresql://" in capsys.readouterr().out
    with open_memory(store) as engine:
        assert engine.count() == 5


def test_what_expires_while_a_copy_is_made_is_not_missed_and_nothing_else_is(tmp_path: Path) -> None:
    with open_memory(StoreAddress(folder=tmp_path / "first")) as engine:
        lasting, mortal = engine.write(HERE, text="lasting"), engine.write(HERE, text="mortal", ttl=60)
        changed = engine.edit(engine.write(HERE, text="mortal too", ttl=60).id, text="changed")
    whole, later = take(lasting, mortal), take(lasting)
    assert later.is_copy_of(whole)
    assert not whole.is_copy_of(later)
    assert not take(mortal).is_copy_of(whole)
    assert not take(lasting, changed).is_copy_of(whole)


def take(*records: Record) -> Inventory:
    inventory = Inventory()
    for record in records:
        inventory.add(StoredRecord(record, {}))
    return inventory
