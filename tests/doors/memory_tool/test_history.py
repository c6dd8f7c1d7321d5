"""What a file held before is kept with the change that ended it, can be listed, and can be brought back."""

from __future__ import annotations

import pytest

from cofio import Invalid, Kind, NotFound, Query, Scope
from cofio.files import home, log, restore
from cofio.files.tree import KEPT

from .conftest import Tool

A = "/memories/a.md"
HISTORY = Scope("history", "files", "default")


def texts(tool: Tool, path: str = A) -> list[str]:
    """What a file held before, the latest first."""
    return [each.text for each in log(tool.engine, tool.scope, path)]


@pytest.mark.requirement("history.kept")
def test_every_edit_and_delete_keeps_what_was_there(tool: Tool) -> None:
    tool.made(A, "one\n")
    assert texts(tool) == []
    tool.str_replace(path=A, old_str="one", new_str="two")
    tool.insert(path=A, insert_line=1, insert_text="three")
    Tool(tool.engine, tool.scope, overwrite=True).create(path=A, file_text="four")
    tool.delete(path=A)
    found = log(tool.engine, tool.scope, "a.md")
    assert [each.text for each in found] == ["four", "two\nthree\n", "two\n", "one\n"]
    assert [each.cause for each in found] == ["delete", "edit", "edit", "edit"]
    assert [each.version for each in found] == [4, 3, 2, 1]
    assert {each.path for each in found} == {A}
    assert all(each.since <= each.until for each in found)
    assert tool.engine.read(found[0].id).kind is Kind.REVISION


@pytest.mark.requirement("history.fifty", "history.renamed", "history.not-found")
def test_the_last_fifty_are_kept_go_along_with_a_renamed_file_and_no_search_finds_them(tool: Tool) -> None:
    tool.made(A, "heron 0")
    for number in range(KEPT + 15):
        tool.str_replace(path=A, old_str=f"heron {number}", new_str=f"heron {number + 1}")
        if number == 7:  # a move is no revision, and does not count
            tool.rename(old_path=A, new_path="/memories/b.md")
            tool.rename(old_path="/memories/b.md", new_path=A)
    kept = [f"heron {number}" for number in range(KEPT + 14, 14, -1)]
    assert texts(tool) == kept
    assert tool.engine.count(HISTORY) == KEPT
    tool.rename(old_path=A, new_path="/memories/b.md")
    assert (texts(tool, "/memories/b.md"), texts(tool)) == (kept, [])
    tool.str_replace(path="/memories/b.md", old_str="heron", new_str="stork")
    for _ in range(2):
        assert [hit.record.kind for hit in tool.engine.search(Query("stork", floor=0.0))] == [Kind.FILE]
        assert not tool.engine.search(Query("heron", mode="keyword"))
        tool.engine.settle()
    tool.delete(path="/memories/b.md")
    assert texts(tool, "/memories/b.md")[:2] == [f"stork {KEPT + 15}", f"heron {KEPT + 15}"]
    assert tool.engine.count(HISTORY) == KEPT


@pytest.mark.requirement("history.fifty", "history.kept")
def test_making_and_deleting_a_directory_without_end_keeps_fifty_too(tool: Tool) -> None:
    tool.made("/memories/d.old", "beside it")
    tool.str_replace(path="/memories/d.old", old_str="beside", new_str="next to")
    for number in range(KEPT + 5):
        tool.made("/memories/d/x", str(number))
        tool.made("/memories/d/y", str(number))
        tool.delete(path="/memories/d")
    for name in "xy":
        assert texts(tool, f"/memories/d/{name}") == [str(number) for number in range(KEPT + 4, 4, -1)]
    assert texts(tool, "/memories/d.old") == ["beside it"]
    assert tool.engine.check() == []


@pytest.mark.requirement("history.restore")
def test_a_revision_can_be_brought_back_to_its_own_file(tool: Tool) -> None:
    tool.made(A, "one")
    tool.str_replace(path=A, old_str="one", new_str="two")
    tool.delete(path=A)
    assert not restore(tool.engine, tool.scope, A).is_error
    assert tool.text(A) == "two", "the latest, unless another is asked for"
    first = log(tool.engine, tool.scope, A)[-1]
    assert not restore(tool.engine, tool.scope, A, first.id).is_error
    assert tool.text(A) == "one"
    assert texts(tool) == ["two", "two", "one"]
    tool.made("/memories/b.md", "b")
    for path, which in (("/memories/b.md", first.id), ("/memories/b.md", None), (A, "nonsense")):
        with pytest.raises(NotFound):
            restore(tool.engine, tool.scope, path, which)
    with pytest.raises(NotFound):
        restore(tool.engine, home("other"), A, first.id)
    with pytest.raises(Invalid):
        log(tool.engine, tool.scope, "../x")
    assert tool.files == {A: "one", "/memories/b.md": "b"}


@pytest.mark.requirement("history.kept", "history.together")
def test_an_error_or_an_edit_that_changes_nothing_keeps_no_revision(tool: Tool) -> None:
    tool.made(A, "x x")
    tool.refuses({"command": "str_replace", "path": A, "old_str": "x", "new_str": "y"})
    tool.refuses({"command": "insert", "path": A, "insert_line": 9, "insert_text": "y"})
    tool.refuses({"command": "delete", "path": "/memories/none"})
    assert not tool.str_replace(path=A, old_str="x x", new_str="x x").is_error
    assert texts(tool) == []
