"""The index over an embedder's vectors: when it is made, and how wide a search of it has to be to miss next to nothing.

It is pgvector's HNSW, one for each embedder, since all its vectors must be of one size. Background work makes it once
there are many vectors, and measures it: of a few vectors it looks for the nearest with the index and without, and notes
the least breadth with which both agree. Where none is enough, as with vectors that are spread evenly over all
directions, the index is not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...values.errors import Unavailable
from .database import Connection, Connections
from .vector_rows import encode_vector

LARGE = 10_000  # vectors from which on there is an index, and records from which on a search uses it
MOST_DIMENSIONS = 4000  # that pgvector can index in half precision
BREADTHS = (100, 200, 400, 700, 1000)  # of `hnsw.ef_search`, which takes no more
RECALL = 0.99  # of the ten nearest, on average; searches are to have .98
SAMPLE = 50  # vectors that it is measured with
PAGES = 40  # times as many are read to draw them from, since whole pages are read
JITTER = 0.5
ROUNDING = 1e-6
NEIGHBOURS = 10
DEPTH = 100  # rows that a search asks for, at least
LOOK_EVERY = 60.0  # seconds between two looks whether there is something to do
MOST_STEPS = 100  # that are taken at a time
REST = 600.0  # seconds in which it is not tried again after it failed
LINKS, BUILD_BREADTH = 16, 100
_OWNED = "c.relnamespace = (SELECT o.relnamespace FROM pg_class o WHERE o.oid = '@state'::regclass)"
# A table in parts cannot have an index made beside its writers, so each part has its own.
_TABLES = """
SELECT c.relname, format('%I.%I', n.nspname, c.relname) FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND (
    c.oid = '@vector'::regclass OR c.oid IN (SELECT t.relid FROM pg_partition_tree('@vector') t WHERE t.isleaf)
)
"""
# One that is being made is locked, as it is while the table is vacuumed.
_INDEXES = f"""
SELECT c.relname, i.indisvalid, greatest(c.reltuples, 0)::bigint, EXISTS (
    SELECT FROM pg_locks l WHERE l.relation = i.indrelid AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted
) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE {_OWNED} AND c.relname ^@ 'hnsw_'
"""
_EMBEDDERS = f"""
SELECT e.no, e.dimensions, e.breadth, e.vectors,
       e.breadth IS NOT NULL
       OR (SELECT count(*) FROM (SELECT FROM @vector v WHERE v.embedder = e.no LIMIT $1) AS v) >= $1
FROM @embedder e WHERE e.dimensions BETWEEN 1 AND {MOST_DIMENSIONS}
"""
# Whether there is an index of this number, and no part of it is unfinished. ` is the character after _.
IS_VALID = (
    "coalesce((SELECT bool_and(i.indisvalid) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid"
    f" WHERE {_OWNED} AND c.relname >= 'hnsw_{{number}}_' AND c.relname < 'hnsw_{{number}}`'), false)"
)
# What a search of the index needs, until the end of the transaction. Compiling it would take longer than running it.
SETTINGS = (
    "set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true),"
    " set_config('hnsw.ef_search', greatest({breadth}, 40)::text, true),"
    " set_config('hnsw.max_scan_tuples', '2147483647', true), set_config('hnsw.scan_mem_multiplier', '16', true)"
)
_EXACT = (
    "SELECT -(v.data <#> $1::@@halfvec) FROM @vector v WHERE v.embedder = $2"
    f" ORDER BY v.data <#> $1::@@halfvec LIMIT {NEIGHBOURS}"
)
_WALK = (
    "SELECT cosine FROM (SELECT -(v.data <#> $1::@@halfvec) AS cosine FROM @vector v WHERE v.embedder = {number}"
    f" ORDER BY {{indexed}} <#> $1::@@halfvec LIMIT {DEPTH}) AS w ORDER BY cosine DESC LIMIT {NEIGHBOURS}"
)


class _Embedder(NamedTuple):
    number: int
    dimensions: int
    breadth: int | None
    """What a search of the index asks for; 0 where nothing is enough, None where there is no index."""
    vectors: int
    """How many there were when that was measured."""
    is_large: bool
    """Whether there are enough for an index, or there was one."""


class _Index(NamedTuple):
    is_valid: bool
    vectors: int
    is_busy: bool


class VectorIndexes:
    """The indexes of one store's vectors, which any process may look after, one at a time."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._look_at = 0.0

    def tend(self) -> None:
        """Make, measure or remove indexes where that is due; it can take minutes, in which others read and write.

        Raises:
            Unavailable: it failed, and is not tried again for a while.
        """
        if not self._connections.has_iterative_scan or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_EVERY
        if self._find_step() is None:
            return
        try:
            with self._connections.transaction() as connection:
                # Not by a lock of the session: behind a pooler, the next statement may be in another session.
                steps = MOST_STEPS if self._claim(connection) else 0
                while steps and (step := self._find_step()) is not None:
                    step()
                    steps -= 1
        except Unavailable:
            self._look_at = time.monotonic() + REST
            raise

    def _claim(self, connection: Connection) -> bool:
        """Have the work to oneself until the transaction ends, in which nothing else is done."""
        lock = "SELECT pg_try_advisory_xact_lock(hashtextextended('cofio vectors ' || $1, 0))"
        row = self._connections.execute(connection, lock, (self._connections.schema,)).fetchone()
        # A statement without values also ends the one before, whose snapshot the making of an index would wait for.
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        return row is not None and bool(row[0])

    def _find_step(self) -> Callable[[], None] | None:
        """Return the next thing to do; None if there is none, or another is at it."""
        indexes = {name: _Index(*rest) for name, *rest in self._connections.fetch(_INDEXES)}
        tables = self._connections.fetch(_TABLES)
        embedders = [_Embedder(*row) for row in self._connections.fetch(_EMBEDDERS, (LARGE,))]
        if any(index.is_busy for index in indexes.values()):
            return None
        names = {_name(each.number, table): (each, address) for each in embedders for table, address in tables}
        for name, index in indexes.items():
            if name not in names or not index.is_valid:  # its embedder is gone, or the process that made it
                return partial(self._drop, name)
        for name, (embedder, address) in names.items():
            if name not in indexes and embedder.is_large:
                return partial(self._build, name, address, embedder)
        for embedder in embedders:
            vectors = sum(
                indexes[name].vectors for name, (each, _) in names.items() if each == embedder and name in indexes
            )
            if vectors and (embedder.breadth is None or not vectors / 2 < embedder.vectors < vectors * 4):
                return partial(self._measure, embedder, vectors)
        return None

    def _drop(self, name: str) -> None:
        self._define(f'DROP INDEX CONCURRENTLY IF EXISTS "{self._connections.schema}"."{name}"')

    def _build(self, name: str, table: str, embedder: _Embedder) -> None:
        self._define(
            f'CREATE INDEX CONCURRENTLY IF NOT EXISTS "{name}" ON {table} USING hnsw'
            f" ((data::@@halfvec({embedder.dimensions:d})) @@halfvec_ip_ops)"
            f" WITH (m = {LINKS}, ef_construction = {BUILD_BREADTH}) WHERE embedder = {embedder.number:d}"
        )

    def _define(self, statement: str) -> None:
        """Run a statement that no transaction may be open for."""
        with self._connections.connect() as connection:
            self._connections.execute(connection, statement)

    def _measure(self, embedder: _Embedder, vectors: int) -> None:
        """Note the least breadth with which the index finds what a comparison with all vectors finds."""
        questions = self._draw_questions(embedder, vectors)
        exact = [self._fetch_cosines(_EXACT, question, embedder.number) for question in questions]
        walk = _WALK.format(number=embedder.number, indexed=cast_vector(embedder.dimensions))
        enough = 0
        for breadth in BREADTHS:
            with self._connections.transaction() as connection:
                self._connections.execute(connection, f"SELECT {SETTINGS.format(breadth=breadth)}")
                found = [
                    [cosine for (cosine,) in self._connections.execute(connection, walk, (question,)).fetchall()]
                    for question in questions
                ]
            if compute_recall(exact, found) >= RECALL:
                enough = breadth
                break
        self._connections.fetch(
            "UPDATE @embedder SET breadth = $2, vectors = $3 WHERE no = $1", (embedder.number, enough, vectors)
        )

    def _fetch_cosines(self, statement: str, *values: object) -> list[float]:
        return [cosine for (cosine,) in self._connections.fetch(statement, values)]

    def _draw_questions(self, embedder: _Embedder, vectors: int) -> list[str]:
        """Return vectors near some of those that there are: a question is near its answer, not equal to it."""
        import numpy as np

        rows = self._connections.fetch(
            "SELECT v.data::@@vector::real[] FROM @vector v TABLESAMPLE SYSTEM ($1::real) WHERE v.embedder = $2"
            f" ORDER BY random() LIMIT {SAMPLE}",
            (min(100.0, 100 * SAMPLE * PAGES / max(vectors, 1)), embedder.number),
        )
        drawn = np.asarray([row for (row,) in rows], np.float64).reshape(-1, embedder.dimensions)
        drawn += np.random.default_rng(len(rows)).normal(0, JITTER / np.sqrt(embedder.dimensions), drawn.shape)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return [encode_vector(each) for each in drawn.astype(np.float32)]


def compute_recall(exact: Sequence[Sequence[float]], found: Sequence[Sequence[float]]) -> float:
    """Return which share of the nearest was found, by their cosines, best first; of equals it does not matter which."""
    hits = wanted = 0
    for right, answers in zip(exact, found, strict=True):
        wanted += len(right)
        hits += min(len(right), sum(cosine >= right[-1] - ROUNDING for cosine in answers))
    return hits / wanted if wanted else 1.0


def cast_vector(width: int) -> str:
    """SQL of a vector as it is indexed."""
    return f"(v.data::@@halfvec({width:d}))"


def _name(number: int, table: str) -> str:
    return f"hnsw_{number}_{table}"
