"""What an agent remembers from one session to the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from .messages import Message


class MemoryType(StrEnum):
    """What a memory is about."""

    USER = "user"
    """Who the user is."""
    FEEDBACK = "feedback"
    """What to do, or not to do."""
    PROJECT = "project"
    """What is being worked on."""
    REFERENCE = "reference"
    """Where things are found."""


@dataclass
class Memory:
    """One thing to remember; the same type and key are the same memory, and saving it again is an update."""

    type: MemoryType
    key: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.type = MemoryType(self.type)
        for name, value in (("key", self.key), ("content", self.content)):
            if not isinstance(value, str):
                raise TypeError(f"a memory's {name} must be text, not {type(value).__name__}")
        if not self.key:
            raise ValueError("a memory needs a key")
        if not isinstance(self.metadata, dict):
            raise TypeError(f"a memory's metadata must be a dict, not {type(self.metadata).__name__}")

    def to_store_value(self) -> dict[str, Any]:
        """The memory as a store keeps it."""
        return {
            "type": self.type.value,
            "key": self.key,
            "content": self.content,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_store_value(cls, value: dict[str, Any]) -> Memory:
        """The memory that `to_store_value` gave this of; metadata may be missing.

        Raises:
            KeyError: type, key or content is missing.
            ValueError: the type is not one of ours.
            TypeError: something is of another type.
        """
        return cls(
            type=MemoryType(value["type"]),
            key=value["key"],
            content=value["content"],
            metadata=dict(value.get("metadata") or {}),
        )


ExtractFn: TypeAlias = Callable[[list[Message]], Awaitable[list[Memory]] | list[Memory]]
"""Says what is worth remembering of a conversation; a plain function or an `async def`."""
