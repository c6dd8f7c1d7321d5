"""A server's files follow in the background, by jobs that outlive it."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cofio.conversations.conversations import Conversations
from cofio.engine.jobs import JobRunner, list_jobs, read_job
from cofio.values.changes import Edit
from cofio.values.errors import Conflict
from cofio.values.records import Kind
from cofio.vault.layout import SHOWN
from cofio.vault.lifecycle import AttachedVault
from cofio.vault.queued_mirror import MARKDOWN, QueuedMirror, write_files
from cofio.vault.sync import VaultSync
from cofio.vault.vault import Vault

from ..waiting import PATIENCE, wait_until
from .conftest import DOG, OSLO, SETTINGS, Kept, opened


def queue(kept: Kept) -> Kept:
    """Have the files of a memory follow when they are told to."""
    mirror = QueuedMirror(kept.engine, lambda: kept.vault, lambda: None)
    kept.conversations = Conversations(kept.engine, mirror=mirror)
    return kept


@pytest.fixture
def queued(kept: Kept) -> Kept:
    """A memory whose files follow when they are told to."""
    return queue(kept)


def test_a_servers_files_follow_in_another_process_and_what_is_forgotten_is_gone_when_a_call_returns(
    tmp_path: Path,
) -> None:
    settings = replace(SETTINGS, vault=True)
    with (
        opened(tmp_path / "store") as kept,
        opened(tmp_path / "store") as other,
        closing(AttachedVault(kept.engine, tmp_path / "store", settings)) as vault,
        closing(AttachedVault(other.engine, tmp_path / "store", settings)) as followed,
    ):
        runner = JobRunner(other.engine, followed.make_handlers())
        kept.conversations = Conversations(kept.engine, mirror=vault.make_mirror(runner.notice))
        kept.say(OSLO, DOG)
        runner.start()
        wait_until(lambda: kept.vault.count_unfinished() == 0)
        assert "Oslo" in kept.episodes.read_text()
        assert "Rex" in kept.profile.read_text()
        assert kept.vault.journal.count_entries() == kept.engine.count(kinds=SHOWN)
        kept.conversations.deleter.delete_session(kept.place, "s")
        assert kept.tree() == {}
        for number in range(5):
            kept.say(f"I live in City{number}.", session=f"s{number}")
        wait_until(lambda: kept.vault.count_unfinished() == 0)
        runner.close(PATIENCE)
        assert all(f"City{number}" in kept.episodes.read_text() for number in range(5))
        assert kept.sync().rewritten == []


def test_a_call_writes_no_file_and_leaves_a_job_to_do_so(queued: Kept) -> None:
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


def test_a_job_outlives_the_process_and_is_carried_out_once(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        queue(kept).say(OSLO, DOG)
        assert kept.tree() == {}
    with opened(tmp_path / "store") as kept, opened(tmp_path / "store") as other:
        assert kept.vault.complete() == 1
        before, stamps = kept.tree(), kept.vault.list_stamps()
        assert "Oslo" in kept.episodes.read_text()
        assert other.vault.complete() == 0
        assert (other.tree(), other.vault.list_stamps()) == (before, stamps)


def test_a_change_that_fails_leaves_no_job(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    (fact, *_) = queued.records(Kind.FACT)
    with pytest.raises(Conflict):
        queued.conversations.apply([Edit(id=fact.id, fields={"text": "Alice lives in Bergen."}, if_version=99)])
    assert queued.vault.count_unfinished() == 0


def test_a_file_that_cannot_be_written_holds_up_no_other_is_logged_once_and_tried_again(
    queued: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    queued.say(OSLO)
    queued.say(DOG, user="bob", session="t")
    blocked = queued.file("users", "bob")
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way")
    assert queued.vault.follow_changes() == 1
    assert "Oslo" in queued.episodes.read_text()
    assert (queued.vault.follow_changes(), queued.vault.count_unfinished()) == (0, 1)
    assert queued.vault.journal.list_faults()
    warned = [record.getMessage() for record in caplog.records]
    assert 0 < len(warned) == len({*warned})
    blocked.unlink()
    assert (queued.vault.complete(), queued.vault.count_unfinished()) == (1, 0)
    assert "Rex" in queued.file("users", "bob", "episodes", "episode-2026-05-28.md").read_text()
    assert queued.vault.journal.list_faults() == {}


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


def test_an_edit_is_taken_in_while_other_changes_wait(queued: Kept) -> None:
    queued.say(OSLO)
    queued.vault.follow_changes()
    queued.say(DOG, session="t")
    queued.facts.write_text(queued.facts.read_text().replace("Oslo", "Bergen"))
    done = VaultSync(queued.vault, Conversations(queued.engine, mirror=queued.vault)).sync()
    assert (len(done.edited), done.problems) == (1, 0)
    assert "Bergen" in queued.records(Kind.FACT)[0].text
    assert "Rex" in queued.episodes.read_text()
    assert queued.vault.count_unfinished() == 0


def test_a_job_stays_while_the_state_of_the_vault_cannot_be_used(queued: Kept) -> None:
    queued.say(OSLO)
    closed = Vault(queued.engine, queued.vault.folder)
    closed.close()
    runner = JobRunner(queued.engine, {MARKDOWN: partial(write_files, lambda: closed)})
    runner.start()
    wait_until(lambda: any(read_job(job)["error"] for job in list_jobs(queued.engine, MARKDOWN)))
    runner.close(PATIENCE)
    assert queued.vault.follow_changes() == 1
