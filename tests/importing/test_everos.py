"""The memory of EverOS is taken over as it is, once however often, and no tree can do harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cofio import Engine
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.message_records import fields
from cofio.importers.everos import has_memory
from cofio.values.records import Kind
from cofio.vault.recovery import RecoveryResult, take

from .everos import TREE, make

ALICE = Project().owner("user", "alice")
FIXER = Project().owner("agent", "fixer")
DAY = "default_app/default_project/users/alice/episodes/episode-2026-11-15.md"


def taken(memory: Engine, tree: Path) -> RecoveryResult:
    return take(Conversations(memory), tree)


def test_everything_that_has_a_place_here_is_taken_over_once_with_its_ids_times_and_words(
    memory: Engine, tmp_path: Path
) -> None:
    assert not has_memory(tmp_path)
    tree = make(tmp_path / "everos")
    assert has_memory(tree)
    files = {file: file.read_bytes() for file in tree.rglob("*") if file.is_file()}
    done = taken(memory, tree)
    assert done.new == 7
    assert done.counts == {Kind.EPISODE: 3, Kind.FACT: 1, Kind.PROFILE: 1, Kind.CASE: 1, Kind.SKILL: 1}
    assert done.left_out == {"days of foresights": 1, "documents of the knowledge base": 1}
    assert (done.changed, done.refused) == ([], [])
    before = [*memory.export()]
    assert taken(memory, tree).new == 0
    assert [*memory.export()] == before
    assert {file: file.read_bytes() for file in tree.rglob("*") if file.is_file()} == files
    episode = memory.get(ALICE, "ep_20261115_00000001", kind=Kind.EPISODE)
    fact = memory.get(ALICE, "af_20261115_00000001", kind=Kind.FACT)
    later = memory.get(ALICE, "ep_20261115_00000002", kind=Kind.EPISODE)
    profile = memory.get(ALICE, "profile", kind=Kind.PROFILE)
    case = memory.get(FIXER, "ac_20261115_00000001", kind=Kind.CASE)
    (skill,) = memory.list(FIXER, kinds=(Kind.SKILL,))
    assert episode
    assert episode.title == "Alice plans a climbing trip to Yosemite"
    assert episode.text.endswith("climbing.\n\n### Plans\n- Yosemite in spring")
    assert episode.created_at.isoformat() == "2026-05-28T11:30:36+00:00"
    assert (fields(episode)["session_id"], fields(episode)["senders"]) == ("chat-1", {"alice": True, "bot": True})
    assert fact
    assert fact.parent == episode.id
    assert later
    assert later.created_at.isoformat() == "2026-05-29T06:00:00.500000+00:00"
    assert profile
    assert fields(profile)["summary"] == "A climber: she lives near Yosemite."
    assert fields(profile)["profile_timestamp_ms"] == 1779967836000
    assert case
    assert fields(case)["key_insight"] == "Look at the pods first."
    assert (skill.title, fields(skill)["confidence"]) == ("deploy services", 0.6)
    assert fields(skill)["source_case_ids"] == ["fixer_ac_20261115_00000001"]
    assert memory.count(Project(app="shop", name="web").owner("user", "bob")) == 1
    assert memory.count(Project().owner("user", "bob")) == 0


def test_what_was_learned_since_is_numbered_after_what_was_taken_over(memory: Engine, tmp_path: Path) -> None:
    tree = make(tmp_path / "everos")
    text = (tree / DAY).read_text()
    (tree / DAY).unlink()
    taken(memory, tree)
    own = memory.put(ALICE, "ep_20261115_00000002", kind=Kind.EPISODE, text="Ours.", data={"summary": "", "at": 0})
    (tree / DAY).write_text(text)
    done = taken(memory, tree)
    assert done.new == 2
    assert [what.split()[-1] for what, _ in done.changed] == ["ep_20261115_00000002"]
    assert memory.read(own.id).text == "Ours."
    assert memory.get(ALICE, "ep_20261115_00000003", kind=Kind.EPISODE) is not None
    assert taken(memory, tree).new == 0


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("<!-- /entry:ep_20261115_00000001 -->", "", "is not where it should be"),
        ("2026-05-28T11:30:36+00:00", "yesterday", "is no time"),
        ("### Content\nAlice mag", "### Nothing\nAlice mag", "Content: is missing"),
        ("entry:ep_20261115_00000002", "entry:../../evil", ""),
        ("entry:ep_20261115_00000002", "entry:fs_20261115_00000002", "has no id of such an entry"),
        ("ep_20261115_00000002", "ep_20261115_00000001", "is there twice"),
    ],
)
def test_what_cannot_be_read_is_refused_and_told(memory: Engine, tmp_path: Path, old: str, new: str, why: str) -> None:
    tree = make(tmp_path / "everos")
    (tree / DAY).write_text(TREE[DAY].replace(old, new))
    done = taken(memory, tree)
    assert any(why in said for _, said in done.refused) if why else done.new == 6


def test_front_matter_that_would_not_end_is_refused(memory: Engine, tmp_path: Path) -> None:
    tree = make(tmp_path / "everos")
    user = tree / "default_app/default_project/users/alice/user.md"
    laughs = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    user.write_text(f"---\n{laughs}---\n")
    assert any("names for parts" in why for _, why in taken(memory, tree).refused)
    user.write_text(f"---\na: {'[' * 100_000}\n---\n")
    assert any("levels" in why or "YAML" in why for _, why in taken(memory, tree).refused)
    user.write_text("---\na: !!python/object/apply:os.system [echo]\n---\n")
    assert any("YAML" in why for _, why in taken(memory, tree).refused)


def test_links_pipes_and_strange_names_are_not_followed(memory: Engine, tmp_path: Path) -> None:
    tree = make(tmp_path / "everos")
    secret = tmp_path / "secret.md"
    secret.write_text(TREE[DAY])
    users = tree / "default_app/default_project/users"
    (users / "eve" / "episodes").mkdir(parents=True)
    (users / "eve" / "episodes" / "episode-2026-11-15.md").symlink_to(secret)
    (users / "mallory").symlink_to(tmp_path)
    os.mkfifo(users / "eve" / "episodes" / "episode-2026-11-16.md")
    (users / "a b" / "episodes").mkdir(parents=True)
    (users / "a b" / "episodes" / "episode-2026-11-15.md").write_text(TREE[DAY])
    (users / "%2e%2e" / "episodes").mkdir(parents=True)
    (users / "%2e%2e" / "episodes" / "episode-2026-11-15.md").write_text(TREE[DAY])
    (users / "eve" / "episodes" / "episode-2026-11-17.md").write_bytes(b"\xff\xfe")
    done = taken(memory, tree)
    assert done.new == 7
    assert sorted(why.split(" '")[0] for _, why in done.refused) == [
        "is a link, and none is followed", "is no UTF-8 text", "is no plain file", "the folder", "the folder",
    ]  # fmt: skip
