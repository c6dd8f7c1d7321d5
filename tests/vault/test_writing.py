"""What is remembered is on disk, as Markdown, before the call returns."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
import yaml
from tests.waiting import join

from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.values.changes import Edit
from cofio.values.records import Kind
from cofio.vault.vault import Vault

from .conftest import DOG, OSLO, SETTINGS, Kept, T, opened, tree


def test_a_days_episodes_are_one_file(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    (episode,) = kept.records(Kind.EPISODE)
    assert isinstance(episode.data, dict)
    assert (
        kept.episodes.read_text()
        == f"""\
---
id: episode_log_alice_2026-05-28
type: episode_daily
file_type: episode_daily
schema_version: 1
user_id: alice
track: user
date: '2026-05-28'
entry_count: 1
last_appended_at: '2026-05-28T11:30:20+00:00'
---
<!-- entry:ep_20260528_00000001 -->
## ep_20260528_00000001

**owner_id**: alice
**session_id**: s
**timestamp**: 2026-05-28T11:30:20+00:00
**parent_type**: memcell
**parent_id**: {episode.data["parent_id"]}
**sender_ids**: [alice, bot]

### Subject
{episode.title}

### Summary
{episode.data["summary"]}

### Content
{episode.text}
<!-- /entry:ep_20260528_00000001 -->
"""
    )


def test_facts_profiles_cases_and_skills_have_their_files(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    for number in range(1, 4):
        kept.work(number)
    assert sorted(kept.tree()) == [
        "default_app/default_project/agents/fixer/.cases/agent_case-2026-05-28.md",
        "default_app/default_project/agents/fixer/skills/skill_fix-failing-deploy/SKILL.md",
        "default_app/default_project/users/alice/.atomic_facts/atomic_fact-2026-05-28.md",
        "default_app/default_project/users/alice/episodes/episode-2026-05-28.md",
        "default_app/default_project/users/alice/user.md",
    ]
    profile = yaml.safe_load(kept.profile.read_text().split("---\n")[1])
    (record,) = kept.records(Kind.PROFILE)
    assert isinstance(record.data, dict)
    assert {name: profile[name] for name in record.data} == record.data
    (skill,) = kept.records(Kind.SKILL, "fixer")
    text = kept.file("agents", "fixer", "skills", "skill_fix-failing-deploy", "SKILL.md").read_text()
    assert isinstance(skill.data, dict)
    assert text.endswith(f"---\n{skill.data['content']}\n")


def test_a_change_and_a_deletion_show_at_once(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    fact = kept.records(Kind.FACT)[0]
    kept.conversations.apply([Edit(id=fact.id, fields={"text": "Alice lives in Oslo."})])
    assert "### Fact\nAlice lives in Oslo.\n" in kept.facts.read_text()
    kept.conversations.deleter.delete_memory(kept.place, "alice_ep_20260528_00000001")
    assert kept.tree() == {}
    assert not kept.file("users").exists()


@pytest.mark.parametrize("how", ["session", "owner", "everything"])
def test_whatever_is_forgotten_leaves_no_file(kept: Kept, how: str) -> None:
    kept.say(OSLO, DOG)
    kept.say("I love jazz.", user="bob", session="other")
    forget = kept.conversations.deleter
    if how == "session":
        forget.delete_session(kept.place, "s")
    elif how == "owner":
        forget.delete_owner(kept.place, "user", "alice")
    else:
        forget.delete_project(kept.place)
    assert not any("alice" in name for name in kept.tree())
    assert any("bob" in name for name in kept.tree()) == (how != "everything")


def test_what_a_person_wrote_around_the_entries_stays(kept: Kept) -> None:
    kept.say(OSLO)
    text = kept.episodes.read_text()
    kept.episodes.write_text(text.replace("track: user\n", "track: user\ntags: [diary]\n") + "\nMy own note.\n")
    kept.say(DOG, session="t", at=T + timedelta(hours=6))
    after = kept.episodes.read_text()
    assert "tags: [diary]\n" in after
    assert after.endswith("<!-- /entry:ep_20260528_00000002 -->\n\nMy own note.\n")
    kept.conversations.deleter.delete_project(kept.place)
    assert "My own note." in kept.episodes.read_text()


def test_files_are_private_and_git_leaves_the_state_alone(kept: Kept) -> None:
    kept.say(OSLO)
    for path in kept.vault.folder.rglob("*"):
        if path.name not in (".gitignore",) and not path.name.startswith("state.db-"):
            assert path.stat().st_mode & 0o077 == 0, path
    assert (kept.vault.folder / ".state" / ".gitignore").read_text() == "*\n"


def test_many_writers_leave_what_the_database_holds(store: StoreAddress) -> None:
    with Engine.open(store, settings=SETTINGS) as engine:
        vaults = [Vault(engine, store.home / "vault") for _ in range(4)]

        def talk(number: int) -> None:
            mine = Kept(engine, vaults[number], Conversations(engine, mirror=vaults[number]), Project())
            for turn in range(8):
                mine.say(f"I like number {number * 100 + turn}.", session=f"{number}-{turn}", at=T)
                if turn % 3 == 2:
                    mine.conversations.deleter.delete_session(mine.place, f"{number}-{turn - 1}")

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        join(*threads)
        made = tree(store.home / "vault")
        kept = Kept(engine, vaults[0], Conversations(engine, mirror=vaults[0]), Project())
        done = kept.sync()
        assert (done.rewritten, done.edited, done.deleted, done.problems) == ([], [], [], 0)
        assert kept.tree() == made
        assert not vaults[0].stale


def test_a_file_that_cannot_be_written_fails_no_call_and_is_told(kept: Kept, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    kept.file("users").mkdir(parents=True)
    kept.file("users", "alice").symlink_to(outside)
    kept.say(OSLO)
    assert len(kept.records(Kind.EPISODE)) == 1
    assert [*outside.iterdir()] == []
    assert any("alice" in name for name in kept.vault.journal.list_faults())
    kept.file("users", "alice").unlink()
    assert kept.vault.complete() == 1
    assert kept.episodes.exists()


def test_a_vault_that_was_off_is_caught_up(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        kept.say(OSLO)
        Kept(kept.engine, kept.vault, Conversations(kept.engine), kept.place).say(DOG, session="t")
        assert kept.vault.stale
        assert len(kept.sync().rewritten) > 0
        assert not kept.vault.stale
        assert kept.episodes.read_text().count("<!-- entry:") == 2


def test_a_link_in_place_of_a_file_is_not_written_through(kept: Kept, tmp_path: Path) -> None:
    kept.say(OSLO)
    target = tmp_path / "target.md"
    target.write_text("precious")
    os.remove(kept.profile)
    kept.profile.symlink_to(target)
    kept.say(DOG, session="t")
    assert target.read_text() == "precious"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_journal_that_cannot_be_used_fails_no_change(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cofio.vault.journal.PATIENCE", 1)
    with opened(tmp_path / "store") as kept:
        with closing(apsw.Connection(str(kept.vault.folder / ".state" / "state.db"))) as other:
            if when == "before":
                other.execute("BEGIN IMMEDIATE")
            with kept.vault.track_change([]):
                if when == "after":
                    other.execute("BEGIN IMMEDIATE")
        assert [record.getMessage() for record in caplog.records] == ["the vault cannot be written: database is locked"]
