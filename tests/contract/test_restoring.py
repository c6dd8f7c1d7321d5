"""Vectors that were made elsewhere come in with their records, and stay on no other text."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.waiting import wait_until

from cofio import Draft, Engine, Query, Scope, Settings, Unavailable
from cofio.backends.interface import Backend
from cofio.embed.hashed import HashedEmbedder

DEMO = Scope("demo")
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def draft(id: str, text: str, *, version: int = 1, later: int = 0) -> Draft:
    """A record as an export has it."""
    at = THEN + timedelta(seconds=later)
    return Draft(scope=DEMO, id=id, text=text, version=version, created_at=at, updated_at=at)


def vector(text: str) -> list[float]:
    """The vector that the hashed embedder makes of a text."""
    return [float(number) for number in HashedEmbedder().embed([text])[0]]


def found(memory: Engine, text: str) -> list[str]:
    """The ids of what is very near to a text by its vector."""
    hits = memory.search(Query("?", mode="semantic", vector=vector(text), floor=0.0))
    return [hit.record.id for hit in hits if hit.why.semantic and hit.why.semantic.score >= 0.9]


def test_a_vector_that_comes_with_its_record_need_not_be_made(memory: Engine) -> None:
    texts = {"1": "walrus colony", "2": "giraffe savanna", "3": "owl tower"}
    drafts = [draft(known, text) for known, text in texts.items()]
    assert memory.restore(drafts, vectors={known: vector(texts[known]) for known in "12"}) == 3
    assert memory.stats()["waiting_for_vectors"] == 1
    assert memory.settle() == 1
    assert [found(memory, text) for text in texts.values()] == [["1"], ["2"], ["3"]]
    assert memory.check() == []


def test_a_vector_may_be_of_any_length_and_kind(memory: Engine) -> None:
    kinds: list[Callable[..., Any]] = [list, tuple, np.asarray]
    for number, (length, kind) in enumerate(product((1e-30, 0.5, 1e30, 1e200), kinds)):
        text = f"walrus {number} colony {number}"
        long = kind([part * length for part in vector(text)])
        memory.restore([draft(str(number), text)], vectors={str(number): long})
        hit = memory.search(Query(text, mode="semantic", limit=1))[0]
        assert hit.record.id == str(number)
        assert hit.why.semantic is not None
        assert hit.why.semantic.score == pytest.approx(1, abs=2e-3)


def test_without_an_embedder_no_vector_can_be_kept(memory: Engine, reopen: Callable[..., Engine]) -> None:
    with pytest.raises(Unavailable, match="nothing here makes vectors"):
        reopen().restore([draft("1", "a")], vectors={"1": vector("a")})
    assert memory.count() == 0
    assert reopen().restore([draft("1", "a")], vectors={}) == 1


def test_a_record_that_is_here_unchanged_gets_the_vector_that_it_lacks_and_no_other(memory: Engine) -> None:
    memory.restore([draft("1", "walrus colony")])
    for text in ("walrus colony", "quite another"):
        assert memory.restore([draft("1", "walrus colony")], vectors={"1": vector(text)}) == 0
        assert memory.stats()["waiting_for_vectors"] == 0
        assert found(memory, "walrus colony") == ["1"]
    assert found(memory, "quite another") == []


def test_a_record_that_is_newer_here_does_not_get_the_vector_of_its_old_text(memory: Engine) -> None:
    memory.restore([draft("1", "walrus colony")])
    memory.edit("1", text="giraffe savanna")
    assert memory.restore([draft("1", "walrus colony")], vectors={"1": vector("walrus colony")}) == 0
    assert memory.stats()["waiting_for_vectors"] == 1
    assert found(memory, "walrus colony") == []
    memory.settle()
    assert found(memory, "giraffe savanna") == ["1"]


def test_a_record_that_is_older_here_changes_its_vector_with_its_text(memory: Engine) -> None:
    memory.restore([draft("1", "walrus colony")], vectors={"1": vector("walrus colony")})
    newer = draft("1", "giraffe savanna", version=2, later=60)
    assert memory.restore([newer], vectors={"1": vector("giraffe savanna")}) == 1
    assert (found(memory, "walrus colony"), found(memory, "giraffe savanna")) == ([], ["1"])
    assert memory.stats()["waiting_for_vectors"] == 0
    assert memory.check() == []


def test_what_another_process_embeds_meanwhile_is_embedded_once(memory: Engine, backend: Backend) -> None:
    memory.restore([draft("1", "walrus colony"), draft("2", "owl tower")])
    with backend.claim("hashed-384", 10) as batch:
        assert batch is not None
        memory.restore([draft("1", "walrus colony")], vectors={"1": vector("walrus colony")})
        memory.edit("1", text="giraffe savanna")
        batch.store(HashedEmbedder().embed(batch.texts))
    assert memory.stats()["waiting_for_vectors"] == 1
    assert found(memory, "walrus colony") == []
    assert found(memory, "owl tower") == ["2"]
    assert found(memory, "giraffe savanna") == ["1"]
    assert memory.check() == []


def test_records_that_are_restored_edited_and_embedded_at_once_have_the_vectors_of_their_texts(
    memory: Engine, reopen: Callable[..., Engine]
) -> None:
    background = reopen(Settings(background=True, embedder="none"), HashedEmbedder())
    drafts = [draft(str(number), f"before t{number * 7919}") for number in range(200)]

    def restore(engine: Engine) -> None:
        for start in range(0, len(drafts), 20):
            batch = drafts[start : start + 20]
            engine.restore(batch, vectors={str(each.id): vector(each.text) for each in batch})

    def there(engine: Engine, record_id: str) -> bool:
        return any(record.id == record_id for record in engine.list(limit=1000))

    def edit(engine: Engine) -> None:
        for number in range(0, 200, 10):
            wait_until(partial(there, engine, str(number)), every=0)
            engine.edit(str(number), text=f"after u{number * 104729}")

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(restore, memory), pool.submit(restore, background), pool.submit(edit, reopen())]:
            done.result(60)
    memory.settle()
    assert memory.stats()["waiting_for_vectors"] == 0
    for record in memory.list(limit=1000):
        assert found(memory, record.text) == [record.id]
    assert memory.check() == []
