"""The commands of the tool by Anthropic's SDK, on every backend; a file is found through every other door, at once."""

from __future__ import annotations

import pytest
from anthropic.tools import ToolError

from cofio import Engine, Kind, Query
from cofio.doors.mcp import tools
from cofio.files import home, log
from cofio.library.anthropic import MemoryTool

from .conftest import Tool

PATH = "/memories/birds/heron.md"


@pytest.mark.requirement(
    "sdk.subclass", "create.ok", "view.file-lines", "rename.ok", "delete.recursive", "history.kept"
)
def test_files_are_made_listed_shown_edited_moved_and_deleted_and_a_conflict_told(engine: Engine) -> None:
    tool = MemoryTool(engine, "alice")
    tool.call({"command": "create", "path": PATH, "file_text": "one\ntwo\n"})
    with pytest.raises(ToolError, match="already exists"):
        tool.call({"command": "create", "path": PATH, "file_text": "x"})
    assert tool.call({"command": "view", "path": "/memories"}).endswith(f"8B\t/memories/birds/\n8B\t{PATH}")
    tool.call({"command": "str_replace", "path": PATH, "old_str": "two", "new_str": "three"})
    tool.call({"command": "insert", "path": PATH, "insert_line": 0, "insert_text": "zero"})
    assert tool.call({"command": "view", "path": PATH}).endswith("     1\tzero\n     2\tone\n     3\tthree\n     4\t")
    tool.call({"command": "rename", "old_path": "/memories/birds", "new_path": "/memories/old"})
    tool.call({"command": "delete", "path": "/memories/old"})
    assert Tool(engine, home("alice")).files == {}
    texts = [each.text for each in log(engine, home("alice"), "/memories/old/heron.md")]
    assert texts == ["zero\none\nthree\n", "one\nthree\n", "one\ntwo\n"]


@pytest.mark.requirement("found.mcp")
def test_an_mcp_search_everywhere_finds_a_file_and_not_what_it_held_before(engine: Engine, tool: Tool) -> None:
    tool.made(PATH, "The heron stands in the reeds.\n")
    said = tools.call_tool(lambda: engine, "search_context", {"query": "heron reeds", "everywhere": True})
    assert PATH in said.text
    assert "The heron stands in the reeds." in said.text
    assert "/memories" not in tools.call_tool(lambda: engine, "search_context", {"query": "heron reeds"}).text
    tool.str_replace(path=PATH, old_str="heron", new_str="stork")
    said = tools.call_tool(lambda: engine, "search_context", {"query": "stork", "everywhere": True})
    assert said.text.count("### ") == 1
    assert "The stork stands" in said.text


@pytest.mark.requirement("found.engine")
def test_a_file_is_found_by_its_words_its_path_and_its_meaning(engine: Engine, tool: Tool) -> None:
    tool.made("/memories/projects/lighthouse.md", "Refresh tokens live for thirty days.")
    engine.settle()
    meaning = Query("refresh tokens live", mode="semantic", floor=0.0)
    for query in (Query("refresh tokens"), Query("lighthouse"), meaning):
        assert [hit.record.kind for hit in engine.search(query)] == [Kind.FILE]
    tool.rename(old_path="/memories/projects/lighthouse.md", new_path="/memories/projects/harbour.md")
    assert not engine.search(Query("lighthouse", mode="keyword"))
    assert engine.search(Query("harbour", mode="keyword"))
    tool.delete(path="/memories/projects")
    assert not engine.search(Query("refresh tokens", mode="keyword"))
    assert engine.check() == []
