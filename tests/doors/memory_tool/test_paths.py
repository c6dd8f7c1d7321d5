"""A path names its own canonical file and nothing else; whatever is written otherwise is refused."""

from __future__ import annotations

import string
import unicodedata
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from cofio import Engine
from cofio.files import home
from cofio.files.paths import MAX_PATH, ROOT, BadPath, canonicalize

from ...tiers import scale_examples
from .conftest import Tool

COMMANDS: tuple[dict[str, object], ...] = (
    {"command": "view"},
    {"command": "create", "file_text": "escaped"},
    {"command": "str_replace", "old_str": "kept", "new_str": "escaped"},
    {"command": "insert", "insert_line": 0, "insert_text": "escaped"},
    {"command": "delete"},
)

OUTSIDE = [
    "/", "/etc/passwd", "//memories/x", "/memoriesX", "/memories.md", "/Memories/x", "/./memories", "/tmp/../memories",
]  # fmt: skip
ESCAPING = [
    "/memories/..", "/memories/../etc/passwd", "/memories/a/../../x", "..", "../x", "a/../../x", "./../x",
    "/memories/../memories/x", "/memories//..", "/memories/a/b/../../../memories/x",
]  # fmt: skip
UNSAFE = [
    "\\", "/memories\\..\\x", "..\\..\\x", "/memories/a\\b", "C:\\x",
    "/memories/%2e%2e/x", "/memories/%2E%2E%2Fx", "%2e%2e%2f", "/memories/..%2fx", "/memories/%252e%252e/x",
    "/memories/%5cx", "/memories/x%00.md",
    "/memories/a\0b", "/memories/a\nb", "/memories/a\rb", "/memories/\x1b[31m", "/memories/\x7f", "/memories/\x85",
    "/memories/a\u2028b", "/memories/\u202egnp.exe", "/memories/\u2066x", "/memories/\ud800", "\0",
    "/memories/..\u2215..\u2215etc", "/memories/a\u2044b", "/memories/.\u200b./x", "/memories/a\u200b.md",
    "/memories/a\u00ad", "/memories/\ufeffa",
    "/memories/\u2025/x", "/memories/\uff0e\uff0e/x", "/memories/\uff0e./x", "/memories/\u2024\u2024/x",
    "\ufe52\ufe52/x",
    "/memories/..\uff0fx", "/memories/a\uff3cb", "/memories/\ufe68x", "/memories/\u2100", "/memories/\uff0e",
]  # fmt: skip


@pytest.mark.requirement("path.outside", "path.traversal", "path.unsafe")
def test_a_path_that_names_nothing_is_refused() -> None:
    for path in (*OUTSIDE, *ESCAPING, *UNSAFE, "", "x" * (MAX_PATH + 1), "/memories/" + "x/" * 600):
        with pytest.raises(BadPath):
            canonicalize(path)


@pytest.mark.requirement("path.no-host", "seed.traversal")
@pytest.mark.parametrize("path", ["/etc/passwd", "/memories/../x", "/memories/a\\b", "/memories/%2e%2e/x", "\0", ""])
def test_every_command_refuses_a_path_that_names_nothing(tool: Tool, folder: Path, path: str) -> None:
    tool.made("/memories/kept", "kept")
    tool.made("/memories/a/b", "kept")
    for command in COMMANDS:
        said = tool.refuses(command | {"path": path})
        assert said.startswith("Error: Path ")
        assert str(folder) not in said
    for old, new in ((path, "/memories/new"), ("/memories/kept", path)):
        assert tool.refuses({"command": "rename", "old_path": old, "new_path": new}).startswith("Error: Path ")


@pytest.mark.requirement("path.outside", "path.traversal")
def test_the_reason_is_said_in_the_words_of_the_sdk(tool: Tool, sdk: Tool) -> None:
    for path in OUTSIDE:
        assert sdk.view(path=path).content == f"Path must start with /memories, got: {path}"
        assert tool.view(path=path).content == f"Error: Path must start with /memories, got: {path}"
    for path in ESCAPING:
        assert sdk.view(path=path).content == f"Path {path} would escape /memories directory"
    for path, said in (
        ("/memories/a\\b", "/memories/a\\b is not valid: it holds a backslash"), ("", "must not be empty"),
        ("x" * 2000, "must not be longer than 1,024 characters"),
    ):  # fmt: skip
        assert tool.view(path=path).content == f"Error: Path {said}"


@pytest.mark.requirement("path.canonical", "path.relative")
def test_each_path_has_one_canonical_form() -> None:
    for written in ("/memories", "/memories/", "/memories/.", "/memories/sub/..", ".", "./"):
        assert canonicalize(written) == ROOT
    for written, name in (
        ("/memories/a.md", "a.md"), ("/memories//a//b/", "a/b"), ("/memories/./a/../b", "b"),
        ("project/decisions.md", "project/decisions.md"), ("memories/a", "memories/a"), ("a/b/../c", "a/c"),
        ("~/x", "~/x"), ("...", "..."), ("..a", "..a"), ("100%.md", "100%.md"),
        ("a b/ü 日本 🙂.md", "a b/ü 日本 🙂.md"), ("👩\u200d💻.md", "👩\u200d💻.md"), ("cafe\u0301", "caf\u00e9"),
        ("\u212b", "\u00c5"), *[("n" * (MAX_PATH - len(ROOT) - 1),) * 2],
    ):  # fmt: skip
        assert canonicalize(written) == f"{ROOT}/{name}"
        assert canonicalize(f"{ROOT}/{name}") == f"{ROOT}/{name}"


@pytest.mark.requirement("path.twins", "path.relative", "seed.relative-only")
def test_twins_are_one_file_answers_name_the_path_as_written_and_one_form_alone_can_be_asked_for(
    engine: Engine, tool: Tool
) -> None:
    tool.made("/memories/caf\u00e9.md", "x")
    assert tool.create(path="/memories/cafe\u0301.md", file_text="y").is_error
    assert "     1\tx" in tool.view(path="cafe\u0301.md").content
    assert not tool.delete(path="/memories/cafe\u0301.md").is_error
    assert tool.files == {}
    assert tool.create(path="a/./b.md", file_text="x").content == "File created successfully at: a/./b.md"
    assert tool.view(path="a").content.split("\n")[1:] == ["1B\ta", "1B\ta/b.md"]
    assert tool.view(path="/memories/./a/").content.split("\n")[1:] == ["1B\t/memories/./a", "1B\t/memories/./a/b.md"]
    relative, absolute = Tool(engine, home(), paths="relative"), Tool(engine, home(), paths="absolute")
    said = relative.refuses({"command": "view", "path": "/memories/a/b.md"})
    assert said == "Error: Path must be relative to the memory directory, got: /memories/a/b.md"
    for path in ("/x", "\\x", "a/../b", "..", ""):
        assert relative.refuses({"command": "create", "path": path, "file_text": "x"}).startswith("Error: Path ")
    assert absolute.refuses({"command": "view", "path": "a"}) == "Error: Path must start with /memories, got: a"
    assert not absolute.view(path="/memories/a").is_error


PIECES = [
    "/", "//", "..", ".", "/memories", "memories", "a", "b.md", "\\", "%2e", "%2F", "%252e", "\0", "\n", "‥", "．",
    "／", "é", "e\u0301", "~", "\u202e", "\ud800", " ", "…", "½", "℀", "node_modules", ".git", "C:", "x" * 300,
]  # fmt: skip
PATHS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.text(max_size=30),
    st.text(st.sampled_from(string.printable + "．／＼‥é\u0301"), max_size=40).map(lambda text: f"/memories/{text}"),
    st.text(st.characters(codec=None), max_size=12).map(lambda text: f"/memories/a/{text}"),
)


@pytest.mark.requirement("path.fuzz", "path.no-host")
@given(PATHS)
@example("/memories/a/../a/x")
@example("/memories/%")
@settings(max_examples=scale_examples(200))
def test_a_canonical_path_is_a_plain_one(path: str) -> None:
    try:
        found = canonicalize(path)
    except BadPath:
        return
    assert found == ROOT or found.startswith(f"{ROOT}/")
    assert canonicalize(found) == found
    assert len(found) <= MAX_PATH
    names = found.split("/")[1:]
    assert all(names)
    assert not {".", ".."} & set(names)
    for name in names:
        assert unicodedata.is_normalized("NFC", name)
        plain = unicodedata.normalize("NFKC", name)
        assert plain not in (".", "..")
        assert not set(plain) & set("/\\\0")
        assert all(unicodedata.category(each) not in ("Cc", "Cs") for each in name)


@pytest.mark.requirement("path.fuzz", "path.no-host")
@given(path=PATHS, number=st.integers(0, len(COMMANDS)))
@settings(max_examples=scale_examples(80))
def test_a_command_reaches_the_canonical_file_of_its_path_and_no_other(
    tool: Tool, folder: Path, path: str, number: int
) -> None:
    kept = {"/memories/kept/x": "kept", "/memories/a/x": "kept", "/memories/memories/b.md": "kept"}
    for each in tool.tree.list_files():
        tool.delete(path=each.key)
    for name, text in kept.items():
        tool.made(name, text)
    try:
        own = canonicalize(path)
    except BadPath:
        own = None
    if number == len(COMMANDS):
        command: dict[str, object] = {"command": "rename", "old_path": "/memories/kept/x", "new_path": path}
    else:
        command = COMMANDS[number] | {"path": path}
    said = tool.run(command)
    said.content.encode()
    assert str(folder) not in said.content
    after = tool.files
    if said.is_error:
        assert after == kept
    else:
        assert own is not None
        changed = {name for name in {*after, *kept} if after.get(name) != kept.get(name)}
        source = {"/memories/kept/x"} if command["command"] == "rename" else set()
        assert all(name == own or name.startswith(f"{own}/") for name in changed - source)
    assert {each.name for each in folder.iterdir()} <= {"store"}, "a file of the host was touched"
