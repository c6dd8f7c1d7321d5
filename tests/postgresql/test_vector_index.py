"""Searches by meaning at size: the index finds what a comparison with all vectors finds, and never too little."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from cofio import Draft, Engine, Filter, Query, Scope, Settings, Unavailable, Where
from cofio.backends.postgres import candidate_query, hnsw
from cofio.backends.postgres.database import ServerAddress
from cofio.backends.upkeep_interface import Tidy
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .. import postgres
from ..waiting import join, wait_until

QUIET = Settings(background=False, embedder="none", sync="normal")
RECORDS, WIDTH, TEN = 1500, 64, 10
SHARES = {"large": 70, "half": 95, "small": 100}
"""Scopes, and where of a hundred records theirs end."""
FILTERS: dict[str, tuple[Filter | None, int]] = {
    "all": (None, RECORDS),
    "half of them": (Where("data.n", "<", RECORDS // 2), RECORDS // 2),
    "few": (Where("data.n", "<", 40), 40),
}


class Drawn(HashedEmbedder):
    """Has an id of its own; vectors are given with queries and stored by the test."""

    id = "drawn"


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw, "LARGE", 400)
    monkeypatch.setattr(hnsw, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(hnsw, "REST", 0.0)
    monkeypatch.setattr(candidate_query, "WALK_COST", 1)


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """A memory whose vectors are drawn."""
    with Engine.open(store, settings=QUIET, embedder=Drawn()) as opened:
        yield opened


@pytest.fixture
def admin(store: StoreAddress) -> Iterator[psycopg.Connection[Any]]:
    """A connection that sees the store's tables."""
    schema = ServerAddress.parse(store.spell()).schema
    with psycopg.connect(postgres.find_url(), autocommit=True, options=f"-c search_path={schema}") as connection:
        yield connection


def draw(kind: str) -> NDArray[np.float32]:
    """Vectors of length 1: in clusters, each scope with clusters of its own, or at random."""
    drawn = np.random.default_rng(7)
    made = drawn.normal(size=(RECORDS, WIDTH))
    if kind == "clustered":
        centers = drawn.normal(size=(3, 20, WIDTH))
        for number in range(RECORDS):
            made[number] = centers[_find_scope(number), number % 20] + 0.4 * made[number]
    lengths: NDArray[np.float64] = np.linalg.norm(made, axis=1, keepdims=True)
    return (made / lengths).astype(np.float32)


def _find_scope(number: int) -> int:
    return next(at for at, end in enumerate(SHARES.values()) if number % 100 < end)


def fill(engine: Engine, vectors: NDArray[np.float32]) -> None:
    """Write a record for each vector."""
    names = list(SHARES)
    for start in range(0, len(vectors), 1000):
        engine.write_many([
            Draft(scope=Scope("here", names[_find_scope(number)]), text=f"note {number}", data={"n": number})
            for number in range(start, min(start + 1000, len(vectors)))
        ])  # fmt: skip
    done = 0
    while done < len(vectors):
        with engine._backend.claim("drawn", 1000) as batch:
            assert batch is not None
            batch.store(vectors[done : done + len(batch.texts)])
            done += len(batch.texts)


def find(engine: Engine, vector: NDArray[np.float32], scope: Scope, filter_: Filter | None = None) -> list[int]:
    """The numbers of the ten that are found by meaning."""
    query = Query("", mode="semantic", vector=vector.tolist(), scope=scope, filter=filter_, limit=TEN, floor=0.0)
    return [int(hit.record.text.removeprefix("note ")) for hit in engine.search(query)]


def find_exactly(vectors: NDArray[np.float32], vector: NDArray[np.float32], scope: Scope, below: int) -> list[int]:
    """The same by comparing all."""
    cosines = vectors.astype(np.float16).astype(np.float32) @ vector.astype(np.float16).astype(np.float32)
    names = list(SHARES)
    own = [number for number in range(below) if scope == Scope("here") or scope.names[-1] == names[_find_scope(number)]]
    return sorted(own, key=lambda number: -cosines[number])[:TEN]


def count_index_scans(admin: psycopg.Connection[Any]) -> int:
    """How often an index of vectors was used, as far as is known by now."""
    sql = "SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes WHERE schemaname = current_schema() AND"
    row = admin.execute(f"{sql} indexrelname LIKE 'hnsw%'".encode()).fetchone()
    assert row is not None
    return int(row[0])


def list_indexes(admin: psycopg.Connection[Any]) -> list[tuple[str, bool]]:
    """The indexes of vectors, and whether each is valid."""
    return admin.execute(
        "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'vector'::regclass AND c.relname LIKE 'hnsw%'"
    ).fetchall()


@pytest.mark.parametrize("kind", ["clustered", "random"])
@pytest.mark.usefixtures("wide")
def test_the_nearest_are_found_in_every_scope_with_every_filter(
    engine: Engine, admin: psycopg.Connection[Any], kind: str
) -> None:
    vectors = draw(kind)
    fill(engine, vectors)
    engine._backend.upkeep(Tidy())
    assert list_indexes(admin) == [("hnsw_1_vector", True)]
    find(engine, vectors[0], Scope("here"))  # from then on the process knows the embedder's number
    before = count_index_scans(admin)
    hits = wanted = 0
    for name in ("", *SHARES):
        scope = Scope("here", name) if name else Scope("here")
        for filter_, below in FILTERS.values():
            for number in range(0, RECORDS, RECORDS // 6):
                found = find(engine, vectors[number], scope, filter_)
                exact = find_exactly(vectors, vectors[number], scope, below)
                assert len(found) == len(exact)
                hits, wanted = hits + len({*found} & {*exact}), wanted + len(exact)
    assert hits / wanted >= 0.98
    wait_until(lambda: count_index_scans(admin) > before)


def test_an_index_that_cannot_find_enough_is_not_used(
    engine: Engine, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hnsw, "BREADTHS", (1,))
    monkeypatch.setattr(hnsw, "RECALL", 1.1)
    vectors = draw("random")
    fill(engine, vectors)
    engine._backend.upkeep(Tidy())
    assert admin.execute("SELECT breadth, vectors FROM embedder").fetchall() == [(0, RECORDS)]
    for number in range(0, RECORDS, RECORDS // 20):
        assert find(engine, vectors[number], Scope("here")) == find_exactly(
            vectors, vectors[number], Scope("here"), RECORDS
        )


def test_an_index_left_half_made_is_not_used_and_made_again(
    engine: Engine, store: StoreAddress, admin: psycopg.Connection[Any]
) -> None:
    vectors = draw("clustered")
    fill(engine, vectors)
    failures: list[str] = []

    def build() -> None:
        try:
            engine._backend.upkeep(Tidy())
        except Unavailable as error:
            failures.append(str(error))

    with psycopg.connect(postgres.find_url()) as reader:
        # A reader who began before is waited for, which leaves time to look at the index while it is made.
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        builder = threading.Thread(target=build)
        builder.start()
        wait_until(lambda: list_indexes(admin) == [("hnsw_1_vector", False)])
        with Engine.open(store, settings=QUIET, embedder=Drawn()) as other:
            other._backend.upkeep(Tidy())  # leaves it to the first
        assert list_indexes(admin) == [("hnsw_1_vector", False)]
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%hnsw_1_vector%'"
        assert len(admin.execute(kill).fetchall()) == 1
        join(builder)
    assert len(failures) == 1
    assert list_indexes(admin) == [("hnsw_1_vector", False)]
    find(engine, vectors[0], Scope("here"))
    assert find(engine, vectors[3], Scope("here")) == find_exactly(vectors, vectors[3], Scope("here"), RECORDS)
    engine._backend.upkeep(Tidy())
    assert list_indexes(admin) == [("hnsw_1_vector", True)]
    assert engine.check() == []


def test_few_vectors_and_an_older_pgvector_and_an_embedder_that_is_gone_have_no_index(
    engine: Engine, admin: psycopg.Connection[Any]
) -> None:
    vectors, connections = draw("clustered"), engine._backend._connections  # type: ignore[attr-defined]
    for start, is_new in ((0, True), (300, False), (600, True)):
        connections.has_iterative_scan = is_new  # as pgvector 0.7 does not have it
        fill(engine, vectors[start : start + 300])
        engine._backend.upkeep(Tidy())
        assert list_indexes(admin) == ([("hnsw_1_vector", True)] if start == 600 else [])
    engine._backend.rebuild("drawn", vectors=True)
    engine._backend.upkeep(Tidy())
    assert list_indexes(admin) == []
