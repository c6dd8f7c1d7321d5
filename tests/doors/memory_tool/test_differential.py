"""Any sequence of commands comes to the same as with the SDK's own tool, which keeps real files.

Where the two are meant to differ stands in DIFFERENCES, each with the reason, and a test that shows it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from anthropic.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings

from cofio import Engine
from cofio.files import Result, home

from ...tiers import scale_examples
from .conftest import Tool

Command = dict[str, Any]
NAMES = ["a", "b.md", "d", "d/e", "d/e/f.md", "d/b.md", ".hidden", "node_modules", "ü 日本"]
PATHS = st.sampled_from([f"/memories/{name}" for name in NAMES]) | st.sampled_from(
    ["/memories", "/memories/", "/memories/.", "/memories/d/..", "/memories//d/./e", "/memories/d/e/", "/etc/passwd",
     "/memories/../x", "/memories/d/../../x"]
)  # fmt: skip
TEXTS = st.text(st.sampled_from("ab\n\r x🙂é"), max_size=14)
WORDS = st.text(st.sampled_from("ab\n\r x🙂é"), min_size=1, max_size=3)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": PATHS},
        optional={"view_range": st.lists(st.integers(-3, 9), max_size=3)},
    ),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries({"command": st.just("str_replace"), "path": PATHS, "old_str": WORDS, "new_str": TEXTS}),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 6), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
)


class Oracle:
    """The SDK's tool on a folder."""

    def __init__(self, folder: Path, *, prune: bool = True) -> None:
        """With `prune`, directories that are empty are taken away: a difference."""
        self.prune = prune
        self.tool = BetaLocalFilesystemMemoryTool(str(folder))
        self.root = folder / "memories"

    def run(self, command: Command) -> Result | None:
        """What it answers; None when it breaks, which only shows that the command cannot be carried out."""
        try:
            return Result(str(self.tool.call(command)))
        except ToolError as error:
            return Result(str(error.content), is_error=True)
        except (OSError, AttributeError, TypeError, ValueError, NotImplementedError):
            return None
        finally:
            self._prune()

    def _prune(self) -> None:
        for folder in sorted(self.root.rglob("*"), reverse=True) if self.prune else ():
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    @property
    def files(self) -> dict[str, str]:
        """Every file with its text."""
        return {
            f"/memories/{file.relative_to(self.root)}": file.read_bytes().decode()
            for file in self.root.rglob("*")
            if file.is_file()
        }


def same(text: str) -> str:
    """An answer without what is meant to differ in a listing: a directory's size, and doubled slashes."""
    if not text.startswith("Here're"):
        return text
    header, first, *rest = text.split("\n")
    lines = []
    for line in [f"{first}/", *rest]:
        size, _, path = line.partition("\t")
        while "//" in path:
            path = path.replace("//", "/")
        lines.append(f"{'DIRECTORY' if path.endswith('/') else size}\t{path}")
    return "\n".join([header, *lines])


@pytest.mark.requirement("sdk.oracle")
@given(st.lists(COMMANDS, min_size=1, max_size=14))
@settings(max_examples=scale_examples(80))
def test_every_sequence_of_commands_comes_to_the_same_as_with_the_sdks_own_tool(
    engine: Engine, commands: list[Command]
) -> None:
    ours = Tool(engine, home(), strings="sdk")
    for file in ours.tree.list_files():
        ours.delete(path=file.key)
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(Path(folder))
        for command in commands:
            meant, said = oracle.run(command), ours.run(command)
            if meant is None:
                assert said.is_error, (command, said)
            else:
                assert (same(said.content), said.is_error) == (same(meant.content), meant.is_error), command
            assert ours.files == oracle.files, command


def create(path: str, text: str = "x") -> Command:
    """The command that makes a file."""
    return {"command": "create", "path": path, "file_text": text}


def describe(result: Result | None) -> str:
    """What became of a command."""
    return "broken" if result is None else "refused" if result.is_error else "accepted"


REPLACE = {"command": "str_replace", "path": "/memories/a"}
DIFFERENCES: list[tuple[str, list[Command], Command, str, str]] = [
    ("a path may be relative", [], create("a.md"), "refused", "accepted"),
    ("the root's name has an end", [], create("/memoriesX"), "accepted", "refused"),
    ("a path may not leave the tree and come back", [], create("/memories/../memories/a"), "accepted", "refused"),
    ("a name holds no control characters", [], create("/memories/a\nb"), "accepted", "refused"),
    ("a name holds no backslash", [], create("/memories/a\\b"), "accepted", "refused"),
    ("a name holds no encoded dots", [], create("/memories/%2e%2e"), "accepted", "refused"),
    ("a name holds nothing that looks like a dot", [], create("/memories/‥"), "accepted", "refused"),
    ("twins are one file", [create("/memories/é")], create("/memories/e\u0301"), "accepted", "refused"),
    ("a text holds no NUL", [], create("/memories/a", "\0"), "accepted", "refused"),
    ("a path may be long", [], create(f"/memories/{'n' * 300}"), "broken", "accepted"),
    ("a directory is there as long as a file is in it",
     [create("/memories/d/x"), {"command": "delete", "path": "/memories/d/x"}], create("/memories/d"), "refused",
     "accepted"),
    ("an empty old_str is said to be wrong", [create("/memories/a", "")], REPLACE | {"old_str": "", "new_str": "x"},
     "accepted", "refused"),
    ("new_str may be left out", [create("/memories/a", "x")], REPLACE | {"old_str": "x"}, "broken", "accepted"),
    ("a file under a file is said to be", [create("/memories/a")], create("/memories/a/b"), "broken", "refused"),
    ("a missing field is an error in words", [], {"command": "view"}, "broken", "refused"),
    ("an unknown command is an error in words", [], {"command": "nope"}, "broken", "refused"),
]  # fmt: skip
"""Each with the reason, what is there before, the command, what theirs comes to, and what ours does."""


@pytest.mark.requirement("sdk.differences")
@pytest.mark.parametrize(("before", "command", "theirs", "ours"), [each[1:] for each in DIFFERENCES],
                         ids=[each[0] for each in DIFFERENCES])  # fmt: skip
def test_where_the_two_differ_they_are_meant_to(
    sdk: Tool, tmp_path: Path, before: list[Command], command: Command, theirs: str, ours: str
) -> None:
    oracle = Oracle(tmp_path / "oracle", prune=False)
    for each in before:
        assert describe(oracle.run(each)) == describe(sdk.run(each)) == "accepted"
    assert describe(oracle.run(command)) == theirs
    assert describe(sdk.run(command)) == ours
