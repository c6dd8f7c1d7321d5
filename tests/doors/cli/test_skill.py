"""`cofio skill`: the skill agrees with the tools, and goes where it is asked to go."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from cofio.doors.mcp import skill
from cofio.doors.mcp.tools import TOOLS
from cofio.values.records import Importance

from .conftest import Cofio

PLACE = ".claude/skills/agent-memory/SKILL.md"
OLDER = "---\nname: agent-memory\ndescription: As it once was.\n---\n\n# Agent memory\n"


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home."""
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def section(number: int) -> str:
    """What the skill says under this heading."""
    return re.split(r"^## ", skill.load_text(), flags=re.MULTILINE)[number]


def takes(tool: str) -> list[str]:
    """The parameters of a tool."""
    properties = TOOLS[tool].input["properties"]
    assert isinstance(properties, dict)
    return list(properties)


def test_its_front_matter_is_such_as_every_loader_takes() -> None:
    assert skill.parse_front_matter(skill.load_text()) == {"name": skill.name, "description": skill.description}
    assert len(skill.description) <= 1024
    assert re.fullmatch(r"[a-z0-9-]{1,64}", skill.name)
    # A plain value of YAML must hold neither of these, nor begin with a sign that means something there.
    assert ": " not in skill.description
    assert " #" not in skill.description
    assert skill.description[0].isalpha()


def test_its_table_and_its_examples_give_the_tools_the_parameters_and_levels_that_there_are() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", section(0), re.MULTILINE)
    listed = {tool: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", parameters)) for tool, parameters in rows}
    assert listed == {name: takes(name) for name in TOOLS}
    blocks = re.findall(r"^```\n(.*?)^```", skill.load_text(), re.MULTILINE | re.DOTALL)
    calls = re.findall(rf"\b({'|'.join(TOOLS)})\(([^(){{]*)", re.sub(r'"[^"]*"', "", "\n".join(blocks)))
    assert {name for name, _ in calls} == {"search_context", "write_context", "get_state", "set_state"}
    for name, given in calls:
        assert set(re.findall(r"(\w+):", given)) <= set(takes(name))
    assert sorted(re.findall(r"^\| `(\w+)` \|", section(7), re.MULTILINE)) == sorted(Importance)


def test_show_prints_it_as_it_is(cofio: Cofio) -> None:
    assert cofio("skill", "show").out == skill.load_text()
    told = cofio("skill", "show", "--json").json
    assert told == {"name": skill.name, "description": skill.description, "text": skill.load_text()}


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ((), PLACE),
        (("--global",), f"home/{PLACE}"),
        (("--path", "docs/memory.md"), "docs/memory.md"),
        (("--path", "~/new/"), "home/new/SKILL.md"),
        (("--path", "deep/.agents"), "deep/.agents/SKILL.md"),
    ],
)
def test_it_goes_where_it_is_asked_to_go_and_replaces_an_older_version(
    cofio: Cofio, folder: Path, options: tuple[str, ...], place: str
) -> None:
    ran = cofio("skill", "install", *options)
    assert (ran.code, ran.out, ran.err) == (0, f"the skill is now in {folder / place}\n", "")
    assert (folder / place).read_text() == skill.load_text()
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / place]
    told = {"path": str(folder / place), "change": "unchanged"}
    assert cofio("skill", "install", *options, "--json").json == told
    (folder / place).write_text(OLDER)
    (folder / place).chmod(0o600)
    assert cofio("skill", "install", *options, "--json").json == told | {"change": "updated"}
    assert (folder / place).read_text() == skill.load_text()
    assert (folder / place).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [b"# My notes\n", b"\xff\x00", b"---\nname: other\n---\n"])
def test_another_file_is_not_replaced_unless_forced(cofio: Cofio, folder: Path, other: bytes) -> None:
    (folder / "AGENTS").write_bytes(other)
    ran = cofio("skill", "install", "--path", "AGENTS")
    assert (ran.code, ran.out) == (1, "")
    assert str(folder / "AGENTS") in ran.err
    assert "--force" in ran.err
    assert (folder / "AGENTS").read_bytes() == other
    forced = cofio("skill", "install", "--path", "AGENTS", "--force")
    assert (forced.code, "in place of another file" in forced.out) == (0, True)
    assert (folder / "AGENTS").read_text() == skill.load_text()


def test_what_is_no_place_for_it_is_refused(cofio: Cofio, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("nowhere")
    before = sorted(folder.rglob("*"))
    for path in ("pipe", "link/"):
        ran = cofio("skill", "install", "--path", path, "--force")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith(f"cofio: {folder / path}: is ")
    for options in (("--path", ""), ("--project", "--global")):
        assert cofio("skill", "install", *options).code == 2
    assert sorted(folder.rglob("*")) == before
