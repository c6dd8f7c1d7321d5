"""Checkpoints in Redis, or a server that speaks its protocol (the extra `redis`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import quote

from ...values.records import check_int
from ..checkpointer import CheckpointerCapabilities
from ..concurrency import in_thread
from .document_checkpointer import Clock, Document, DocumentCheckpointer, Heading, decode, encode, refuse_target
from .redis_client import ENCODE, connect, end_prefix, translate_errors

if TYPE_CHECKING:
    from redis.commands.core import Script

__all__ = ["RedisCheckpointer"]

P = ParamSpec("P")
T = TypeVar("T")

_PAGE = 500

# After the prefix come: `turn`, a counter; `threads`, the threads by their last turn; `THREAD:order`, the ids of a
# thread by turn; and for each checkpoint a hash, `THREAD:ID:checkpoint`. Percent-encoded, ids have no colon, so that no
# two keys are the same, also where one prefix begins with another. Each script is one step for everyone else. A
# checkpoint whose time is over leaves its id behind; who comes across it takes it away.
_SHARED = f"""
{ENCODE}
local function at(thread, id) return prefix .. encode(thread) .. ':' .. encode(id) .. ':checkpoint' end
local function order(thread) return prefix .. encode(thread) .. ':order' end
local function clear(thread, id)
  redis.call('DEL', at(thread, id))
  redis.call('ZREM', order(thread), id)
end
local function settle(thread)
  local last = redis.call('ZREVRANGE', order(thread), 0, 0, 'WITHSCORES')
  if last[2] then
    redis.call('ZADD', prefix .. 'threads', last[2], thread)
  else
    redis.call('ZREM', prefix .. 'threads', thread)
  end
end
local function keep(thread, id, created, state, metadata, ttl)
  local turn = redis.call('INCR', prefix .. 'turn')
  local key = at(thread, id)
  redis.call('DEL', key)
  redis.call('HSET', key, 'turn', turn, 'created', created, 'state', state, 'metadata', metadata)
  if ttl ~= '' then redis.call('PEXPIRE', key, ttl) end
  redis.call('ZADD', order(thread), turn, id)
  redis.call('ZADD', prefix .. 'threads', turn, thread)
end
local function newest(thread)
  while true do
    local id = redis.call('ZREVRANGE', order(thread), 0, 0)[1]
    if not id then return nil end
    if redis.call('EXISTS', at(thread, id)) == 1 then return id end
    redis.call('ZREM', order(thread), id)
  end
end
"""

_PUT = "keep(ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])"

_GET = """
local thread, id = ARGV[2], ARGV[3]
if ARGV[4] == 'newest' then id = newest(thread) end
if not id then return nil end
local found = redis.call('HMGET', at(thread, id), 'created', 'metadata', 'turn', 'state')
if not found[1] then return nil end
return {id, found[1], found[2], found[3], found[4]}
"""

_LIST = """
local thread, below, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
local found = {}
while #found < most do
  local page = redis.call('ZREVRANGEBYSCORE', order(thread), below, '-inf', 'WITHSCORES', 'LIMIT', 0, most - #found)
  if #page == 0 then break end
  for each = 1, #page, 2 do
    local id = page[each]
    local some = redis.call('HMGET', at(thread, id), 'created', 'metadata', 'turn')
    if some[1] then
      found[#found + 1] = {id, some[1], some[2], some[3]}
    else
      redis.call('ZREM', order(thread), id)
    end
  end
  below = '(' .. page[#page]
end
return found
"""

_REMOVE = """
local thread, id, whole = ARGV[2], ARGV[3], ARGV[4] == 'all'
local gone = 0
for _, each in ipairs(whole and redis.call('ZRANGE', order(thread), 0, -1) or {id}) do
  gone = gone + redis.call('EXISTS', at(thread, each))
  clear(thread, each)
end
settle(thread)
return gone
"""

_EXPUNGE = """
local thread, id = ARGV[2], ARGV[3]
if redis.call('HGET', at(thread, id), 'turn') ~= ARGV[4] then return 0 end
clear(thread, id)
settle(thread)
return 1
"""

_THREADS = """
local found = {}
for _, thread in ipairs(redis.call('ZRANGE', prefix .. 'threads', 0, -1)) do
  local id = newest(thread)
  if id then
    found[#found + 1] = {thread, redis.call('HGET', at(thread, id), 'turn')}
  else
    redis.call('ZREM', prefix .. 'threads', thread)
  end
end
return found
"""

_COPY = """
local source, target, created, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if newest(target) then return -1 end
local any = 0
for _, id in ipairs(redis.call('ZRANGE', order(source), 0, -1)) do
  local found = redis.call('HMGET', at(source, id), 'state', 'metadata')
  if found[1] then
    any = 1
    keep(target, id, created, found[1], found[2], ttl)
  end
end
return any
"""


class RedisCheckpointer(DocumentCheckpointer):
    """Keeps checkpoints in a Redis server, each save in one atomic step, however many processes save at once.

    They are as durable as the server was set up to be. What asks for the metadata of all threads goes through all of
    them, and `search` through all states.

    Args:
        url: Where the server is: `redis://`, `rediss://` or `unix://`.
        prefix: What the name of every key begins with, up to a colon; checkpointers with different prefixes do not see
            each other.
        ttl_seconds: How long a checkpoint lives; without it, for good.
        db: The number of the database, where the URL does not say.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        prefix: str = "cofio:checkpoints:",
        ttl_seconds: int | None = None,
        db: int = 0,
        *,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(clock=clock)
        if ttl_seconds is not None:
            check_int("ttl_seconds", ttl_seconds, 1, 2**40)
        self.prefix = end_prefix(prefix)
        self.ttl_seconds = ttl_seconds
        self._client = connect(url, db=db, **options)
        self._put_script = self._script(_PUT)
        self._get_script = self._script(_GET)
        self._list_script = self._script(_LIST)
        self._remove_script = self._script(_REMOVE)
        self._expunge_script = self._script(_EXPUNGE)
        self._threads_script = self._script(_THREADS)
        self._copy_script = self._script(_COPY)

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities.all_but()

    async def close(self) -> None:
        """Close the connections to the server."""
        await in_thread(self._client.close)

    async def _cross(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with translate_errors("checkpoints"):
            return await super()._cross(call, *args, **kwargs)

    def _script(self, text: str) -> Script:
        return self._client.register_script(_SHARED + text)

    def _run(self, script: Script, *args: str | int) -> Any:
        return script(args=[self.prefix, *args])

    @property
    def _ttl(self) -> str:
        return "" if self.ttl_seconds is None else str(self.ttl_seconds * 1000)

    def _put(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any], *, fresh: bool) -> None:
        kept, about = encode(state), encode(metadata)
        self._run(self._put_script, thread, id, self._now().isoformat(), kept, about, self._ttl)

    def _get(self, thread: str, id: str | None) -> Document | None:
        found = self._run(self._get_script, thread, id or "", "newest" if id is None else "")
        if found is None:
            return None
        heading = _heading(thread, found[:4])
        return Document(
            thread=thread,
            id=heading.id,
            created_at=heading.created_at,
            metadata=heading.metadata,
            turn=heading.turn,
            state=decode(found[4]),
        )

    def _has(self, thread: str, id: str | None) -> bool:
        if id is None:
            return bool(self._ids(thread, 1))
        return bool(self._client.exists(f"{self.prefix}{quote(thread, safe='')}:{quote(id, safe='')}:checkpoint"))

    def _headings(self, thread: str | None, limit: int) -> Iterable[Heading]:
        if thread is not None:
            return self._pages(thread, limit)
        every: list[Heading] = []
        turns: list[int] = []  # the newest that were found, as many as are asked for; the oldest of them first
        for turn, each in self._newest():
            if len(turns) == limit and turn < turns[0]:
                break  # this thread has nothing that is new enough, and those after it have not either
            for heading in self._pages(each, limit):
                every.append(heading)
                (heappush if len(turns) < limit else heappushpop)(turns, heading.turn)
        return sorted(every, key=lambda each: -each.turn)[:limit]

    def _pages(self, thread: str, limit: int) -> Iterator[Heading]:
        below = "+inf"
        while limit > 0:
            most = min(limit, _PAGE)
            page = [_heading(thread, each) for each in self._run(self._list_script, thread, below, most)]
            yield from page
            if len(page) < most:
                return
            limit -= most
            below = f"({page[-1].turn}"

    def _remove(self, thread: str, id: str | None) -> bool:
        return bool(self._run(self._remove_script, thread, id or "", "all" if id is None else ""))

    def _expunge(self, heading: Heading) -> bool:
        return bool(self._run(self._expunge_script, heading.thread, heading.id, heading.turn))

    def _threads(self) -> list[str]:
        return [thread for _, thread in self._newest()]

    def _newest(self) -> list[tuple[int, str]]:
        """List the threads with the turn of their newest checkpoint, the greatest first."""
        return sorted(((int(turn), thread) for thread, turn in self._run(self._threads_script)), reverse=True)

    def _copy(self, source: str, target: str) -> bool:
        copied = self._run(self._copy_script, source, target, self._now().isoformat(), self._ttl)
        if copied < 0:
            raise refuse_target(target)
        return bool(copied)

    def __repr__(self) -> str:
        return f"RedisCheckpointer(prefix={self.prefix!r})"


def _heading(thread: str, found: list[str]) -> Heading:
    name, created, metadata, turn = found
    return Heading(
        thread=thread,
        id=name,
        created_at=datetime.fromisoformat(created),
        metadata=decode(metadata),
        turn=int(turn),
    )
