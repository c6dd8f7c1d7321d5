"""LlamaIndex on a cofio store: where its memory keeps a chat, and a block that recalls what has left it.

    store = CofioChatStore(engine)
    memory = Memory.from_defaults("ada", chat_store=store, memory_blocks=[CofioMemoryBlock(engine)])

LlamaIndex takes more than a second to import, and comes with the extra `llama-index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pydantic import ConfigDict, Field, InstanceOf

from ..config.installation import install_command
from ..engine.engine import Engine
from ..values.errors import Invalid
from ..values.query import MAX_LIMIT, Query
from ..values.records import Json, Record, Scope, check_int
from ..values.scopes import LLAMA_INDEX
from .concurrency import in_thread
from .transcripts import Entry, Item, Transcript, clean, make_query, render_recalled, search_fresh, shorten

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ThinkingBlock, ToolCallBlock
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.storage.chat_store import BaseChatStore
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
except ImportError as error:
    raise ImportError(
        f"cofio.library.llama_index needs LlamaIndex, version 0.14.25 or newer: {install_command('llama-index')}"
    ) from error

__all__ = ["SOURCE", "CofioBufferStore", "CofioChatStore", "CofioMemoryBlock"]

SOURCE = "llama-index"
KEPT: dict[str, Json] = {"kept_by": "block"}  # beside what a block put, and no chat store
Messages: TypeAlias = list[ChatMessage]


class _Chats:
    """The chats of a store, each a transcript under its key."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine = engine
        self._scope = scope

    def open(self, key: str) -> Transcript:
        return Transcript(self._engine, self._scope, key, source=SOURCE, field="key")

    def list_keys(self) -> list[str]:
        depth = len(self._scope.names) + 1
        names = [scope.names[-1] for scope in self._engine.scopes(self._scope) if len(scope.names) == depth]
        return [name for name in names if self.open(name).exists()]


class CofioChatStore(AsyncDBChatStore):
    """Where `Memory` keeps its chats: `Memory.from_defaults(session_id, chat_store=CofioChatStore(engine))`.

    What the memory archives, because its token limit is reached, stays here and can be found.
    """

    engine: InstanceOf[Engine] = Field(exclude=True)
    scope: InstanceOf[Scope] = Field(default=LLAMA_INDEX, exclude=True)

    def __init__(self, engine: Engine, *, scope: Scope = LLAMA_INDEX) -> None:
        """The chats lie in the scopes `scope / key`."""
        super().__init__(**_collect_fields(engine=engine, scope=scope))

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows this class."""
        return "CofioChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Messages:
        """The messages of a chat in their order, from the `offset`-th on, and no more than `limit`."""
        for name, value in (("limit", limit), ("offset", offset)):
            if value is not None:
                check_int(name, value, 0, 2**53)
        items = await in_thread(self._chat(key).items, None, _build_annotations(status))
        start = offset or 0
        return _parse_messages(items[start : None if limit is None else start + limit])

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many messages a chat has."""
        return len(await in_thread(self._chat(key).read, None, _build_annotations(status)))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add a message at the end of a chat."""
        await self.add_messages(key, [message], status)

    async def add_messages(self, key: str, messages: Messages, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add messages at the end of a chat: all of them, or none."""
        await in_thread(self._chat(key).append, _build_entries(messages, status))

    async def set_messages(self, key: str, messages: Messages, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Put messages in place of all that a chat had, in one step."""
        await in_thread(self._chat(key).replace, _build_entries(messages, status))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Forget the active message with this index, counted from 0, and return it; None when there is none."""
        check_int("idx", idx, 0, 2**53)
        removed = await in_thread(self._chat(key).take, lambda records: _filter_active(records)[idx : idx + 1])
        return ChatMessage.model_validate(removed[0]) if removed else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Forget the messages of a chat, or those with this status."""
        if status is None:
            await in_thread(self._chat(key).clear)
        else:
            await in_thread(self._chat(key).take, lambda records: _filter_by_status(records, status))

    async def delete_oldest_messages(self, key: str, n: int) -> Messages:
        """Forget the oldest active messages, and return them."""
        check_int("n", n, 0, 2**53)
        return _parse_messages(await in_thread(self._chat(key).take, lambda records: _filter_active(records)[:n]))

    async def archive_oldest_messages(self, key: str, n: int) -> Messages:
        """Mark the oldest active messages as archived, and return them."""
        check_int("n", n, 0, 2**53)
        chosen = self._chat(key).mark
        return _parse_messages(
            await in_thread(
                chosen, lambda records: _filter_active(records)[:n], _build_annotations(MessageStatus.ARCHIVED)
            )
        )

    async def get_keys(self) -> list[str]:
        """The keys of all chats that have messages."""
        return await in_thread(_Chats(self.engine, self.scope).list_keys)

    def _chat(self, key: str) -> Transcript:
        return _Chats(self.engine, self.scope).open(key)


class CofioBufferStore(BaseChatStore):
    """The same for the older memories: `ChatMemoryBuffer.from_defaults(chat_store=CofioBufferStore(engine))`.

    Its `a…` methods, which are LlamaIndex's own, run these in a thread.
    """

    engine: InstanceOf[Engine] = Field(exclude=True)
    scope: InstanceOf[Scope] = Field(default=LLAMA_INDEX, exclude=True)

    def __init__(self, engine: Engine, *, scope: Scope = LLAMA_INDEX) -> None:
        """The chats lie in the scopes `scope / key`."""
        super().__init__(**_collect_fields(engine=engine, scope=scope))

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows this class."""
        return "CofioBufferStore"

    def set_messages(self, key: str, messages: Messages) -> None:
        """Put messages in place of all that a chat had, in one step."""
        self._chat(key).replace(_build_entries(messages))

    def get_messages(self, key: str) -> Messages:
        """The messages of a chat in their order."""
        return _parse_messages(self._chat(key).items())

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message at the end of a chat."""
        self._chat(key).append(_build_entries([message]))

    def delete_messages(self, key: str) -> Messages | None:
        """Forget a chat, and return its messages; None when it has none."""
        return _parse_messages(self._chat(key).take(lambda records: records)) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Forget the message with this index, counted from 0, and return it; None when there is none."""
        check_int("idx", idx, 0, 2**53)
        removed = self._chat(key).take(lambda records: records[idx : idx + 1])
        return ChatMessage.model_validate(removed[0]) if removed else None

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Forget the last message, and return it; None when there is none. No two callers get the same."""
        removed = self._chat(key).take(lambda records: records, last=1)
        return ChatMessage.model_validate(removed[0]) if removed else None

    def get_keys(self) -> list[str]:
        """The keys of all chats that have messages."""
        return _Chats(self.engine, self.scope).list_keys()

    def _chat(self, key: str) -> Transcript:
        return _Chats(self.engine, self.scope).open(key)


class CofioMemoryBlock(BaseMemoryBlock[str]):
    """A block of `Memory` with what is remembered about the latest question, fenced as recalled data.

    It looks at the session's own past; with `recall`, at everything in that scope, whichever door it came by. What
    the short-term memory has no room for is kept in `scope / session_id`, unless it is there already.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "recalled"
    engine: InstanceOf[Engine] = Field(exclude=True)
    scope: InstanceOf[Scope] = Field(default=LLAMA_INDEX, exclude=True)
    recall: InstanceOf[Scope] | None = Field(default=None, exclude=True)
    limit: int = Field(default=5, ge=1, le=MAX_LIMIT // 2)

    def __init__(self, engine: Engine, **fields: Any) -> None:
        """The fields are those of a `BaseMemoryBlock`, and `scope`, `recall` and `limit`, the number of hits."""
        super().__init__(**_collect_fields(engine=engine, **fields))

    async def _aget(self, messages: Messages | None = None, session_id: str | None = None, **block_kwargs: Any) -> str:
        question = _find_question(messages or [])
        scope = self.recall if self.recall is not None else self._scope(session_id)
        if not question or scope is None:
            return ""
        seen = {clean(_render_text(message)) for message in messages or []}
        # The chat itself is found by its own words, and is no news to the model.
        query = Query(question, scope=scope, limit=min(MAX_LIMIT, self.limit + len(seen)))
        page = await in_thread(search_fresh, self.engine, query)
        return render_recalled(page, without=seen, most=self.limit)

    async def _aput(self, messages: Messages) -> None:
        sessions: dict[str, Messages] = {}
        for message in messages:
            copy = message.model_copy(update={"additional_kwargs": dict(message.additional_kwargs)})
            session = copy.additional_kwargs.pop("session_id", None)  # set by the caller
            sessions.setdefault(str(session or "default"), []).append(copy)
        for session, session_messages in sessions.items():
            await in_thread(self._keep, session, session_messages)

    def _keep(self, session: str, messages: Messages) -> None:
        chat = _Chats(self.engine, self.scope).open(session)
        chat.append_news(_build_entries(messages, MessageStatus.ARCHIVED), KEPT)

    def _scope(self, session_id: str | None) -> Scope | None:
        return self.scope / session_id if session_id else None


def _collect_fields(**fields: Any) -> dict[str, Any]:
    """Fields for pydantic, which checks them; the base classes do not say which they take."""
    return fields


def _build_entries(messages: Sequence[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE) -> list[Entry]:
    entries = []
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise Invalid(f"messages[{index}]", f"expected a ChatMessage, got {type(message).__name__}")
        try:
            item = message.model_dump(mode="json")
        except (ValueError, TypeError, RecursionError) as error:
            raise Invalid(f"messages[{index}]", f"cannot be written as JSON: {error}") from None
        entries.append(
            Entry(
                item=item, text=_render_text(message), author=message.role.value, annotations=_build_annotations(status)
            )
        )
    return entries


def _parse_messages(items: Sequence[Item]) -> Messages:
    return [ChatMessage.model_validate(item) for item in items]


def _build_annotations(status: MessageStatus | None) -> dict[str, Json]:
    return {} if status is None else {"status": MessageStatus(status).value}


def _filter_by_status(records: Sequence[Record], status: MessageStatus) -> list[Record]:
    return [
        record
        for record in records
        if isinstance(record.data, dict) and _build_annotations(status).items() <= record.data.items()
    ]


def _filter_active(records: Sequence[Record]) -> list[Record]:
    return _filter_by_status(records, MessageStatus.ACTIVE)


def _find_question(messages: Messages) -> str:
    """What the user said last, as a query."""
    texts = (_render_text(message) for message in reversed(messages) if message.role == MessageRole.USER)
    return make_query(next(texts, ""))


def _render_text(message: ChatMessage) -> str:
    """What a person reads of a message: its texts, and the tools that it calls."""
    parts = []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        elif isinstance(block, ToolCallBlock):
            parts.append(f"{block.tool_name}({shorten(str(block.tool_kwargs))})")
        elif isinstance(block, ThinkingBlock):
            parts.append(shorten(block.content or ""))
        else:
            parts.append(f"[{block.block_type}]")
    text = "\n".join(filter(None, parts))
    return (shorten(text) if message.role == MessageRole.TOOL else text) or f"[{message.role.value}]"
