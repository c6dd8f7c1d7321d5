"""Long-term memory for an agent: what is worth keeping of a session is kept at its end, and recalled in the next one.

An agent calls `on_session_start` with its state before the first question to the model, and `on_session_end` after the
last answer.
"""

from __future__ import annotations

import inspect
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from .concurrency import in_thread
from .conversation import check_at_least
from .events import MANAGER_EXTRACTED, MANAGER_FAILED, MANAGER_INJECTED, emit
from .extractors import heuristic_extract
from .memories import ExtractFn, Memory, MemoryType
from .messages import Message, Role
from .recall_block import build_memory_block, is_memory_block
from .transcripts import clean

if TYPE_CHECKING:
    from .state import AgentState
    from .store import BaseStore, StoreItem

_ItemKey: TypeAlias = tuple[MemoryType, str]
_Known: TypeAlias = tuple[_ItemKey, Memory]

_ASKED = 3  # messages of the user that say what the conversation is about
_QUERY = 1_000  # characters of them
_ALL = 10_000  # items of one type that are looked at

__all__ = [
    "BaseMemoryManager",
    "ExtractFn",
    "LLMMemoryManager",
    "Memory",
    "MemoryType",
    "NoopMemoryManager",
]

logger = logging.getLogger(__name__)


class BaseMemoryManager(ABC):
    """Remembers across sessions: a subclass says what to extract, how to keep it and what to retrieve."""

    raise_errors: bool = False
    """Whether `on_session_end` raises what goes wrong."""

    @abstractmethod
    async def extract(self, messages: list[Message]) -> list[Memory]:
        """What is worth remembering of a finished conversation."""

    @abstractmethod
    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """What is remembered, the most recently updated first, `limit` at most."""

    @abstractmethod
    async def save(self, memories: list[Memory]) -> None:
        """Keep memories; one with a key that is known takes the place of the one before."""

    async def recall(self, messages: Sequence[Message]) -> list[Memory]:
        """What to begin a session with, given what was said so far: what `retrieve` gives, unless a subclass knows
        better."""
        return await self.retrieve()

    async def on_session_start(self, state: AgentState) -> AgentState:
        """The state with one block of memories in it, as the system message after the first, or as the first.

        A block that is there from before is replaced, and taken out when nothing is remembered any more.
        """
        spoken = [message for message in state.messages if not is_memory_block(message)]
        memories = await self.recall(spoken)
        block = [build_memory_block(memories)] if memories else []
        position = 1 if spoken and spoken[0].role == Role.SYSTEM else 0
        messages = (*spoken[:position], *block, *spoken[position:])
        if memories:
            emit(
                MANAGER_INJECTED,
                run_id=state.run_id,
                memory_count=len(memories),
                types=[memory.type.value for memory in memories],
            )
        return state if messages == state.messages else state.model_copy(update={"messages": messages})

    async def on_session_end(self, state: AgentState) -> None:
        """Extract what is worth remembering and save it.

        The run is over and its result must not be lost here: what goes wrong is logged, and told to observers as
        `memory.manager.failed`, and is not raised, unless `raise_errors` is set. Observers are told in both cases.
        """
        stage = "extract"
        try:
            memories = await self.extract(list(state.messages))
            if not memories:
                return
            stage = "save"
            await self.save(memories)
        except Exception as error:
            emit(MANAGER_FAILED, run_id=state.run_id, stage=stage, error=f"{type(error).__name__}: {error}")
            if self.raise_errors:
                raise
            logger.warning("the memories of run %s could not be kept (%s)", state.run_id, stage, exc_info=True)
            return
        emit(
            MANAGER_EXTRACTED,
            run_id=state.run_id,
            memory_count=len(memories),
            types=[memory.type.value for memory in memories],
            keys=[memory.key for memory in memories],
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NoopMemoryManager(BaseMemoryManager):
    """Remembers nothing and changes nothing."""

    async def extract(self, messages: list[Message]) -> list[Memory]:
        """Nothing."""
        return []

    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """Nothing."""
        return []

    async def save(self, memories: list[Memory]) -> None:
        """Keep nothing."""

    async def on_session_start(self, state: AgentState) -> AgentState:
        """The state as it is."""
        return state

    async def on_session_end(self, state: AgentState) -> None:
        """Do nothing."""


class LLMMemoryManager(BaseMemoryManager):
    """Keeps memories in a store, each type in a namespace of its own: `(*namespace_prefix, type)`."""

    def __init__(
        self,
        store: BaseStore,
        *,
        extract_fn: ExtractFn | None = None,
        namespace_prefix: tuple[str, ...] = ("locus_memory",),
        max_memories: int = 50,
        retrieve_limit: int = 20,
        raise_errors: bool = False,
    ) -> None:
        """Name the store, and what is to be kept and recalled.

        Without an `extract_fn`, certain words in what the user says make a memory of it. Of each type the
        `max_memories` most recent are kept. `retrieve_limit` is the most that is recalled, over all types. With
        `raise_errors`, `on_session_end` raises what `extract_fn` or the store does; otherwise that is logged.

        Raises:
            ValueError: `max_memories` is less than 1, or `retrieve_limit` less than 0.
            TypeError: they are not whole numbers, `extract_fn` cannot be called, or the prefix is not a tuple of texts.
        """
        if extract_fn is not None and not callable(extract_fn):
            raise TypeError(f"extract_fn must be a function, not {type(extract_fn).__name__}")
        if not isinstance(namespace_prefix, tuple) or not all(isinstance(name, str) for name in namespace_prefix):
            raise TypeError("namespace_prefix must be a tuple of texts")
        self.store = store
        self.extract_fn = extract_fn
        self.namespace_prefix = namespace_prefix
        self.max_memories = check_at_least("max_memories", max_memories, 1)
        self.retrieve_limit = check_at_least("retrieve_limit", retrieve_limit, 0)
        self.raise_errors = raise_errors

    async def extract(self, messages: list[Message]) -> list[Memory]:
        """What is worth remembering, by `extract_fn` or by the words that the user used.

        Memories that were recalled into the conversation are left out of it, so as not to be learned again.

        Raises:
            TypeError: `extract_fn` returned something else than a list of memories. What it raises comes through.
        """
        own_messages = [message for message in messages if not is_memory_block(message)]
        function = self.extract_fn
        if function is None:
            return heuristic_extract(own_messages)
        found: Any = (
            function(own_messages) if inspect.iscoroutinefunction(function) else await in_thread(function, own_messages)
        )
        if isinstance(found, Awaitable):
            found = await found
        if not isinstance(found, list | tuple):
            raise TypeError(f"extract_fn must return a list of Memory, not {type(found).__name__}")
        for index, memory in enumerate(found):
            if not isinstance(memory, Memory):
                raise TypeError(f"extract_fn must return a list of Memory, but item {index} is {type(memory).__name__}")
        return list(found)

    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """What is remembered, of all types, the most recently updated first: `limit` and `retrieve_limit` at most.

        Raises:
            ValueError: `limit` is less than 0.
        """
        most = min(check_at_least("limit", limit, 0), self.retrieve_limit)
        if not most:
            return []
        return [memory for _, memory in await self._list_newest()][:most]

    async def recall(self, messages: Sequence[Message]) -> list[Memory]:
        """What to begin a session with: what has to do with the user's last messages first, then what is most recent;
        `retrieve_limit` at most."""
        if not self.retrieve_limit:
            return []
        known = await self._list_newest()
        query = _build_query(messages)
        if len(known) > self.retrieve_limit and query:
            known = await self._rank_by_query(query, known)
        return [memory for _, memory in known[: self.retrieve_limit]]

    async def save(self, memories: list[Memory]) -> None:
        """Keep memories, all in one batch, and of each type no more than `max_memories`: the oldest go.

        Raises:
            TypeError: one of them is not a Memory; nothing is kept then.
        """
        fresh: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
        now = datetime.now(UTC).isoformat()
        for memory in memories:
            if not isinstance(memory, Memory):
                raise TypeError(f"save takes a list of Memory, not of {type(memory).__name__}")
            value = memory.to_store_value()
            value["content"] = clean(memory.content)  # one bad character must not cost the others
            value["metadata"]["updated_at"] = now
            kept = fresh.setdefault(self._get_namespace(memory.type), {})
            kept.pop(memory.key, None)
            kept[memory.key] = value
        for namespace, values in fresh.items():
            fresh[namespace] = dict(list(values.items())[-self.max_memories :])
        if fresh:
            await self.store.put_batch(
                [
                    (namespace, key, value, {"type": value["type"], "updated_at": now})
                    for namespace, values in fresh.items()
                    for key, value in values.items()
                ]
            )
        for namespace, values in fresh.items():
            await self._prune(namespace, values)

    async def _prune(self, namespace: tuple[str, ...], fresh: Iterable[str]) -> None:
        kept = set(fresh)
        items = [item for item in await self._list_items(namespace) if _parse_memory(item) is not None]
        items.sort(key=lambda item: (item.key in kept, item.updated_at))
        for item in items[: max(0, len(items) - self.max_memories)]:
            await self.store.delete(namespace, item.key)

    def _get_namespace(self, memory_type: MemoryType) -> tuple[str, ...]:
        return (*self.namespace_prefix, memory_type.value)

    async def _list_newest(self) -> list[_Known]:
        """Everything that is remembered, newest first, each with its type and key in the store."""
        found: list[tuple[datetime, _Known]] = []
        for memory_type in MemoryType:
            for item in await self._list_items(self._get_namespace(memory_type)):
                memory = _parse_memory(item)
                if memory is not None:
                    found.append((item.updated_at, ((memory_type, item.key), memory)))
        found.sort(key=lambda entry: entry[0], reverse=True)
        return [known for _, known in found]

    async def _list_items(self, namespace: tuple[str, ...]) -> list[StoreItem]:
        if self.store.capabilities.search:
            return await self.store.search(namespace, query=None, limit=_ALL)
        keys = await self.store.list_keys(namespace, limit=_ALL)
        found = [await self.store.get_item(namespace, key) for key in keys]
        # Of a store that cannot search we do not know whether it keeps times; `save` wrote one into the value.
        return [replace(item, updated_at=_find_save_time(item)) for item in found if item is not None]

    async def _rank_by_query(self, query: str, known: Sequence[_Known]) -> list[_Known]:
        """The memories that are known, those first that have to do with the query."""
        ranks: dict[_ItemKey, int] = {}
        if self.store.capabilities.search:
            for memory_type in MemoryType:
                hits = await self.store.search(self._get_namespace(memory_type), query=query, limit=self.retrieve_limit)
                ranks |= {(memory_type, item.key): rank for rank, item in enumerate(hits)}
        queried = _split_words(query)

        def rate(entry: _Known) -> tuple[int, int]:
            # A rank says nothing between types, and a store that looks for the query as it stands finds none of a
            # sentence: the words that are shared decide then. Sorting leaves the rest as it was, newest first.
            item_key, memory = entry
            return ranks.get(item_key, len(known)), -len(queried & _split_words(f"{memory.key} {memory.content}"))

        return sorted(known, key=rate)

    def __repr__(self) -> str:
        return (
            f"LLMMemoryManager(store={type(self.store).__name__}, namespace_prefix={self.namespace_prefix!r}, "
            f"retrieve_limit={self.retrieve_limit})"
        )


def _parse_memory(item: StoreItem) -> Memory | None:
    """The memory that an item is; None for something else that was put into the same namespace."""
    try:
        return Memory.from_store_value(item.value)
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _find_save_time(item: StoreItem) -> datetime:
    """When a memory was saved, as its value tells."""
    try:
        saved = datetime.fromisoformat(item.value["metadata"]["updated_at"])
    except (KeyError, TypeError, ValueError):
        return item.updated_at
    return saved if saved.tzinfo else item.updated_at


def _build_query(messages: Sequence[Message]) -> str:
    texts = [message.content for message in messages if message.role == Role.USER and message.content]
    return " ".join(" ".join(texts[-_ASKED:]).split())[-_QUERY:]


def _split_words(text: str) -> set[str]:
    # Words of one or two letters are in every sentence; a plural is taken for its singular.
    return {word.removesuffix("s") for word in re.findall(r"\w{3,}", text.casefold())} - _COMMON


_COMMON = frozenset(
    ["the", "and", "for", "are", "wa", "with", "that", "thi", "what", "when", "how", "who", "you", "your", "can", "our",
     "ha", "have", "not", "but", "from", "about", "please"]
)  # fmt: skip
