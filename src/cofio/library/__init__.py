"""The Python door: stores, long-term memory, conversation managers and checkpointers for agents written in Python.

Its names and signatures are those of locus's memory package, so that a program written for it runs with its import line
changed. `CofioStore` and `CofioCheckpointer` keep what they are given in a memory that every other door reaches too;
`PostgreSQLBackend` is both of them on PostgreSQL, and `RedisBackend` is a store and a checkpointer in Redis.
What belongs to some other library is in a module of its own, which imports that library and no other: `langgraph`,
`openai_agents`, `llama_index`, `anthropic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent_memory import AgentMemory
    from .checkpointer import BaseCheckpointer, CheckpointerCapabilities
    from .cofio_store import CofioStore
    from .compactor import LLMCompactor
    from .conversation import ConversationManager, NullManager, SlidingWindowManager, SummarizingManager
    from .delta import CheckpointMetadata, DeltaCheckpoint, DeltaCheckpointer, DeltaStorage, InMemoryDeltaStorage
    from .durable import CofioCheckpointer
    from .events import StreamEvent, observe
    from .extractors import llm_extractor
    from .manager import BaseMemoryManager, ExtractFn, LLMMemoryManager, Memory, MemoryType, NoopMemoryManager
    from .messages import Message, Role, ToolCall, ToolResult
    from .providers.file import FileCheckpointer
    from .providers.http import HTTPCheckpointer
    from .providers.memory import MemoryCheckpointer
    from .providers.postgresql import PostgreSQLBackend, PostgreSQLCheckpointer
    from .providers.redis import RedisCheckpointer
    from .providers.redis_backend import RedisBackend
    from .providers.s3 import S3Checkpointer
    from .registry import get_checkpointer, list_checkpointers, register_checkpointer
    from .state import AgentState, ReasoningStep, ToolExecution
    from .storage_backend import BackendCapabilities
    from .store import (
        BaseStore,
        InMemoryStore,
        NamespacedStore,
        SemanticSearchResult,
        StoreCapabilities,
        StoreCapabilityError,
        StoreContext,
        StoreItem,
    )

_HOMES = {
    "agent_memory": ("AgentMemory",),
    "checkpointer": ("BaseCheckpointer", "CheckpointerCapabilities"),
    "cofio_store": ("CofioStore",),
    "compactor": ("LLMCompactor",),
    "conversation": ("ConversationManager", "NullManager", "SlidingWindowManager", "SummarizingManager"),
    "delta": ("CheckpointMetadata", "DeltaCheckpoint", "DeltaCheckpointer", "DeltaStorage", "InMemoryDeltaStorage"),
    "durable": ("CofioCheckpointer",),
    "events": ("StreamEvent", "observe"),
    "extractors": ("llm_extractor",),
    "manager": ("BaseMemoryManager", "ExtractFn", "LLMMemoryManager", "Memory", "MemoryType", "NoopMemoryManager"),
    "messages": ("Message", "Role", "ToolCall", "ToolResult"),
    "providers.file": ("FileCheckpointer",),
    "providers.http": ("HTTPCheckpointer",),
    "providers.memory": ("MemoryCheckpointer",),
    "providers.postgresql": ("PostgreSQLBackend", "PostgreSQLCheckpointer"),
    "providers.redis": ("RedisCheckpointer",),
    "providers.redis_backend": ("RedisBackend",),
    "providers.s3": ("S3Checkpointer",),
    "registry": ("get_checkpointer", "list_checkpointers", "register_checkpointer"),
    "state": ("AgentState", "ReasoningStep", "ToolExecution"),
    "storage_backend": ("BackendCapabilities",),
    "store": (
        "BaseStore", "InMemoryStore", "NamespacedStore", "SemanticSearchResult", "StoreCapabilities",
        "StoreCapabilityError", "StoreContext", "StoreItem",
    ),
}  # fmt: skip

__all__ = [
    "AgentMemory",
    "AgentState", "BackendCapabilities", "BaseCheckpointer", "BaseMemoryManager", "BaseStore", "CheckpointMetadata",
    "CheckpointerCapabilities", "CofioCheckpointer", "CofioStore", "ConversationManager", "DeltaCheckpoint",
    "DeltaCheckpointer", "DeltaStorage", "ExtractFn", "FileCheckpointer", "HTTPCheckpointer", "InMemoryDeltaStorage",
    "InMemoryStore", "LLMCompactor", "LLMMemoryManager", "Memory", "MemoryCheckpointer", "MemoryType", "Message",
    "NamespacedStore", "NoopMemoryManager", "NullManager", "PostgreSQLBackend", "PostgreSQLCheckpointer",
    "ReasoningStep", "RedisBackend", "RedisCheckpointer", "Role", "S3Checkpointer", "SemanticSearchResult",
    "SlidingWindowManager", "StoreCapabilities", "StoreCapabilityError", "StoreContext", "StoreItem", "StreamEvent",
    "SummarizingManager", "ToolCall", "ToolExecution", "ToolResult", "get_checkpointer", "list_checkpointers",
    "llm_extractor", "observe", "register_checkpointer",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load the part that a public name lives in when it is first asked for: `import cofio.library` is cheap."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            value = getattr(import_module(f".{home}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
