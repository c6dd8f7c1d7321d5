"""A search by meaning finds what was written a moment ago, as long as that is little."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from cofio import Draft, Engine, Kind, Query, Record, Scope, Unavailable, Where
from cofio.backends.interface import Backend
from cofio.backends.record_interface import Transaction
from cofio.embed.hashed import HashedEmbedder
from cofio.values.query import Bounds

from ..waiting import join

DEMO = Scope("demo")
EVERYWHERE = Bounds(scope=Scope(), exact=False, kinds=(), filter=None)


class Counter(HashedEmbedder):
    """Knows which texts of records it was asked for while someone waited."""

    def __init__(self, most: int = 1000) -> None:
        self.texts: list[str] = []
        self.most = most

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        self.texts += texts[: self.most]
        return self.embed(texts[: self.most])


class Failing(HashedEmbedder):
    """Embeds questions, and no records."""

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        raise Unavailable("out of order")


@pytest.fixture
def counter() -> Counter:
    """An embedder that counts."""
    return Counter()


@pytest.fixture
def counted(reopen: Callable[..., Engine], counter: Counter) -> Engine:
    """A memory without background work whose embedder counts."""
    return reopen(embedder=counter)


def find(memory: Engine, text: str, **fields: object) -> list[str]:
    """The ids of what is found by meaning alone."""
    return [hit.record.id for hit in memory.search(Query(text, mode="semantic", **fields))]  # type: ignore[arg-type]


def write(memory: Engine, count: int, scope: Scope = DEMO) -> list[Record]:
    """So many records, no two of which are alike."""
    return memory.write_many([Draft(scope=scope, text=f"walrus{number} herd{number}") for number in range(count)])


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_what_was_just_written_is_found_by_its_meaning(memory: Engine, mode: str) -> None:
    record = memory.write(DEMO, text="the authentication service signs its tokens")
    found = memory.search(Query("authenticating services", mode=mode))  # type: ignore[arg-type]
    assert [hit.record.id for hit in found] == [record.id]
    assert found[0].why.semantic is not None
    assert found.degraded is None
    memory.edit(record.id, text="giraffe savanna")
    assert find(memory, "giraffes of savannas", floor=0.3) == [record.id]
    assert find(memory, "authenticating services", floor=0.3) == []
    assert memory.check() == []


def test_the_vectors_are_made_once_and_not_for_a_search_by_words(counted: Engine, counter: Counter) -> None:
    write(counted, 3)
    counted.search(Query("walrus1", mode="keyword"))
    counted.search(Query("", scope=DEMO))
    assert counter.texts == []
    for _ in range(3):
        assert counted.search("walrus1").degraded is None
    assert sorted(counter.texts) == [f"walrus{number} herd{number}" for number in range(3)]
    assert counted.stats().waiting_for_vectors == 0
    assert counted.settle() == 0
    assert counted.check() == []


def test_only_records_that_the_search_may_see_get_a_vector(counted: Engine, counter: Counter) -> None:
    near = counted.write(DEMO, text="walrus here", author="ann")
    for draft in (
        Draft(scope=DEMO, text="walrus by another", author="bob"),
        Draft(scope=DEMO, text="walrus fact", kind=Kind.FACT, author="ann"),
        Draft(scope=Scope("elsewhere"), text="walrus elsewhere", author="ann"),
    ):
        counted.write_many([draft])
    found = counted.search(
        Query("walrus", scope=DEMO, kinds=(Kind.NOTE,), filter=Where("author", "=", "ann"), mode="semantic")
    )
    assert [hit.record.id for hit in found] == [near.id]
    assert counter.texts == ["walrus here"]


def test_what_no_search_finds_is_not_waited_for(memory: Engine) -> None:
    memory.write(DEMO, text="walrus")
    memory.put(DEMO, "revision", text="none of a search's business", kind=Kind.REVISION)
    memory.put(DEMO, "fact", text="walrus fact", kind=Kind.FACT)
    assert memory.search(Query("walrus", scope=DEMO, kinds=(Kind.NOTE,))).degraded is None
    assert memory.search(Query("walrus", scope=DEMO)).degraded is None


def test_what_there_is_no_time_for_is_reported_and_made_by_the_next_search(reopen: Callable[..., Engine]) -> None:
    memory = reopen(embedder=Counter(most=3))
    write(memory, 5)
    assert memory.search("walrus1").degraded == "2 records have no vector yet and are found by their words only"
    assert memory.search("walrus1").degraded is None


def test_parents_come_first_and_then_the_newest(reopen: Callable[..., Engine]) -> None:
    memory = reopen(embedder=(counter := Counter(most=2)))
    parent = memory.write(DEMO, text="episode")
    memory.write(DEMO, text="older fact", parent=parent.id)
    memory.write(DEMO, text="newer fact", parent=parent.id)
    memory.search("episode")
    assert counter.texts == ["episode", "newer fact"]


def test_a_bulk_load_elsewhere_is_not_in_the_way_of_one_scope(counted: Engine, counter: Counter) -> None:
    fresh = counted.write(Scope("elsewhere"), text="giraffe savanna")
    for _ in range(3):
        counted.write_many([Draft(scope=DEMO, text=f"walrus{number}") for number in range(1000)])
    page = counted.search(Query("giraffe", scope=Scope("elsewhere"), exact=True))
    assert ([hit.record.id for hit in page], page.degraded) == ([fresh.id], None)
    assert counter.texts == ["giraffe savanna"]
    assert counted.search(Query("giraffe", scope=DEMO, exact=True)).degraded == (
        "many records have no vector yet and are found by their words only"
    )


def test_an_embedder_that_fails_is_only_reported(reopen: Callable[..., Engine]) -> None:
    memory = reopen(embedder=Failing())
    record = memory.write(DEMO, text="walrus colony")
    for _ in range(2):
        found = memory.search("walrus")
        assert [hit.record.id for hit in found] == [record.id]
        assert found.degraded == "1 record has no vector yet and is found by its words only"


def test_a_search_waits_for_no_long_write(memory: Engine, backend: Backend) -> None:
    record = memory.write(DEMO, text="walrus colony")
    is_writing, may_end = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        is_writing.set()
        assert may_end.wait(60)

    writer = threading.Thread(target=backend.transact, args=[hold])
    writer.start()
    try:
        assert is_writing.wait(60)
        found = memory.search("walrus")
        assert [hit.record.id for hit in found] == [record.id]
        # Where only one may write, the vector could not be stored.
        assert found.degraded in (None, "1 record has no vector yet and is found by its words only")
    finally:
        may_end.set()
        join(writer)


def test_two_searches_that_embed_the_same_records_do_no_harm(
    memory: Engine, open_backend: Callable[[], Backend]
) -> None:
    records = write(memory, 4)
    embedder = HashedEmbedder()
    with open_backend().search(EVERYWHERE) as one, open_backend().search(EVERYWHERE) as other:
        both = [searcher.find_unembedded(embedder.id, 10, 10) for searcher in (one, other)]
        for found in both:
            assert found is not None
            assert len(found.texts) == 4
            assert found.store(embedder.embed(found.texts))
    assert memory.stats()["vectors:hashed-384"] == 4
    for record in records:
        assert find(memory, record.text, limit=1) == [record.id]
    with open_backend().claim(embedder.id, 10) as batch:
        assert batch is None or batch.texts == ()
    assert memory.check() == []


def test_a_text_that_changes_while_a_search_embeds_it_gets_no_vector_of_the_old(
    memory: Engine, backend: Backend
) -> None:
    changed, deleted, left = write(memory, 3)
    embedder = HashedEmbedder()
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.find_unembedded(embedder.id, 10, 10)
        assert found is not None
        memory.edit(changed.id, text="something else by now")
        memory.delete(deleted.id)
        assert found.store(embedder.embed(found.texts))
        again = searcher.find_unembedded(embedder.id, 10, 10)
        assert again is not None
        assert again.texts == ("something else by now",)
    assert memory.stats()["vectors:hashed-384"] == 1
    assert find(memory, left.text, limit=1) == [left.id]
    assert memory.check() == []


def test_a_search_of_one_scope_does_not_forget_what_another_has_yet_to_embed(counted: Engine, counter: Counter) -> None:
    (early,), (here,), (late,) = write(counted, 1, Scope("other")), write(counted, 1), write(counted, 1, Scope("other"))
    assert find(counted, here.text, scope=DEMO) == [here.id]
    assert counter.texts == [here.text]
    assert set(find(counted, early.text, scope=Scope("other"), floor=0.0)) == {early.id, late.id}
    assert sorted(counter.texts) == sorted([early.text, here.text, late.text])
    counted.edit(early.id, text="walrus")
    assert find(counted, "walrus", limit=1) == [early.id]


def test_vectors_of_another_size_are_left_to_the_background(memory: Engine, backend: Backend) -> None:
    write(memory, 2)
    memory.settle()
    memory.write(DEMO, text="giraffe")
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.find_unembedded("hashed-384", 10, 10)
        assert found is not None
        assert not found.store(np.ones((1, 8), np.float32))
    assert memory.stats()["vectors:hashed-384"] == 2


def test_many_threads_that_write_and_search_each_find_their_own(reopen: Callable[..., Engine]) -> None:
    memory = reopen(embedder=HashedEmbedder())

    def work(name: str) -> list[str]:
        missed = []
        for number in range(10):
            record = memory.write(Scope(name), text=f"{name} word{number} other{number}")
            page = memory.search(Query(record.text, scope=Scope(name), mode="semantic", limit=1))
            if [hit.record.id for hit in page] != [record.id] and page.degraded is None:
                missed.append(record.text)
        return missed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, [f"user{number}" for number in range(4)], timeout=60)) == [[]] * 4
    memory.settle()
    assert memory.stats().waiting_for_vectors == 0
    assert memory.check() == []
