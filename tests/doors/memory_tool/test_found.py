"""A file is found through every other door, at once."""

from __future__ import annotations

import pytest

from cofio import Engine, Kind, Query
from cofio.doors.mcp import tools

from .conftest import Tool


@pytest.mark.requirement("found.mcp")
def test_an_mcp_search_everywhere_finds_a_file_and_not_what_it_held_before(engine: Engine, tool: Tool) -> None:
    tool.made("/memories/birds/heron.md", "The heron stands in the reeds.\n")
    said = tools.call_tool(lambda: engine, "search_context", {"query": "heron reeds", "everywhere": True})
    assert "/memories/birds/heron.md" in said.text
    assert "The heron stands in the reeds." in said.text
    assert "/memories" not in tools.call_tool(lambda: engine, "search_context", {"query": "heron reeds"}).text
    tool.str_replace(path="/memories/birds/heron.md", old_str="heron", new_str="stork")
    said = tools.call_tool(lambda: engine, "search_context", {"query": "stork", "everywhere": True})
    assert said.text.count("### ") == 1
    assert "The stork stands" in said.text


@pytest.mark.requirement("found.engine")
def test_a_file_is_found_by_its_words_its_path_and_its_meaning(engine: Engine, tool: Tool) -> None:
    tool.made("/memories/projects/lighthouse.md", "Refresh tokens live for thirty days.")
    for query in (
        Query("refresh tokens"),
        Query("lighthouse"),
        Query("refresh tokens live", mode="semantic", floor=0.0),
    ):
        engine.settle()
        assert [hit.record.kind for hit in engine.search(query)] == [Kind.FILE]
    tool.rename(old_path="/memories/projects/lighthouse.md", new_path="/memories/projects/harbour.md")
    assert not engine.search(Query("lighthouse", mode="keyword"))
    assert engine.search(Query("harbour", mode="keyword"))
    tool.delete(path="/memories/projects")
    assert not engine.search(Query("refresh tokens", mode="keyword"))
    assert engine.check() == []
