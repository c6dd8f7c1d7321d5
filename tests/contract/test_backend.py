"""What stands behind the engine: claims, batches to embed, and work shared between processes and threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from tests.waiting import wait_until

from cofio import Conflict, Draft, Engine, Kind, Query, Scope, Settings
from cofio.backends.interface import Backend
from cofio.backends.upkeep_interface import Index, Purge, ReportFault
from cofio.embed.hashed import HashedEmbedder

DEMO = Scope("demo")


def test_what_one_has_claimed_nobody_else_gets_until_it_is_given_up(
    memory: Engine, open_backend: Callable[[], Backend]
) -> None:
    one, two = open_backend(), open_backend()
    memory.write(DEMO, text="walrus colony")
    with one.claim("hashed-384", 10) as mine, two.claim("hashed-384", 10) as theirs:
        assert mine is not None
        assert (mine.texts, theirs) == (("walrus colony",), None)
    with two.claim("hashed-384", 10) as theirs:
        assert theirs is not None
        theirs.store(HashedEmbedder().embed(theirs.texts))
    with one.claim("hashed-384", 10) as mine:
        assert mine is None


def test_a_store_is_known_by_its_identity_and_by_how_far_it_has_come(
    memory: Engine, open_backend: Callable[[], Backend], tmp_path: Path
) -> None:
    before = memory.identity()
    record = memory.write(DEMO, text="walrus colony")
    written = memory.identity()
    assert (written.store, written.position > before.position) == (before.store, True)
    assert open_backend().identity() == written
    memory.delete(record.id)
    assert memory.identity().position > written.position
    copy = memory.backup(tmp_path / "copy")
    with Engine.open(copy, settings=Settings(background=False)) as other:
        assert other.identity() == memory.identity()
    with Engine.open(tmp_path / "another", settings=Settings(background=False)) as other:
        assert other.identity().store != memory.identity().store


def test_settling_leaves_the_work_to_whoever_is_at_it(memory: Engine, open_backend: Callable[[], Backend]) -> None:
    record = memory.write(DEMO, text="walrus colony")
    with open_backend().claim("hashed-384", 10) as batch:
        assert batch is not None
        assert memory.settle(limit=8) == 0
        assert memory.search(Query("walrus", mode="keyword"))[0].record == record
    assert memory.settle() == 1
    assert memory.stats()["waiting_for_index"] == 0


def test_words_are_indexed_a_batch_at_a_time_and_nothing_is_lost_between(memory: Engine, backend: Backend) -> None:
    records = memory.write_many([Draft(scope=DEMO, text=f"common word{number}") for number in range(10)])
    memory.delete(records[0].id)
    memory.edit(records[1].id, text="common changed")
    more = True
    while more:
        more = backend.upkeep(Index(limit=3)).more
        assert len(memory.search(Query("common", mode="keyword", limit=20))) == 9
        assert memory.check() == []
    assert memory.stats()["waiting_for_index"] == 0
    assert len(memory.search(Query("common", mode="keyword", limit=20))) == 9


def test_only_what_is_searched_waits_for_a_vector(memory: Engine) -> None:
    for kind in Kind:
        memory.put(DEMO, "k", text=f"a {kind}", kind=kind)
    embedded = [kind for kind in Kind if kind.has_vector]
    assert 0 < len(embedded) < len([kind for kind in Kind if kind.is_searchable]) < len(Kind)
    before = memory.stats()
    assert (before.waiting_for_vectors, before.bytes_vectors) == (len(embedded), 0)
    memory.settle()
    stats = memory.stats()
    assert (stats.waiting_for_vectors, stats.vectors) == (0, {"hashed-384": len(embedded)})


def test_a_profile_is_found_by_words_and_no_search_waits_for_its_vector(memory: Engine) -> None:
    memory.put(DEMO, "profile", text="keeps bees in Lisbon", kind=Kind.PROFILE)
    for _ in range(2):
        hits = memory.search(Query("bees in Lisbon", mode="hybrid"))
        assert [hit.record.kind for hit in hits] == [Kind.PROFILE]
        assert hits.degraded is None
        by_meaning = memory.search(Query("bees in Lisbon", mode="semantic"))
        assert not by_meaning.hits
        assert by_meaning.degraded is None
        memory.settle()


def test_vectors_that_were_made_are_read_by_the_ids_of_their_records(memory: Engine) -> None:
    written = memory.write_many([Draft(scope=DEMO, text=text) for text in ("heron", "otter", "elk")])
    known = [each.id for each in written]
    assert memory.read_vectors("hashed-384", known) == {}
    memory.settle()
    made = HashedEmbedder().embed(["heron", "otter"])
    memory.edit(known[2], text="moose")
    found = memory.read_vectors("hashed-384", [*known, "nothing"])
    assert list(found) == known[:2]
    for vector, expected in zip(found.values(), made, strict=True):
        assert vector == pytest.approx(expected, abs=1e-3)
    assert memory.read_vectors("another", known) == {}
    assert memory.read_vectors("hashed-384", []) == {}


def test_a_text_that_changes_while_it_is_embedded_is_embedded_again(memory: Engine, backend: Backend) -> None:
    changed, deleted, kept = memory.write_many([Draft(scope=DEMO, text=f"text {number}") for number in range(3)])
    with backend.claim("hashed-384", 10) as batch:
        assert batch is not None
        vectors = HashedEmbedder().embed(batch.texts)
        memory.edit(changed.id, text="something else by now")
        memory.delete(deleted.id)
        batch.store(vectors)
    assert memory.stats()["vectors:hashed-384"] == 1
    assert memory.stats().waiting_for_vectors == 1
    with backend.claim("hashed-384", 10) as again:
        assert again is not None
        assert again.texts == ("something else by now",)
    found = {hit.record.id for hit in memory.search(Query("text 0", mode="semantic", floor=0.0))}
    assert found == {kept.id, changed.id}
    assert memory.check() == []


def test_an_export_is_of_one_moment(memory: Engine) -> None:
    records = memory.write_many([Draft(scope=DEMO, text=f"text {number}") for number in range(100)])
    exported = memory.export()
    first = next(exported)
    memory.drop(DEMO)
    assert [first, *exported] == records
    assert memory.count() == 0


def test_a_backup_holds_what_the_store_held(memory: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    memory.write_many([Draft(scope=DEMO, text=f"walrus {number}") for number in range(10)])
    memory.settle()
    memory.write(DEMO, text="walrus in the tail")
    target = tmp_path_factory.mktemp("backup") / "copy"
    assert memory.backup(target) == target
    chosen = Settings(background=False, embedder="none")
    with Engine.open(target, settings=chosen, embedder=HashedEmbedder()) as copy:
        assert list(copy.export()) == list(memory.export())
        assert len(copy.search(Query("walrus", mode="keyword", limit=20))) == 11
        assert copy.check() == []


def test_threads_that_count_together_lose_no_step(memory: Engine, reopen: Callable[..., Engine]) -> None:
    memory.put(DEMO, "counter", data=0)
    engines = [memory, reopen()]

    def count(worker: int) -> None:
        engine = engines[worker % 2]
        for _ in range(20):
            for _ in range(10_000):
                held = engine.get(DEMO, "counter")
                assert held is not None
                assert isinstance(held.data, int)
                try:
                    engine.put(DEMO, "counter", data=held.data + 1, if_version=held.version)
                except Conflict:
                    continue
                break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4), timeout=60))
    held = memory.get(DEMO, "counter")
    assert held is not None
    assert (held.data, held.version) == (80, 81)


def test_the_background_work_is_done_without_being_asked(memory: Engine, reopen: Callable[..., Engine]) -> None:
    record = memory.write(DEMO, text="walrus colony")
    worker = reopen(Settings(background=True, embedder="none"), HashedEmbedder())
    worker.write(DEMO, text="giraffe")
    wait_until(lambda: (stats := memory.stats()).waiting_for_vectors == stats.waiting_for_index == 0)
    assert worker.check() == []
    assert memory.search(Query("walrus colony", mode="semantic"))[0].record == record
    worker.close()
    assert memory.stats()["waiting_for_index"] == 0


def test_a_purge_removes_what_expired_before_the_moment_that_it_names(
    memory: Engine, backend: Backend, advance: Callable[[float], None], clock: Callable[[], datetime]
) -> None:
    memory.write(DEMO, text="mortal", ttl=60)
    assert (backend.upkeep(Purge()).done, memory.count()) == (0, 1)
    advance(60)
    purged = backend.upkeep(Purge())
    assert (purged.done, purged.expired_before) == (1, clock())
    assert memory.stats().expired == 0


def test_a_fault_is_reported_until_there_is_none(memory: Engine, backend: Backend) -> None:
    backend.upkeep(ReportFault("the endpoint is down"))
    assert memory.stats().background_fault == "the endpoint is down"
    assert memory.check() == ["background work fails: the endpoint is down"]
    backend.upkeep(ReportFault(""))
    assert (memory.stats().background_fault, memory.check()) == ("", [])


def test_a_store_s_numbers_have_attributes_and_the_names_that_are_printed(memory: Engine) -> None:
    memory.write(DEMO, text="walrus colony")
    memory.settle()
    stats = memory.stats()
    assert {"store", "records", "words", "changes", "schema", stats.software[0], "embedder", "meaning"} < {*stats}
    assert (stats["records"], stats["meaning"], stats["vectors:hashed-384"]) == (stats.records, stats.meaning, 1)
    assert (stats.records, stats.meaning, stats.vectors) == (1, "on", {"hashed-384": 1})
    assert dict(stats) == stats
    assert "no such number" not in stats


def test_many_records_are_read_in_the_order_of_their_ids_each_as_often_as_it_is_asked_for(memory: Engine) -> None:
    written = memory.write_many([Draft(scope=DEMO, text=f"text {number}") for number in range(6)])
    known = [each.id for each in written]
    memory.delete(known[4])
    for asked in ([], known[:1], known[:2], [*reversed(known)], [known[0], known[0], "nothing", known[1], known[0]]):
        found = memory.read_many(asked)
        there = [each if each in known and each != known[4] else None for each in asked]
        assert [None if record is None else record.id for record in found] == there
    assert memory.read_many(["", *known])[:2] == [None, memory.read(known[0])]
