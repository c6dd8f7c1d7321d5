"""The six commands, to the byte: the sentences of the documentation and of Anthropic's Python SDK."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from cofio import Engine, Invalid, Kind, Scope, Unavailable
from cofio.files import Options, dispatch, home
from cofio.files.texts import SHOWN, format_size
from cofio.values.records import MAX_TEXT

from .conftest import Tool

A = "/memories/a.md"
NOT_THERE = "The path {} does not exist. Please provide a valid path."


# view


@pytest.mark.requirement("view.dir-header", "view.dir-empty", "view.dir-range", "docs.default")
def test_an_empty_memory_is_listed_as_the_root_alone(tool: Tool, sdk: Tool) -> None:
    said = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items"
    assert tool.view(path="/memories").content == f"{said} and node_modules:\n0B\t/memories"
    assert sdk.view(path="/memories").content == f"{said}:\n0B\t/memories"
    assert not tool.view(path="/memories").is_error
    assert tool.view(path="/memories", view_range=[3, 4]) == tool.view(path="/memories")


@pytest.mark.requirement("view.dir-lines", "view.dir-depth", "view.dir-hidden", "view.dir-sizes")
def test_a_directory_is_listed_two_levels_deep_and_in_order(tool: Tool, sdk: Tool) -> None:
    for path, text in {
        "b.md": "6 byte", "b/c/d.md": "x" * 1536, "b/.hidden/x.md": "12", "b/a.md": "é", ".git/x": "1",
        "node_modules/p/x.js": "1234", "b-.md": "", "a/z.md": "x" * 2048,
    }.items():  # fmt: skip
        tool.made(f"/memories/{path}", text)
    end = [
        f"{size}\t/memories/{name}"
        for size, name in (("1.5K", "b/"), ("2B", "b/a.md"), ("1.5K", "b/c/"), ("0B", "b-.md"), ("6B", "b.md"))
    ]
    assert tool.view(path="/memories").content.split("\n")[1:] == [
        "3.5K\t/memories", "2.0K\t/memories/a/", "2.0K\t/memories/a/z.md", *end,
    ]  # fmt: skip
    assert sdk.view(path="/memories").content.split("\n")[1:] == [
        "3.5K\t/memories", "2K\t/memories/a/", "2K\t/memories/a/z.md", *end, "4B\t/memories/node_modules/",
        "4B\t/memories/node_modules/p/",
    ]  # fmt: skip
    assert tool.view(path="/memories/b/").content == (
        "Here're the files and directories up to 2 levels deep in /memories/b/, excluding hidden items and "
        "node_modules:\n1.5K\t/memories/b\n2B\t/memories/b/a.md\n1.5K\t/memories/b/c/\n1.5K\t/memories/b/c/d.md"
    )


@pytest.mark.requirement("view.dir-sizes")
@pytest.mark.parametrize(
    ("count", "docs", "sdk"),
    [
        (0, "0B", "0B"), (6, "6B", "6B"), (1023, "1023B", "1023B"), (1024, "1.0K", "1K"), (1536, "1.5K", "1.5K"),
        (4096, "4.0K", "4K"), (1_258_291, "1.2M", "1.2M"), (2**30, "1.0G", "1G"), (2**41, "2048.0G", "2048G"),
    ],
)  # fmt: skip
def test_sizes_have_the_look_of_the_documentation(count: int, docs: str, sdk: str) -> None:
    assert (format_size(count, "docs"), format_size(count, "sdk")) == (docs, sdk)


@pytest.mark.requirement("view.file-header", "view.file-lines", "view.split", "view.missing")
def test_a_file_is_shown_with_numbered_lines(tool: Tool, sdk: Tool) -> None:
    shown = [
        ("", "     1\t"), ("a", "     1\ta"), ("a\nb\n", "     1\ta\n     2\tb\n     3\t"),
        ("a\r\nb\u2028c\x0bd", "     1\ta\r\n     2\tb\u2028c\x0bd"),
    ]  # fmt: skip
    for number, (text, lines) in enumerate(shown):
        path = tool.made(f"/memories/{number}", text)
        for each in (tool, sdk):
            assert each.view(path=path).content == f"Here's the content of {path} with line numbers:\n{lines}"
    for each in (tool, sdk):
        assert each.refuses({"command": "view", "path": A}) == NOT_THERE.format(A)
        assert each.refuses({"command": "view", "path": "none"}) == NOT_THERE.format("none")


@pytest.mark.requirement("view.range", "view.range-length")
def test_a_range_shows_those_lines(tool: Tool) -> None:
    lines = ["     1\ta", "     2\tb", "     3\tc", "     4\t"]
    tool.made(A, "a\nb\nc\n")
    ranges: list[tuple[list[int] | None, list[str]]] = [
        ([2, 3], lines[1:3]), ([2, -1], lines[1:]), ([0, 1], lines[:1]), ([-5, 1], lines[:1]), ([3, 99], lines[2:]),
        ([9, 12], []), ([3, 2], []), ([1, -2], lines[:2]), ([], lines), ([2], lines), ([1, 2, 3], lines), (None, lines),
    ]  # fmt: skip
    for asked, expected in ranges:
        said = tool.view(path=A, view_range=asked)
        assert said.content == f"Here's the content of {A} with line numbers:\n" + "\n".join(expected)
        assert not said.is_error


@pytest.mark.requirement("view.too-many-lines")
def test_a_file_of_too_many_lines_is_not_shown(tool: Tool, sdk: Tool) -> None:
    tool.made(A, "\n" * 999_999)
    tool.made("/memories/b.md", "\n" * 999_998)
    for each in (tool, sdk):
        for asked in (None, [1, 2]):
            said = each.view(path=A, view_range=asked)
            assert said.content == f"File {A} exceeds maximum line limit of 999,999 lines."
            assert said.is_error
        assert each.view(path="/memories/b.md", view_range=[999_999, -1]).content.endswith("\n999999\t")


@pytest.mark.requirement("view.long")
def test_a_long_file_is_cut_at_a_line_and_says_how_to_go_on(tool: Tool) -> None:
    lines = [f"{number:04} " + "x" * 95 for number in range(1, 401)]  # 101 characters each
    tool.made(A, "\n".join(lines))
    shown = tool.view(path=A).content.split("\n")
    assert shown[1] == f"     1\t{lines[0]}"
    assert shown[-2] == f"   158\t{lines[157]}"
    assert shown[-1] == "[242 more lines: view them with view_range [159, 316]]"
    assert tool.view(path=A, view_range=[159, 316]).content.endswith(f"   316\t{lines[315]}")
    assert tool.view(path=A, view_range=[1, -1]).content.endswith(f"   400\t{lines[399]}"), "who asks for all gets all"
    assert "more lines" not in tool.view(path=tool.made("/memories/fits", "x\n" * (SHOWN // 2))).content
    one_line = "x" * (SHOWN + 1)
    assert tool.view(path=tool.made("/memories/b.md", one_line)).content.endswith(one_line)
    tool.made("/memories/c.md", "short\n" + "x" * SHOWN + "\nend")
    assert tool.view(path="/memories/c.md").content.endswith("[2 more lines: view them with view_range [2, 2]]")


# create


@pytest.mark.requirement("create.ok", "create.parents", "create.exists", "seed.create-exists")
def test_create_makes_a_file_and_the_directories_above_it_and_never_replaces_one(tool: Tool, sdk: Tool) -> None:
    assert tool.create(path=A, file_text="x\n").content == f"File created successfully at: {A}"
    assert sdk.create(path="/memories/d/e/f", file_text="").content == "File created successfully at: /memories/d/e/f"
    assert tool.files == {A: "x\n", "/memories/d/e/f": ""}
    assert not tool.view(path="/memories/d").is_error
    for path in (A, "/memories/d", "/memories", "/memories/"):
        command = {"command": "create", "path": path, "file_text": "new"}
        assert tool.refuses(command) == f"Error: File {path} already exists"
        assert sdk.refuses(command) == f"File {path} already exists"


@pytest.mark.requirement("create.overwrite")
def test_create_replaces_a_file_where_that_is_wanted(engine: Engine, tool: Tool) -> None:
    tool.made(A, "old")
    tool.made("/memories/d/x", "kept")
    writing = Tool(engine, home(), overwrite=True)
    assert writing.create(path=A, file_text="new").content == f"File created successfully at: {A}"
    assert writing.create(path="/memories/n", file_text="new").content == "File created successfully at: /memories/n"
    assert writing.refuses({"command": "create", "path": "/memories/d", "file_text": "x"}).endswith("already exists")
    assert tool.files == {A: "new", "/memories/d/x": "kept", "/memories/n": "new"}
    assert [each.text for each in tool.tree.log(A)] == ["old"]
    before = tool.everything
    assert not writing.create(path=A, file_text="new").is_error
    assert tool.everything == before, "the same text is no change"


@pytest.mark.requirement("bad.size", "bad.text")
def test_what_cannot_be_kept_is_refused(tool: Tool) -> None:
    for command in (
        {"command": "create", "path": A, "file_text": "x" * (MAX_TEXT + 1)},
        {"command": "create", "path": A, "file_text": "\0"},
        {"command": "create", "path": A, "file_text": "\ud800"},
    ):
        assert tool.refuses(command).startswith(f"Error: File {A} ")
    tool.made(A, "x" * MAX_TEXT)
    assert tool.refuses({"command": "insert", "path": A, "insert_line": 0, "insert_text": "y"}) == (
        f"Error: File {A} would exceed the maximum size of 1,048,576 characters"
    )
    tool.made("/memories/b", "a b")
    for new in ("\0", "\udfff", "x" * MAX_TEXT):
        said = tool.refuses({"command": "str_replace", "path": "/memories/b", "old_str": "a", "new_str": new})
        assert said.startswith("Error: File /memories/b ")


# str_replace

EDITED = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"


@pytest.mark.requirement("replace.ok", "replace.snippet", "replace.new-optional")
def test_str_replace_answers_with_the_lines_around_the_change_and_may_take_a_text_out(tool: Tool, sdk: Tool) -> None:
    for number, each in enumerate((tool, sdk)):
        path = each.made(f"/memories/{number}", "1\n2\n3\n4\n5\n6\n7\n")
        said = each.str_replace(path=path, old_str="4\n5", new_str="four\nand\nfive")
        assert said.content == f"{EDITED}     2\t2\n     3\t3\n     4\tfour\n     5\tand\n     6\tfive"
        said = each.str_replace(path=path, old_str="1", new_str="x")
        assert said.content == f"{EDITED}     1\tx\n     2\t2\n     3\t3"
        assert each.str_replace(path=path, old_str="7\n", new_str="").content.endswith("     8\t")
        assert not each.str_replace(path=path, old_str="x\n2\n3\n").is_error
        assert each.text(path) == "four\nand\nfive\n6\n"
        assert not each.str_replace(path=path, old_str="\nand\nfive\n6\n", new_str=None).is_error
        assert each.str_replace(path=path, old_str="four", new_str="").content == f"{EDITED}     1\t"
        assert each.text(path) == ""


@pytest.mark.requirement("replace.missing", "replace.not-found")
def test_str_replace_needs_a_file_and_what_appears_in_it(tool: Tool, sdk: Tool) -> None:
    tool.made("/memories/d/x", "abc")
    gone = {"command": "str_replace", "path": A, "old_str": "a", "new_str": "b"}
    assert tool.refuses(gone) == f"Error: {NOT_THERE.format(A)}"
    assert sdk.refuses(gone) == NOT_THERE.format(A)
    directory = gone | {"path": "/memories/d"}
    assert tool.refuses(directory) == f"Error: {NOT_THERE.format('/memories/d')}"
    assert sdk.refuses(directory) == "The path /memories/d is not a file."
    assert sdk.refuses(gone | {"path": "/memories"}) == "The path /memories is not a file."
    for each in (tool, sdk):
        for old, said in (
            ("{x}", "old_str `{x}` did not appear verbatim in /memories/d/x."), ("", "old_str must not be empty."),
        ):  # fmt: skip
            refused = each.refuses(gone | {"path": "/memories/d/x", "old_str": old})
            assert refused == f"No replacement was performed, {said}"


@pytest.mark.requirement("replace.several", "replace.overlap", "seed.replace-first")
def test_str_replace_names_the_lines_of_several_places_or_takes_the_first(
    engine: Engine, tool: Tool, sdk: Tool
) -> None:
    said = "No replacement was performed. Multiple occurrences of old_str `{}` in lines: {}. Please ensure it is unique"
    tool.made(A, "x\ny\nx\nx x\n")
    tool.made("/memories/b", "aaaa\naaa")
    tool.made("/memories/c", "aaa")
    for each in (tool, sdk):
        for path, old, lines in ((A, "x", "1, 3, 4, 4"), ("/memories/b", "aa", "1, 1, 1, 2, 2")):
            asked = {"command": "str_replace", "path": path, "old_str": old, "new_str": "z"}
            assert each.refuses(asked) == said.format(old, lines)
    # One place that overlaps itself.
    assert not tool.str_replace(path="/memories/c", old_str="aa", new_str="b").is_error
    assert tool.text("/memories/c") == "ba"
    tool.made("/memories/d", "a\n" * 200_000)
    many = tool.refuses({"command": "str_replace", "path": "/memories/d", "old_str": "a", "new_str": "z"})
    assert many.endswith("999, 1000, …. Please ensure it is unique")
    first = Tool(engine, home(), replace_first=True)
    assert first.str_replace(path=A, old_str="x", new_str="z").content.startswith(f"{EDITED}     1\tz\n")
    assert tool.text(A) == "z\ny\nx\nx x\n"


# insert


@pytest.mark.requirement("insert.ok", "insert.newlines")
def test_insert_puts_lines_after_a_line(tool: Tool, sdk: Tool) -> None:
    inserts = [
        ("Line 1\nLine 2", 1, "X", "Line 1\nX\nLine 2\n"), ("a\nb\n", 0, "X\n", "X\na\nb\n"),
        ("a\nb\n", 2, "X\n\n\n", "a\nb\nX\n"), ("", 0, "X", "X\n"), ("\n", 1, "X", "\nX\n"),
        ("a\r\nb\r\n", 1, "X", "a\r\nX\nb\r\n"), ("a\n\n", 2, "X\nY", "a\n\nX\nY\n"), ("a", 1, "", "a\n"),
    ]  # fmt: skip
    for number, ((text, line, inserted, after), each) in enumerate(product(inserts, (tool, sdk))):
        path = each.made(f"/memories/{number}", text)
        said = each.insert(path=path, insert_line=line, insert_text=inserted)
        assert said.content == f"The file {path} has been edited."
        assert each.text(path) == after


@pytest.mark.requirement("insert.missing", "insert.bad-line")
def test_insert_needs_a_file_and_a_line_of_it(tool: Tool, sdk: Tool) -> None:
    tool.made("/memories/d/x", "a\nb\n")
    gone = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "b"}
    assert tool.refuses(gone) == f"Error: The path {A} does not exist"
    assert sdk.refuses(gone) == NOT_THERE.format(A)
    assert tool.refuses(gone | {"path": "/memories/d"}) == "Error: The path /memories/d does not exist"
    assert sdk.refuses(gone | {"path": "/memories/d"}) == "The path /memories/d is not a file."
    for line in (-1, 3, 10**30):
        asked = {"command": "insert", "path": "/memories/d/x", "insert_line": line, "insert_text": "x"}
        bad = f"Invalid `insert_line` parameter: {line}. It should be within the range"
        assert tool.refuses(asked) == f"Error: {bad} of lines of the file: [0, 2]"
        assert sdk.refuses(asked) == f"{bad} [0, 2]."


# delete and rename


@pytest.mark.requirement("delete.ok", "delete.recursive", "delete.missing", "delete.root")
def test_delete_takes_a_file_or_a_directory_with_all_in_it_and_never_the_root(tool: Tool, sdk: Tool) -> None:
    for path in ("a", "d/x", "d/e/y", "d.md", "dd/z"):
        tool.made(f"/memories/{path}", path)
    assert tool.delete(path="/memories/d").content == "Successfully deleted /memories/d"
    assert sorted(tool.files) == ["/memories/a", "/memories/d.md", "/memories/dd/z"]
    assert sdk.delete(path="/memories/a").content == "Successfully deleted /memories/a"
    assert sorted(tool.files) == ["/memories/d.md", "/memories/dd/z"]
    assert tool.refuses({"command": "delete", "path": A}) == f"Error: The path {A} does not exist"
    assert sdk.refuses({"command": "delete", "path": A}) == f"The path {A} does not exist"
    for root in ("/memories", "/memories/", "/memories/.", "/memories/dd/..", "."):
        command = {"command": "delete", "path": root}
        assert tool.refuses(command) == "Error: Cannot delete the /memories directory itself"
        assert sdk.refuses(command) == "Cannot delete the /memories directory itself"


@pytest.mark.requirement("rename.ok", "rename.parents")
def test_rename_moves_a_file_or_a_directory(tool: Tool, sdk: Tool) -> None:
    for path in ("a.md", "d/x", "d/e/y", "d.md"):
        tool.made(f"/memories/{path}", path)
    said = tool.rename(old_path="/memories/d", new_path="/memories/n/m")
    assert said.content == "Successfully renamed /memories/d to /memories/n/m"
    said = sdk.rename(old_path="/memories/a.md", new_path="/memories/n/b.md")
    assert said.content == "Successfully renamed /memories/a.md to /memories/n/b.md"
    assert tool.files == {
        "/memories/d.md": "d.md", "/memories/n/b.md": "a.md", "/memories/n/m/e/y": "d/e/y", "/memories/n/m/x": "d/x",
    }  # fmt: skip
    assert [file.title for file in tool.tree.list_files()] == sorted(tool.files)


@pytest.mark.requirement("rename.missing", "rename.taken", "rename.root", "tree.file-or-directory")
def test_rename_overwrites_nothing_and_needs_something(tool: Tool, sdk: Tool) -> None:
    tool.made(A, "a")
    tool.made("/memories/d/x", "x")

    def refused(old: str, new: str) -> tuple[str, str]:
        command = {"command": "rename", "old_path": old, "new_path": new}
        return tool.refuses(command), sdk.refuses(command)

    def both(sentence: str) -> tuple[str, str]:
        return f"Error: {sentence}", sentence

    assert refused("/memories/no", "/memories/new") == both("The path /memories/no does not exist")
    for new in (A, "/memories/d", "/memories/d/x", "/memories"):
        assert refused("/memories/d/x", new) == both(f"The destination {new} already exists")
    assert refused(A, A) == both(f"The destination {A} already exists")
    for root in ("/memories", "/memories/", "/memories/.", "/memories/d/.."):
        assert refused(root, "/memories/x") == both("Cannot rename the /memories directory itself")
    assert refused("/memories/d/x", f"{A}/b") == both(f"Cannot put {A}/b under {A}, which is a file")
    command = {"command": "create", "path": f"{A}/b/c", "file_text": "y"}
    assert (tool.refuses(command), sdk.refuses(command)) == both(f"Cannot put {A}/b/c under {A}, which is a file")
    assert refused("/memories/d", "/memories/d/e") == both("Cannot move /memories/d into itself")
    assert refused(A, f"{A}/b") == both(f"Cannot move {A} into itself")
    assert refused("/memories/d", f"/memories/{'n' * 1013}")[1].startswith("The move to /memories/nnn")


# What is wrong with a command


@pytest.mark.requirement("bad.unknown", "seed.unknown", "bad.extra", "bad.surrogates")
def test_an_unknown_command_is_refused_an_unknown_field_passed_over_and_what_is_quoted_can_be_sent(
    tool: Tool, sdk: Tool
) -> None:
    names: list[Any] = ["nope", "VIEW", "", "clear", 5, ["view"], {"a": 1}, True]
    for name in names:
        assert tool.refuses({"command": name, "path": "/memories"}) == f"Error: Unknown command: {name}"
        assert sdk.refuses({"command": name, "path": "/memories"}) == f"Unknown command: {name}"
    assert not tool.create(path=A, file_text="é", mode=0o777, nonsense=[1]).is_error
    for command in (
        {"command": "str_replace", "path": A, "old_str": "\ud800é"}, {"command": "view", "path": "/memories/\ud800"},
        {"command": "\udfff"},
    ):  # fmt: skip
        said = tool.refuses(command)
        assert "?" in said
        said.encode()
    # A number that cannot be written out.
    tool.refuses({"command": "insert", "path": A, "insert_line": 10**5000, "insert_text": "y"})
    tool.refuses({"command": 10**5000, "path": A})


FIELDS: dict[str, dict[str, object]] = {
    "view": {"path": A},
    "create": {"path": "/memories/new", "file_text": "x"},
    "str_replace": {"path": A, "old_str": "a"},
    "insert": {"path": A, "insert_line": 0, "insert_text": "x"},
    "delete": {"path": A},
    "rename": {"old_path": A, "new_path": "/memories/new"},
}
VIEW: dict[str, object] = {"command": "view", "path": A}
REPLACE: dict[str, object] = {"command": "str_replace", "path": A, "old_str": "a"}


@pytest.mark.requirement("bad.missing-field", "bad.types")
def test_a_field_that_is_missing_or_of_another_type_is_named(tool: Tool, sdk: Tool) -> None:
    tool.made(A, "a")
    for name, values in FIELDS.items():
        for field in values:
            without = {"command": name, **{each: value for each, value in values.items() if each != field}}
            for command in (without, without | {field: None}):
                assert tool.refuses(command) == f"Error: Missing required parameter `{field}` for command `{name}`"
                assert sdk.refuses(command) == f"Missing required parameter `{field}` for command `{name}`"
            others: list[object] = [1.5, True, {}, b"x", "1" if field == "insert_line" else 5]
            for value in others:
                said = tool.refuses({"command": name, **values, field: value})
                assert said.startswith(f"Error: Invalid `{field}` parameter: expected a")
    for command, said in (
        ({"command": "view", "path": 5}, "`path` parameter: expected a string, got an integer"),
        (VIEW | {"view_range": 5}, "`view_range` parameter: expected an array, got an integer"),
        (VIEW | {"view_range": [1, "2"]}, "`view_range` parameter: expected an integer, got a string"),
        (REPLACE | {"new_str": []}, "`new_str` parameter: expected a string, got an array"),
    ):
        assert tool.refuses(command) == f"Error: Invalid {said}"
    assert tool.refuses({}) == "Error: Missing required parameter `command`"
    wrong: list[object] = [None, 5, "view", [], b"x"]
    for each in wrong:
        assert tool.refuses(each).startswith("Error: Expected an object with a `command`, got ")


@pytest.mark.requirement("bad.unavailable")
def test_a_store_that_fails_is_an_error_that_names_no_folder(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(changes: object) -> None:
        raise Unavailable("the disk of /home/me/.cofio is full")

    monkeypatch.setattr(tool.engine, "apply", full)
    assert tool.refuses({"command": "create", "path": A, "file_text": "x"}) == (
        "Error: The memory cannot be used right now; nothing was changed"
    )


@pytest.mark.requirement("options.checked")
def test_a_wrong_option_is_the_callers_fault_and_not_the_models(engine: Engine) -> None:
    wrong: list[Any] = [{"strings": "nonsense"}, {"paths": "nonsense"}, {"overwrite": 1}, {"replace_first": "yes"}]
    for options in wrong:
        with pytest.raises(Invalid):
            Options(**options)
    with pytest.raises(Invalid):
        dispatch(engine, home(), VIEW, **wrong[0])
    with pytest.raises(Invalid):
        dispatch(engine, "scope", VIEW)  # type: ignore[arg-type]


@pytest.mark.requirement("tree.records")
def test_files_are_records_of_their_scope_and_of_no_other(engine: Engine, tool: Tool) -> None:
    other = Tool(engine, home("other"))
    under = Tool(engine, Scope("files", "default", "sub"))
    tool.made(A, "mine")
    other.made(A, "theirs")
    under.made(A, "below")
    assert tool.files == {A: "mine"}
    assert not tool.delete(path=A).is_error
    assert (tool.files, other.files, under.files) == ({}, {A: "theirs"}, {A: "below"})
    (record,) = engine.list(home("other"), kinds=[Kind.FILE])
    assert (record.key, record.title, record.text, record.source) == (A, A, "theirs", "memory_tool")
    engine.write(home("other"), text="a note beside the files")
    assert other.view(path="/memories").content.endswith(f"6B\t{A}")


@pytest.mark.requirement("tree.records", "view.dir-lines", "edits.directory", "bad.size")
def test_a_directory_may_hold_more_files_than_a_page_and_one_of_too_many_is_left_alone(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        tool.made(f"/memories/d/{number:02}", "x")
    Tool(tool.engine, tool.scope / "under").made("/memories/d/other", "x")
    monkeypatch.setattr("cofio.files.tree.MAX_LIST", 5)
    assert len(tool.view(path="/memories/d").content.split("\n")) == 2 + 12
    assert not tool.rename(old_path="/memories/d", new_path="/memories/e").is_error
    assert sorted(tool.files) == [f"/memories/e/{number:02}" for number in range(12)]
    monkeypatch.setattr("cofio.engine.engine.MAX_BATCH", 10)
    assert tool.refuses({"command": "delete", "path": "/memories/e"}) == (
        "Error: The path /memories/e holds too many files to be changed at once; nothing was done"
    )
