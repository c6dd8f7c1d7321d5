"""Codes of tokens are stored with vectors, go with the text that they are of, and are made where they are missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.coded import CodedEmbedder, encode_words
from tests.waiting import wait_until

from cofio import Draft, Engine, Kind, Query, Scope, Settings
from cofio.backends.interface import Backend
from cofio.backends.store_copy import StoredRecord
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine import opening
from cofio.values.query import Bounds

from ..conftest import Stores
from .conftest import QUIET

HERE, THERE = Scope("a"), Scope("b")
EVERYWHERE = Bounds(scope=Scope(), exact=False, kinds=(), filter=None)
EMBEDDER = CodedEmbedder()
THEN = datetime(2026, 1, 1, tzinfo=UTC)
OFF = Settings(background=False, embedder="none", token_codes=False)


@pytest.fixture
def coded(reopen: Callable[..., Engine]) -> Engine:
    """An empty memory whose embedder makes codes."""
    return reopen(embedder=EMBEDDER)


def read_codes(backend: Backend, embedder: HashedEmbedder = EMBEDDER) -> dict[str, bytes | None]:
    """The codes of every record, by its id, as a search has them."""
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.candidates((), embedder.embed_query("?"), embedder.id, depth=99, flat_depth=99)
        contents = searcher.around((), 1, list(found.rows)).contents
        assert contents.keys() == found.rows.keys()
        return {found.rows[row].id: content.codes for row, content in contents.items()}


def test_what_is_embedded_has_codes(backend: Backend, coded: Engine) -> None:
    records = coded.write_many([Draft(scope=HERE, text=f"walrus {n} on ice") for n in range(40)])
    empty = coded.write(HERE, title="🦭", text="")
    coded.settle()
    codes = read_codes(backend)
    assert codes == {record.id: encode_words(record.text) for record in records} | {empty.id: encode_words("🦭")}


def test_what_stands_around_a_candidate_comes_with_its_codes(backend: Backend, coded: Engine) -> None:
    turns = coded.write_many([Draft(scope=HERE, text=f"n{n}", parent="s", position=n) for n in range(5)])
    coded.settle()
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.candidates(("n2",), EMBEDDER.embed_query("n2"), EMBEDDER.id, depth=1, flat_depth=1)
        around = searcher.around(list(found.rows.values()), 1, list(found.rows))
        by_id = {each.id: around.contents[row].codes for row, each in (found.rows | around.rows).items()}
        assert by_id == {turn.id: encode_words(turn.text) for turn in turns[1:4]}


def test_codes_go_with_the_text_that_they_are_of(backend: Backend, coded: Engine) -> None:
    edited, moved, deleted = coded.write_many([Draft(scope=HERE, text=text) for text in ("one", "two", "three")])
    coded.settle()
    coded.edit(edited.id, text="another")
    coded.edit(moved.id, author="someone")
    coded.move(moved.id, scope=THERE)
    coded.delete(deleted.id)
    assert read_codes(backend) == {moved.id: encode_words("two")}
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.candidates(("anoth",), EMBEDDER.embed_query("?"), EMBEDDER.id, depth=9, flat_depth=9)
        (row,) = found.keyword
        assert searcher.around((), 1, [row]).contents[row].codes is None
    coded.settle()
    assert read_codes(backend) == {edited.id: encode_words("another"), moved.id: encode_words("two")}


def test_a_search_that_makes_vectors_makes_codes(backend: Backend, coded: Engine) -> None:
    class Other(CodedEmbedder):
        id = "other-384"

    first = coded.write(HERE, text="walrus")
    coded.search(Query("walrus", mode="semantic"))
    coded.settle()
    fresh = coded.write(HERE, text="heron")
    assert coded.search(Query("heron", mode="semantic")).degraded is None
    assert read_codes(backend) == {first.id: encode_words("walrus"), fresh.id: encode_words("heron")}
    assert read_codes(backend, Other()) == {}  # they are of one embedder


def test_no_codes_are_made_by_a_setting_or_without_an_embedder_that_can(
    backend: Backend, reopen: Callable[..., Engine]
) -> None:
    for number, engine in enumerate((reopen(OFF, EMBEDDER), reopen(embedder=HashedEmbedder()))):
        engine.write(HERE, text=f"walrus {number}")
        engine.settle()
        engine.write(HERE, text=f"heron {number}")
        engine.search(Query("heron", mode="semantic"))
        assert set(read_codes(backend).values()) == {None}
        assert engine.check() == []


@pytest.mark.parametrize("how", ["settle", "reindex", "background"])
def test_vectors_without_codes_get_them_and_stay_as_they_were(
    backend: Backend, reopen: Callable[..., Engine], how: str
) -> None:
    plain = reopen(embedder=HashedEmbedder())
    records = plain.write_many([Draft(scope=HERE, text=f"walrus {n}") for n in range(50)])
    plain.settle()
    before = {part.record.id: part.vectors for part in backend.dump() if isinstance(part, StoredRecord)}
    later = reopen(Settings(embedder="none", background=how == "background"), EMBEDDER)
    new = later.write(HERE, text="heron")
    if how == "reindex":
        later.reindex()
    if how != "background":
        later.settle()
    expected = {record.id: encode_words(record.text) for record in (*records, new)}
    wait_until(lambda: read_codes(backend) == expected)
    after = {part.record.id: part.vectors for part in backend.dump() if isinstance(part, StoredRecord)}
    assert all(np.array_equal(before[one]["hashed-384"], after[one]["hashed-384"]) for one in before)
    assert later.stats().vectors == {"hashed-384": 51}
    assert later.check() == []


def test_a_vector_that_came_with_its_record_gets_codes(backend: Backend, coded: Engine) -> None:
    vectors = {"one": EMBEDDER.embed(["walrus"])[0].tolist()}
    coded.restore([Draft(scope=HERE, id="one", text="walrus", version=1, updated_at=THEN)], vectors=vectors)
    assert read_codes(backend) == {"one": None}
    coded.settle()
    assert read_codes(backend) == {"one": encode_words("walrus")}


def test_codes_are_not_stored_for_a_text_that_changed_meanwhile(
    backend: Backend, reopen: Callable[..., Engine]
) -> None:
    plain = reopen(embedder=HashedEmbedder())
    changed, gone, same = plain.write_many([Draft(scope=HERE, text=text) for text in ("one", "two", "three")])
    plain.settle()
    with backend.claim_uncoded("hashed-384", 9) as batch:
        assert batch is not None
        assert sorted(batch.texts) == ["one", "three", "two"]
        plain.edit(changed.id, text="another")
        plain.delete(gone.id)
        batch.store([encode_words(text) for text in batch.texts])
    plain.settle()
    assert read_codes(backend) == {changed.id: None, same.id: encode_words("three")}


def test_one_process_at_a_time_makes_the_codes_that_are_missing(
    backend: Backend, open_backend: Callable[[], Backend], reopen: Callable[..., Engine]
) -> None:
    plain, other = reopen(embedder=HashedEmbedder()), open_backend()
    plain.write_many([Draft(scope=HERE, text=f"walrus {n}") for n in range(5)])
    plain.settle()
    with backend.claim_uncoded("hashed-384", 2) as batch:
        assert batch is not None
        assert len(batch.texts) == 2
        with other.claim_uncoded("hashed-384", 2) as another:
            assert another is None
        batch.store([b"", b""])
    with other.claim_uncoded("hashed-384", 9) as rest:
        assert rest is not None
        assert len(rest.texts) == 3
        rest.store([b""] * 3)
    with backend.claim_uncoded("hashed-384", 9) as nothing:
        assert nothing is None
    with backend.claim_uncoded("unknown", 9) as nothing:
        assert nothing is None


def test_a_copy_has_the_codes(
    store_address: StoreAddress, coded: Engine, backend: Backend, stores: Stores, clock: Callable[[], datetime]
) -> None:
    coded.write_many([Draft(scope=HERE, text=f"walrus {n}") for n in range(20)])
    coded.settle()
    coded.write(HERE, text="not embedded yet")
    coded.put(HERE, "state", data={"n": 1}, kind=Kind.STATE)
    target = stores.new()
    opening.copy_store(store_address, target)
    copied = opening.open_backend(target, QUIET, clock)
    try:
        assert read_codes(copied) == read_codes(backend)
    finally:
        copied.close()
