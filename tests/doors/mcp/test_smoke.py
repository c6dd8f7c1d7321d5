"""The official SDK's client, on both transports and in both eras, against real processes, on every backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents
from tests.waiting import PATIENCE

import mcp
from cofio.config.address import StoreAddress
from cofio.engine.opening import exists

ERAS: dict[Literal["auto", "legacy"], str] = {"auto": "2026-07-28", "legacy": "2025-11-25"}
ENVIRON = {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", "COFIO_STRUCTURED": "true"}


def text(content: Any) -> str:
    """Return the text of a block."""
    assert isinstance(content, TextContent | TextResourceContents)
    return content.text


async def work(target: Any, mode: Literal["auto", "legacy"], version: str) -> None:
    """Call every tool, and read resources and prompts."""
    async with mcp.Client(target, mode=mode) as client:
        assert client.protocol_version == version
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][:2] == ["search_context", "write_context"]
        assert all(tool.output_schema and tool.annotations for tool in tools)
        # The client checks structured content against the schema of each tool.
        saved = await client.call_tool("write_context", {"topic": "Auth", "content": "JWT was chosen.", "tags": ["a"]})
        assert saved.structured_content
        record_id = saved.structured_content["id"]
        found = await client.call_tool("search_context", {"query": "Why JWT?"})
        assert f"`{record_id}`" in text(found.content[0])
        assert not found.is_error
        read = await client.call_tool("read_context", {"id": record_id})
        assert text(read.content[0]).endswith("JWT was chosen.")
        assert "1 chunk(s) found:" in text((await client.call_tool("list_context", {})).content[0])
        await client.call_tool("set_state", {"key": "phase", "value": None})
        assert text((await client.call_tool("get_state", {"key": "phase"})).content[0]) == "null"
        wrong = await client.call_tool("search_context", {"query": "x", "top_k": 0})
        assert wrong.is_error
        assert "Too small: expected number to be >=1 at top_k" in text(wrong.content[0])
        note = await client.read_resource(f"cofio://note/{record_id}")
        assert "JWT was chosen." in text(note.contents[0])
        with pytest.raises(MCPError):
            await client.read_resource("cofio://note/none")
        again = await client.call_tool("write_context", {"topic": "Auth", "content": "PASETO.", "replaces": record_id})
        assert again.structured_content
        assert again.structured_content["id"] == record_id
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["agent-memory", "user-context"]
        prompt = await client.get_prompt("agent-memory")
        assert "search_context" in text(prompt.messages[0].content)
        deleted = await client.call_tool("delete_context", {"id": record_id})
        assert deleted.structured_content == {"id": record_id, "deleted": True}
        gone = await client.call_tool("write_context", {"topic": "Auth", "content": "JWT.", "replaces": record_id})
        assert (gone.is_error, text(gone.content[0])) == (True, f"No chunk found with id `{record_id}`.")


@pytest.mark.requirement("clients.sdk")
def test_the_sdks_client_works_on_stdio(process: None, store: StoreAddress) -> None:
    target = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "cofio", "mcp", "--store", store.spell()],
        env=ENVIRON | {name: os.environ[name] for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME")},
    )
    for mode, version in ERAS.items():
        anyio.run(work, target, mode, version)
    assert exists(store)


@pytest.mark.requirement("clients.sdk")
def test_the_sdks_client_works_over_http(process: None, store: StoreAddress, folder: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", store.spell()],
        cwd=folder, env=os.environ | ENVIRON, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout
        address = server.stdout.readline().strip()
        for mode, version in ERAS.items():
            anyio.run(work, address, mode, version)
    finally:
        server.terminate()
        out, err = server.communicate(timeout=PATIENCE)
    assert (out, len(err.splitlines())) == ("", 3), err  # where to see it, how to reach it, and that it has ended
