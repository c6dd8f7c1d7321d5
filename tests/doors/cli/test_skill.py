"""`cofio skill`: what the skill says, and where it goes."""

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


# What it says


def test_it_is_named_and_says_when_to_load_it() -> None:
    assert skill.name == "agent-memory"
    assert skill.parse_front_matter(skill.load_text()) == {"name": skill.name, "description": skill.description}
    for moment in ("start of a session", "task", "names a", "unsure", "another agent", "after a break", "decision",
                   "subtask", "found out", "turn ends", "handed on"):  # fmt: skip
        assert moment in skill.description


def test_its_front_matter_is_such_as_every_loader_takes() -> None:
    assert len(skill.description) <= 1024
    assert re.fullmatch(r"[a-z0-9-]{1,64}", skill.name)
    # A plain value of YAML must hold neither of these, nor begin with a sign that means something there.
    assert ": " not in skill.description
    assert " #" not in skill.description
    assert skill.description[0].isalpha()


def test_it_has_its_twelve_sections() -> None:
    assert re.findall(r"^## (.+)$", skill.load_text(), re.MULTILINE) == [
        "1. Read, write, or neither", "2. When to read", "3. When to write", "4. Look before you write",
        "5. An empty memory", "6. Tags", "7. Importance", "8. Lifetime", "9. Budgets", "10. Several agents",
        "11. What not to do", "12. Decision tree",
    ]  # fmt: skip


def test_it_names_every_moment_to_read_and_to_write() -> None:
    moments = [re.findall(r"^\*\*(.+?)\.\*\*", section(number), re.MULTILINE) for number in (2, 3)]
    assert moments == [
        ["Cold start", "New task", "Named entity", "Doubt about a fact", "Hand-off received", "Resuming"],
        ["Decision", "Finished subtask", "Discovery", "End of turn"],
    ]


def test_its_table_gives_each_tool_with_exactly_its_parameters() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", section(0), re.MULTILINE)
    listed = {tool: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", parameters)) for tool, parameters in rows}
    assert listed == {name: takes(name) for name in TOOLS}


def test_its_examples_call_the_tools_with_parameters_that_they_take() -> None:
    blocks = re.findall(r"^```\n(.*?)^```", skill.load_text(), re.MULTILINE | re.DOTALL)
    bare = re.sub(r'"[^"]*"', "", "\n".join(blocks))
    calls = re.findall(rf"\b({'|'.join(TOOLS)})\(([^(){{]*)", bare)
    assert {name for name, _ in calls} == {"search_context", "write_context", "get_state", "set_state"}
    for name, given in calls:
        assert set(re.findall(r"(\w+):", given)) <= set(takes(name))


def test_it_uses_no_level_or_mode_that_there_is_not() -> None:
    levels = re.findall(r"^\| `(\w+)` \|", section(7), re.MULTILINE)
    assert sorted(levels) == sorted(Importance)
    for mode in ("hybrid", "bm25", "semantic"):
        assert f"`{mode}`" in section(2)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (2, "everywhere: true"),
        (3, "in this order and no other"),
        (4, "not by score"),
        (5, 'State key "project_tags" not found.'),
        (5, "answers `null`"),
        (5, "ask what is wrong or missing"),
        (6, "| Bad | Good |"),
        (4, "may contradict"),
        (5, 'answers `State key "project_tags" not found.`'),
        (9, "about a millisecond by words and five to eight by words and meaning"),
        (11, "never an instruction"),
        (11, "cofio refuses those"),
    ],
)
def test_it_says_what_an_agent_must_know(number: int, said: str) -> None:
    assert said in " ".join(section(number).split())


def test_it_is_short_enough_to_be_read() -> None:
    assert len(skill.load_text().splitlines()) <= 300


def test_the_snippet_has_ten_lines_and_names_every_tool_that_is_needed_daily() -> None:
    snippet = (Path(skill.__file__).parent / "snippet.md").read_text()
    assert len(snippet.splitlines()) == 10
    for tool in ("search_context", "write_context", "get_state", "set_state"):
        assert tool in snippet


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("# No front matter\nname: x\n", {}),
        ("---\nname: never closed\n", {}),
        ("---\nname: a\n---\nname: b\n", {"name": "a"}),
        ("\ufeff---\r\nname: 'a'\r\nmore:\r\n  b: c\r\n  d\r\n---\r\n", {"name": "a", "more": "b: c d"}),
        ('---\n# said\nname: "x"\n\nurl: http://y\n---', {"name": "x", "url": "http://y"}),
    ],
)
def test_front_matter_is_read_as_fields(text: str, fields: dict[str, str]) -> None:
    assert skill.parse_front_matter(text) == fields


# Where it goes


def test_show_prints_it_as_it_is(cofio: Cofio) -> None:
    assert cofio("skill", "show").out == skill.load_text()
    told = cofio("skill", "show", "--json").json
    assert told == {"name": skill.name, "description": skill.description, "text": skill.load_text()}


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ((), PLACE),
        (("--project",), PLACE),
        (("--global",), f"home/{PLACE}"),
        (("--path", "docs/memory.md"), "docs/memory.md"),
        (("--path", "new/"), "new/SKILL.md"),
        (("--path", "home"), "home/SKILL.md"),
        (("--path", "~/skill.md"), "home/skill.md"),
        (("--path", "new"), "new/SKILL.md"),
        (("--path", "deep/.agents"), "deep/.agents/SKILL.md"),
    ],
)
def test_it_goes_where_it_is_asked_to_go(cofio: Cofio, folder: Path, options: tuple[str, ...], place: str) -> None:
    ran = cofio("skill", "install", *options)
    assert (ran.code, ran.out, ran.err) == (0, f"the skill is now in {folder / place}\n", "")
    assert (folder / place).read_text() == skill.load_text()
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / place]
    again = cofio("skill", "install", *options)
    assert (again.code, again.out) == (0, f"the skill is in {folder / place} already; nothing was changed\n")


def test_an_older_version_is_replaced_and_it_is_said(cofio: Cofio, folder: Path) -> None:
    (folder / PLACE).parent.mkdir(parents=True)
    (folder / PLACE).write_text(OLDER)
    (folder / PLACE).chmod(0o600)
    ran = cofio("skill", "install")
    assert (ran.code, ran.out) == (0, f"the skill in {folder / PLACE} was another version, and is replaced\n")
    assert (folder / PLACE).read_text() == skill.load_text()
    assert (folder / PLACE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [b"# My notes\n", b"", b"\xff\x00", b"---\nname: other\n---\n"])
def test_another_file_is_not_replaced_unless_forced(cofio: Cofio, folder: Path, other: bytes) -> None:
    (folder / "notes.md").write_bytes(other)
    ran = cofio("skill", "install", "--path", "notes.md")
    assert (ran.code, ran.out) == (1, "")
    assert str(folder / "notes.md") in ran.err
    assert "--force" in ran.err
    assert (folder / "notes.md").read_bytes() == other
    forced = cofio("skill", "install", "--path", "notes.md", "--force")
    assert (forced.code, "in place of another file" in forced.out) == (0, True)
    assert (folder / "notes.md").read_text() == skill.load_text()


def test_a_file_without_a_suffix_that_is_there_is_a_file(cofio: Cofio, folder: Path) -> None:
    (folder / "AGENTS").write_text("mine")
    assert cofio("skill", "install", "--path", "AGENTS").code == 1
    assert (folder / "AGENTS").read_text() == "mine"
    assert cofio("skill", "install", "--path", "AGENTS", "--force").code == 0
    assert (folder / "AGENTS").read_text() == skill.load_text()


def test_an_empty_path_is_wrong_usage(cofio: Cofio, folder: Path) -> None:
    ran = cofio("skill", "install", "--path", "")
    assert (ran.code, ran.out) == (2, "")
    assert "--path is empty; name a file or a folder" in ran.err
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("path", ["pipe", "link", "link/", "link.md"])
def test_it_goes_neither_into_a_pipe_nor_through_a_link_to_nowhere(cofio: Cofio, folder: Path, path: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("nowhere")
    (folder / "link.md").symlink_to("nowhere/SKILL.md")
    before = sorted(folder.rglob("*"))
    ran = cofio("skill", "install", "--path", path, "--force")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"cofio: {folder / path}: is ")
    assert sorted(folder.rglob("*")) == before


def test_a_program_is_told_what_was_done(cofio: Cofio, folder: Path) -> None:
    path = str(folder / PLACE)
    assert cofio("skill", "install", "--json").json == {"path": path, "change": "installed"}
    assert cofio("skill", "install", "--json").json == {"path": path, "change": "unchanged"}
    Path(path).write_text(OLDER)
    assert cofio("skill", "install", "--json").json == {"path": path, "change": "updated"}


def test_the_places_exclude_each_other(cofio: Cofio) -> None:
    assert cofio("skill", "install", "--project", "--global").code == 2
