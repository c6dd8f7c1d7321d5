"""Items in Redis, or a server that speaks its protocol (the extra `redis`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from ...engine.engine import MAX_BATCH
from ...text.bm25 import make_word_scorer, weigh_word
from ...text.tokenizer import split_query, split_record
from ...values.errors import Conflict, LimitExceeded
from ...values.records import MAX_KEY, check_text
from .. import items
from ..concurrency import in_thread
from ..item_changes import PendingPut, Ttl, choose_ttl, prepare_delete, prepare_put
from ..store import (
    BaseStore,
    Namespace,
    StoreCapabilities,
    StoreItem,
    check_batch,
    check_limit,
    check_namespace,
    check_query,
)
from ..transcripts import make_query
from .document_checkpointer import Clock, decode, encode
from .redis_client import ENCODE, NO_RETRY, connect, end_prefix, translate_errors

if TYPE_CHECKING:
    from redis.commands.core import Script

__all__ = ["RedisStore"]

P = ParamSpec("P")
T = TypeVar("T")

_PAGE = 500

# After the prefix come: `turn`, a counter; `namespaces`, those that hold items; `NAMESPACE:keys`, the keys of one by
# the turn of their first put; and for each item a hash, `NAMESPACE:KEY:item`. A namespace is its names,
# percent-encoded, with slashes between them. Each script is one step for everyone else. An item whose time is over
# leaves its key behind; a script that comes across it takes it away.
_SHARED = f"""
{ENCODE}
local function at(space, key) return prefix .. space .. ':' .. encode(key) .. ':item' end
local function keys(space) return prefix .. space .. ':keys' end
local function settle(space)
  if redis.call('EXISTS', keys(space)) == 0 then redis.call('ZREM', prefix .. 'namespaces', space) end
end
"""

_PUT = """
for each = 3, #ARGV, 6 do
  local expected = ARGV[each + 5]
  local held = redis.call('HGET', at(ARGV[each], ARGV[each + 1]), 'version') or '0'
  if expected ~= '' and expected ~= held then return held end
end
for each = 3, #ARGV, 6 do
  local now, space, key, ttl = ARGV[2], ARGV[each], ARGV[each + 1], ARGV[each + 4]
  local item = at(space, key)
  local held = redis.call('HMGET', item, 'created', 'version')
  if not held[2] then
    redis.call('ZADD', keys(space), redis.call('INCR', prefix .. 'turn'), key)
    redis.call('ZADD', prefix .. 'namespaces', 0, space)
  end
  redis.call('DEL', item)
  redis.call('HSET', item, 'value', ARGV[each + 2], 'metadata', ARGV[each + 3], 'created', held[1] or now,
    'updated', now, 'version', (tonumber(held[2]) or 0) + 1)
  if ttl ~= '' then redis.call('PEXPIRE', item, ttl) end
end
return nil
"""

_GET = """
local found = {}
for each = 2, #ARGV, 2 do
  local item = redis.call('HMGET', at(ARGV[each], ARGV[each + 1]), 'value', 'metadata', 'created', 'updated', 'version')
  found[#found + 1] = item[5] and item
end
return found
"""

_LIST = """
local space, after, most, whole = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == 'whole'
local found = {}
while #found < most do
  local page = redis.call('ZRANGEBYSCORE', keys(space), after, '+inf', 'WITHSCORES', 'LIMIT', 0, most - #found)
  if #page == 0 then break end
  for each = 1, #page, 2 do
    local key, turn, item = page[each], page[each + 1]
    if whole then
      item = redis.call('HMGET', at(space, key), 'value', 'metadata', 'created', 'updated', 'version')
    else
      item = redis.call('HMGET', at(space, key), 'version')
    end
    if item[#item] then
      found[#found + 1] = {turn, key, item}
    else
      redis.call('ZREM', keys(space), key)
    end
    after = '(' .. turn
  end
end
settle(space)
return found
"""

_DELETE = """
local space, key = ARGV[2], ARGV[3]
local deleted = redis.call('DEL', at(space, key))
redis.call('ZREM', keys(space), key)
settle(space)
return deleted
"""

_CLEAR = """
local space, last, most = ARGV[2], ARGV[3], ARGV[4]
if last == '' then last = redis.call('GET', prefix .. 'turn') or '0' end
local page = redis.call('ZRANGEBYSCORE', keys(space), '-inf', last, 'LIMIT', 0, most)
local deleted = 0
for _, key in ipairs(page) do
  deleted = deleted + redis.call('DEL', at(space, key))
  redis.call('ZREM', keys(space), key)
end
settle(space)
return {last, #page, deleted}
"""

_NAMESPACES = """
local under, spaces = ARGV[2], nil
if under == '' then
  spaces = redis.call('ZRANGE', prefix .. 'namespaces', 0, -1)
else
  spaces = redis.call('ZRANGEBYLEX', prefix .. 'namespaces', '[' .. under .. '/', '(' .. under .. '0')
  if redis.call('ZSCORE', prefix .. 'namespaces', under) then spaces[#spaces + 1] = under end
end
local found = {}
for _, space in ipairs(spaces) do
  while true do
    local key = redis.call('ZRANGE', keys(space), 0, 0)[1]
    if not key then break end
    if redis.call('EXISTS', at(space, key)) == 1 then
      found[#found + 1] = space
      break
    end
    redis.call('ZREM', keys(space), key)
  end
  settle(space)
end
return found
"""


class _Matches(NamedTuple):
    """An item that a search came across: how often each word stands in it, and how many words it has."""

    item: StoreItem
    counts: Sequence[int]
    length: int


class RedisStore(BaseStore):
    """Keeps items in a Redis server, each change in one atomic step, however many processes make them at once.

    They are as durable as the server was set up to be, and go with `ttl` seconds, or as a put says. Names, keys and
    values have the limits that those of CofioStore have. `search` reads the whole namespace.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        prefix: str = "cofio:store:",
        *,
        ttl: float | timedelta | None = None,
        db: int = 0,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self._ttl = ttl
        choose_ttl(ttl)
        self.prefix = end_prefix(prefix)
        self._now: Clock = clock or _utc
        # A change whose answer was lost may have been made: it is the caller who decides whether to make it again.
        self._client = connect(url, db=db, **{"retry": NO_RETRY, **options})
        self._put_script = self._script(_PUT)
        self._get_script = self._script(_GET)
        self._list_script = self._script(_LIST)
        self._delete_script = self._script(_DELETE)
        self._clear_script = self._script(_CLEAR)
        self._namespaces_script = self._script(_NAMESPACES)

    @property
    def capabilities(self) -> StoreCapabilities:
        """Searching by words, items that expire, listing namespaces, and batches."""
        return StoreCapabilities(search=True, ttl=True, list_namespaces=True, batch_operations=True)

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
        """Store a value, in place of what the key held; the options and errors are those of CofioStore.put."""
        await self._cross(self._put, [prepare_put(namespace, key, value, metadata, ttl=ttl, if_version=if_version)])

    async def put_batch(self, items: list[tuple[tuple[str, ...], str, Any, dict[str, Any] | None]]) -> None:
        """Store all of the (namespace, key, value, metadata) items in one step, or none."""
        await self._cross(self._put, [prepare_put(*item) for item in _check_size(check_batch(items))])

    async def get(self, namespace: tuple[str, ...], key: str) -> Any | None:
        """The value; None when the key holds nothing, or holds None."""
        item = await self.get_item(namespace, key)
        return None if item is None else item.value

    async def get_item(self, namespace: tuple[str, ...], key: str) -> StoreItem | None:
        """The value with its metadata, times and version; None when the key holds nothing."""
        (item,) = await self._cross(self._get, [_check_pair(namespace, key)])
        return item

    async def exists(self, namespace: tuple[str, ...], key: str) -> bool:
        """Whether the key holds a value, be it None."""
        return await self.get_item(namespace, key) is not None

    async def get_batch(self, keys: list[tuple[tuple[str, ...], str]]) -> dict[tuple[tuple[str, ...], str], Any]:
        """The values of those (namespace, key) pairs that hold one, all as of one moment."""
        pairs = [_check_pair(namespace, key) for namespace, key in _check_size([*keys])]
        found = await self._cross(self._get, pairs)
        return {pair: item.value for pair, item in zip(pairs, found, strict=True) if item is not None}

    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        """Forget a value; whether there was one."""
        _check_pair(namespace, key)
        return bool(await self._cross(self._run, self._delete_script, _encode_space(namespace), key))

    async def list_keys(self, namespace: tuple[str, ...], limit: int = 100) -> list[str]:
        """The keys of the namespace in the order in which they were first put."""
        check_namespace(namespace)
        check_limit(limit)
        return await self._cross(lambda: [key for key, _ in self._list(_encode_space(namespace), limit)])

    async def search(self, namespace: tuple[str, ...], query: str | None = None, limit: int = 10) -> list[StoreItem]:
        """Items of the namespace that hold words of the query, in any of their forms, those that tell most first.

        The whole namespace is read. Without a query all come, in the order in which they were first put.
        """
        check_namespace(namespace)
        check_query(query)
        check_limit(limit)
        if query:
            return await self._cross(self._search, namespace, split_query(make_query(query)), limit)
        return await self._cross(lambda: list(self._list_items(namespace, limit)))

    async def list_namespaces(self, prefix: tuple[str, ...] | None = None, limit: int = 100) -> list[tuple[str, ...]]:
        """The namespaces that hold items and begin with the names of `prefix`, sorted."""
        start = () if prefix is None else prefix
        check_namespace(start)
        check_limit(limit)
        found = await self._cross(self._run, self._namespaces_script, _encode_space(start))
        return sorted(map(_decode_space, found))[:limit]

    async def clear_namespace(self, namespace: tuple[str, ...]) -> int:
        """Forget every item of the namespace, and none of those under it; how many there were."""
        check_namespace(namespace)
        return await self._cross(self._clear, _encode_space(namespace))

    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        await in_thread(self._client.close)

    # In a thread.

    async def _cross(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with translate_errors("items"):
            return await in_thread(call, *args, **kwargs)

    def _script(self, text: str) -> Script:
        return self._client.register_script(_SHARED + text)

    def _run(self, script: Script, *args: str | int) -> Any:
        return script(args=[self.prefix, *args])

    def _put(self, puts: Sequence[PendingPut]) -> None:
        if not puts:
            return
        args = [part for put in puts for part in self._encode_put(put)]
        held = self._run(self._put_script, self._now().isoformat(), *args)
        if held is not None:
            raise Conflict(puts[0].key, expected=puts[0].if_version, found=int(held))

    def _encode_put(self, put: PendingPut) -> Iterator[str]:
        items.build_draft(put.namespace, put.key, put.value, put.metadata)  # which refuses what is too large
        yield from (_encode_space(put.namespace), put.key, encode(put.value), encode(put.metadata))
        yield _encode_ttl(put.ttl, self._ttl)
        yield "" if put.if_version is None else str(put.if_version)

    def _get(self, pairs: Sequence[tuple[Namespace, str]]) -> list[StoreItem | None]:
        args = [part for namespace, key in pairs for part in (_encode_space(namespace), key)]
        found = self._run(self._get_script, *args) if pairs else []
        return [item and _build_item(*pair, item) for pair, item in zip(pairs, found, strict=True)]

    def _list(self, space: str, limit: int, whole: str = "") -> Iterator[tuple[str, list[str]]]:
        """Keys in order, each with what there is of its item, page by page."""
        after = "-inf"
        while limit > 0:
            size = min(limit, _PAGE)
            page = self._run(self._list_script, space, after, size, whole)
            for turn, key, item in page:
                yield key, item
                after = f"({turn}"
            if len(page) < size:
                return
            limit -= size

    def _list_items(self, namespace: Namespace, limit: int) -> Iterator[StoreItem]:
        found = self._list(_encode_space(namespace), limit, "whole")
        return (_build_item(namespace, key, item) for key, item in found)

    def _search(self, namespace: Namespace, words: Sequence[str], limit: int) -> list[StoreItem]:
        """Score every item as the engine scores records, within the namespace."""
        matches: list[_Matches] = []
        total = lengths = 0
        for item in self._list_items(namespace, _ALL) if words and limit else ():
            text = items.render_text(item.value, item.metadata)
            said = split_record(title="", text=text, tags=(), author="", key=item.key, data=None)
            total, lengths = total + 1, lengths + len(said)
            counts = [said.count(word) for word in words]
            if any(counts):
                matches.append(_Matches(item, counts, len(said)))
        holders = [sum(1 for match in matches if match.counts[at]) for at in range(len(words))]
        scorers = [make_word_scorer(weigh_word(each, total), max(1, lengths) / max(1, total)) for each in holders]

        def score(match: _Matches) -> float:
            pairs = zip(scorers, match.counts, strict=True)
            return sum(scorer(count, match.length) for scorer, count in pairs if count)

        return [match.item for match in sorted(matches, key=score, reverse=True)[:limit]]

    def _clear(self, space: str) -> int:
        last, count, size = "", 0, _PAGE
        while size == _PAGE:
            last, size, deleted = self._run(self._clear_script, space, last, _PAGE)
            count += deleted
        return count

    def __repr__(self) -> str:
        return f"RedisStore(prefix={self.prefix!r})"


_ALL = 2**53


def _check_pair(namespace: Namespace, key: str) -> tuple[Namespace, str]:
    prepare_delete(namespace, key)
    check_text("key", key, MAX_KEY)
    return namespace, key


def _check_size(batch: list[T]) -> list[T]:
    if len(batch) > MAX_BATCH:
        raise LimitExceeded("batch", MAX_BATCH, "items")
    return batch


def _encode_space(namespace: Namespace) -> str:
    items.make_scope(namespace)  # which refuses what is too deep or too long
    return "/".join(quote(name, safe="") for name in namespace)


def _decode_space(space: str) -> Namespace:
    return tuple(unquote(name) for name in space.split("/")) if space else ()


def _encode_ttl(ttl: Ttl, default: Ttl) -> str:
    """Milliseconds, one at least; empty for good."""
    chosen = choose_ttl(ttl, default)
    return "" if chosen is None else str(max(1, round(chosen / timedelta(milliseconds=1))))


def _build_item(namespace: Namespace, key: str, found: Sequence[str]) -> StoreItem:
    value, metadata, created, updated, version = found
    return StoreItem(
        namespace=namespace,
        key=key,
        value=decode(value),
        metadata=decode(metadata),
        created_at=datetime.fromisoformat(created),
        updated_at=datetime.fromisoformat(updated),
        version=int(version),
    )


def _utc() -> datetime:
    return datetime.now(UTC)
