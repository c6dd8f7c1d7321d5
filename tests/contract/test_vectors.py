"""Records are found by their meaning, never by another embedder's vectors, and what was missing is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofio import Draft, Engine, Kind, Page, Query, Record, Scope, Settings
from cofio.embed.hashed import HashedEmbedder
from cofio.embed.remote import Remote

DEMO = Scope("demo")


class Rehashed(HashedEmbedder):
    """The hashed embedder under another name, as a new version of a model would be."""

    id = "rehashed-384"


def semantic(text: str, **fields: object) -> Query:
    """A query by meaning alone."""
    return Query(text, mode="semantic", **fields)  # type: ignore[arg-type]


def ids(hits: Page) -> list[str]:
    """The ids of hits, in order."""
    return [hit.record.id for hit in hits]


def test_a_record_is_found_by_a_text_of_like_meaning(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    near, _ = remember(
        Draft(scope=DEMO, text="the authentication service signs its tokens"),
        Draft(scope=DEMO, text="lunch is at noon in the kitchen"),
    )
    hits = memory.search(semantic("authenticating services", floor=0.1))
    assert ids(hits) == [near.id]
    assert hits[0].why.keyword is None
    assert hits[0].why.semantic is not None
    assert hits[0].why.semantic.rank == 1
    assert 0.2 <= hits[0].why.semantic.score <= 1
    assert hits.searched.semantic == 2
    assert hits.searched.keyword == 0
    assert hits.cut == 1
    assert hits.degraded is None


def test_settling_once_embeds_everything_though_much_of_it_has_nothing_to_embed(memory: Engine) -> None:
    note, state = Draft(scope=DEMO, text="a kayak"), Draft(scope=DEMO, kind=Kind.LEDGER, text="of no search")
    memory.write_many([note, *(each for _ in range(20) for each in (state, note, state))])
    assert memory.settle() == 21
    assert memory.stats().waiting_for_vectors == 0
    assert memory.settle() == 0


def test_a_query_may_bring_its_own_vector_of_any_length(memory: Engine) -> None:
    records = memory.write_many([Draft(scope=DEMO, text=text) for text in ("alpha", "beta", "gamma")])
    memory.settle()
    kinds: list[Callable[..., Any]] = [list, tuple, np.asarray, lambda vector: np.asarray(vector) * 100]
    for record in records:
        for kind in kinds:
            vector = kind(HashedEmbedder().embed([record.text])[0].tolist())
            hits = memory.search(semantic("quite another text", vector=vector, floor=0.7))
            assert ids(hits) == [record.id]
            assert hits[0].why.semantic is not None
            assert hits[0].why.semantic.score == pytest.approx(1, abs=0.01)


def test_the_nearest_come_first_with_their_cosines(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    texts = [f"word{number} word{number + 1} word{number + 2}" for number in range(40)]
    records = remember(*(Draft(scope=DEMO, text=text) for text in texts))
    hits = memory.search(semantic("word7 word8 word9", limit=40, floor=0.0))
    vectors = HashedEmbedder().embed(texts)
    exact = vectors @ HashedEmbedder().embed(["word7 word8 word9"])[0]
    assert ids(hits)[0] == records[7].id
    assert len(hits) == 40
    for hit in hits:
        assert hit.why.semantic is not None
        assert hit.why.semantic.score == pytest.approx(exact[texts.index(hit.record.text)], abs=2e-3)
    scores = [hit.why.semantic.score for hit in hits if hit.why.semantic]
    assert scores == sorted(scores, reverse=True)


def test_an_edited_record_is_found_by_its_new_meaning_and_not_by_its_old(
    memory: Engine, remember: Callable[..., list[Record]], settle: Callable[[], None]
) -> None:
    record, _ = remember(Draft(scope=DEMO, text="walrus colony"), Draft(scope=DEMO, text="unrelated matter"))
    memory.edit(record.id, author="someone", importance="high", data={"n": 1})  # which leaves the vector alone
    assert ids(memory.search(semantic("walrus colony", floor=0.7))) == [record.id]
    memory.edit(record.id, text="giraffe savanna")
    assert ids(memory.search(semantic("walrus colony", floor=0.3))) == []
    settle()
    assert ids(memory.search(semantic("giraffe savanna", floor=0.3))) == [record.id]
    after = memory.search(semantic("walrus colony", floor=0.3))
    assert ids(after) == []
    assert after.degraded is None


def test_a_record_without_text_is_found_by_the_meaning_of_its_data(memory: Engine) -> None:
    record = memory.put(DEMO, "key", data={"animal": "walrus"})
    memory.put(DEMO, "nothing", data=None)
    memory.settle()
    hits = memory.search(semantic("animal walrus"))
    assert ids(hits) == [record.id]
    assert hits.degraded is None


def test_without_an_embedder_a_search_goes_by_words_and_says_so(memory: Engine, reopen: Callable[..., Engine]) -> None:
    record = memory.write(DEMO, text="walrus colony")
    memory.settle()
    plain = reopen()
    hits = plain.search("walrus")
    assert ids(hits) == [record.id]
    assert hits[0].why.semantic is None
    assert "no embedder" in str(hits.degraded)
    assert plain.search(Query("walrus", mode="keyword")).degraded is None
    by_meaning = plain.search(semantic("walrus"))
    assert len(by_meaning) == 0
    assert by_meaning.degraded is not None
    assert plain.settle() == 0


def test_without_its_model_a_search_goes_by_words_and_says_how_to_install_it(
    memory: Engine, reopen: Callable[..., Engine], tmp_path: Path
) -> None:
    record = memory.write(DEMO, text="walrus colony")
    bare = reopen(Settings(background=False, embedder="minilm", models=str(tmp_path / "empty")))
    hits = bare.search("walrus")
    assert ids(hits) == [record.id]
    assert hits.degraded is not None
    assert "not installed" in hits.degraded
    assert "cofio model install" in hits.degraded
    assert str(tmp_path) not in hits.degraded
    assert hits.searched.semantic is None
    stats = bare.stats()
    assert (stats["meaning"], stats["waiting_for_vectors"]) == (f"off: {hits.degraded.partition(': ')[2]}", 1)
    assert bare.search(Query("walrus", mode="keyword")).degraded is None
    assert bare.settle() == 0
    assert bare.check() == []


def test_when_the_model_is_out_of_reach_a_search_goes_by_words_and_says_why(
    memory: Engine, reopen: Callable[..., Engine]
) -> None:
    record = memory.write(DEMO, text="walrus colony")
    hits = reopen(embedder=Remote("http://127.0.0.1:9/v1", model="m", sleep=lambda _: None)).search("walrus")
    assert ids(hits) == [record.id]
    assert "cannot be reached" in str(hits.degraded)


def test_what_has_no_vector_yet_is_found_by_words_and_counted(memory: Engine) -> None:
    settled = memory.write(DEMO, text="walrus colony")
    memory.settle()
    fresh = memory.write_many([Draft(scope=DEMO, text=f"walrus herd {number}") for number in range(65)])
    hits = memory.search(Query("walrus", floor=0.0, limit=100))
    assert set(ids(hits)) == {settled.id, *(record.id for record in fresh)}
    assert hits.degraded == "65 records have no vector yet and are found by their words only"
    by_id = {hit.record.id: hit.why for hit in hits}
    assert by_id[settled.id].semantic is not None
    assert all(by_id[record.id].semantic is None for record in fresh)
    assert ids(memory.search(semantic("walrus", floor=0.0))) == [settled.id]
    memory.settle()
    assert memory.search("walrus").degraded is None


def test_settling_embeds_as_many_as_it_is_asked_to(memory: Engine) -> None:
    memory.write_many([Draft(scope=DEMO, text=f"record {number}") for number in range(100)])
    seen: list[tuple[str, int, int]] = []
    assert memory.settle(limit=40, progress=lambda *step: seen.append(step)) >= 40
    assert seen
    waiting = memory.stats()["waiting_for_vectors"]
    assert isinstance(waiting, int)
    assert 0 < waiting <= 60
    assert memory.settle() == waiting
    assert memory.stats()["waiting_for_vectors"] == 0


def test_vectors_of_another_embedder_are_never_used(memory: Engine, reopen: Callable[..., Engine]) -> None:
    (record, *_) = memory.write_many(
        [Draft(scope=DEMO, text="walrus colony"), *(Draft(scope=DEMO, text=f"herd {n}") for n in range(64))]
    )
    memory.settle()
    other = reopen(embedder=Rehashed())
    hits = other.search(semantic("walrus colony", floor=0.0))
    assert len(hits) == hits.searched.semantic == 0
    assert hits.degraded == "65 records have no vector yet and are found by their words only"
    hybrid = other.search("walrus colony")
    assert ids(hybrid) == [record.id]
    assert hybrid[0].why.semantic is None
    assert hybrid.degraded == hits.degraded


def test_a_changed_embedder_embeds_anew_and_leaves_the_old_vectors_be(
    memory: Engine, reopen: Callable[..., Engine]
) -> None:
    record = memory.write(DEMO, text="walrus colony")
    memory.settle()
    other = reopen(embedder=Rehashed())
    assert other.settle() == 1
    for engine in (memory, other):
        hits = engine.search(semantic("walrus colony"))
        assert ids(hits) == [record.id]
        assert hits.degraded is None
    stats = memory.stats()
    assert (stats["vectors:hashed-384"], stats["vectors:rehashed-384"]) == (1, 1)
    memory.delete(record.id)
    stats = memory.stats()
    assert (stats["vectors:hashed-384"], stats["vectors:rehashed-384"]) == (0, 0)
    assert memory.check() == []


def test_embedding_again_gives_the_same_answers(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(*(Draft(scope=DEMO, text=f"walrus number {number}") for number in range(10)))
    before = memory.search(Query("walrus 3", floor=0.0))
    memory.reindex(vectors=True)
    after = memory.search(Query("walrus 3", floor=0.0))
    assert ids(after) == ids(before)
    assert after.degraded is None
    assert memory.check() == []


def test_among_thousands_the_nearest_are_found_through_every_change(memory: Engine) -> None:
    records = memory.write_many(
        [Draft(scope=DEMO / str(n % 7), text=f"t{n * 7919} u{n * 104729}") for n in range(4500)]
    )
    memory.settle()
    edited = memory.edit(records[10].id, text="t999999999 u888888888")
    moved = memory.move(records[20].id, scope=Scope("elsewhere"))
    memory.delete(records[30].id)
    fresh = memory.write(DEMO, text="t777777777 u666666666")
    memory.settle()
    for record in (edited, moved, fresh, *records[40::1000]):
        hits = memory.search(semantic(record.text, floor=0.5))
        assert ids(hits)[0] == record.id
        assert ids(memory.search(semantic(record.text, scope=record.scope, floor=0.5)))[0] == record.id
    for old in (records[10], records[30]):
        assert old.id not in ids(memory.search(semantic(old.text, floor=0.0, limit=1000)))
    assert moved.id not in ids(memory.search(semantic(moved.text, scope=DEMO, floor=0.0, limit=1000)))
    assert memory.check() == []
    before = ids(memory.search(semantic("t7919 u104729", floor=0.0, limit=100)))
    memory.reindex()
    assert ids(memory.search(semantic("t7919 u104729", floor=0.0, limit=100))) == before
    assert memory.check() == []
