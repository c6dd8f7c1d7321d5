"""A server's files follow in the background, from a list that outlives it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cofio.conversations.conversations import Conversations
from cofio.conversations.mirror import VisibleRecord
from cofio.values.changes import Edit
from cofio.values.records import Kind
from cofio.vault.change_list import ChangeList
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


@pytest.fixture
def attached(kept: Kept) -> Iterator[AttachedVault]:
    """The vault of a server, on the memory."""
    with closing(AttachedVault(kept.vault.folder.parent, replace(SETTINGS, vault=True))) as vault:
        kept.conversations = Conversations(kept.engine, mirror=vault.mirror(kept.engine))
        yield vault


def test_files_follow_soon_after_a_call_and_what_is_forgotten_is_gone_when_it_returns(
    kept: Kept, attached: AttachedVault
) -> None:
    kept.say(OSLO, DOG)
    wait_until(lambda: kept.vault.count_unfinished() == 0)
    assert "Oslo" in kept.episodes.read_text()
    assert "Rex" in kept.profile.read_text()
    assert kept.vault.journal.count_entries() == kept.engine.count(kinds=(Kind.EPISODE, Kind.FACT, Kind.PROFILE))
    kept.conversations.deleter.delete_session(kept.place, "s")
    assert kept.tree() == {}


def test_a_server_that_ends_leaves_all_files_written(kept: Kept) -> None:
    with closing(AttachedVault(kept.vault.folder.parent, replace(SETTINGS, vault=True))) as vault:
        kept.conversations = Conversations(kept.engine, mirror=vault.mirror(kept.engine))
        for number in range(5):
            kept.say(f"I live in City{number}.", session=f"s{number}")
    assert all(f"City{number}" in kept.episodes.read_text() for number in range(5))
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


def test_changes_of_one_file_are_written_together(queued: Kept) -> None:
    for number in range(10):
        queued.say(f"I live in City{number}.", session=f"s{number}")
    before = queued.vault.journal.turn
    assert queued.vault.follow_changes() == 10
    assert queued.vault.journal.turn == before + 1
    text = queued.episodes.read_text()
    assert text.count("<!-- entry:") == 10
    assert "entry_count: 10" in text


def test_a_change_that_is_under_way_stays_listed(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    (fact, *_) = queued.records(Kind.FACT)
    mirror = MirrorQueue(queued.vault, lambda: None)
    with mirror.track_change([VisibleRecord.from_record(fact)]) as answers:
        assert queued.vault.complete() == 0
        assert queued.vault.count_unfinished() == 1
        answers += queued.engine.apply([Edit(id=fact.id, fields={"text": "Alice lives in Bergen."})])
    assert "Bergen" not in queued.facts.read_text()
    assert queued.vault.follow_changes() == 1
    assert "Bergen" in queued.facts.read_text()


def test_a_change_that_another_process_struck_off_too_early_is_listed_again(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    (fact, *_) = queued.records(Kind.FACT)
    with MirrorQueue(queued.vault, lambda: None).track_change([VisibleRecord.from_record(fact)]) as answers:
        with closing(ChangeList(queued.vault.folder)) as other:
            other.remove([change.number for change in other.list_all()])
        answers += queued.engine.apply([Edit(id=fact.id, fields={"text": "Alice lives in Bergen."})])
    assert queued.vault.follow_changes() == 1
    assert "Bergen" in queued.facts.read_text()


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


def test_a_change_of_a_process_that_runs_is_waited_for(queued: Kept) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    changes = queued.vault.changes
    number = changes.begin([])
    changes._database.execute("UPDATE change SET process = ?", (other.pid,))
    changes._active.discard(number)
    assert (queued.vault.follow_changes(), queued.vault.count_unfinished()) == (0, 1)
    other.communicate(b"\n")
    assert (queued.vault.follow_changes(), queued.vault.count_unfinished()) == (1, 0)


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


def test_a_vault_that_is_left_alone_lists_nothing(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.attachment.detach(9, 9)
    assert queued.vault.follow_changes() == 0
    assert queued.vault.count_unfinished() == 0
    assert queued.tree() == {}


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


def test_the_list_is_private(kept: Kept) -> None:
    assert (kept.vault.folder / ".state" / "changes.db").stat().st_mode & 0o077 == 0


def test_a_change_of_a_process_that_had_the_same_number_is_over(kept: Kept) -> None:
    visible = [VisibleRecord(kept.place.scope, None, "s")]
    with closing(ChangeList(kept.vault.folder)) as before:
        number = before.begin(visible)  # and the process ends; in a container the next one has its number
    with closing(ChangeList(kept.vault.folder)) as changes:
        (listed,) = changes.list_all()
        assert (listed.number, listed.process) == (number, 0)
        assert changes.is_over(listed)


def test_a_change_of_which_nothing_is_known_is_followed_by_whichever_process_follows(kept: Kept) -> None:
    with closing(ChangeList(kept.vault.folder)) as changes:
        changes.abandon(changes.begin([VisibleRecord(kept.place.scope, None, "s")]))
        assert [each.process for each in changes.list_all()] == [0]
