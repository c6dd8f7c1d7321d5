"""Writers do not wait for each other, and nothing that follows changes misses one that was numbered early and committed
late.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio import Draft, Engine, Query, Scope, Settings
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


def test_what_commits_late_is_exported_and_copied_by_who_comes_after_it(
    engine: Engine, store: StoreAddress, tmp_path: Path
) -> None:
    copy = StoreAddress(folder=tmp_path / "after")
    with open_writes(store, 2) as begin:
        late, early = begin(), begin()
        late.apply([put("late")])
        early.apply([put("early")])
        early.commit()
        assert [record.text for record in engine.export()] == ["walrus", "early"]
        assert copy_store(store, StoreAddress(folder=tmp_path / "before")).records == 2
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
