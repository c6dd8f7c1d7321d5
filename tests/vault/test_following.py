"""A server's files follow in the background, from a list that outlives it."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cofio.conversations.conversations import Conversations
from cofio.conversations.mirror import VisibleRecord
from cofio.values.changes import Edit
from cofio.values.records import Kind
from cofio.vault.follower import Follower, MirrorQueue
from cofio.vault.lifecycle import AttachedVault
from cofio.vault.sync import VaultSync

from ..waiting import wait_until
from .conftest import DOG, OSLO, SETTINGS, Kept, opened


@pytest.fixture
def queued(kept: Kept) -> Kept:
    """A memory whose vault follows when it is told to."""
    kept.conversations = Conversations(kept.engine, mirror=MirrorQueue(kept.vault, lambda: None))
    return kept


def test_a_servers_files_follow_a_call_and_what_is_forgotten_is_gone_when_it_returns(kept: Kept) -> None:
    with closing(AttachedVault(kept.vault.folder.parent, replace(SETTINGS, vault=True))) as vault:
        kept.conversations = Conversations(kept.engine, mirror=vault.mirror(kept.engine))
        kept.say(OSLO, DOG)
        wait_until(lambda: kept.vault.count_unfinished() == 0)
        assert "Oslo" in kept.episodes.read_text()
        assert "Rex" in kept.profile.read_text()
        assert kept.vault.journal.count_entries() == kept.engine.count(kinds=(Kind.EPISODE, Kind.FACT, Kind.PROFILE))
        kept.conversations.deleter.delete_session(kept.place, "s")
        assert kept.tree() == {}
        for number in range(5):
            kept.say(f"I live in City{number}.", session=f"s{number}")
    assert all(f"City{number}" in kept.episodes.read_text() for number in range(5))  # when the server has ended
    assert kept.vault.count_unfinished() == 0
    assert kept.sync().rewritten == []


def test_a_call_writes_no_file_and_what_it_changed_is_listed(queued: Kept) -> None:
    queued.say(OSLO)
    queued.say(DOG, session="t")
    assert queued.tree() == {}
    assert queued.vault.count_unfinished() == 2
    assert queued.vault.follow_changes() == 2
    assert (queued.vault.count_unfinished(), queued.vault.follow_changes()) == (0, 0)
    assert not queued.vault.stale
    before = queued.tree()
    assert queued.sync().rewritten == []
    assert queued.tree() == before


def test_what_is_listed_outlives_the_process_and_is_written_once(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        kept.conversations = Conversations(kept.engine, mirror=MirrorQueue(kept.vault, lambda: None))
        kept.say(OSLO, DOG)
        assert kept.tree() == {}
    with opened(tmp_path / "store") as kept, opened(tmp_path / "store") as other:
        assert kept.vault.complete() == 1
        before, stamps = kept.tree(), kept.vault.list_stamps()
        assert "Oslo" in kept.episodes.read_text()
        assert other.vault.complete() == 0
        assert (other.tree(), other.vault.list_stamps()) == (before, stamps)


def test_of_a_change_that_failed_nothing_is_listed_unless_it_may_have_been_made(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    (fact, *_) = queued.records(Kind.FACT)
    visible, mirror = [VisibleRecord.from_record(fact)], MirrorQueue(queued.vault, lambda: None)
    edit = Edit(id=fact.id, fields={"text": "Alice lives in Bergen."}, if_version=99)
    with pytest.raises(Exception, match="version"), mirror.track_change(visible):
        queued.engine.apply([edit])
    assert queued.vault.count_unfinished() == 0
    with suppress(KeyboardInterrupt), mirror.track_change(visible):
        queued.engine.apply([replace(edit, if_version=None)])
        raise KeyboardInterrupt  # after the commit
    assert queued.vault.follow_changes() == 1
    assert "Bergen" in queued.facts.read_text()


def test_a_file_that_cannot_be_written_holds_up_no_other_and_is_tried_again(queued: Kept) -> None:
    queued.say(OSLO)
    queued.say(DOG, user="bob", session="t")
    blocked = queued.file("users", "bob")
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way")
    assert queued.vault.follow_changes() == 1
    assert "Oslo" in queued.episodes.read_text()
    assert (queued.vault.follow_changes(), queued.vault.count_unfinished()) == (0, 1)
    assert queued.vault.journal.list_faults()
    blocked.unlink()
    assert (queued.vault.complete(), queued.vault.count_unfinished()) == (1, 0)
    assert "Rex" in queued.file("users", "bob", "episodes", "episode-2026-05-28.md").read_text()


def test_what_a_person_writes_before_the_files_follow_stays(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    queued.say(DOG, session="t")
    text = queued.episodes.read_text().replace("<!-- entry:", "A note of my own.\n<!-- entry:", 1)
    queued.episodes.write_text(text)
    os.utime(queued.episodes, (1, 1))  # an editor that has done with it
    assert queued.vault.follow_changes() == 1
    text = queued.episodes.read_text()
    assert text.count("A note of my own.") == 1
    assert text.count("<!-- entry:") == 2
    assert queued.vault.list_conflicts() == []


def test_an_edit_is_taken_in_while_other_changes_are_listed(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    queued.say(DOG, session="t")
    queued.facts.write_text(queued.facts.read_text().replace("Oslo", "Bergen"))
    done = VaultSync(queued.vault, Conversations(queued.engine, mirror=queued.vault)).sync()
    assert (len(done.edited), done.problems) == (1, 0)
    assert "Bergen" in queued.records(Kind.FACT)[0].text
    assert "Rex" in queued.episodes.read_text()
    assert queued.vault.count_unfinished() == 0


def test_a_list_that_cannot_be_read_costs_one_look_at_everything(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        kept.say(OSLO)
        kept.conversations = Conversations(kept.engine, mirror=MirrorQueue(kept.vault, lambda: None))
        kept.say(DOG, session="t")
    for name in ("changes.db-wal", "changes.db-shm"):
        (tmp_path / "store" / "vault" / ".state" / name).unlink(missing_ok=True)
    (tmp_path / "store" / "vault" / ".state" / "changes.db").write_bytes(b"no database " * 1000)
    with opened(tmp_path / "store") as kept:
        assert kept.vault.stale
        assert kept.sync().problems == 0
        assert "Rex" in kept.episodes.read_text()
        assert not kept.vault.stale


def test_a_follower_finds_what_other_processes_have_listed(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept, opened(tmp_path / "store") as other:
        kept.conversations = Conversations(kept.engine, mirror=MirrorQueue(kept.vault, lambda: None))
        kept.say(OSLO)
        follower = Follower(other.vault)
        follower.start()
        follower.notice()
        wait_until(kept.episodes.exists)
        follower.stop()
        assert kept.vault.count_unfinished() == 0
