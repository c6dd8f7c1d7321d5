"""docs/mcp.md tells of every tool and parameter, and quotes the snippet as it is shipped."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import cast

import pytest

from cofio.doors.cli.command_line import build_parser
from cofio.doors.mcp.tools import TOOLS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "mcp.md").read_text()


@pytest.mark.requirement("docs")
def test_every_tool_is_documented_with_its_parameters() -> None:
    for name, tool in TOOLS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        for parameter in cast("dict[str, object]", tool.input["properties"]):
            assert f"`{parameter}`" in row


@pytest.mark.requirement("docs")
def test_the_snippet_is_the_one_that_is_shipped() -> None:
    snippet = (ROOT / "src" / "cofio" / "doors" / "mcp" / "snippet.md").read_text().strip()
    assert f"```\n{snippet}\n```" in PAGE


@pytest.mark.requirement("docs")
def test_the_commands_of_the_page_are_commands() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = [line.partition("#")[0] for block in blocks for line in block.splitlines() if line.startswith("cofio ")]
    assert len(commands) >= 4
    for command in commands:
        assert build_parser().parse_args(shlex.split(command)[1:]).command
