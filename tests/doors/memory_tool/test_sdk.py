"""The tool in the hands of Anthropic's SDK: its classes, its tool runner, both of its ways to send messages."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import BetaMemoryTool20250818StrReplaceCommand, BetaMemoryTool20250818ViewCommand

from cofio import Engine, Invalid
from cofio.config.address import StoreAddress
from cofio.config.installation import install_command
from cofio.files import home
from cofio.library.anthropic import AsyncMemoryTool, MemoryTool

from .conftest import MessagesApi, Tool

ROOT = Path(__file__).parents[3]
OLDEST = "1.13.0"
SCRIPT: list[Any] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/notes.txt", "file_text": "a\nb\n"},
    {"command": "create", "path": "/memories/notes.txt", "file_text": "x"},
    {"command": "insert", "path": "/memories/notes.txt", "insert_line": 99, "insert_text": "z\n"},
    {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "a"},
    {"command": "nope", "path": "/memories/notes.txt"},
    {"command": "view", "path": "/etc/passwd"},
    {"command": "view"},
    {"command": "view", "path": "/memories/notes.txt", "view_range": [1, 2]},
    {"command": "rename", "old_path": "/memories/notes.txt", "new_path": "/memories/old/notes.txt"},
    {"command": "delete", "path": "/memories/old"},
]
ANSWERS = [
    (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
        "0B\t/memories",
        False,
    ),
    ("File created successfully at: /memories/notes.txt", False),
    ("Error: File /memories/notes.txt already exists", True),
    ("Error: Invalid `insert_line` parameter: 99. It should be within the range of lines of the file: [0, 2]", True),
    (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\t\n     2\tb\n     3\t",
        False,
    ),
    ("Error: Unknown command: nope", True),
    ("Error: Path must start with /memories, got: /etc/passwd", True),
    ("Error: Missing required parameter `path` for command `view`", True),
    ("Here's the content of /memories/notes.txt with line numbers:\n     1\t\n     2\tb", False),
    ("Successfully renamed /memories/notes.txt to /memories/old/notes.txt", False),
    ("Successfully deleted /memories/old", False),
]
ASKED: dict[str, Any] = {
    "model": "claude-test", "max_tokens": 64, "max_iterations": len(SCRIPT) + 5,
    "messages": [{"role": "user", "content": "Go."}],
}  # fmt: skip


@pytest.mark.requirement("sdk.subclass", "wire.declaration")
def test_the_tool_is_one_of_the_sdks_own(engine: Engine) -> None:
    tool, beside = MemoryTool(engine), AsyncMemoryTool(engine)
    assert isinstance(tool, BetaAbstractMemoryTool)
    assert isinstance(beside, BetaAsyncAbstractMemoryTool)
    assert tool.to_dict() == beside.to_dict() == {"type": "memory_20250818", "name": "memory"}
    cached = MemoryTool(engine, cache_control={"type": "ephemeral"})
    assert cached.to_dict()["cache_control"] == {"type": "ephemeral"}


@pytest.mark.requirement("sdk.runner", "sdk.threads", "sdk.async", "wire.result")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_tool_runner_gets_every_answer_as_it_is(
    engine: Engine, messages_api: Callable[[list[Any]], MessagesApi], asynchronous: bool
) -> None:
    async def run() -> None:
        async with anthropic.AsyncAnthropic(api_key="x", base_url=api.url) as client, AsyncMemoryTool(engine) as tool:
            await client.beta.messages.tool_runner(**ASKED, tools=[tool]).until_done()

    api = messages_api(SCRIPT)
    if asynchronous:
        asyncio.run(run())
    else:
        client = anthropic.Anthropic(api_key="x", base_url=api.url)
        last = client.beta.messages.tool_runner(**ASKED, tools=[MemoryTool(engine)]).until_done()
        assert last.stop_reason == "end_turn"
    assert api.results == ANSWERS
    assert api.threaded == (int(anthropic.__version__.split(".")[0]) >= 2)
    assert api.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]


PROGRAM = """
import json, sys
import anthropic
from cofio.library.anthropic import MemoryTool

assert anthropic.__version__ == sys.argv[1], anthropic.__version__
client = anthropic.Anthropic(api_key="x", base_url=sys.argv[2])
with MemoryTool(sys.argv[3]) as tool:
    client.beta.messages.tool_runner(**json.loads(sys.argv[4]), tools=[tool]).until_done()
"""


@pytest.fixture(scope="module")
def oldest() -> Path:
    """A folder with the oldest SDK that the tool works with, which is fetched once."""
    folder = ROOT / ".venv" / f"anthropic-{OLDEST}"
    if not (folder / "anthropic").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run([*pip, f"anthropic=={OLDEST}"], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip(f"anthropic {OLDEST} cannot be fetched: {done.stderr[-200:]}")
    return folder


@pytest.mark.requirement("sdk.versions", "sdk.history")
@pytest.mark.usefixtures("process")
def test_the_oldest_sdk_gets_the_same_with_its_whole_history(
    store: StoreAddress, oldest: Path, messages_api: Callable[[list[Any]], MessagesApi]
) -> None:
    api = messages_api(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, OLDEST, api.url, store.spell(), json.dumps(ASKED)],
        env=os.environ | {"PYTHONPATH": str(oldest), "COFIO_EMBEDDER": "none"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert api.results == ANSWERS
    assert not api.threaded


@pytest.mark.requirement("sdk.methods", "sdk.errors")
def test_the_six_methods_take_the_sdks_commands_and_an_error_is_the_sdks_own(engine: Engine) -> None:
    tool = MemoryTool(engine, strings="sdk")
    Tool(engine, home()).made("/memories/a", "one two")
    replace = BetaMemoryTool20250818StrReplaceCommand.construct(
        command="str_replace", path="/memories/a", old_str=" two"
    )
    assert str(tool.execute(replace)).startswith("The memory file has been edited.")
    shown = tool.view(BetaMemoryTool20250818ViewCommand(command="view", path="/memories/a"))
    assert shown.endswith("     1\tone")
    with pytest.raises(ToolError):
        tool.view(BetaMemoryTool20250818ViewCommand.construct(command="view", path=5))
    with pytest.raises(ToolError) as raised:
        tool.call({"command": "delete", "path": "/memories"})
    assert raised.value.content == "Cannot delete the /memories directory itself"
    others: list[object] = [None, [], {"command": None}, {"command": "view", "path": 5}]
    for wrong in others:
        with pytest.raises(ToolError):
            tool.call(wrong)


@pytest.mark.requirement("sdk.owners")
def test_each_owner_has_files_of_their_own_on_a_store_or_an_engine(store: StoreAddress) -> None:
    with MemoryTool(store.folder or store.spell(), "alice") as alice, MemoryTool(store.spell(), owner="bob") as bob:
        alice.call({"command": "create", "path": "/memories/a", "file_text": "hers"})
        with pytest.raises(ToolError):
            bob.call({"command": "view", "path": "/memories/a"})
    with Engine.open(store) as engine:
        assert Tool(engine, home("alice")).files == {"/memories/a": "hers"}
        with MemoryTool(engine, "alice"):
            pass
        assert not engine.closed, "an engine of the caller's stays open"
    with pytest.raises(Invalid):
        MemoryTool(store.spell(), owner="")


@pytest.mark.requirement("sdk.clear")
def test_clearing_forgets_the_owners_files_and_what_they_held(engine: Engine) -> None:
    tool, other = MemoryTool(engine), MemoryTool(engine, "other")
    for each in (tool, other):
        each.call({"command": "create", "path": "/memories/a", "file_text": "x"})
        each.call({"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "y"})
    assert tool.clear_all_memory() == "All memory cleared"
    assert Tool(engine, home()).files == {}
    assert Tool(engine, home("other")).files == {"/memories/a": "y"}
    assert engine.count() == 2
    assert asyncio.run(AsyncMemoryTool(engine, "other").clear_all_memory()) == "All memory cleared"
    assert engine.count() == 0


@pytest.mark.requirement("sdk.quest")
def test_calls_can_be_counted(engine: Engine) -> None:
    tool = MemoryTool(engine, calls=2, paths="relative", replace_first=True, overwrite=True)
    tool.call({"command": "create", "path": "a", "file_text": "x x"})
    tool.call({"command": "str_replace", "path": "a", "old_str": "x", "new_str": "y"})
    with pytest.raises(ToolError, match=r"^rate limit exceeded$"):
        tool.call({"command": "view", "path": "a"})
    tool.reset_for_new_quest()
    assert tool.call({"command": "view", "path": "a"}).endswith("y x")


@pytest.mark.requirement("sdk.optional")
@pytest.mark.usefixtures("process")
def test_without_the_sdk_the_error_says_what_to_install_and_all_else_works() -> None:
    hidden = "import sys; sys.modules['anthropic'] = None; import cofio.doors.memory_tool, cofio.library"
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}; import cofio.library.anthropic"], capture_output=True, text=True, check=False
    )
    assert "ImportError: cofio.library.anthropic needs Anthropic's SDK" in done.stderr
    assert install_command("anthropic") in done.stderr
    light = "import sys, cofio.doors.memory_tool; assert not {'anthropic', 'starlette', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", light], check=True)
