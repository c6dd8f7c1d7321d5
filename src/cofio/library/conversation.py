"""What of a conversation goes to the model: all of it, its end, or its end with a summary of what came before.

A call of a tool and what came of it stay together whatever is cut away: models refuse the one without the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from threading import Lock
from typing import Any

from .concurrency import in_thread
from .events import COMPACTOR_COMPLETED, COMPACTOR_TRIGGERED, CONVERSATION_PRUNED, emit
from .messages import Message, Role

_HEADING = re.compile(r"\[Summary of previous conversation \((\d+) messages\)\]:\n")
_QUOTED = 5  # messages that a summary without a model quotes
_PREVIEW = 100  # characters of each
_LONGEST = 4_000  # characters of a summary without a model, however often it was added to
_NOTHING = "No significant content."
_REMEMBERED = 64  # summaries


class ConversationManager(ABC):
    """Decides what of a conversation goes to the model."""

    @abstractmethod
    def apply(self, messages: list[Message]) -> list[Message]:
        """The messages to go on with, as a new list; those given stay as they are."""

    async def async_apply(self, messages: list[Message]) -> list[Message]:
        """As `apply`; a manager that has to wait for something waits here."""
        return self.apply(messages)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NullManager(ConversationManager):
    """Keeps everything."""

    def apply(self, messages: list[Message]) -> list[Message]:
        """All messages, in a new list."""
        return list(messages)


class SlidingWindowManager(ConversationManager):
    """Keeps the last messages, and every system message."""

    def __init__(
        self,
        window_size: int = 20,
        preserve_system: bool = True,
        *,
        preserve_first_user: bool = False,
        slide_step: int = 1,
    ) -> None:
        """Set the window; system messages are not counted, unless `preserve_system` is false: then they are messages
        like all others.

        `preserve_first_user` keeps the user's first message, which often says what all is about, as one of the
        `window_size`. With a `slide_step` the window moves that many messages at a time and is a little shorter in
        between, so that its beginning stays the same for several turns and a model's prompt cache is of use.

        Raises:
            ValueError: `window_size` is less than 1 (less than 2 with `preserve_first_user`), or `slide_step` is less
                than 1 or more than the window.
            TypeError: one of them is not a whole number.
        """
        self.window_size = check_at_least("window_size", window_size, 1)
        self.preserve_system = preserve_system
        self.preserve_first_user = preserve_first_user
        self.slide_step = check_at_least("slide_step", slide_step, 1)
        if preserve_first_user and window_size < 2:
            raise ValueError("window_size must be at least 2 to preserve the first user message")
        if slide_step > window_size - preserve_first_user:
            raise ValueError("slide_step must not be larger than the window")

    def apply(self, messages: list[Message]) -> list[Message]:
        """At most `window_size` messages, and the system messages: those before the window come first.

        Only where the last exchange with tools is longer than the window by itself is there more: it stays whole.
        Results without a call are left out. A system message within the window stays in its place.
        """
        whole = drop_orphans(messages)
        indexes = [index for index, message in enumerate(whole) if not self._exempt(message)]
        talk = [whole[index] for index in indexes]
        start = self._start(talk, self.window_size)
        opening: list[Message] = []
        if self.preserve_first_user and start:
            first = next((index for index, message in enumerate(talk) if message.role == Role.USER), None)
            if first is not None and first < start:
                opening = [talk[first]]
                start = max(start, self._start(talk, self.window_size - 1))
        cut = indexes[start] if start else 0
        kept = [*filter(self._exempt, whole[:cut]), *opening, *whole[cut:]]
        removed = len(messages) - len(kept)
        if removed:
            emit(
                CONVERSATION_PRUNED,
                strategy="sliding_window",
                window_size=self.window_size,
                removed_count=removed,
            )
        return kept

    def _exempt(self, message: Message) -> bool:
        return self.preserve_system and message.role == Role.SYSTEM

    def _start(self, talk: Sequence[Message], size: int) -> int:
        over = len(talk) - size
        if over <= 0:
            return 0
        return find_clean_start(talk, -(-over // self.slide_step) * self.slide_step)

    def __repr__(self) -> str:
        return f"SlidingWindowManager(window_size={self.window_size}, preserve_system={self.preserve_system})"


class SummarizingManager(ConversationManager):
    """Keeps the last messages, and a summary of those before them once there are many."""

    def __init__(
        self,
        threshold: int = 30,
        keep_recent: int = 10,
        summarize_fn: Any | None = None,
        preserve_system: bool = True,
    ) -> None:
        """Set when to summarise, and how much is left as it is; system messages are not counted.

        `summarize_fn` takes a list of messages and returns the summary; it may be a plain function or an `async def`.
        Where there is an earlier summary, it is the first message that the function is given.

        Raises:
            ValueError: one of the numbers is less than 1, or `keep_recent` is not less than `threshold`.
            TypeError: one of them is not a whole number, or `summarize_fn` cannot be called.
        """
        self.threshold = check_at_least("threshold", threshold, 1)
        self.keep_recent = check_at_least("keep_recent", keep_recent, 1)
        if keep_recent >= threshold:
            raise ValueError("keep_recent must be less than threshold")
        if summarize_fn is not None and not callable(summarize_fn):
            raise TypeError(f"summarize_fn must be a function, not {type(summarize_fn).__name__}")
        self.summarize_fn = summarize_fn
        self.preserve_system = preserve_system
        self._summaries: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def apply(self, messages: list[Message]) -> list[Message]:
        """The system messages, the summary, and at least the last `keep_recent` messages; nothing changes below the
        threshold.

        An asynchronous `summarize_fn` is run to its end here if no event loop is running. Within a running loop that
        cannot be done: then the summary quotes the last messages, as without a function, and is not remembered. Use
        `async_apply` there.

        Raises:
            TypeError: `summarize_fn` returned something else than text. What it raises itself comes through.
        """
        plan = self._make_plan(messages)
        if plan is None:
            return list(messages)
        text = self._get_cached(plan)
        if text is None and self.summarize_fn is not None:
            text = call_sync(self.summarize_fn, plan.list_material())
            if text is not None:
                self._cache(plan, text)
        return plan.finish(text, degraded=text is None and self.summarize_fn is not None)

    async def async_apply(self, messages: list[Message]) -> list[Message]:
        """As `apply`; an asynchronous `summarize_fn` is awaited, and a plain one runs in a thread.

        Raises:
            TypeError: `summarize_fn` returned something else than text. What it raises itself comes through.
        """
        plan = self._make_plan(messages)
        if plan is None:
            return list(messages)
        text = self._get_cached(plan)
        if text is None and self.summarize_fn is not None:
            text = await call_async(self.summarize_fn, plan.list_material())
            self._cache(plan, text)
        return plan.finish(text)

    def _make_plan(self, messages: Sequence[Message]) -> _Plan | None:
        earlier = [message for message in messages if _is_summary(message)]
        rest = drop_orphans([message for message in messages if not _is_summary(message)])
        leading, rest = split_system(rest) if self.preserve_system else ([], rest)
        counted = [index for index, message in enumerate(rest) if not self._exempt(message)]
        if len(counted) <= self.threshold:
            return None
        start = find_clean_start(rest, counted[-self.keep_recent], earlier=True)
        older = rest[:start]
        summarized = [message for message in older if not self._exempt(message)]
        if not summarized:
            return None
        emit(COMPACTOR_TRIGGERED, strategy="summarizing", messages_before=len(counted), threshold=self.threshold)
        # A later system message is an instruction, too, and is not for a summary to retell.
        kept = leading + [message for message in older if self._exempt(message)]
        return _Plan(kept, earlier, summarized, rest[start:], len(counted))

    def _exempt(self, message: Message) -> bool:
        return self.preserve_system and message.role == Role.SYSTEM

    def _get_cached(self, plan: _Plan) -> str | None:
        with self._lock:
            text = self._summaries.get(plan.compute_digest())
            if text is not None:
                self._summaries.move_to_end(plan.compute_digest())
            return text

    def _cache(self, plan: _Plan, text: str) -> None:
        with self._lock:
            self._summaries[plan.compute_digest()] = text
            while len(self._summaries) > _REMEMBERED:
                self._summaries.popitem(last=False)

    def __repr__(self) -> str:
        return f"SummarizingManager(threshold={self.threshold}, keep_recent={self.keep_recent})"


class _Plan:
    """A conversation that is about to be summarised."""

    def __init__(
        self,
        kept: list[Message],
        earlier: list[Message],
        older: list[Message],
        recent: list[Message],
        before: int,
    ) -> None:
        self._exempt, self._earlier, self._older, self._recent, self._before = kept, earlier, older, recent, before
        self._began = time.perf_counter()
        self._digest = ""

    def list_material(self) -> list[Message]:
        """What the summary is to be of."""
        return [*self._earlier, *self._older]

    def compute_digest(self) -> str:
        """What tells this matter from any other."""
        if not self._digest:
            lines = [
                (message.role.value, message.content, [(call.name, str(call.arguments)) for call in message.tool_calls])
                for message in self.list_material()
            ]
            self._digest = hashlib.sha256(json.dumps(lines).encode()).hexdigest()
        return self._digest

    def finish(self, text: str | None, *, degraded: bool = False) -> list[Message]:
        """The conversation with its summary; without a text for it, the last messages are quoted."""
        if text is None:
            text = _quote_messages(self._earlier, self._older)
        count = len(self._older) + sum(_count_summarized(message) for message in self._earlier)
        heading = f"[Summary of previous conversation ({count} messages)]:\n"
        result = [*self._exempt, Message.system(heading + text), *self._recent]
        emit(
            COMPACTOR_COMPLETED,
            strategy="summarizing",
            messages_before=self._before,
            messages_after=len(result),
            summarized_count=len(self._older),
            duration_ms=(time.perf_counter() - self._began) * 1000,
            degraded=degraded,
        )
        return result


def _is_summary(message: Message) -> bool:
    return message.role == Role.SYSTEM and _HEADING.match(message.content or "") is not None


def _count_summarized(summary: Message) -> int:
    """How many messages an earlier summary stands for."""
    found = _HEADING.match(summary.content or "")
    return int(found[1]) if found and len(found[1]) < 10 else 0


def _quote_messages(earlier: Sequence[Message], older: Sequence[Message]) -> str:
    lines = [
        line
        for summary in earlier
        for line in _HEADING.sub("", summary.content or "", count=1).splitlines()
        if line != _NOTHING
    ]
    for message in older[-_QUOTED:]:
        if message.content:
            preview = message.content[:_PREVIEW] + ("..." if len(message.content) > _PREVIEW else "")
            lines.append(f"- {message.role.value}: {preview}")
    while len(lines) > _QUOTED and sum(map(len, lines)) > _LONGEST:
        del lines[0]
    return "\n".join(lines) or _NOTHING


def check_at_least(name: str, value: int, least: int) -> int:
    """The value, if it is a whole number that is large enough.

    Raises:
        TypeError, ValueError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}")
    return value


def split_system(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """The system messages that a conversation begins with, and what is said after them."""
    end = next((index for index, message in enumerate(messages) if message.role != Role.SYSTEM), len(messages))
    return list(messages[:end]), list(messages[end:])


def find_owners(messages: Sequence[Message]) -> list[int | None]:
    """For each message where it belongs: for the result of a tool the place of the call, None if there is none, and for
    all others their own place."""
    callers: dict[str, int] = {}
    last: int | None = None  # the caller that only results have come after
    owners: list[int | None] = []
    for index, message in enumerate(messages):
        if message.role == Role.TOOL:
            owners.append(last if message.tool_call_id is None else callers.get(message.tool_call_id))
            continue
        owners.append(index)
        last = index if message.tool_calls else None
        for call in message.tool_calls:
            callers[call.id] = index
    return owners


def drop_orphans(messages: Sequence[Message]) -> list[Message]:
    """The messages without results that no call before them asked for."""
    return [message for message, owner in zip(messages, find_owners(messages), strict=True) if owner is not None]


def find_clean_start(messages: Sequence[Message], wanted: int, *, earlier: bool = False) -> int:
    """Where to cut so that no call is parted from its results: the first place from `wanted` on, or with `earlier` the
    last before it. A later cut never takes everything: at least the last exchange is left."""
    bound = [index if owner is None else owner for index, owner in enumerate(find_owners(messages))]
    clean = [False] * len(messages)
    oldest = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        oldest = min(oldest, bound[index])
        clean[index] = oldest >= index
    if not earlier:
        for index in range(wanted, len(messages)):
            if clean[index]:
                return index
    return next((index for index in range(min(wanted, len(messages) - 1), 0, -1) if clean[index]), 0)


def call_sync(function: Callable[..., Any], *args: Any) -> str | None:
    """What a plain or an asynchronous function returns; None where an event loop runs and so nothing can be awaited.

    Raises:
        TypeError: it returned something else than text.
    """
    answer = function(*args)
    if isinstance(answer, Awaitable):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _check_text(asyncio.run(_await(answer)))
        if isinstance(answer, Coroutine):
            answer.close()
        elif isinstance(answer, asyncio.Future):
            answer.cancel()
        return None
    return _check_text(answer)


async def call_async(function: Callable[..., Any], *args: Any) -> str:
    """What a plain or an asynchronous function returns; a plain one runs in a thread.

    Raises:
        TypeError: it returned something else than text.
    """
    answer = function(*args) if inspect.iscoroutinefunction(function) else await in_thread(function, *args)
    return _check_text(await answer if isinstance(answer, Awaitable) else answer)


async def _await(answer: Awaitable[Any]) -> Any:
    return await answer


def _check_text(answer: object) -> str:
    if not isinstance(answer, str):
        raise TypeError(f"summarize_fn must return text, not {type(answer).__name__}")
    return answer
