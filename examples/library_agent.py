"""A turn of an agent in Python, without the model: long-term memory in front, a window, and a checkpoint at the end.

Run it twice: the thread goes on, and what was learned in one thread is known in the other.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from cofio import Engine
from cofio.library import AgentState, CofioCheckpointer, CofioStore, LLMMemoryManager, Message, SlidingWindowManager


async def turn(engine: Engine, thread: str, text: str) -> AgentState:
    """One turn: load, recall, answer, remember, save."""
    checkpointer = CofioCheckpointer(engine)
    memories = LLMMemoryManager(CofioStore(engine), namespace_prefix=("users", "ada"))

    state = await checkpointer.load(thread) or AgentState().with_message(Message.system("You help Ada."))
    state = await memories.on_session_start(state.with_message(Message.user(text)))
    sent = SlidingWindowManager(window_size=20).apply(list(state.messages))  # what a model would be sent
    recalled = [text for text in (message.content or "" for message in sent) if "[Long-term Memory]" in text]
    state = state.with_message(Message.assistant(f"I was sent {len(sent)} messages."))
    await memories.on_session_end(state)
    await checkpointer.save(state, thread)
    known = any("ferry" in each for each in recalled)
    print(f"{thread}: {text}\n  known: {known}, messages: {len(state.messages)}")
    return state


async def main(folder: Path) -> None:
    """Two threads of one user."""
    with Engine.open(folder) as engine:
        await turn(engine, "monday", "I'm a sailor, and I work on the ferry to Dublin.")
        await turn(engine, "tuesday", "What do I do for a living?")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-memory")))
