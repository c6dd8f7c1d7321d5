"""Stores of tenants, and how they are filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from cofio import Draft, Engine, Scope, Settings
from cofio.backends.postgres.conditions import digest
from cofio.backends.upkeep_interface import Index

from .. import corpus
from ..speed import EMBEDDER

TENANT = 1000  # records of each
REGIONS = 10  # tenants stand under one of them
TEMPLATE = 100_000  # more records than that are copied within the database, for other tenants
OFFSET = 10_000_000  # between the numbers of a record and of its copy
WIDTH = 384
CLUSTERS, INNER, SPREAD, NOISE = 1000, 32, 0.9, 0.15


def draw_vectors(count: int, *, clustered: bool = True, seed: int = 3) -> NDArray[np.float32]:
    """Draw vectors of length 1: in clusters that vary in a few directions, as embeddings do, or at random."""
    draw = np.random.default_rng(seed)
    if clustered:
        centers, basis = _draw_shape()
        made = centers[draw.integers(0, CLUSTERS, count)] + SPREAD * draw.normal(size=(count, INNER)) @ basis
        made += NOISE * draw.normal(size=(count, WIDTH))
    else:
        made = draw.normal(size=(count, WIDTH))
    return _normalize(made)


def _draw_shape() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw the centers of the clusters, and the directions in which they vary."""
    draw = np.random.default_rng(1)
    return draw.normal(size=(CLUSTERS, WIDTH)), draw.normal(size=(INNER, WIDTH)) / np.sqrt(INNER)


def _draw_moves(count: int) -> NDArray[np.float64]:
    """Draw what brings a vector of length 1 elsewhere in its cluster, as far as two of a cluster are apart."""
    moves = SPREAD * np.random.default_rng(9).normal(size=(count, INNER)) @ _draw_shape()[1]
    moves /= np.sqrt(WIDTH * (1 + SPREAD**2 + NOISE**2))
    return moves


def _normalize(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / lengths).astype(np.float32)


def draw_questions(vectors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Draw vectors of questions: each near its answer, not equal to it."""
    draw = np.random.default_rng(5)
    made = vectors[draw.integers(0, len(vectors), count)] + draw.normal(0, 0.5 / np.sqrt(WIDTH), (count, WIDTH))
    return _normalize(made)


def make_drafts(size: int) -> list[Draft]:
    """Records of tenants, which write in turns."""
    tenants = max(1, size // TENANT)
    return [replace(draft, scope=name_tenant(number % tenants)) for number, draft in enumerate(corpus.drafts(size))]


def name_tenant(number: int) -> Scope:
    """The scope of a tenant."""
    return Scope("bench", f"region-{number % REGIONS}", f"tenant-{number}")


def fill(engine: Engine, drafts: Sequence[Draft], vectors: NDArray[np.float32]) -> None:
    """Write records by the engine, and give each a vector."""
    for start in range(0, len(drafts), 1000):
        engine.write_many(drafts[start : start + 1000])
    backend, done = engine._backend, 0
    while backend.upkeep(Index(limit=20_000)).more:
        pass
    while True:
        with backend.claim(EMBEDDER, 2000) as batch:
            if batch is None:
                break
            batch.store(vectors[done : done + len(batch.texts)] if batch.texts else None)
            done += len(batch.texts)
    backend.upkeep(Index(limit=1, embedder=EMBEDDER))


def copy_tenants(url: str, schema: str, copies: int) -> None:
    """Copy all records of a store for other tenants, so many times, within the database."""
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema},public") as connection:
        connection.execute("CREATE TEMP TABLE jitter (n integer, data halfvec)")
        with connection.cursor().copy("COPY jitter FROM STDIN") as copy:
            for number, row in enumerate(_draw_moves(997).tolist()):
                copy.write_row((number, str(row)))
        rows = connection.execute("SELECT no, path FROM scope").fetchall()
        for turn in range(1, copies + 1):
            _copy_once(connection, rows, turn)
            print(f"  {turn} of {copies} copies", flush=True)
        connection.execute("SELECT setval('change', (SELECT max(seq) FROM record))")
        connection.execute("VACUUM ANALYZE")


def _copy_once(connection: psycopg.Connection[Any], scopes: Sequence[tuple[int, bytes]], turn: int) -> None:
    connection.execute("DROP TABLE IF EXISTS moved")
    connection.execute("CREATE TEMP TABLE moved (old bigint PRIMARY KEY, new bigint)")
    for number, path in scopes:
        tenant = int(Scope.from_path(path).names[-1].removeprefix("tenant-")) + turn * len(scopes)
        moved = name_tenant(tenant).path
        connection.execute(
            "WITH s AS (INSERT INTO scope (digest, path) VALUES (%s, %s) RETURNING no)"
            " INSERT INTO moved SELECT %s, no FROM s",
            (digest(moved), moved, number),
        )
    later = f"t.no + {turn * OFFSET}"
    changed = {"scope": "m.new", "no": later, "seq": later, "text_seq": later}
    changed["id"] = f"substr(md5(t.id || '-{turn}'), 1, length(t.id))"
    for table in ("record", "record_id", "posting", "vector", "scope_size"):
        names = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        columns = [name for (name,) in connection.execute(names, (table,))]
        values = changed | {"data": "l2_normalize(t.data + j.data)"} if table == "vector" else changed
        source = f"{table} t JOIN moved m ON m.old = t.scope"
        source += f" JOIN jitter j ON j.n = (t.no * {turn}) % 997" if table == "vector" else ""
        order = {"scope_size": "t.scope", "posting": "m.new, t.term, t.no"}.get(table, "t.no")
        selected = ", ".join(values.get(name, f"t.{name}") for name in columns)
        statement = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {selected} FROM {source} ORDER BY {order}"
        connection.execute(statement.encode())


@contextmanager
def open_engine(address: str | Path) -> Iterator[Engine]:
    with Engine.open(address, settings=Settings(background=False, embedder="minilm")) as engine:
        yield engine
