"""What a file held before is kept with the change that ended it, can be listed, and can be brought back."""

from __future__ import annotations

import pytest

from cofio import Engine, Invalid, Kind, NotFound, Query, Scope
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


@pytest.mark.requirement("history.kept")
def test_a_directory_keeps_what_all_its_files_held(tool: Tool) -> None:
    for name in "xyz":
        tool.made(f"/memories/d/{name}", name)
    tool.delete(path="/memories/d")
    assert [texts(tool, f"/memories/d/{name}") for name in "xyz"] == [["x"], ["y"], ["z"]]


@pytest.mark.requirement("history.renamed")
def test_a_file_takes_its_history_along(tool: Tool) -> None:
    tool.made(A, "1")
    tool.str_replace(path=A, old_str="1", new_str="2")
    tool.rename(old_path=A, new_path="/memories/b.md")
    tool.str_replace(path="/memories/b.md", old_str="2", new_str="3")
    assert texts(tool, "/memories/b.md") == ["2", "1"]
    assert texts(tool) == [], "and leaves none under its old name"
    tool.delete(path="/memories/b.md")
    assert texts(tool, "/memories/b.md") == ["3", "2", "1"]


@pytest.mark.requirement("history.fifty")
def test_the_last_fifty_are_kept(tool: Tool) -> None:
    tool.made(A, "0")
    for number in range(KEPT + 15):
        tool.str_replace(path=A, old_str=str(number), new_str=str(number + 1))
        if number == 7:  # a move is no revision, and does not count
            tool.rename(old_path=A, new_path="/memories/b.md")
            tool.rename(old_path="/memories/b.md", new_path=A)
    assert texts(tool) == [str(number) for number in range(KEPT + 14, 14, -1)]
    assert tool.engine.count(HISTORY) == KEPT
    tool.delete(path=A)
    assert texts(tool)[0] == str(KEPT + 15)
    assert tool.engine.count(HISTORY) == KEPT


@pytest.mark.requirement("history.fifty")
def test_making_and_deleting_without_end_keeps_fifty_too(tool: Tool) -> None:
    tool.made("/memories/a.md.old", "beside it")
    tool.str_replace(path="/memories/a.md.old", old_str="beside", new_str="next to")
    for number in range(KEPT + 5):
        tool.made(A, str(number))
        tool.delete(path=A)
    assert texts(tool) == [str(number) for number in range(KEPT + 4, 4, -1)]
    assert texts(tool, "/memories/a.md.old") == ["beside it"]
    assert tool.engine.check() == []


@pytest.mark.requirement("history.restore")
def test_a_revision_can_be_brought_back(tool: Tool) -> None:
    tool.made(A, "one")
    tool.str_replace(path=A, old_str="one", new_str="two")
    tool.delete(path=A)
    assert not restore(tool.engine, tool.scope, A).is_error
    assert tool.text(A) == "two", "the latest, unless another is asked for"
    first = log(tool.engine, tool.scope, A)[-1]
    assert not restore(tool.engine, tool.scope, A, first.id).is_error
    assert tool.text(A) == "one"
    assert texts(tool) == ["two", "two", "one"]


@pytest.mark.requirement("history.restore")
def test_only_a_revision_of_that_file_is_brought_back(tool: Tool) -> None:
    tool.made(A, "secret")
    tool.delete(path=A)
    tool.made("/memories/b.md", "b")
    (revision,) = log(tool.engine, tool.scope, A)
    for path, which in (("/memories/b.md", revision.id), ("/memories/b.md", None), (A, "nonsense")):
        with pytest.raises(NotFound):
            restore(tool.engine, tool.scope, path, which)
    with pytest.raises(NotFound):
        restore(tool.engine, home("other"), A, revision.id)
    with pytest.raises(Invalid):
        log(tool.engine, tool.scope, "../x")
    assert tool.files == {"/memories/b.md": "b"}


@pytest.mark.requirement("history.not-found")
def test_no_search_finds_what_a_file_held_before(engine: Engine, tool: Tool) -> None:
    tool.made(A, "The heron stands in the reeds.")
    tool.str_replace(path=A, old_str="heron", new_str="stork")
    for settled in (False, True):
        if settled:
            engine.settle()
        assert [hit.record.kind for hit in engine.search(Query("heron reeds", floor=0.0))] == [Kind.FILE]
        assert not engine.search(Query("heron", mode="keyword"))


@pytest.mark.requirement("history.kept")
def test_an_edit_that_changes_nothing_keeps_nothing(tool: Tool) -> None:
    tool.made(A, "x")
    before = tool.everything
    assert not tool.str_replace(path=A, old_str="x", new_str="x").is_error
    assert tool.everything == before


@pytest.mark.requirement("history.together")
def test_an_error_keeps_no_revision(tool: Tool) -> None:
    tool.made(A, "x x")
    tool.refuses({"command": "str_replace", "path": A, "old_str": "x", "new_str": "y"})
    tool.refuses({"command": "insert", "path": A, "insert_line": 9, "insert_text": "y"})
    tool.refuses({"command": "delete", "path": "/memories/none"})
    assert texts(tool) == []
