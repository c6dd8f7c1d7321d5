"""Claude with Anthropic's memory tool, whose files are in a cofio store. It needs ANTHROPIC_API_KEY.

Run it twice: the second time Claude looks into /memories first, and knows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anthropic

from cofio.library.anthropic import MemoryTool


def main(folder: Path, text: str) -> None:
    """Send one message, and show what Claude does with its memory."""
    if not os.environ.get("ANTHROPIC_API_KEY"):
        sys.exit("set ANTHROPIC_API_KEY first: this example talks to Claude (the other examples need no key)")
    client = anthropic.Anthropic()
    with MemoryTool(folder, owner="alice") as memory:
        runner = client.beta.messages.tool_runner(
            model=os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-5-5"),
            max_tokens=2048,
            max_iterations=20,
            tools=[memory],
            messages=[{"role": "user", "content": text}],
        )
        for message in runner:
            for block in message.content:
                if block.type == "tool_use":
                    print("memory:", block.input)
                elif block.type == "text":
                    print("Claude:", block.text)


if __name__ == "__main__":
    folder, *words = sys.argv[1:] or ["example-memory"]
    main(Path(folder), " ".join(words) or "I like my coffee black. Remember that for next time.")
