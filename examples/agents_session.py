"""An agent of OpenAI's Agents SDK whose session goes on after a restart, and which can search all that it was told.

It talks to the model LLM_MODEL at LLM_URL, with LLM_KEY if it wants one: any OpenAI-compatible endpoint does, such as
Ollama's http://127.0.0.1:11434/v1. Without an endpoint a parrot answers, so that you can see what is kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, OpenAIChatCompletionsModel, Runner, Usage, set_tracing_disabled
from openai import AsyncOpenAI
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from cofio import Engine, Scope
from cofio.library.openai_agents import CofioSession, recall_tool


class Parrot(Model):
    """A model for those who have none at hand: it says how much of the session it was sent."""

    async def get_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> ModelResponse:
        """Repeat the first thing that the user ever said in the session."""
        said = [item["content"] for item in input if item.get("role") == "user"]
        text = ResponseOutputText(type="output_text", text=f"{len(said)} so far; first: {said[0]}", annotations=[])
        message = ResponseOutputMessage(id="msg", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Refuse: the SDK wants the method, and nothing here streams."""
        raise NotImplementedError("the parrot does not stream: use Runner.run")


def choose_model() -> Model:
    """The endpoint's model, or the parrot."""
    if "LLM_URL" not in os.environ:
        return Parrot()
    client = AsyncOpenAI(base_url=os.environ["LLM_URL"], api_key=os.environ.get("LLM_KEY", "none"))
    return OpenAIChatCompletionsModel(model=os.environ.get("LLM_MODEL", "qwen3:8b"), openai_client=client)


def main(folder: Path) -> None:
    """Say two things; run it again and the session goes on."""
    set_tracing_disabled(True)  # otherwise the SDK sends what happens to OpenAI
    with Engine.open(folder) as engine:
        tools: list[Any] = [recall_tool(engine, Scope("openai-agents"))]
        agent = Agent(name="Clerk", model=choose_model(), tools=tools)
        for text in ("My boat is called Petrel.", "What is my boat called?"):
            print(Runner.run_sync(agent, text, session=CofioSession("ada", engine)).final_output)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-memory"))
