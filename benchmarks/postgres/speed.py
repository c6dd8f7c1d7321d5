"""What a write and a search take, in a store of tenants in a folder or on PostgreSQL."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from cofio import Draft, Engine, Filter, Query, Scope, Where
from cofio.backends.upkeep_interface import Tidy

from .. import corpus
from ..peers import RawDisk
from ..speed import LIMIT, Times
from .recall import measure_recall
from .stores import (
    TEMPLATE,
    TENANT,
    copy_tenants,
    draw_questions,
    draw_vectors,
    fill,
    make_drafts,
    name_tenant,
    open_engine,
)

ROUNDS = 150
WIDE_EVERY = 10  # of the rounds of a large store, in which more than one tenant is searched
FILTERS: dict[str, Filter] = {
    "tags and author, 4 %": Where("tags", "has", "auth") & Where("author", "=", "pm"),
    "data, 2 %": Where("data.n", "<", 20),
}


PLACES = {"everywhere": Scope(), "a tenth": Scope("bench", "region-3"), "a tenant": name_tenant(5)}


def measure_folder(size: int, _: str) -> dict[str, Any]:
    """A store in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        with open_engine(Path(folder) / "store") as engine:
            drafts, vectors = make_drafts(size), draw_vectors(size)
            began = time.monotonic()
            fill(engine, drafts, vectors)
            engine._backend.upkeep(Tidy())
            figures: dict[str, Any] = {"fill, minutes": (time.monotonic() - began) / 60}
            disk = RawDisk(Path(folder))
            peers = {"raw 4K + fdatasync": disk.write}
            figures["ms"] = _measure(engine, size, drafts[:TEMPLATE], vectors[:TEMPLATE], peers)
            disk.close()
        figures["disk, GiB"] = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file()) / 2**30
    return figures


def measure_postgresql(size: int, url: str) -> dict[str, Any]:
    """A store on PostgreSQL; one that is filled already is measured as it is."""
    schema = f"size_{size}"
    with (
        open_engine(f"{url}?schema={schema}") as engine,
        psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as connection,
    ):
        own = min(size, TEMPLATE)
        drafts, vectors = make_drafts(own), draw_vectors(own)
        began = time.monotonic()
        if not engine.count(Scope("bench")):
            fill(engine, drafts, vectors)
            copy_tenants(url, schema, size // own - 1)
        filled = time.monotonic()
        engine._backend.upkeep(Tidy())
        ended = time.monotonic()
        figures: dict[str, Any] = {
            "fill, minutes": (filled - began) / 60,
            "index of vectors, minutes": (ended - filled) / 60,
            "ms": _measure(engine, size, drafts, vectors, {"bare INSERT of the row": _make_insert(connection)}),
            "recall": measure_recall(
                engine, connection, PLACES, draw_questions(vectors, 20 if size <= TEMPLATE else 5)
            ),
        }
        sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = %s::regnamespace AND"
        row = connection.execute(f"{sizes} relkind = 'r'".encode(), (schema,)).fetchone()
        figures["disk, GiB"] = float(row[0]) / 2**30 if row else 0.0
    return figures


def _make_insert(connection: psycopg.Connection[Any]) -> Callable[[], None]:
    """Return what inserts the next of some rows as it is into a table like that of records, with its indexes."""
    connection.execute("DROP TABLE IF EXISTS bare")
    connection.execute("CREATE TABLE bare (LIKE record INCLUDING ALL)")
    rows = connection.execute("SELECT * FROM record LIMIT 1000").fetchall()
    statement = f"INSERT INTO bare VALUES ({', '.join(['%s'] * len(rows[0]))})"
    return partial(_insert_next, connection, statement, iter(rows))


def _insert_next(connection: psycopg.Connection[Any], statement: str, rows: Iterator[tuple[Any, ...]]) -> None:
    values = [json.dumps(value) if isinstance(value, dict) else value for value in next(rows)]
    connection.execute(statement.encode(), values)


def _measure(
    engine: Engine,
    size: int,
    drafts: Sequence[Draft],
    vectors: NDArray[np.float32],
    peers: dict[str, Callable[[], None]],
) -> dict[str, list[float]]:
    """Milliseconds of each operation, p50 and p99, all in turns."""
    gc.collect()
    gc.freeze()
    rounds = ROUNDS if size <= TEMPLATE else ROUNDS // 2
    asked, given = corpus.questions(list(drafts), rounds), draw_questions(vectors, rounds)
    ids = [record.id for record in engine.list(limit=rounds)]
    times: dict[str, Times] = {}
    draw = np.random.default_rng(8)
    fresh = iter(corpus.drafts(len(drafts) + rounds + 1000)[-rounds - 1000 :])
    for number, (text, vector) in enumerate(zip(asked, given, strict=True)):
        calls = _list_calls(engine, text, vector, name_tenant((number * 37) % (size // TENANT)))
        if size > TEMPLATE and number % WIDE_EVERY:
            calls = {name: call for name, call in calls.items() if "a tenant" in name}
        draft = next(fresh)
        calls |= {
            "durable write": partial(_write, engine, draft, number),
            "read by id": partial(engine.read, ids[number]),
        }
        for name in sorted(calls | peers, key=lambda _: draw.random()):
            times.setdefault(name, Times(name)).run((calls | peers)[name])
    batch, rest = Times("batch of 100, a row"), list(fresh)
    for start in range(0, 1000, 100):
        batch.run(
            partial(engine.write_many, [replace(each, scope=Scope("fresh")) for each in rest[start : start + 100]])
        )
        batch.taken[-1] /= 100
    return {name: [each.at(0.5), each.at(0.99)] for name, each in (times | {batch.name: batch}).items()}


def _write(engine: Engine, draft: Draft, number: int) -> None:
    # In a scope that no search is in: what is written has no vector, which a search would make first.
    engine.write(
        Scope("fresh", str(number % 7)), title=draft.title, text=draft.text, tags=draft.tags, author=draft.author,
        data=draft.data,
    )  # fmt: skip


def _list_calls(engine: Engine, text: str, vector: Any, tenant: Scope) -> dict[str, Callable[[], object]]:
    """Each way of asking, in all tenants, in a tenth of them and in one."""
    calls: dict[str, Callable[[], object]] = {}
    places = {"": Scope("bench"), ", a tenth": Scope("bench", "region-3"), ", a tenant": tenant}
    for place, scope in places.items():
        for mode in ("keyword", "semantic", "hybrid"):
            own = {} if mode == "keyword" else {"vector": vector}
            query = Query(text, mode=mode, scope=scope, limit=LIMIT, **own)
            calls[mode + place] = partial(engine.search, query)
    for name, filter_ in FILTERS.items():
        for place in ("", ", a tenant"):
            query = Query(text, vector=vector, scope=places[place], limit=LIMIT, filter=filter_)
            calls[f"hybrid{place}, filtered by {name}"] = partial(engine.search, query)
    return calls
