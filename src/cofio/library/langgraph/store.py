"""LangGraph's long-term memory in a cofio store: what one thread of a graph puts, every other can search.

    with CofioLangGraphStore.open("memory") as store:
        graph = builder.compile(store=store)

A search with a query works as it is, by the engine's own words and vectors; with an `index`, by the vectors that its
embeddings make. Every method is there for graphs that run with `invoke` and for those that run with `ainvoke`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from os import PathLike
from typing import Any, TypeAlias, cast

from ...config.installation import install_command
from ...config.settings import Settings
from ...engine.engine import Engine
from ...values.changes import Change, Delete, Extend, Put, normalize_ttl
from ...values.errors import Invalid, LimitExceeded
from ...values.query import MAX_FILTER_TESTS, MAX_LIMIT, Filter, Hit, Query, Signal, Where
from ...values.records import Json, Record
from .. import items
from ..concurrency import in_thread
from ..transcripts import make_query, search_fresh
from .ownership import EngineOwner, open_connection, open_owned

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        tokenize_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise ImportError(
        f"cofio.library.langgraph needs LangGraph's stores, version 4.3 or newer: {install_command('langgraph')}"
    ) from error

__all__ = ["CofioLangGraphStore"]

Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
Found: TypeAlias = tuple[Record, float | None]
Vectors: TypeAlias = Mapping[str, Sequence[float]]
"""What each text was embedded as."""

_SECOND = timedelta(seconds=1)
_LEAST = 0.01  # of its time: a read that would let an item last less than this longer writes nothing
_AT_ONCE = MAX_FILTER_TESTS - 2  # items that a search can be told to look at, beside two more


@dataclass(slots=True)
class _Batch:
    """The operations of a batch, taken apart: where each one's result belongs, and the last put of each key."""

    size: int = 0
    gets: list[tuple[int, GetOp]] = field(default_factory=list)
    searches: list[tuple[int, SearchOp, items.ItemFilter]] = field(default_factory=list)
    lists: list[tuple[int, ListNamespacesOp]] = field(default_factory=list)
    puts: dict[Place, PutOp] = field(default_factory=dict)

    @classmethod
    def of(cls, ops: Iterable[Op], *, own: bool) -> _Batch:
        """With questions for the engine's `own` search, or else as they are; raises for what is no operation."""
        batch = cls()
        for op in ops:
            if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
                raise ValueError(f"Unknown operation type: {type(op)}")
            validate_op_namespace(op)
            if not isinstance(op, ListNamespacesOp):
                items.make_scope(op.namespace_prefix if isinstance(op, SearchOp) else op.namespace)
            if isinstance(op, GetOp):
                batch.gets.append((batch.size, op))
            elif isinstance(op, SearchOp):
                _check_page(op.limit, op.offset)
                batch.searches.append((batch.size, _normalize_search(op, own), items.ItemFilter("value", op.filter)))
            elif isinstance(op, PutOp):
                batch.puts.pop((op.namespace, op.key), None)
                batch.puts[op.namespace, op.key] = _check_put(op)
            else:
                _check_page(op.limit, op.offset)
                batch.lists.append((batch.size, op))
            batch.size += 1
        return batch


class CofioLangGraphStore(EngineOwner, BaseStore):
    """A LangGraph store in a cofio memory; items are seen by CofioStore and by every other door, and theirs here.

    `index` says how to make vectors, as for LangGraph's other stores: `embed`, `dims` and `fields`. `ttl` takes
    `default_ttl`, in minutes, and `refresh_on_read`. What has expired is never seen, swept or not. Namespaces have 15
    names at most, of up to 256 characters each, keys up to 1,024, and values up to 1 MiB of JSON.
    """

    supports_ttl = True

    def __init__(self, engine: Engine, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"engine: expected an Engine, got {type(engine).__name__}")
        for name, config in (("index", index), ("ttl", ttl)):
            if config is not None and not isinstance(config, Mapping):
                raise TypeError(f"{name}: expected a dict, got {type(config).__name__}")
        super().__init__()
        self.engine = engine
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        fields = (index.get("fields") if index else None) or [items.WHOLE]
        if not isinstance(fields, list | tuple) or not all(isinstance(path, str) for path in fields):
            raise TypeError('index: expected a list of paths for fields, such as ["text"]')
        self._fields = [(path, _tokens(path)) for path in fields]
        if ttl and ttl.get("default_ttl") is not None:
            _parse_minutes(cast(float, ttl["default_ttl"]))  # one that makes no sense is refused here

    # Opening and closing.

    @classmethod
    def open(
        cls,
        store: str | PathLike[str] | None = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        settings: Settings | None = None,
    ) -> CofioLangGraphStore:
        """A store on the folder `store`, found as `Engine.open` does; close it, or use it in a `with` block.

        Raises:
            Unavailable: the folder cannot be used, or was written by a newer cofio.
            Invalid: an option is wrong.
        """
        return open_owned(lambda engine: cls(engine, index=index, ttl=ttl), store, settings)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> CofioLangGraphStore:
        """As LangGraph's own stores name it: `open`, where ":memory:" is a folder that is removed at the end."""
        return open_connection(lambda engine: cls(engine, index=index, ttl=ttl), conn_string)

    def setup(self) -> None:
        """Nothing is left to set up; here for programs that call it on LangGraph's other stores."""

    # A batch reads first, and then makes its puts in one transaction.

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation. Reads see the state before the puts, of which the last of a key counts."""
        batch = _Batch.of(ops, own=self.embeddings is None)
        vectors: Vectors = {}
        if self.embeddings:
            vectors = {query: self.embeddings.embed_query(query) for query in self._queries(batch)}
        results, extends = self._read(batch, vectors)
        texts = self._texts(batch)
        if self.embeddings and texts:
            vectors = _pair_vectors(texts, self.embeddings.embed_documents(texts))
        self._write(batch, vectors, extends)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, with embeddings that are awaited."""
        batch = _Batch.of(ops, own=self.embeddings is None)
        vectors: Vectors = {}
        if self.embeddings:
            vectors = {query: await self.embeddings.aembed_query(query) for query in self._queries(batch)}
        results, extends = await in_thread(self._read, batch, vectors)
        texts = self._texts(batch)
        if self.embeddings and texts:
            vectors = _pair_vectors(texts, await self.embeddings.aembed_documents(texts))
        if batch.puts or extends:
            await in_thread(self._write, batch, vectors, extends)
        return results

    # Expiry.

    def sweep_ttl(self) -> int:
        """Remove what has expired, which no read sees any more; how many records."""
        return self.engine.purge()

    def start_ttl_sweeper(self, sweep_interval_minutes: int | None = None) -> Future[None]:
        """Nothing needs to be started: the engine sweeps by itself. Here for programs written for other stores."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Nothing needs to be stopped."""
        return True

    # Reading, in a thread for a graph that is async.

    def _read(self, batch: _Batch, vectors: Vectors) -> tuple[list[Result], list[Change]]:
        """The results, and how much longer what was read lasts for that."""
        results: list[Result] = [None] * batch.size
        read: list[Record] = []
        places = [(items.make_scope(op.namespace), op.key) for _, op in batch.gets]
        for (number, get), record in zip(batch.gets, self.engine.get_many(places) if places else (), strict=True):
            if record is not None:
                results[number] = Item(**_fields_of(record))
                read += [record] if get.refresh_ttl else []
        for number, search, wanted in batch.searches:
            found = list(self._search(search, wanted, vectors))
            results[number] = [SearchItem(**_fields_of(record), score=score) for record, score in found]
            read += [record for record, _ in found] if search.refresh_ttl else []
        for number, listing in batch.lists:
            results[number] = self._namespaces(listing)
        return results, self._extend_expiry(read)

    def _search(self, op: SearchOp, wanted: items.ItemFilter, vectors: Vectors) -> Iterator[Found]:
        """The items that a search is answered with, after its filter, from its offset up to its limit."""
        if not op.limit:
            return iter(())
        start, size = (op.offset, op.limit) if wanted.exact else (0, items.PAGE)
        if not op.query:
            found = items.fetch_pages(lambda limit, offset: self._list_items(op, wanted, limit, offset), size, start)
        elif self.embeddings is None:
            return islice(self._search_items(op, wanted), op.offset, op.offset + op.limit)
        elif any(vectors[op.query]):
            vector = self._fit_size(vectors[op.query])
            found = items.fetch_pages(
                lambda limit, offset: self._nearest(op, wanted, vector, limit, offset), size, start
            )
        else:
            return iter(())  # what has no direction is like nothing
        fitting = (each for each in found if _fits(each[0], wanted))
        return islice(fitting, op.offset - start, op.offset - start + op.limit)

    def _list_items(self, op: SearchOp, wanted: items.ItemFilter, limit: int, offset: int) -> list[Found]:
        scope = items.make_scope(op.namespace_prefix)
        records = self.engine.list(scope, kinds=items.KINDS, filter=wanted.filter, limit=limit, offset=offset)
        return [(record, None) for record in records]

    def _search_items(self, op: SearchOp, wanted: items.ItemFilter) -> list[Found]:
        """The best, as many as are asked for at least, if that many fit."""
        enough = op.offset + op.limit
        hits: list[Hit] = []
        found: list[Found] = []
        first = enough if wanted.exact and not op.offset else MAX_LIMIT  # so that one page goes on where another ends
        for size in dict.fromkeys((min(first, MAX_LIMIT), MAX_LIMIT)):
            hits = list(search_fresh(self.engine, self._query(op, wanted.filter, size)))
            found = [(hit.record, hit.score) for hit in hits if _fits(hit.record, wanted)]
            if len(hits) < size or len(found) >= enough:
                return found
        return [*found, *self._search_beyond(op, wanted, hits)]

    def _search_beyond(self, op: SearchOp, wanted: items.ItemFilter, hits: Sequence[Hit]) -> list[Found]:
        """What answers a search after as many hits as one can have: all that fit are looked at, some at a time.

        Scores are shares of the best one's. So that they can be compared, these are looked at each time.
        """
        by_words = max(hits, key=lambda hit: _strength(hit.why.keyword)).record.id
        by_meaning = max(hits, key=lambda hit: _strength(hit.why.semantic)).record.id
        seen = {hit.record.id for hit in hits}
        every = self.engine.each(items.make_scope(op.namespace_prefix), kinds=items.KINDS, filter=wanted.filter)
        left = [record.id for record in every if record.id not in seen and _fits(record, wanted)]
        found: list[Found] = []
        for at in range(0, len(left), _AT_ONCE):
            ids = (by_words, by_meaning, *left[at : at + _AT_ONCE])
            page = self.engine.search(self._query(op, Where("id", "in", ids), MAX_LIMIT))
            found += [(hit.record, hit.score) for hit in page if hit.record.id not in seen]
        return sorted(found, key=lambda each: -cast(float, each[1]))

    def _query(self, op: SearchOp, filter: Filter | None, limit: int) -> Query:
        scope = items.make_scope(op.namespace_prefix)
        return Query(cast(str, op.query), scope=scope, kinds=items.KINDS, filter=filter, limit=limit)

    def _nearest(
        self, op: SearchOp, wanted: items.ItemFilter, vector: Sequence[float], limit: int, offset: int
    ) -> list[Found]:
        scope = items.make_scope(op.namespace_prefix)
        hits = self.engine.nearest(vector, scope, kinds=items.KINDS, filter=wanted.filter, limit=limit, offset=offset)
        return [(hit.record, hit.score) for hit in hits]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        if op.max_depth is not None and op.max_depth < 0:
            raise ValueError(f"max_depth: {op.max_depth} is below 0")
        conditions = op.match_conditions or ()
        known = map(items.get_namespace, self.engine.scopes(items.make_scope(()), kinds=items.KINDS))
        fitting = (each for each in known if all(_matches(each, condition) for condition in conditions))
        cut = sorted({each[: op.max_depth] for each in fitting})
        return cut[op.offset : op.offset + op.limit]

    def _extend_expiry(self, read: Sequence[Record]) -> list[Change]:
        """What lets items last from this read on as long as they were put for."""
        lifetimes = {record.id: (items.get_ttl(record), record.expires_at) for record in read}
        if all(ttl is None for ttl, _ in lifetimes.values()):
            return []
        now = self.engine.expiry(_SECOND) - _SECOND
        return [
            Extend(id=record_id, ttl=normalize_ttl(ttl))
            for record_id, (ttl, expires_at) in lifetimes.items()
            if ttl is not None and expires_at is not None
            and ttl - (expires_at - now).total_seconds() >= _LEAST * ttl
        ]  # fmt: skip

    # Writing.

    def _write(self, batch: _Batch, vectors: Vectors, extends: Sequence[Change]) -> None:
        puts = [self._put(op, vectors) for op in batch.puts.values() if op.value is not None]
        doomed = [(items.make_scope(op.namespace), op.key) for op in batch.puts.values() if op.value is None]

        def find_changes() -> list[Change]:
            """What was to be deleted may be gone meanwhile, and may have come again."""
            stored = self.engine.get_many(doomed) if doomed else []
            return [*extends, *puts, *(Delete(id=record.id) for record in stored if record is not None)]

        self.engine.change(find_changes)

    def _put(self, op: PutOp, vectors: Vectors) -> Put:
        seconds = None if op.ttl is None else op.ttl * 60
        given = {part: self._fit_size(vectors[text]) for part, text in self._parts(op) if any(vectors[text])}
        lifetime = None if op.ttl is None else _parse_minutes(op.ttl)
        with _name_field("data", "value"):
            draft = items.build_draft(op.namespace, op.key, cast(Json, op.value), ttl=seconds, given=given or None)
        return Put(draft=draft, how="key", ttl=lifetime)

    # Embedding.

    def _queries(self, batch: _Batch) -> list[str]:
        """The questions to embed, each once."""
        asked = [op.query for _, op, _ in batch.searches if op.query and op.limit] if self.embeddings else []
        return list(dict.fromkeys(asked))

    def _texts(self, batch: _Batch) -> list[str]:
        """The texts of the puts to embed, each once."""
        return list(dict.fromkeys(text for op in batch.puts.values() for _, text in self._parts(op)))

    def _parts(self, op: PutOp) -> Iterator[tuple[str, str]]:
        """The parts of a value that get a vector of their own, by name, with their texts."""
        if self.embeddings is None or op.value is None or op.index is False:
            return
        for path, tokens in self._fields if op.index is None else [(path, _tokens(path)) for path in op.index]:
            texts = get_text_at_path(op.value, tokens)
            for number, text in enumerate(texts):
                yield (f"{path}.{number}" if len(texts) > 1 else path), text

    def _fit_size(self, vector: Sequence[float]) -> Sequence[float]:
        dims = (self.index_config or {}).get("dims")
        if dims is not None and len(vector) != dims:
            raise ValueError(f"index: embed gave a vector of {len(vector)} numbers where dims says {dims}")
        return vector


def _tokens(path: str) -> list[str] | str:
    return path if path == items.WHOLE else tokenize_path(path)


def _pair_vectors(texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> dict[str, Sequence[float]]:
    if len(vectors) != len(texts):
        raise ValueError(f"index: embed gave {len(vectors)} vectors for {len(texts)} texts")
    return dict(zip(texts, vectors, strict=True))


def _strength(signal: Signal | None) -> float:
    return signal.score if signal is not None else -math.inf


def _fits(record: Record, wanted: items.ItemFilter) -> bool:
    """Whether a record is an item, as one without a key is not, and passes a filter."""
    return record.key is not None and (wanted.exact or wanted.holds(items.get_value(record)))


def _fields_of(record: Record) -> dict[str, Any]:
    """What an item has; what another door put need not be a dict, as LangGraph's programs expect, and is put in one."""
    value = items.get_value(record)
    if not isinstance(value, dict):
        value = {"text" if record.source != items.SOURCE and record.data is None else "value": value}
    return {
        "namespace": items.get_namespace(record.scope),
        "key": record.key,
        "value": value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether a namespace begins, or ends, with the condition's names, of which * is any."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return len(namespace) >= len(path) and all(one in ("*", name) for name, one in zip(part, path, strict=True))


@contextmanager
def _name_field(field: str, named: str) -> Iterator[None]:
    """Name a field as the caller does, in what is said of it."""
    try:
        yield
    except LimitExceeded as error:
        raise LimitExceeded(named if error.field == field else error.field, error.limit, error.unit) from None
    except Invalid as error:
        raise Invalid(named if error.field == field else error.field, error.problem) from None


def _normalize_search(op: SearchOp, own: bool) -> SearchOp:
    """A search with a question that the engine can search for; white space is none."""
    if op.query is not None and not isinstance(op.query, str):
        raise TypeError(f"query: expected a string, got {type(op.query).__name__}")
    return op._replace(query=make_query(op.query) or None) if op.query and own else op


def _check_page(limit: object, offset: object) -> None:
    for name, value in (("limit", limit), ("offset", offset)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}")
        if value < 0:
            raise ValueError(f"{name}: {value} is below 0")


def _check_put(op: PutOp) -> PutOp:
    """A put with a copy of its value, which the caller may go on to change; raises TypeError or Invalid."""
    if op.value is not None and not isinstance(op.value, Mapping):
        raise TypeError(f"value: expected a dict or None, got {type(op.value).__name__}")
    paths = op.index or ()
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise TypeError("index: expected False, None or a list of paths")
    if op.ttl is not None and (isinstance(op.ttl, bool) or not isinstance(op.ttl, int | float)):
        raise TypeError(f"ttl: expected minutes, got {type(op.ttl).__name__}")
    if op.value is None:
        return op
    return op._replace(value=cast(dict[str, Any], items.copy_json("value", op.value)))


def _parse_minutes(minutes: float) -> timedelta | None:
    """A lifetime as LangGraph gives it."""
    try:
        return normalize_ttl(minutes * 60)
    except Invalid:
        raise Invalid("ttl", f"expected minutes, more than 0 and up to 1,000 years of them, got {minutes}") from None
