"""An MCP client of your own: it starts `cofio mcp`, writes two notes, and finds one by what it means.

Any MCP client does the same; this one is the official SDK. Run it twice: the second time the notes are there already.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

import mcp

NOTES = {
    "Deploys": "We deploy on Tuesdays, from main, because the support team is complete then.",
    "Auth: chose JWT": "Stateless tokens: no session store is shared between the services.",
}


def read_text(result: CallToolResult) -> str:
    """What the agent reads of an answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def main(folder: Path) -> None:
    """Write, search and list over MCP."""
    command = ["-m", "cofio", "mcp", "--store", str(folder)]
    server = stdio_client(StdioServerParameters(command=sys.executable, args=command))
    async with mcp.Client(server) as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        known = read_text(await client.call_tool("list_context", {}))
        for topic, content in NOTES.items():
            if topic not in known:
                await client.call_tool("write_context", {"topic": topic, "content": content, "agent": "example"})
        print(read_text(await client.call_tool("search_context", {"query": "which day do we deploy?", "top_k": 1})))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1] if len(sys.argv) > 1 else "example-memory"))
