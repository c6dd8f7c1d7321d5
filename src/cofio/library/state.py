"""The state of an agent's run, which is what a checkpoint holds."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from .events import CONVERSATION_ADDED, emit
from .messages import Message, Role, ToolCall


def _now() -> datetime:
    return datetime.now(UTC)


class ToolExecution(BaseModel):
    """A call of a tool that was carried out."""

    tool_name: str
    tool_call_id: str
    arguments: dict[str, Any]
    result: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    timestamp: datetime = Field(default_factory=_now)
    idempotent_cache_hit: bool = False
    """Whether the result is that of an equal call before, and the tool did not run again."""

    @property
    def success(self) -> bool:
        """Whether nothing went wrong."""
        return self.error is None


class ReasoningStep(BaseModel):
    """One step of an agent's thinking: the thought, the calls it led to, and what was made of them."""

    iteration: int
    thought: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_results: list[ToolExecution] = Field(default_factory=list)
    reflection: str | None = None
    confidence_delta: float = 0.0
    timestamp: datetime = Field(default_factory=_now)


class AgentState(BaseModel):
    """A run as it stands; it cannot be changed, and every `with_…` gives a new one."""

    model_config = ConfigDict(frozen=True)

    run_id: str = Field(default_factory=lambda: uuid4().hex)
    agent_id: str | None = None
    messages: tuple[Message, ...] = ()
    iteration: int = 0
    max_iterations: int = 20
    tool_executions: tuple[ToolExecution, ...] = ()
    reasoning_steps: tuple[ReasoningStep, ...] = ()
    confidence: float = 0.0
    confidence_threshold: float = 0.85
    confidence_history: tuple[float, ...] = ()
    tool_history: tuple[str, ...] = ()
    tool_loop_threshold: int = 3
    terminal_tools: frozenset[str] = frozenset({"submit", "done", "finish", "complete"})
    total_tokens_used: int = 0
    prompt_tokens_used: int = 0
    completion_tokens_used: int = 0
    cache_creation_tokens_used: int = 0
    cache_read_tokens_used: int = 0
    token_budget: int | None = None
    completion_mode: str = "auto"
    """`auto`, or `explicit` when only a terminal tool or a limit ends the run."""
    errors: tuple[str, ...] = ()
    provider_state: dict[str, Any] | None = None
    """What a provider wants back with the next turn, such as the id of its last response."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    started_at: datetime = Field(default_factory=_now)
    updated_at: datetime = Field(default_factory=_now)

    @field_serializer("terminal_tools", when_used="json")
    def _in_order(self, tools: frozenset[str]) -> list[str]:
        # Sets have no order, and equal states are to give equal checkpoints.
        return sorted(tools, key=str)

    # New states.

    def with_message(self, message: Message) -> AgentState:
        """With one more message."""
        return self.with_messages([message])

    def with_messages(self, messages: list[Message]) -> AgentState:
        """With more messages."""
        grown = self._with(messages=(*self.messages, *messages))
        emit(
            CONVERSATION_ADDED,
            run_id=self.run_id,
            message_count=len(grown.messages) - len(self.messages),
            roles=[str(message.role) for message in grown.messages[len(self.messages) :]],
        )
        return grown

    def with_iteration(self, iteration: int) -> AgentState:
        """At this iteration."""
        return self._with(iteration=iteration)

    def next_iteration(self) -> AgentState:
        """One iteration further."""
        return self.with_iteration(self.iteration + 1)

    def with_provider_state(self, provider_state: dict[str, Any] | None) -> AgentState:
        """With what the provider wants back, in place of what it wanted before."""
        return self._with(provider_state=provider_state)

    def with_tool_execution(self, execution: ToolExecution) -> AgentState:
        """With one more call that was carried out."""
        return self._with(
            tool_executions=(*self.tool_executions, execution), tool_history=(*self.tool_history, execution.tool_name)
        )

    def with_reasoning_step(self, step: ReasoningStep) -> AgentState:
        """With one more step of thinking."""
        return self._with(reasoning_steps=(*self.reasoning_steps, step))

    def with_confidence(self, confidence: float) -> AgentState:
        """With this confidence, at least 0 and at most 1.

        Raises:
            ValueError: it is not a number; taken for certainty, that would end the run.
        """
        if math.isnan(confidence):
            raise ValueError("confidence must be a number")
        clamped = max(0.0, min(1.0, confidence))
        return self._with(confidence=clamped, confidence_history=(*self.confidence_history, clamped))

    def adjust_confidence(self, delta: float, diminishing: bool = True) -> AgentState:
        """More or less confident; with `diminishing`, a gain counts for less the nearer to certainty it comes."""
        gain = delta * (1.0 - self.confidence) if diminishing and delta > 0 else delta
        return self.with_confidence(self.confidence + gain)

    def with_error(self, error: str) -> AgentState:
        """With one more error."""
        return self._with(errors=(*self.errors, error))

    def with_metadata(self, key: str, value: Any) -> AgentState:
        """With this value in the metadata."""
        return self._with(metadata={**self.metadata, key: value})

    def with_token_usage(
        self,
        prompt_tokens: int,
        completion_tokens: int,
        cache_creation_tokens: int = 0,
        cache_read_tokens: int = 0,
    ) -> AgentState:
        """With the tokens of one more answer; the last two are of a prompt cache, where there is one."""
        return self._with(
            total_tokens_used=self.total_tokens_used + prompt_tokens + completion_tokens,
            prompt_tokens_used=self.prompt_tokens_used + prompt_tokens,
            completion_tokens_used=self.completion_tokens_used + completion_tokens,
            cache_creation_tokens_used=self.cache_creation_tokens_used + cache_creation_tokens,
            cache_read_tokens_used=self.cache_read_tokens_used + cache_read_tokens,
        )

    def _with(self, **changes: Any) -> AgentState:
        return self.model_copy(update={**changes, "updated_at": _now()})

    # What a run's state tells.

    @property
    def has_tool_loop(self) -> bool:
        """Whether the last steps all made the same calls, with the same arguments."""
        last = self.reasoning_steps[-self.tool_loop_threshold :] if self.tool_loop_threshold > 0 else ()
        if not last or len(last) < self.tool_loop_threshold:
            return False
        signatures = {frozenset(_sign_call(call) for call in step.tool_calls) for step in last}
        return len(signatures) == 1 and frozenset() not in signatures

    @property
    def last_tool_calls(self) -> list[ToolCall]:
        """The calls of the last message of the assistant that has any."""
        for message in reversed(self.messages):
            if message.role == Role.ASSISTANT and message.tool_calls:
                return list(message.tool_calls)
        return []

    @property
    def called_terminal_tool(self) -> bool:
        """Whether one of the last calls is of a tool that ends the run."""
        return any(call.name in self.terminal_tools for call in self.last_tool_calls)

    @property
    def should_terminate(self) -> tuple[bool, str | None]:
        """Whether the run is over, and why: `max_iterations`, `token_budget` or `terminal_tool`; where the mode is not
        `explicit` also `confidence_met`, `tool_loop` or `no_tools`."""
        reason = self._hard_reason()
        if reason is None and self.completion_mode != "explicit":
            reason = self._soft_reason()
        return reason is not None, reason

    def _hard_reason(self) -> str | None:
        if self.iteration >= self.max_iterations:
            return "max_iterations"
        if self.token_budget and self.total_tokens_used >= self.token_budget:
            return "token_budget"
        return "terminal_tool" if self.called_terminal_tool else None

    def _soft_reason(self) -> str | None:
        if self.confidence >= self.confidence_threshold:
            return "confidence_met"
        if self.has_tool_loop:
            return "tool_loop"
        answered = any(message.role == Role.ASSISTANT for message in self.messages)
        # A user's message at the end has yet to be answered.
        waiting = bool(self.messages) and self.messages[-1].role == Role.USER
        return "no_tools" if self.iteration > 0 and answered and not waiting and not self.last_tool_calls else None

    @property
    def total_tokens(self) -> int:
        """The tokens that were used; where none were counted, a quarter of the characters."""
        if self.total_tokens_used > 0:
            return self.total_tokens_used
        letters = 0
        for message in self.messages:
            letters += len(message.content or "") + sum(len(str(call.arguments)) for call in message.tool_calls)
        return letters // 4

    # Checkpoints.

    def to_checkpoint(self) -> dict[str, Any]:
        """The state as JSON values: always what `model_dump(mode="json")` gives, and sooner for a long chat."""
        messages = self.messages
        if type(self) is not AgentState or type(messages) is not tuple:
            return self.model_dump(mode="json")
        rest = self.model_dump(mode="json", exclude=_MESSAGES)
        return {"run_id": rest["run_id"], "agent_id": rest["agent_id"], "messages": _dump_messages(messages), **rest}

    @classmethod
    def from_checkpoint(cls, data: dict[str, Any]) -> AgentState:
        """The state that `to_checkpoint` gave these values for.

        Raises:
            pydantic.ValidationError: a ValueError that names each field that is wrong.
        """
        return cls.model_validate(data)


_MESSAGES = {"messages"}


def _sign_call(call: ToolCall) -> tuple[str, str]:
    """A call's name and arguments, the same for arguments in another order."""
    return call.name, json.dumps(call.arguments, sort_keys=True, default=str)


def _dump_messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    # A checkpoint is taken every turn, and most of a long chat is plain text, for which copying the fields will do.
    dump = Message.__pydantic_serializer__.to_python
    dumped: list[dict[str, Any]] = []
    for message in messages:
        values = message.__dict__
        if (
            type(message) is Message
            and type(values["content"]) is str
            and not values["tool_calls"]
            and not values["metadata"]
            and values["name"] is None
            and values["tool_call_id"] is None
            and type(values["role"]) is Role
        ):
            values = values.copy()
            values["role"] = values["role"]._value_  # `value` is a property, at ten times the price
            values["tool_calls"] = []
            values["metadata"] = {}
            dumped.append(values)
        else:
            dumped.append(dump(message, mode="json"))
    return dumped
