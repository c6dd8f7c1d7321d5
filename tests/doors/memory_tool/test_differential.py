"""Any sequence of commands comes to the same as with the SDK's own tool, which keeps real files.

Where the two are meant to differ stands in DIFFERENCES, each with the reason, and a test that shows it.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from anthropic.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import HealthCheck, given, settings

from cofio import Engine
from cofio.files import Result, home

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
_owners = itertools.count()


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
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_sequence_of_commands_comes_to_the_same_as_with_the_sdks_own_tool(
    engine: Engine, commands: list[Command]
) -> None:
    ours = Tool(engine, home(f"run {next(_owners)}"), strings="sdk")
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(Path(folder))
        for command in commands:
            meant, said = oracle.run(command), ours.run(command)
            if meant is None:
                assert said.is_error, (command, said)
            else:
                assert (same(said.content), said.is_error) == (same(meant.content), meant.is_error), command
            assert ours.files == oracle.files, command


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the two are meant to differ: what is there before, the command, and what each comes to."""

    why: str
    before: list[Command]
    command: Command
    theirs: Callable[[Result | None], bool]
    ours: Callable[[Result], bool]


def create(path: str, text: str = "x") -> Command:
    """The command that makes a file."""
    return {"command": "create", "path": path, "file_text": text}


def view(path: str) -> Command:
    """The command that shows a path."""
    return {"command": "view", "path": path}


def accepted(result: Result | None) -> bool:
    """The command was carried out."""
    return result is not None and not result.is_error


def refused(result: Result | None) -> bool:
    """The command was answered with an error."""
    return result is not None and result.is_error


def cut(result: Result | None) -> bool:
    """Not all of the file was shown."""
    return result is not None and "more lines: view them with view_range" in result.content


def broke(result: Result | None) -> bool:
    """The command raised something, which the runner would send as it prints."""
    return result is None


DIFFERENCES = [
    Difference("a path may be relative", [], create("a.md"), refused, accepted),
    Difference("the root's name has an end", [], create("/memoriesX"), accepted, refused),
    Difference("a path that leaves the tree may not come back", [], view("/memories/../memories"), accepted, refused),
    Difference("a name holds no control characters", [], create("/memories/a\nb"), accepted, refused),
    Difference("a name holds no backslash", [], create("/memories/a\\b"), accepted, refused),
    Difference("a name holds no encoded dots", [], create("/memories/%2e%2e"), accepted, refused),
    Difference("a name holds nothing that looks like a dot", [], create("/memories/‥"), accepted, refused),
    Difference("twins in NFC and NFD are one file", [create("/memories/é")], create("/memories/e\u0301"),
               accepted, refused),
    Difference("a text holds no NUL", [], create("/memories/a", "\0"), accepted, refused),
    Difference("a path may be long", [], create(f"/memories/{'n' * 300}"), broke, accepted),
    Difference(
        "a directory is there as long as a file is in it",
        [create("/memories/d/x"), {"command": "delete", "path": "/memories/d/x"}],
        create("/memories/d"),
        refused,
        accepted,
    ),
    Difference(
        "an empty old_str is said to be wrong",
        [create("/memories/a", "")],
        {"command": "str_replace", "path": "/memories/a", "old_str": "", "new_str": "x"},
        accepted,
        refused,
    ),
    Difference(
        "new_str may be left out",
        [create("/memories/a", "x")],
        {"command": "str_replace", "path": "/memories/a", "old_str": "x"},
        broke,
        accepted,
    ),
    Difference("a long file is cut", [create("/memories/a", "x\n" * 9000)], view("/memories/a"), accepted, cut),
    Difference("a file under a file is said to be", [create("/memories/a")], create("/memories/a/b"), broke, refused),
    Difference("a field that is missing is an error in words", [], {"command": "view"}, broke, refused),
    Difference("an unknown command is an error in words", [], {"command": "nope"}, broke, refused),
]  # fmt: skip


@pytest.mark.requirement("sdk.differences")
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.why)
def test_where_the_two_differ_they_are_meant_to(sdk: Tool, tmp_path: Path, difference: Difference) -> None:
    oracle = Oracle(tmp_path / "oracle", prune=False)
    for command in difference.before:
        assert accepted(oracle.run(command))
        assert accepted(sdk.run(command))
    assert difference.theirs(oracle.run(difference.command))
    assert difference.ours(sdk.run(difference.command))
