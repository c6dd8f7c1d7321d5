"""A whole memory between folders and PostgreSQL, either way: nothing is lost, and what was cut off goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cofio import Draft, Engine, Invalid, Kind, Query, Scope, Settings, Unavailable
from cofio.backends import store_copy
from cofio.backends.checkpoint_interface import PendingWrite
from cofio.backends.postgres.store_loader import PostgresLoader
from cofio.backends.sqlite.store_loader import SqliteLoader
from cofio.backends.store_copy import StorePart
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.opening import copy_store
from cofio.files import Tree
from cofio.values.changes import Extend

from .. import postgres

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")
RECORDS = 460


@pytest.fixture
def folder(tmp_path: Path) -> StoreAddress:
    """The address of a folder that does not exist yet."""
    return StoreAddress(folder=tmp_path / "folder")


@pytest.fixture(params=["folder", "postgresql"])
def target(request: pytest.FixtureRequest, store: StoreAddress, tmp_path: Path) -> StoreAddress:
    """The address of a target of either kind."""
    return store if request.param == "postgresql" else StoreAddress(folder=tmp_path / "target")


def open_memory(address: StoreAddress) -> Engine:
    return Engine.open(address, settings=QUIET, embedder=HashedEmbedder())


def fill(address: StoreAddress, records: int = RECORDS) -> None:
    """Write some of everything, so that there are this many records and twelve checkpoints."""
    with open_memory(address) as engine:
        made = engine.write_many([
            Draft(scope=HERE / str(number % 3), text=f"walrus number {number}", tags=("Sea", f"t{number % 5}"))
            for number in range(records - 5)
        ])  # fmt: skip
        engine.edit(made[0].id, text="walrus, edited")  # comes first by its making, and late by its change
        engine.edit(made[1].id, tags=["Only tags"])  # which leaves its vector's text as it is but for the tags
        engine.put(HERE, "state", data={"n": [1, 2.5, None, "ü"]}, given={"part": [1.0, 2.0, 3.0]})
        engine.put(HERE, "state", data={"n": 2}, given={"part": [3.0, 2.0, 1.0], "other": [0.5]})
        engine.put(HERE, "x" * 1000 + "😀", text="a long key", ttl=3600)
        engine.write(HERE, kind=Kind.LEDGER, text="a ledger")
        engine.write(HERE, text="gone soon", ttl=0.000001)
        files = Tree(engine, HERE / "files")
        engine.change(lambda: files.plan_creation("/memories/a.md", "first"), busy="busy")
        file = files.get_file("/memories/a.md")
        assert file is not None
        engine.change(lambda: files.plan_edit(file, "second"), busy="busy")
        engine.delete(engine.write(HERE, text="deleted again").id)
        for turn in range(12):
            engine.checkpoints.save("library", "t", f"c{turn}", {"messages": [f"turn {each}" for each in range(turn)]})
        engine.checkpoints.write("library", "t", "c11", [(PendingWrite("task", 0, "p", "ch", "json", b"{}"), False)])
        engine.settle()


def describe(address: StoreAddress) -> dict[str, Any]:
    """All that a memory says of itself."""
    with open_memory(address) as engine:
        engine.purge()  # what has expired was not copied
        threads = engine.checkpoints.list("library", "t", limit=None)
        loaded = [engine.checkpoints.load("library", "t", row.id, pending=True) for row in threads]
        stats = engine.stats()
        return {
            "records": [(record, record.given) for record in engine.export()],
            "by making": [record.id for record in engine.list(HERE, order="written", limit=1000)],
            "states": [(each, each.state, each.pending) for each in loaded if each is not None],
            "numbers": (stats.records, stats.words, stats.expiring, stats.vectors),
            "store": engine.identity().store,
            "check": engine.check(),
        } | {
            mode: engine.search(Query("walrus number 7", mode=mode))[0].record.id  # others are as near as each other
            for mode in ("keyword", "semantic", "hybrid")
        }


def test_a_memory_comes_back_from_postgresql_as_it_went_there(
    folder: StoreAddress, store: StoreAddress, tmp_path: Path
) -> None:
    fill(folder)
    copied = copy_store(folder, store)
    assert (copied.records, copied.checkpoints, copied.pending) == (RECORDS, 12, 1)
    with open_memory(folder) as one, open_memory(store) as other:
        assert one.stats().updated == other.stats().updated
        assert one.identity() == other.identity()
    before = describe(folder)
    assert before["check"] == []
    assert describe(store) == before
    second, back, last = (
        postgres.make_address(tmp_path / "second"),
        *(StoreAddress(folder=tmp_path / name) for name in ("back", "last")),
    )
    try:
        for source, target in ((store, second), (second, back), (back, last)):  # also between two of a kind
            assert copy_store(source, target).find_difference(copied) == ""
        assert describe(last) == before
    finally:
        postgres.remove(second)
    with open_memory(last) as engine:  # which goes on
        assert engine.write(HERE, text="new").id in {record.id for record in engine.export()}
        engine.checkpoints.save("library", "t", "c12", {"messages": ["new"]})
    assert len(describe(last)["states"]) == 13


def cut_off(
    monkeypatch: pytest.MonkeyPatch, target: StoreAddress, source: StoreAddress, at: int, size: int = 20
) -> None:
    """Begin a copy, and end it in the transaction with this number."""
    loader: Any = SqliteLoader if target.folder else PostgresLoader
    load, done = loader.load, list[int]()

    def fail(self: SqliteLoader | PostgresLoader, parts: Sequence[StorePart], obsolete: Sequence[StorePart]) -> None:
        done.append(len(parts))
        if len(done) == at:
            raise Unavailable("cut off")
        load(self, parts, obsolete)

    with monkeypatch.context() as patch:
        patch.setattr(loader, "load", fail)
        patch.setattr(store_copy, "MOST_PARTS", size)
        with pytest.raises(Unavailable, match="cut off"):
            copy_store(source, target)


def test_a_copy_that_was_cut_off_follows_what_became_of_its_source(
    folder: StoreAddress, target: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, 100)
    cut_off(monkeypatch, target, folder, at=4)
    with pytest.raises(Unavailable, match="a copy that is being made, or was not finished"):
        open_memory(target)
    with open_memory(folder) as engine:
        some = engine.list(HERE, order="written", newest=False, limit=20)
        engine.delete(some[0].id)
        engine.edit(some[1].id, text="another text")
        engine.put(HERE, "state", data={"n": 3})
        engine.change(lambda: [Extend(id=some[2].id, ttl=timedelta(hours=1))])
        engine.write(HERE, text="one more")
    cut_off(monkeypatch, target, folder, at=2)
    with open_memory(folder) as engine:
        engine.checkpoints.delete("library", "t", "c3")  # those after it are changes of it
        engine.checkpoints.save("library", "t", "c12", {"messages": ["new"]})
        engine.settle()
    cut_off(monkeypatch, target, folder, at=2)
    copy_store(folder, target)
    assert describe(target) == describe(folder)


KILLED = """
import os, sys
from cofio.backends import store_copy
from cofio.backends.postgres.store_loader import PostgresLoader
from cofio.backends.sqlite.store_loader import SqliteLoader
from cofio.doors.cli import main

store_copy.MOST_PARTS = 40
for loader in (PostgresLoader, SqliteLoader):
    def load(self, parts, obsolete, before=loader.load):
        before(self, parts, obsolete)
        print("stored", flush=True)
    loader.load = load
main(["copy", sys.argv[1], sys.argv[2]])
"""


def test_a_copy_goes_on_after_each_kill_until_it_is_whole(folder: StoreAddress, target: StoreAddress) -> None:
    fill(folder, 200)
    command = [sys.executable, "-c", KILLED, folder.spell(), target.spell()]
    for survived in (0, 1, 3):  # transactions before the kill comes, at some point of the next
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            for _ in range(survived):
                assert process.stdout.readline() == "stored\n"
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    assert main(["copy", folder.spell(), target.spell()]) == 0
    assert describe(target) == describe(folder)


def test_one_row_that_differs_is_found_and_copied_by_the_next_run(
    folder: StoreAddress, store: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, 12)
    dump, calls = PostgresLoader.dump, list[int]()

    def change_first(self: PostgresLoader) -> Generator[StorePart]:
        calls.append(1)
        if len(calls) == 2:  # after the last part was stored
            with psycopg.connect(postgres.find_url(), autocommit=True) as connection:
                connection.execute(f"UPDATE {postgres.get_schema(store)}.record SET text = text || ' '".encode())
        return dump(self)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresLoader, "dump", change_first)
        with pytest.raises(Unavailable, match="not like its source: the records differ"):
            copy_store(folder, store)
    copy_store(folder, store)
    assert describe(store) == describe(folder)


def test_a_target_that_holds_a_memory_is_refused_and_stays_as_it_is(
    folder: StoreAddress, target: StoreAddress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(folder, 12)
    other = StoreAddress(folder=tmp_path / "other")
    fill(other, 12)
    cut_off(monkeypatch, target, other, at=2, size=5)
    with pytest.raises(Invalid, match="an unfinished copy of another memory"):
        copy_store(folder, target)
    copy_store(other, target)
    before = describe(target)
    for source in (folder, other, target):  # another, the one that it is a copy of, and itself
        with pytest.raises(Invalid, match="holds a memory"):
            copy_store(source, target)
    assert describe(target) == before


def test_without_a_source_that_can_be_read_nothing_is_made(
    folder: StoreAddress, store: StoreAddress, tmp_path: Path
) -> None:
    for missing in (StoreAddress(folder=tmp_path / "none"), postgres.make_address(tmp_path / "none")):
        with pytest.raises(Unavailable, match="there is no memory"):
            copy_store(missing, folder)
    fill(store, 8)
    with psycopg.connect(postgres.find_url(), autocommit=True) as connection:
        connection.execute(f"UPDATE {postgres.get_schema(store)}.state SET schema = 9999, needs = 9999".encode())
    with pytest.raises(Unavailable, match="newer cofio"):
        copy_store(store, folder)
    assert [*tmp_path.iterdir()] == []


def test_others_may_write_to_the_source_and_the_copy_is_of_one_moment(
    folder: StoreAddress, target: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, 100)
    before = describe(folder)
    written = list[str]()

    def write(what: str, done: int, total: int) -> None:
        if what == "copy" and done and not written:
            with open_memory(folder) as engine:
                written.append(engine.write(HERE, text="meanwhile").id)

    monkeypatch.setattr(store_copy, "MOST_PARTS", 20)
    copy_store(folder, target, write)
    assert written
    after = describe(target)
    assert {**after, "check": []} == before


def test_a_lost_connection_is_a_clear_error_and_the_next_run_goes_on(
    folder: StoreAddress, store: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 100)
    monkeypatch.setattr(store_copy, "MOST_PARTS", 20)

    def lose(what: str, done: int, total: int) -> None:
        if what == "copy" and done:
            with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'cofio'"
                )

    with pytest.raises(Unavailable, match="the database failed"):
        copy_store(store, folder, lose)
    copy_store(store, folder)
    assert describe(folder) == describe(store)


def test_the_command_says_what_was_copied_and_no_password(
    folder: StoreAddress, store: StoreAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, 8)
    address = postgres.log_in(store, "postgres", "secret").spell()
    assert main(["copy", folder.spell(), address]) == 0
    assert main(["copy", folder.spell(), address]) == 1
    said = capsys.readouterr()
    assert "copied 8 records" in said.out
    assert "holds a memory" in said.err
    assert "secret" not in said.out + said.err
