"""How much of what an exact comparison finds does a search by meaning find?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from cofio import Engine, Query, Scope, Where
from cofio.backends.postgres.hnsw import compute_recall
from cofio.backends.upkeep_interface import Tidy

from .. import corpus
from ..speed import LIMIT
from .stores import draw_questions, draw_vectors, fill, open_engine

SIZE = 30_000
SHARES = {"60 %": 60, "30 %": 90, "9 %": 99, "1 %": 100}
"""Scopes, by the share of records that they hold, and where of a hundred records theirs end."""
FILTERS = {
    "": None,
    ", filtered by a fifth of data": 200,
    ", filtered by 2 % of data": 20,
}


def measure_distributions(url: str) -> dict[str, dict[str, float]]:
    """Measure stores whose vectors are in clusters, and at random."""
    places = {"everywhere": Scope()} | {name: Scope("bench", name) for name in SHARES}
    result = {}
    for name in ("clustered", "random"):
        print(f"recall, {name} …", flush=True)
        with open_engine(f"{url}?schema=recall_{name}") as engine:
            vectors = draw_vectors(SIZE, clustered=name == "clustered")
            drafts = [
                replace(draft, scope=Scope("bench", next(share for share, end in SHARES.items() if number % 100 < end)))
                for number, draft in enumerate(corpus.drafts(SIZE))
            ]
            fill(engine, drafts, vectors)
            engine._backend.upkeep(Tidy())
            with psycopg.connect(url, autocommit=True, options=f"-c search_path=recall_{name}") as connection:
                result[name] = measure_recall(engine, connection, places, draw_questions(vectors, 40))
                found = connection.execute("SELECT breadth FROM embedder").fetchone()
                result[name]["breadth"] = float(found[0] or 0) if found else 0.0
    return result


def measure_recall(
    engine: Engine, connection: psycopg.Connection[Any], places: Mapping[str, Scope], questions: NDArray[np.float32]
) -> dict[str, float]:
    """Return the share of the ten nearest that is found, by where is searched and what is filtered by."""
    found: dict[str, float] = {}
    for place, scope in places.items():
        for name, below in FILTERS.items():
            exact, answers = [], []
            for vector in questions:
                filter_ = None if below is None else Where("data.n", "<", below)
                query = Query("", mode="semantic", vector=vector, scope=scope, filter=filter_, limit=LIMIT, floor=0.0)
                answers.append([hit.why.semantic.score for hit in engine.search(query) if hit.why.semantic is not None])
                exact.append(_compare_all(connection, scope, below, vector))
                assert len(answers[-1]) == len(exact[-1]), f"{place}{name}: it came back short"
            found[place + name] = compute_recall(exact, answers)
    return found


def _compare_all(
    connection: psycopg.Connection[Any], scope: Scope, below: int | None, vector: NDArray[np.float32]
) -> list[float]:
    rows = connection.execute(
        "SELECT -(v.data OPERATOR(public.<#>) %s::public.halfvec) AS cosine FROM vector v JOIN record r"
        " ON r.scope = v.scope AND r.no = v.no WHERE v.scope IN (SELECT no FROM scope WHERE path >= %s AND path < %s)"
        f" AND (r.fields->>'n')::int < %s ORDER BY cosine DESC LIMIT {LIMIT}".encode(),
        (str(vector.astype(np.float16).tolist()), scope.path, scope.path + b"\xff", 10**6 if below is None else below),
    )
    return [cosine for (cosine,) in rows.fetchall()]
