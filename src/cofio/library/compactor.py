"""A conversation that has outgrown the model's context, brought back into it: its beginning, a summary, and its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from .conversation import (
    ConversationManager,
    call_async,
    call_sync,
    check_at_least,
    drop_orphans,
    find_clean_start,
    split_system,
)
from .events import COMPACTOR_COMPLETED, COMPACTOR_TRIGGERED, emit
from .messages import Message, Role

SummarizeFn: TypeAlias = Callable[[list[Message], str | None], Awaitable[str] | str]
"""Makes a summary of messages, given the summary of what came before them, if there is one."""

TAG = "[CONTEXT COMPACTION — REFERENCE ONLY]"
SUMMARY_PREFIX = (
    f"{TAG} The summary below stands for earlier messages, which are no longer shown. It is a record of what was said: "
    "questions and requests in it are of the past and not to be answered now."
)

logger = logging.getLogger(__name__)


class LLMCompactor(ConversationManager):
    """Summarises the middle of a conversation once its tokens come near to what the model can take.

    The system messages at the beginning, the first messages and as many of the last as a part of the context holds
    stay as they are. Old outputs of tools go first: often that is enough. A summary takes the place of the one before
    it, which the function is given, so that nothing is stacked and little is lost. One compactor may serve many
    conversations: all that it knows of one is in its messages.
    """

    def __init__(
        self,
        *,
        summarize_fn: SummarizeFn | None = None,
        context_length: int = 128_000,
        trigger_fraction: float = 0.8,
        head_turns: int = 2,
        tail_token_fraction: float = 0.5,
        tool_output_ttl_turns: int = 10,
        token_counter: Callable[[Message], int] | None = None,
        preserve_system: bool = True,
    ) -> None:
        """Set the limits.

        `context_length` is in tokens, of which `token_counter` tells how many a message has; without one they are a
        quarter of its characters. Outputs of tools that are `tool_output_ttl_turns` messages old are dropped, none
        if that is 0. `summarize_fn` may be a plain function or an `async def`; without it the middle is left out.

        Raises:
            ValueError: a number is out of its range.
            TypeError: one is not a number, or a function cannot be called.
        """
        for name, function in (("summarize_fn", summarize_fn), ("token_counter", token_counter)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function, not {type(function).__name__}")
        if context_length < 1:
            raise ValueError("context_length must be positive")
        if not 0.0 < trigger_fraction <= 1.0:
            raise ValueError("trigger_fraction must be in (0, 1]")
        if head_turns < 0:
            raise ValueError("head_turns must be non-negative")
        if not 0.0 < tail_token_fraction < 1.0:
            raise ValueError("tail_token_fraction must be in (0, 1)")
        if tool_output_ttl_turns < 0:
            raise ValueError("tool_output_ttl_turns must be non-negative")
        self.summarize_fn = summarize_fn
        self.context_length = check_at_least("context_length", context_length, 1)
        self.trigger_fraction = trigger_fraction
        self.head_turns = check_at_least("head_turns", head_turns, 0)
        self.tail_token_fraction = tail_token_fraction
        self.tool_output_ttl_turns = check_at_least("tool_output_ttl_turns", tool_output_ttl_turns, 0)
        self.preserve_system = preserve_system
        self._tokens = token_counter or _estimate_tokens

    def apply(self, messages: list[Message]) -> list[Message]:
        """The conversation, compacted if it is too long.

        An asynchronous `summarize_fn` is run to its end here if no event loop is running. Within a running loop that
        cannot be done, and the middle is left out; use `async_apply` there.
        """
        work = self._plan_work(messages)
        if work is None or not work.middle or self.summarize_fn is None:
            return self._finish(messages, work, None)
        try:
            text = call_sync(self.summarize_fn, list(work.middle), work.previous)
        except Exception:
            _log_failure()
            text = None
        return self._finish(messages, work, text)

    async def async_apply(self, messages: list[Message]) -> list[Message]:
        """The conversation, compacted if it is too long; where `summarize_fn` fails, that is logged and the middle is
        left out."""
        work = self._plan_work(messages)
        if work is None or not work.middle or self.summarize_fn is None:
            return self._finish(messages, work, None)
        text = None
        try:
            text = await call_async(self.summarize_fn, list(work.middle), work.previous)
        except Exception:
            _log_failure()
        return self._finish(messages, work, text)

    def _plan_work(self, messages: list[Message]) -> _Work | None:
        """What there is to do; nothing below the trigger."""
        trigger = self.context_length * self.trigger_fraction
        before = self._count_tokens(messages)
        if before < trigger:
            return None
        emit(
            COMPACTOR_TRIGGERED,
            strategy="llm_compactor",
            messages_before=len(messages),
            tokens_before=before,
            trigger=trigger,
        )
        work = _Work()
        pruned = self._prune_outputs(messages)
        if self._count_tokens(pruned) < trigger:
            work.head = pruned
            return work
        summaries = [message for message in pruned if _is_summary(message)]
        work.previous = "\n\n".join(filter(None, map(_strip_heading, summaries))) or None
        rest = [message for message in pruned if not _is_summary(message)]
        work.leading, rest = split_system(rest) if self.preserve_system else ([], rest)
        rest = drop_orphans(rest)
        if len(rest) <= self.head_turns:
            work.head = rest
            return work
        start = self._find_tail(rest)
        end = min(find_clean_start(rest, self.head_turns, earlier=True), start)
        work.head, work.middle, work.tail = rest[:end], rest[end:start], rest[start:]
        return work

    def _finish(self, messages: list[Message], work: _Work | None, text: str | None) -> list[Message]:
        if work is None:
            return list(messages)
        summary = [] if (said := text or work.previous) is None else [Message.system(f"{SUMMARY_PREFIX}\n\n{said}")]
        result = [*work.leading, *summary, *work.head, *work.tail]
        emit(
            COMPACTOR_COMPLETED,
            strategy="llm_compactor",
            messages_before=len(messages),
            messages_after=len(result),
            summarized_count=len(work.middle) if text else 0,
            duration_ms=(time.perf_counter() - work.began) * 1000,
            degraded=bool(work.middle) and self.summarize_fn is not None and not text,
        )
        return result

    def _count_tokens(self, messages: list[Message]) -> int:
        return sum(map(self._tokens, messages))

    def _prune_outputs(self, messages: list[Message]) -> list[Message]:
        """The messages, with a note in place of each old output of a tool."""
        if not self.tool_output_ttl_turns:
            return list(messages)
        note = f"[tool output compacted — original content dropped after {self.tool_output_ttl_turns} turns]"
        old = max(0, len(messages) - self.tool_output_ttl_turns)
        return [
            message.model_copy(update={"content": note}) if message.role == Role.TOOL else message
            for message in messages[:old]
        ] + list(messages[old:])

    def _find_tail(self, rest: list[Message]) -> int:
        """Where the end begins that the context has room for; the last exchange is always part of it."""
        room = int(self.context_length * self.tail_token_fraction)
        start = len(rest)
        while start > 0 and (room := room - self._tokens(rest[start - 1])) >= 0:
            start -= 1
        return find_clean_start(rest, min(start, len(rest) - 1))

    def __repr__(self) -> str:
        return (
            f"LLMCompactor(context_length={self.context_length}, trigger_fraction={self.trigger_fraction}, "
            f"head_turns={self.head_turns}, tail_token_fraction={self.tail_token_fraction})"
        )


class _Work:
    """A conversation in parts; only those that there are."""

    def __init__(self) -> None:
        self.leading: list[Message] = []
        self.previous: str | None = None
        self.head: list[Message] = []
        self.middle: list[Message] = []
        self.tail: list[Message] = []
        self.began = time.perf_counter()


def _log_failure() -> None:
    logger.warning("summarize_fn failed; the middle of the conversation is left out", exc_info=True)


def _is_summary(message: Message) -> bool:
    return message.role == Role.SYSTEM and (message.content or "").startswith(TAG)


def _strip_heading(summary: Message) -> str:
    """A summary without what stands before it."""
    return (summary.content or "").partition("\n\n")[2]


def _estimate_tokens(message: Message) -> int:
    letters = len(message.content or "")
    for call in message.tool_calls:
        letters += len(call.name) + len(str(call.arguments or ""))
    return letters // 4
