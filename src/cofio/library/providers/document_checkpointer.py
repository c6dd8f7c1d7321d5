"""What the checkpointers of this folder share: everything but the few verbs that know where the documents lie."""

from __future__ import annotations

import fnmatch
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import uuid4

from ...values.errors import Invalid
from ...values.json_values import is_same_json
from ...values.records import MAX_KEY, check_int, check_json, check_text
from ..checkpointer import BaseCheckpointer
from ..concurrency import in_thread
from ..events import CHECKPOINT_LOADED, CHECKPOINT_SAVED, emit

if TYPE_CHECKING:
    from ..state import AgentState

__all__ = [
    "Clock",
    "Document",
    "DocumentCheckpointer",
    "Heading",
    "check_ids",
    "check_limit",
    "check_metadata",
    "checkpoint_of",
    "decode",
    "encode",
    "refuse_target",
    "score",
]

P = ParamSpec("P")
T = TypeVar("T")

Clock = Callable[[], datetime]
MOST = 2**31 - 1
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What is known of a checkpoint without its state. Of two, the one with the greater `turn` was saved later."""

    thread: str
    id: str
    created_at: datetime
    metadata: dict[str, Any]
    turn: int

    def plain(self) -> dict[str, Any]:
        """Render it as callers get it."""
        return {
            "thread_id": self.thread,
            "checkpoint_id": self.id,
            "created_at": self.created_at.isoformat(),
            "metadata": self.metadata,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Heading):
    """A whole checkpoint."""

    state: dict[str, Any]


class DocumentCheckpointer(BaseCheckpointer):
    """A checkpointer over a shelf of documents; a subclass says how one is put there, found, listed and removed.

    The verbs with an underscore are synchronous and run in a thread, several at a time. Ids are any text of up to 1,024
    characters but NUL; what they may not be is the same everywhere, so that a program can change its provider.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._now: Clock = clock or _utc

    @abstractmethod
    def _put(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any], *, fresh: bool) -> None:
        """Put a document there at once or not at all, as the newest; `fresh` says that the id cannot be there yet."""

    @abstractmethod
    def _get(self, thread: str, id: str | None) -> Document | None:
        """Get a document by its id, or the newest of the thread."""

    @abstractmethod
    def _headings(self, thread: str | None, limit: int) -> Iterable[Heading]:
        """List the headings of a thread, or of all, newest first."""

    @abstractmethod
    def _remove(self, thread: str, id: str | None) -> bool:
        """Remove a document, or all of the thread; whether there were any."""

    @abstractmethod
    def _expunge(self, heading: Heading) -> bool:
        """Remove that very document, unless it was replaced since; whether it was removed."""

    @abstractmethod
    def _threads(self) -> Iterable[str]:
        """List the threads, the one saved to last first."""

    def _ids(self, thread: str, limit: int) -> list[str]:
        return [heading.id for heading in self._headings(thread, limit)]

    def _has(self, thread: str, id: str | None) -> bool:
        return self._get(thread, id) is not None

    def _documents(self, thread: str | None = None) -> Iterator[Document]:
        """Get all documents of a thread, or of all, oldest first."""
        for heading in reversed(list(self._headings(thread, MOST))):
            document = self._get(heading.thread, heading.id)
            if document is not None:
                yield document

    def _copy(self, source: str, target: str) -> bool:
        if self._has(target, None):
            raise refuse_target(target)
        copied = False
        for document in self._documents(source):
            self._put(target, document.id, document.state, document.metadata, fresh=False)
            copied = True
        return copied

    def _delete_older(self, than: datetime) -> int:
        """Remove what is older; how many."""
        return sum(self._expunge(each) for each in list(self._headings(None, MOST)) if each.created_at < than)

    def _find_matching(self, key: str, value: Any, limit: int) -> list[Heading]:
        found = (
            heading
            for heading in self._headings(None, MOST)
            if is_same_json(heading.metadata.get(key, _NOTHING), value)
        )
        return list(islice(found, limit))

    async def _cross(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(call, *args, **kwargs)

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        document = checkpoint_of(state)
        check_ids(thread_id, None if checkpoint_id == "" else checkpoint_id)
        given = {} if metadata is None else metadata
        check_metadata(given)
        given = decode(encode(given))  # the caller may go on changing his own while this is under way
        name = checkpoint_id or uuid4().hex
        await self._cross(self._put, thread_id, name, document, given, fresh=not checkpoint_id)
        emit(CHECKPOINT_SAVED, thread_id=thread_id, checkpoint_id=name)
        return name

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        from ..state import AgentState

        check_ids(thread_id, checkpoint_id)
        document = await self._cross(self._get, thread_id, checkpoint_id)
        if document is None:
            return None
        emit(CHECKPOINT_LOADED, thread_id=thread_id, checkpoint_id=document.id)
        return AgentState.from_checkpoint(document.state)

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        check_ids(thread_id, None)
        check_limit(limit)
        return await self._cross(self._ids, thread_id, limit) if limit else []

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        check_ids(thread_id, checkpoint_id)
        return await self._cross(self._remove, thread_id, checkpoint_id)

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        check_ids(thread_id, checkpoint_id)
        return await self._cross(self._has, thread_id, checkpoint_id)

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        self._require_capability("search")
        check_text("query", query, MAX_KEY)
        check_limit(limit)
        return await self._cross(self._search, split_words(query), limit)

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        self._require_capability("metadata_query")
        check_text("key", key, MAX_KEY)
        check_metadata({key: value})
        check_limit(limit)
        return (
            [heading.plain() for heading in await self._cross(self._find_matching, key, value, limit)] if limit else []
        )

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        self._require_capability("metadata_query")
        check_ids(thread_id, checkpoint_id)
        document = await self._cross(self._get, thread_id, checkpoint_id)
        return None if document is None else document.metadata

    async def vacuum(self, older_than_days: int = 30) -> int:
        self._require_capability("vacuum")
        days = older_than_days
        if isinstance(days, bool) or not isinstance(days, int | float) or not days >= 0:
            raise Invalid("older_than_days", f"expected a number of days, got {days!r}")
        now = self._now()
        if days >= now.toordinal() - 1:
            return 0  # no datetime is that old
        return await self._cross(self._delete_older, now - timedelta(days=days))

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        self._require_capability("branching")
        check_text("source_thread_id", source_thread_id, MAX_KEY, empty=False)
        check_text("dest_thread_id", dest_thread_id, MAX_KEY, empty=False)
        return await self._cross(self._copy, source_thread_id, dest_thread_id)

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        self._require_capability("list_threads")
        check_limit(limit)
        check_text("pattern", pattern, MAX_KEY)
        return await self._cross(self._list_matching_threads, limit, pattern) if limit else []

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        self._require_capability("list_with_metadata")
        check_limit(limit)
        return await self._cross(self._plain, limit) if limit else []

    def _plain(self, limit: int) -> list[dict[str, Any]]:
        return [heading.plain() for heading in self._headings(None, limit)]

    def _list_matching_threads(self, limit: int, pattern: str) -> list[str]:
        # Upper and lower case are told apart, as they are in the ids themselves.
        return list(islice((thread for thread in self._threads() if fnmatch.fnmatchcase(thread, pattern)), limit))

    def _search(self, words: list[str], limit: int) -> list[dict[str, Any]]:
        scored = ((score(document, words), document) for document in self._documents()) if words else iter(())
        found = ((-points, -document.turn, document) for points, document in scored if points)
        best = nsmallest(limit, found, key=lambda each: each[:2])
        return [{**document.plain(), "score": float(-points)} for points, _, document in best]


_NOTHING = object()


def checkpoint_of(state: object) -> dict[str, Any]:
    """Get what is kept of a state; raises TypeError for what is none."""
    from ..state import AgentState

    if not isinstance(state, AgentState):
        raise TypeError(f"state: expected an AgentState, got {type(state).__name__}")
    return state.to_checkpoint()


def check_metadata(metadata: object) -> None:
    """Raise Invalid unless it is a dict that JSON can hold."""
    if not isinstance(metadata, dict):
        raise Invalid("metadata", f"expected a dict, got {type(metadata).__name__}")
    try:
        check_json(metadata)
    except Invalid as error:
        raise Invalid("metadata", error.problem) from None


def check_limit(limit: object) -> None:
    """Raise Invalid unless it is a number of things to list; none is a number too."""
    check_int("limit", limit, 0, MOST)


def refuse_target(thread: str) -> Invalid:
    """Say that a copy needs a thread of its own."""
    return Invalid("dest_thread_id", f"the thread {thread!r} has checkpoints already; delete it first")


def check_ids(thread: object, id: object | None) -> None:
    """Raise Invalid unless they are text that every place can take as ids."""
    check_text("thread_id", thread, MAX_KEY, empty=False)
    if id is not None:
        check_text("checkpoint_id", id, MAX_KEY, empty=False)


def encode(value: Any, *, pretty: bool = False) -> str:
    """Write JSON; raises Invalid for a state that holds something else, or too deep for it."""
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            indent=2 if pretty else None,
            separators=None if pretty else (",", ":"),
        )
        text.encode()  # half of a surrogate pair is found out here
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid("state", f"cannot be written as JSON: {error}") from None
    return text


def decode(text: str | bytes) -> Any:
    """Read what `encode` wrote."""
    return json.loads(text)


def split_words(text: str) -> list[str]:
    """Get the words of a query, in the form in which they are compared."""
    return _WORD.findall(text.casefold())


def score(document: Document, words: list[str]) -> int:
    """Count how often the words occur in what the checkpoint says; 0 unless each of them does."""
    text = "\n".join([*_strings(document.state), *_strings(document.metadata)]).casefold()
    counts = [text.count(word) for word in words]
    return sum(counts) if all(counts) else 0


def _strings(value: object) -> Iterator[str]:
    """Get the strings of a JSON value but not its keys, which are the same in every state."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _utc() -> datetime:
    return datetime.now(UTC)
