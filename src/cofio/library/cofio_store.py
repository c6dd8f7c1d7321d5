"""A store whose items are records: durable, found by words and by meaning, and seen by every other door."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice, takewhile
from types import TracebackType
from typing import Any, NoReturn, TypeAlias

from ..engine.engine import Engine
from ..engine.retries import retry_conflicts
from ..values.changes import Change, Delete, Put, Vacant
from ..values.errors import Conflict, NotFound, Unavailable
from ..values.query import MAX_LIMIT, MAX_LIST, Hit, Query
from ..values.records import Kind, Record, Scope, checked_vector
from . import items
from .concurrency import in_thread
from .item_changes import PendingDelete, PendingPut, choose_ttl, prepare_delete, prepare_put
from .store import (
    BaseStore,
    Namespace,
    SemanticSearchResult,
    StoreCapabilities,
    StoreItem,
    check_batch,
    check_key,
    check_limit,
    check_namespace,
    check_query,
)
from .transcripts import make_query, search_fresh

_Place: TypeAlias = tuple[Namespace, str]


class CofioStore(BaseStore):
    """A store in a cofio memory. What is put is durable before the call returns, and other processes see it.

    An item is a record of the scope ("store", *namespace): any door can find it. A namespace has 15 names at most, of
    up to 256 characters each, a key up to 1,024 characters, and a value with its metadata up to 1 MiB of JSON.
    Items last for `ttl` seconds, or as long as a put says. The engine is the caller's, and stays open when the store
    is closed.
    """

    def __init__(self, engine: Engine, *, ttl: float | timedelta | None = None) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"engine: expected an Engine, got {type(engine).__name__}")
        self._engine = engine
        self._ttl = ttl
        choose_ttl(ttl)  # one that makes no sense is refused here, and not at the first put

    @property
    def engine(self) -> Engine:
        """The memory that the items are in."""
        return self._engine

    @property
    def capabilities(self) -> StoreCapabilities:
        """Everything; vectors may be of any size."""
        return StoreCapabilities(
            search=True, semantic_search=True, ttl=True, list_namespaces=True, batch_operations=True, transactions=True
        )

    # Writing.

    async def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value, in place of what the key held.

        `ttl` is how many seconds it lasts, math.inf for good whatever the store's own is. With `if_version`, the key
        must hold that version, or nothing for 0.

        Raises:
            Conflict: the key holds another version.
            Invalid: the value is not JSON or too large, or a name is too long; nothing was changed.
        """
        await in_thread(self._change, [prepare_put(namespace, key, value, metadata, ttl=ttl, if_version=if_version)])

    async def put_with_embedding(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        embedding: list[float],
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value with a vector of any size, which stays until the next put."""
        change = prepare_put(namespace, key, value, metadata, embedding=embedding, ttl=ttl, if_version=if_version)
        await in_thread(self._change, [change])

    async def put_batch(self, items: list[tuple[tuple[str, ...], str, Any, dict[str, Any] | None]]) -> None:
        """Store all of the (namespace, key, value, metadata) items in one transaction, or none."""
        await in_thread(self._change, [prepare_put(*item) for item in check_batch(items)])

    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        """Forget a value; whether there was one."""
        return bool(await in_thread(self._change, [prepare_delete(namespace, key)]))

    async def clear_namespace(self, namespace: tuple[str, ...]) -> int:
        """Forget every item of the namespace, and none of those under it; how many there were."""
        check_namespace(namespace)
        return await in_thread(self._clear, items.make_scope(namespace))

    def transaction(self) -> StoreTransaction:
        """Changes that are made together at the end of an `async with` block, or not at all if it raises."""
        return StoreTransaction(self)

    # Reading.

    async def get(self, namespace: tuple[str, ...], key: str) -> Any | None:
        """The value; None when the key holds nothing, or holds None."""
        record = await self._get_record(namespace, key)
        return None if record is None else items.get_value(record)

    async def get_item(self, namespace: tuple[str, ...], key: str) -> StoreItem | None:
        """The value with its metadata, times and version; None when the key holds nothing."""
        record = await self._get_record(namespace, key)
        return None if record is None else _build_item(record)

    async def exists(self, namespace: tuple[str, ...], key: str) -> bool:
        """Whether the key holds a value, be it None."""
        return await self._get_record(namespace, key) is not None

    async def get_batch(self, keys: list[tuple[tuple[str, ...], str]]) -> dict[tuple[tuple[str, ...], str], Any]:
        """The values of those (namespace, key) pairs that hold one, all as of one moment."""
        pairs = list(keys)
        for namespace, key in pairs:
            check_namespace(namespace)
            check_key(key)
        item_keys = [(items.make_scope(namespace), key) for namespace, key in pairs]
        found = await in_thread(self._engine.get_many, item_keys)
        records = zip(pairs, found, strict=True)
        return {(name, key): items.get_value(record) for (name, key), record in records if record is not None}

    async def list_keys(self, namespace: tuple[str, ...], limit: int = 100) -> list[str]:
        """The keys of the namespace in the order in which they were first put."""
        check_namespace(namespace)
        check_limit(limit)
        return await in_thread(self._list_keys, items.make_scope(namespace), limit)

    async def list_namespaces(self, prefix: tuple[str, ...] | None = None, limit: int = 100) -> list[tuple[str, ...]]:
        """The namespaces that hold items and begin with the names of `prefix`, sorted."""
        start = () if prefix is None else prefix
        check_namespace(start)
        check_limit(limit)
        found = await in_thread(self._engine.scopes, items.make_scope(start), kinds=items.KINDS)
        return sorted(items.get_namespace(scope) for scope in found)[:limit]

    async def search(self, namespace: tuple[str, ...], query: str | None = None, limit: int = 10) -> list[StoreItem]:
        """Items of the namespace that answer the query by their words or their meaning, best first, 1,000 at most.

        Without a query, all come, in the order in which they were first put.
        """
        check_namespace(namespace)
        check_query(query)
        check_limit(limit)
        if not limit:
            return []
        scope = items.make_scope(namespace)
        if not query:
            return await in_thread(self._list_items, scope, limit)
        engine_query = Query(make_query(query), scope=scope, exact=True, kinds=items.KINDS, limit=min(limit, MAX_LIMIT))
        page = await in_thread(search_fresh, self._engine, engine_query)
        return [_build_item(record) for record in items.filter_keyed(hit.record for hit in page)]

    async def search_by_meaning(
        self, namespace: tuple[str, ...], query: str, limit: int = 10, threshold: float | None = None
    ) -> list[SemanticSearchResult]:
        """Items of the namespace that mean what the query does, by vectors that the engine makes itself.

        Of what was put a moment ago a few items get their vectors on the way; after many puts at once some may have
        none yet, and `search` finds those by their words.

        Raises:
            Unavailable: the engine has nothing to make vectors with.
        """
        check_namespace(namespace)
        check_limit(limit)
        _check_threshold(threshold)
        scope, most = items.make_scope(namespace), max(1, min(limit, MAX_LIMIT))
        engine_query = Query(
            make_query(query), scope=scope, exact=True, kinds=items.KINDS, mode="semantic", limit=most, floor=0.0
        )
        page = await in_thread(search_fresh, self._engine, engine_query)
        if self._engine.embedder() is None:
            raise Unavailable(page.degraded or "this store has no embedder")
        near = [(hit, hit.why.semantic.score) for hit in page if hit.why.semantic is not None]
        return [_build_result(hit, cosine) for hit, cosine in near[:limit] if _to_score(cosine) >= (threshold or 0.0)]

    async def search_by_embedding(
        self,
        namespace: tuple[str, ...],
        query_embedding: list[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[SemanticSearchResult]:
        """Items of the namespace whose vectors have the size of this one and are most like it, the most alike first.

        The score is their cosine, 0 for any below 0, and the distance 1 less the cosine. The `metadata_filter` has a
        value for each field of the metadata, or operators as in {"stars": {"$gte": 3}}.
        """
        check_namespace(namespace)
        check_limit(limit)
        _check_threshold(threshold)
        wanted = items.ItemFilter("metadata", metadata_filter)
        vector = checked_vector("query_embedding", query_embedding)
        return await in_thread(self._find_nearest, items.make_scope(namespace), vector, limit, threshold or 0.0, wanted)

    async def get_embedding(self, namespace: tuple[str, ...], key: str) -> list[float] | None:
        """The vector that came with the item, as float32; None when there is none."""
        record = await self._get_record(namespace, key)
        given = {} if record is None else await in_thread(self._engine.given, record.id)
        parts = [given[items.WHOLE]] if items.WHOLE in given else list(given.values())
        return list(parts[0]) if parts else None

    # In a thread.

    def _change(self, changes: Sequence[PendingPut | PendingDelete]) -> int:
        """Make the changes in one transaction; how many items were deleted."""

        def attempt() -> int:
            engine_changes = [change for each in self._drop_superseded(changes) for change in self._build_changes(each)]
            answers = self._engine.apply(engine_changes) if engine_changes else []
            return sum(answer for answer in answers if isinstance(answer, int))

        # What was to be deleted may be gone meanwhile, and may have come again; a conflict is the caller's to know of.
        return retry_conflicts(attempt, on=(NotFound,))

    def _drop_superseded(self, changes: Sequence[PendingPut | PendingDelete]) -> Iterator[PendingPut | PendingDelete]:
        """The changes that come to something: what was to happen to a key before it is deleted does not.

        Every `if_version` is of what the key held before all of them, and so it goes with the first that is left.
        """
        deleted: dict[_Place, int] = {}
        relied: dict[_Place, int] = {}
        for at, change in enumerate(changes):
            item_key = (change.namespace, change.key)
            if isinstance(change, PendingDelete):
                deleted[item_key] = at
            if change.if_version is not None and relied.setdefault(item_key, change.if_version) != change.if_version:
                record = self._engine.get(items.make_scope(change.namespace), change.key)
                found = 0 if record is None else record.version
                wrong = relied[item_key] if relied[item_key] != found else change.if_version
                raise Conflict(change.key, expected=wrong, found=found)
        for at, change in enumerate(changes):
            item_key = (change.namespace, change.key)
            if at >= deleted.get(item_key, 0):
                yield replace(change, if_version=relied.pop(item_key, None))

    def _build_changes(self, change: PendingPut | PendingDelete) -> Iterator[Change]:
        if isinstance(change, PendingPut):
            draft = items.build_draft(
                change.namespace, change.key, change.value, change.metadata,
                given=None if change.embedding is None else {items.WHOLE: change.embedding},
            )  # fmt: skip
            yield Put(draft=draft, how="key", if_version=change.if_version, ttl=choose_ttl(change.ttl, self._ttl))
            return
        record = self._engine.get(items.make_scope(change.namespace), change.key)
        if record is not None:
            yield Delete(id=record.id, if_version=change.if_version)
        elif change.if_version:
            raise Conflict(change.key, expected=change.if_version, found=0)
        elif change.if_version == 0:
            past = f"{change.key}\x01"  # no key has a NUL, so it is this one alone
            yield Vacant(scope=items.make_scope(change.namespace), kind=Kind.ITEM, first=change.key, past=past)

    def _clear(self, scope: Scope) -> int:
        def delete_page() -> list[Delete]:
            page = self._engine.headings(scope, exact=True, kinds=items.KINDS, limit=MAX_LIST)
            return [Delete(id=heading.id) for heading in page]

        count = 0
        while deleted := self._engine.change(delete_page):
            count += len(deleted)
        return count

    def _list_keys(self, scope: Scope, limit: int) -> list[str]:
        if not limit:
            return []
        found = items.fetch_pages(
            lambda size, offset: self._engine.headings(
                scope, exact=True, kinds=items.KINDS, limit=size, offset=offset, newest=False, order="written"
            ),
            limit,
        )
        return list(islice((heading.key for heading in found if heading.key is not None), limit))

    def _list_items(self, scope: Scope, limit: int) -> list[StoreItem]:
        found = items.fetch_pages(
            lambda size, offset: self._engine.list(
                scope, exact=True, kinds=items.KINDS, limit=size, offset=offset, newest=False, order="written"
            ),
            limit,
        )
        return [_build_item(record) for record in islice(items.filter_keyed(found), limit)]

    def _find_nearest(
        self, scope: Scope, vector: Sequence[float], limit: int, threshold: float, wanted: items.ItemFilter
    ) -> list[SemanticSearchResult]:
        if not limit:
            return []
        hits = items.fetch_pages(
            lambda size, offset: self._engine.nearest(
                vector, scope, exact=True, kinds=items.KINDS, filter=wanted.filter, limit=size, offset=offset
            ),
            limit if wanted.exact else max(limit, items.PAGE),
        )
        alike = takewhile(lambda hit: _to_score(hit.score) >= threshold, hits)
        fitting = (hit for hit in alike if wanted.exact or wanted.holds(items.get_metadata(hit.record)))
        return [_build_result(hit, hit.score) for hit in islice(fitting, limit)]

    async def _get_record(self, namespace: Namespace, key: str) -> Record | None:
        check_namespace(namespace)
        check_key(key)
        return await in_thread(self._engine.get, items.make_scope(namespace), key, kind=Kind.ITEM)


class StoreTransaction:
    """Changes that are collected, and made in one transaction when the `async with` block ends.

    If it ends with an error none is made, and neither if one cannot be: then the block raises that, a Conflict for a
    key that is not at its `if_version`. That is always the version that the store holds before the transaction, or 0
    for a key that holds nothing there: changes of the same key within the transaction do not count, and two of them
    with different versions are a Conflict. The store's own reads do not see the changes before the end.
    """

    def __init__(self, store: CofioStore) -> None:
        self._store = store
        self._changes: list[PendingPut | PendingDelete] = []
        self._open = False

    async def __aenter__(self) -> StoreTransaction:
        if self._open:
            raise RuntimeError("this transaction has begun already")
        self._changes.clear()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None and self._changes:
            await in_thread(self._store._change, list(self._changes))

    async def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value at the end.

        With `if_version`, the key must hold that version in the store, or nothing for 0.
        """
        self._add(prepare_put(namespace, key, value, metadata, ttl=ttl, if_version=if_version))

    async def put_with_embedding(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        embedding: list[float],
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value with its vector at the end."""
        self._add(prepare_put(namespace, key, value, metadata, embedding=embedding, ttl=ttl, if_version=if_version))

    async def delete(self, namespace: tuple[str, ...], key: str, *, if_version: int | None = None) -> None:
        """Forget a value at the end, if there is one, and what this transaction puts there before.

        With `if_version`, the key must hold that version in the store, or nothing for 0.
        """
        self._add(prepare_delete(namespace, key, if_version))

    def _add(self, change: PendingPut | PendingDelete) -> None:
        if not self._open:
            _raise_closed()
        self._changes.append(change)


def _raise_closed() -> NoReturn:
    raise RuntimeError("this transaction is not open; use it inside of its `async with` block")


def _build_item(record: Record) -> StoreItem:
    return StoreItem(
        namespace=items.get_namespace(record.scope),
        key=str(record.key),
        value=items.get_value(record),
        metadata=items.get_metadata(record),
        created_at=record.created_at,
        updated_at=record.updated_at,
        version=record.version,
    )


def _build_result(hit: Hit, cosine: float) -> SemanticSearchResult:
    return SemanticSearchResult(item=_build_item(hit.record), score=_to_score(cosine), distance=max(0.0, 1.0 - cosine))


def _to_score(cosine: float) -> float:
    # No more digits than float32 bears out: a vector is quite like itself, whatever the threshold.
    return min(1.0, max(0.0, round(cosine, 9)))


def _check_threshold(threshold: object) -> None:
    if threshold is None:
        return
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise TypeError(f"threshold: expected a number, got {type(threshold).__name__}")
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold: {threshold} is not within 0 to 1")
