"""No name leads out of the vault, and no two things share a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.conversations.conversations import Project
from cofio.system.windows_names import is_plain
from cofio.values.changes import Edit
from cofio.values.records import Kind
from cofio.vault.layout import LONGEST_NAME, Layout, make_skill_name

from .conftest import DOG, OSLO, Kept, opened

LAYOUT = Layout()
RESERVED = ("CON", "nul.md", "con.ä", "a.")
names = st.one_of(
    st.sampled_from(
        (".", "..", ".state", ".git", "default", "default_app", "default_project", "a/b", "a\\b", "%2e", *RESERVED)
    ),
    st.from_regex(r"[a-zA-Z0-9_.@+-]{1,128}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=200),
)


@given(st.tuples(names, names, names), st.tuples(names, names, names), st.booleans())
def test_folders_are_safe_and_two_owners_never_share_one(
    one: tuple[str, str, str], other: tuple[str, str, str], folded: bool
) -> None:
    layout = Layout(folded=folded)
    homes = [Project(app=app, name=project).owner("user", owner) for app, project, owner in (one, other)]
    paths = [layout.find_folder(home) for home in homes]
    for path in paths:
        for name in path:
            assert name
            assert "/" not in name
            assert not name.startswith(".")
            assert is_plain(name)
            assert len(name.encode()) <= 255
    shown = [tuple(name.casefold() if folded else name for name in path) for path in paths]
    assert (shown[0] == shown[1]) == (one == other)


@given(names, names)
def test_a_path_leads_back_to_its_owner(app: str, owner: str) -> None:
    home = Project(app=app, name="p").owner("user", owner)
    path = LAYOUT.get_day_path(home, Kind.EPISODE, "ep_20260528_00000001")
    located = LAYOUT.locate(path)
    if any("%" in name and len(name) > LONGEST_NAME - 4 for name in path):
        assert located is None or located.home == home
    else:
        assert located is not None
        assert (located.home, located.kind, located.day) == (home, Kind.EPISODE, "2026-05-28")


@pytest.mark.parametrize("name", ["../../../../evil", "/etc/passwd", "..", ".ssh", "x" * 300, "a\nb"])
def test_a_hostile_skill_stays_in_its_folder(kept: Kept, tmp_path: Path, name: str) -> None:
    for number in range(1, 4):
        kept.work(number)
    (skill,) = kept.records(Kind.SKILL, "fixer")
    before = {path for path in tmp_path.rglob("*") if "store" not in path.parts}
    kept.conversations.apply([Edit(id=skill.id, fields={"title": name})])
    folders = [path.name for path in kept.file("agents", "fixer", "skills").iterdir()]
    assert folders == [f"skill_{make_skill_name(name)}"]
    assert {path for path in tmp_path.rglob("*") if "store" not in path.parts} == before
    assert kept.sync().problems == 0


class Registry:
    """Folders as the vault keeps them, in a dictionary."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}

    def find_folder(self, home: str) -> str | None:
        return self.paths.get(home)

    def is_free(self, path: str) -> bool:
        return path.casefold() not in {known.casefold() for known in self.paths.values()}

    def register(self, home: str, path: str) -> None:
        self.paths.setdefault(home, path)


alike = st.from_regex(r"[aAbBkK_.%1äÄ]{1,5}", fullmatch=True)


@given(st.lists(st.tuples(alike | names, alike | names), min_size=2, max_size=8), st.booleans())
def test_no_two_folders_differ_in_capitals_alone(owners: list[tuple[str, str]], folded: bool) -> None:
    layout = Layout(folded=folded, folders=Registry())
    homes = {owner: Project(app=owner[0]).owner("user", owner[1]) for owner in owners}
    paths = {owner: layout.find_folder(home) for owner, home in homes.items()}
    assert len({tuple(name.casefold() for name in path) for path in paths.values()}) == len(paths)
    for owner, home in homes.items():
        assert layout.find_folder(home) == paths[owner]
        assert all(len(name.encode()) <= 255 for name in paths[owner])
        located = layout.locate((*paths[owner], "user.md"))
        if not any("%" in name and len(name) > LONGEST_NAME - 4 for name in paths[owner]):
            assert located is not None
            assert located.home == home


def folders(kept: Kept) -> list[str]:
    """The folders of the users."""
    return sorted(path.name for path in kept.file("users").iterdir())


def test_users_whose_names_differ_in_capitals_have_folders_that_do_not(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        for user in ("alice", "Alice", "ALICE", "Bob", "bob"):
            kept.say(f"I am {user}.", DOG, user=user, session=user)
        assert folders(kept) == ["%41%4C%49%43%45", "%41lice", "%62ob", "Bob", "alice"]
        assert kept.sync().problems == 0
        file = kept.file("users", "%41lice", ".atomic_facts", "atomic_fact-2026-05-28.md")
        file.write_text(file.read_text().replace("Rex", "Max"))
        assert len(kept.sync().edited) == 1
        assert "Max" in kept.records(Kind.FACT, "Alice")[-1].text
        assert "Rex" in kept.records(Kind.FACT, "alice")[-1].text
        kept.conversations.deleter.delete_owner(kept.place, "user", "alice")
        assert "alice" not in folders(kept)
    with opened(tmp_path / "store") as kept:
        kept.say(OSLO, user="Alice", session="later")
        assert folders(kept) == ["%41%4C%49%43%45", "%41lice", "%62ob", "Bob"]
