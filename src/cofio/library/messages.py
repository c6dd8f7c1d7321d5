"""What is said in an agent's conversation: messages, the tools that a model calls, and what came of the calls."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any
from uuid import uuid4

from pydantic import AliasChoices, BaseModel, ConfigDict, Field


class Role(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def _call_id() -> str:
    return f"call_{uuid4().hex[:12]}"


class ToolCall(BaseModel):
    """A tool that the model wants called; `args` is taken for `arguments`, too."""

    id: str = Field(default_factory=_call_id)
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict, validation_alias=AliasChoices("arguments", "args"))

    def to_openai_format(self) -> dict[str, Any]:
        """The call as OpenAI's chat API takes it: a function, with its arguments as JSON text."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": json.dumps(self.arguments)},
        }


class ToolResult(BaseModel):
    """What came of a call: the tool's answer, and what went wrong if something did."""

    tool_call_id: str
    name: str
    content: str
    error: str | None = None
    duration_ms: float | None = None

    @property
    def success(self) -> bool:
        """Whether nothing went wrong."""
        return self.error is None


class Message(BaseModel):
    """One message; it cannot be changed. `metadata` is for the program alone and is never sent to a model."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_call_id: str | None = None
    """The call that a tool's message answers."""
    name: str | None = None
    """The tool that answers."""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def system(cls, content: str) -> Message:
        """What the model is to be and do."""
        return cls(role=Role.SYSTEM, content=content)

    @classmethod
    def user(cls, content: str) -> Message:
        """What the user says."""
        return cls(role=Role.USER, content=content)

    @classmethod
    def assistant(cls, content: str | None = None, tool_calls: list[ToolCall] | None = None) -> Message:
        """What the model says, the tools that it wants called, or both."""
        return cls(role=Role.ASSISTANT, content=content, tool_calls=tool_calls or [])

    @classmethod
    def tool(cls, result: ToolResult) -> Message:
        """What a tool answers."""
        return cls(role=Role.TOOL, content=result.content, tool_call_id=result.tool_call_id, name=result.name)

    def to_openai_format(self) -> dict[str, Any]:
        """The message as OpenAI's chat API takes it, without what is not there."""
        sent: dict[str, Any] = {"role": self.role.value}
        if self.content is not None:
            sent["content"] = self.content
        if self.tool_calls:
            sent["tool_calls"] = [call.to_openai_format() for call in self.tool_calls]
        if self.tool_call_id:
            sent["tool_call_id"] = self.tool_call_id
        if self.name:
            sent["name"] = self.name
        return sent
