"""A LlamaIndex memory that recalls what has long left the chat. It needs no model and no key."""

from __future__ import annotations

import sys
from pathlib import Path

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from cofio import Engine
from cofio.library.llama_index import CofioChatStore, CofioMemoryBlock


def main(folder: Path) -> None:
    """Say something, talk of other things until it is out of sight, and ask for it."""
    with Engine.open(folder) as engine:
        memory = Memory.from_defaults(
            session_id="ada",
            chat_store=CofioChatStore(engine),
            memory_blocks=[CofioMemoryBlock(engine)],
            token_limit=150,  # so little that the first message does not stay for long
            token_flush_size=40,
        )
        memory.put(ChatMessage(role="user", content="The lighthouse keeper is called Tove."))
        memory.put(ChatMessage(role="assistant", content="I will remember Tove."))
        for number in range(12):
            memory.put(ChatMessage(role="user", content=f"Fact {number}: pears are not plums, nor are they apples."))
            memory.put(ChatMessage(role="assistant", content="Quite so."))
        memory.put(ChatMessage(role="user", content="Who keeps the lighthouse?"))
        for message in memory.get():
            print(f"{message.role.value}: {message.content}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-memory"))
