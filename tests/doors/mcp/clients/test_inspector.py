"""The inspector, the client by which people try out a server, on both transports and in both eras of the protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio.config.address import StoreAddress

from .conftest import Npm

IS_ERROR = 5  # how the inspector ends when a tool answers with isError
NULLABLE = {
    "search_context outputSchema.properties.hits.items.properties.expires",
    "search_context outputSchema.properties.hits.items.properties.keyword",
    "search_context outputSchema.properties.hits.items.properties.keyword.properties.rank",
    "search_context outputSchema.properties.hits.items.properties.semantic",
    "search_context outputSchema.properties.hits.items.properties.semantic.properties.rank",
    "search_context outputSchema.properties.hits.items.properties.superseded_by",
    "search_context outputSchema.properties.degraded",
    "write_context outputSchema.properties.expires",
    "read_context outputSchema.properties.chunk",
    "read_context outputSchema.properties.chunk.properties.expires",
}
ANY_JSON = {"get_state outputSchema.properties.value", "set_state inputSchema.properties.value"}
WARNING = re.compile(r'^Warning: tool "(\w+)"\n  Path: (\S+)$', re.MULTILINE)


class Inspector:
    """Asks one server."""

    def __init__(self, ask: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        self._ask = ask
        self.called: set[str] = set()

    def ask(self, method: str, *options: str) -> subprocess.CompletedProcess[str]:
        """How the inspector ended, and what it printed."""
        return self._ask("--method", method, "--format", "json", *options)

    def result(self, method: str, *options: str) -> dict[str, Any]:
        """The result of a request that goes well."""
        ran = self.ask(method, *options)
        assert ran.returncode == 0, ran.stderr
        result: dict[str, Any] = json.loads(ran.stdout)["result"]
        return result

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What a tool answers, as data."""
        self.called.add(tool)
        result = self.result("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        data: dict[str, Any] = result["structuredContent"]
        return data


@pytest.fixture(params=["stdio, modern", "http, legacy"])
def inspector(request: pytest.FixtureRequest, npm: Npm, store: StoreAddress) -> Inspector:
    """The inspector with a command that it starts, and with an address, each in one era of the protocol."""
    transport, era = request.param.split(", ")
    if transport == "http":
        way = [request.getfixturevalue("serve"), "--transport", "http"]
    else:  # the inspector keeps the environment from what it starts, but for what it is told to hand on
        handed = {"COFIO_STORE": store.spell(), "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}
        options = [each for name, value in handed.items() for each in ("-e", f"{name}={value}")]
        way = [str(Path(sys.executable).parent / "cofio"), "mcp", "--structured", *options]
    return Inspector(lambda *options: npm("mcp-inspector", "--cli", *way, "--protocol-era", era, *options))


@pytest.mark.requirement("clients.inspector")
def test_strict_finds_no_error_in_the_tools_and_only_the_warnings_that_we_accept(inspector: Inspector) -> None:
    ran = inspector.ask("tools/list", "--strict")
    assert ran.returncode == 0, ran.stderr
    assert "0 errors" in ran.stderr
    # A `null` among the types of an answer, and a state that may be any JSON, are what is meant.
    assert {f"{tool} {path}" for tool, path in WARNING.findall(ran.stderr)} == NULLABLE | ANY_JSON


@pytest.mark.requirement("clients.inspector")
def test_every_tool_resource_and_prompt_does_its_work(inspector: Inspector) -> None:
    content = "Sessions are out: the gateway verifies **JWT** by itself."
    written = inspector.call("write_context", topic="Auth: JWT, no sessions", content=content, tags=["auth"])
    found = inspector.call("search_context", query="how does the gateway verify sessions?", top_k=3)
    assert written["id"] in [hit["id"] for hit in found["hits"]]
    assert inspector.call("read_context", id=written["id"])["chunk"]["content"] == content
    listed = inspector.call("list_context", tags=["auth"], limit=500)
    assert written["id"] in [chunk["id"] for chunk in listed["chunks"]]
    value = {"phase": "build", "left": [1, 2.5, None], "done": False}
    assert inspector.call("set_state", key="pipeline", value=value)["key"] == "pipeline"
    state = inspector.call("get_state", key="pipeline")
    assert (state["key"], state["found"], state["value"]) == ("pipeline", True, value)
    ran = inspector.ask("tools/call", "--tool-name", "search_context", "--tool-args-json", '{"query": 7}')
    assert ran.returncode == IS_ERROR
    assert "Invalid arguments for tool search_context" in json.loads(ran.stdout)["result"]["content"][0]["text"]
    uri = f"cofio://note/{written['id']}"
    uris = [resource["uri"] for resource in inspector.result("resources/list")["resources"]]
    assert (uris[0], uri in uris) == ("cofio://skill", True)
    [read] = inspector.result("resources/read", "--uri", uri)["contents"]
    assert read["text"].endswith(content)
    assert inspector.call("delete_context", id=written["id"]) == {"id": written["id"], "deleted": True}
    ran = inspector.ask("resources/read", "--uri", uri)
    assert (ran.returncode, f"there is no {uri}" in ran.stderr) == (1, True)
    assert inspector.called == {tool["name"] for tool in inspector.result("tools/list")["tools"]}
    prompts = [prompt["name"] for prompt in inspector.result("prompts/list")["prompts"]]
    assert prompts == ["agent-memory", "user-context"]
    [message] = inspector.result("prompts/get", "--prompt-name", "agent-memory")["messages"]
    assert (message["role"], "search_context" in message["content"]["text"]) == ("user", True)
