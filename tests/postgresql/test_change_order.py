"""Writers do not wait for each other, and nothing that follows changes misses one that was numbered early and committed
late.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cofio import Draft, Engine, Query, Scope, Settings
from cofio.backends.checkpoint_interface import NewCheckpoint, ThreadKey
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.opening import copy_store
from cofio.values.changes import Delete, Edit, Put
from cofio.values.records import Kind

from .open_writes import open_writes

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")
WRITERS = 24


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """A memory on it, whose scope is there."""
    with Engine.open(store, settings=QUIET) as opened:
        opened.write(HERE, text="walrus")
        yield opened


def put(text: str, scope: Scope = HERE, key: str | None = None) -> Put:
    return Put(
        draft=Draft(scope=scope, text=text, key=key, kind=Kind.ITEM if key else Kind.NOTE), how="key" if key else "new"
    )


def test_no_writer_waits_for_another_in_its_own_scope_or_elsewhere(engine: Engine, store: StoreAddress) -> None:
    old = [engine.put(HERE, f"old {number}", text="walrus") for number in range(2 * WRITERS)]
    engine.write_many([Draft(scope=Scope("there", str(number)), text="seal") for number in range(WRITERS)])
    with open_writes(store, WRITERS) as begin:
        writes = [begin() for _ in range(WRITERS)]
        for number, write in enumerate(writes):
            write.apply(
                [
                    put("new", key=f"key {number}"),
                    put("new, without a key"),
                    put("new", Scope("there", str(number))),
                    Edit(id=old[2 * number].id, fields={"text": "seal"}),
                    Delete(id=old[2 * number + 1].id),
                ]
            )
        assert engine.count(HERE) == 1 + 2 * WRITERS  # none of them is committed
        for write in reversed(writes):
            write.commit()
    assert engine.count(HERE) == 1 + 3 * WRITERS
    assert engine.check() == []


def test_the_slots_of_a_scope_are_as_many_as_have_written_at_once(engine: Engine, store: StoreAddress) -> None:
    with open_writes(store, 3) as begin:
        writes = [begin() for _ in range(3)]
        for write in writes:
            write.apply([put("walrus")])
        for write in writes:
            write.commit()
        for _ in range(10):
            engine.write(HERE, text="walrus")
        rows = writes[0].rows._fetch("SELECT count(*) FROM @scope_size UNION ALL SELECT count(*) FROM @moment")
    assert rows == [(3,), (3,)]
    assert engine.stats().records == 14


def test_the_position_of_a_store_rises_with_every_commit_however_late(engine: Engine, store: StoreAddress) -> None:
    positions = [engine.identity().position]
    with open_writes(store, 2) as begin:
        early, late = begin(), begin()
        late.apply([put("takes its number first")])
        early.apply([put("takes its number second")])
        for write in (early, late):
            write.commit()
            positions.append(engine.identity().position)
    assert positions == [1, 2, 3]


def test_what_commits_late_is_exported_and_copied_by_who_comes_after_it(
    engine: Engine, store: StoreAddress, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("copies")
    copy = StoreAddress(folder=folder / "after")
    with open_writes(store, 2) as begin:
        late, early = begin(), begin()
        late.apply([put("late")])
        early.apply([put("early")])
        early.commit()
        assert [record.text for record in engine.export()] == ["walrus", "early"]
        assert copy_store(store, StoreAddress(folder=folder / "before")).records == 2
        late.commit()
    assert [record.text for record in engine.export()] == ["walrus", "late", "early"]
    assert copy_store(store, copy).records == 3
    with Engine.open(copy, settings=QUIET) as copied:
        assert {record.text for record in copied.export()} == {"walrus", "early", "late"}


@pytest.mark.parametrize("is_known", [True, False], ids=["known embedder", "new embedder"])
def test_what_commits_late_is_embedded(engine: Engine, store: StoreAddress, is_known: bool) -> None:
    """One that began before an embedder was known does not note that it needs a vector of it."""
    with (
        Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as embedding,
        open_writes(store, 2) as begin,
    ):
        if is_known:
            assert embedding.settle() == 1
        late, early = begin(), begin()
        late.apply([put("late seal")])
        early.apply([put("early seal")])
        early.commit()
        assert embedding.settle() == (1 if is_known else 2)
        late.commit()
        assert embedding.settle() == 1
        found = embedding.search(Query("seal", mode="semantic", floor=0.0))
        assert {hit.record.text for hit in found} == {"walrus", "early seal", "late seal"}
        assert embedding.stats().waiting_for_vectors == 0


def test_a_checkpoint_that_commits_late_is_searched(engine: Engine, store: StoreAddress) -> None:
    with open_writes(store, 1) as begin:
        late = begin()
        new = NewCheckpoint("c1", None, None, 0, 0, None, "{}", b'\0{"topic":"seal"}')
        late.rows.checkpoints.insert(ThreadKey("library", "late", ""), new)
        engine.checkpoints.save("library", "early", "c1", {"topic": "seal"})
        assert [found.thread for found, _ in engine.checkpoints.search("library", "seal")] == ["early"]
        late.commit()
    assert {found.thread for found, _ in engine.checkpoints.search("library", "seal")} == {"early", "late"}
