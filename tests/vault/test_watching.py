"""A server takes in what other programs do to the files, and not what it does itself."""

from __future__ import annotations

import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from cofio.conversations.conversations import Conversations
from cofio.values.records import Kind, Record
from cofio.vault.lifecycle import AttachedVault
from cofio.vault.queued_mirror import QueuedMirror
from cofio.vault.sync import SyncResult
from cofio.vault.watcher import ABSENT, Watcher

from ..waiting import wait_until
from .conftest import DOG, OSLO, SETTINGS, Kept, T

IN_PLACE = (
    "import sys; f = open(sys.argv[1], 'r+'); t = f.read(); f.seek(0); f.truncate(); f.write(t.replace(*sys.argv[2:]))"
)
RENAMED = (
    "import os, sys; t = open(sys.argv[1]).read(); n = sys.argv[1] + '~'; f = open(n, 'w');"
    " f.write(t.replace(*sys.argv[2:])); f.flush(); os.fsync(f.fileno()); f.close(); os.replace(n, sys.argv[1])"
)
PATIENCE = 30


class Watched:
    """A vault that is watched, and what was told of it."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.told: queue.Queue[SyncResult] = queue.Queue()
        self.now = 0.0
        self.watcher = Watcher(kept.syncing, self.told.put, clock=lambda: self.now)
        self.watcher.start()
        self.told.get(timeout=PATIENCE)  # what it found at first

    def next(self) -> SyncResult:
        """What comes of the next look."""
        return self.told.get(timeout=PATIENCE)


@pytest.fixture
def watched(kept: Kept) -> Iterator[Watched]:
    """A vault with something in it, watched."""
    kept.say(OSLO, DOG)
    made = Watched(kept)
    yield made
    made.watcher.stop()


def without_versions(record: Record) -> Record:
    """A record as it is, however often it has been written."""
    return replace(record, version=0, updated_at=record.created_at)


def run(script: str, *words: str | Path) -> None:
    subprocess.run([sys.executable, "-c", script, *map(str, words)], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("script", [IN_PLACE, RENAMED], ids=["in place", "renamed"])
@pytest.mark.usefixtures("process")
def test_an_edit_by_another_program_is_taken_in(watched: Watched, script: str) -> None:
    kept = watched.kept
    run(script, kept.episodes, "Oslo", "Bergen")
    done = watched.next()
    assert [said.entry for said in done.edited] == ["ep_20260528_00000001"]
    assert (done.deleted, done.problems) == ([], 0)
    assert "Bergen" in kept.records(Kind.EPISODE)[0].text
    assert kept.vault.list_conflicts() == []
    assert kept.vault.journal.list_files() == kept.vault.list_stamps()  # `cofio vault status` has nothing to look at


@pytest.mark.parametrize("late", [False, True], ids=["within the minute", "after it was forgotten"])
@pytest.mark.usefixtures("process")
def test_a_days_file_that_is_away_for_a_while_costs_nothing(watched: Watched, tmp_path: Path, late: bool) -> None:
    kept = watched.kept
    before, files = [*kept.engine.export()], kept.tree()
    run("import os, sys; os.rename(*sys.argv[1:])", kept.episodes, tmp_path / "away.md")
    assert watched.next().missing
    if late:
        watched.now += ABSENT
        assert watched.next().deleted
        assert kept.records(Kind.PROFILE) == []
    run("import os, sys; os.rename(*sys.argv[1:])", tmp_path / "away.md", kept.episodes)
    if late:
        done = watched.next()
        assert [said.entry for said in done.returned] == ["ep_20260528_00000001"]
        assert done.problems == 0
    else:
        watched.now += ABSENT
        assert watched.next() == SyncResult()
    assert {record.id: without_versions(record) for record in kept.engine.export()} == {
        record.id: without_versions(record) for record in before
    }
    assert kept.tree() == files


@pytest.mark.usefixtures("process")
def test_what_the_server_writes_itself_is_not_looked_at(watched: Watched) -> None:
    kept = watched.kept
    for number in range(5):
        kept.say(f"I like number {number}.", session=f"n{number}", at=T + timedelta(hours=1, minutes=number))
    run(RENAMED, kept.profile, "Lives in Oslo", "Lives in Bergen")
    done = watched.next()
    assert [said.entry for said in done.edited] == ["profile"]
    assert (done.rewritten, done.deleted, done.problems) == ([], [], 0)


def test_a_first_look_that_fails_is_taken_again(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cofio.vault.watcher.RETRY_SECONDS", 0.0)
    kept.conversations = Conversations(kept.engine, mirror=QueuedMirror(kept.engine, lambda: kept.vault, lambda: None))
    kept.say(OSLO)
    kept.vault.journal._database.set_busy_timeout(1)
    told: queue.Queue[SyncResult] = queue.Queue()
    watcher = Watcher(kept.syncing, told.put)
    with closing(apsw.Connection(str(kept.vault.folder / ".state" / "state.db"))) as other:
        other.execute("BEGIN IMMEDIATE")
        watcher.start()
        wait_until(lambda: caplog.records)
        other.execute("COMMIT")
    told.get(timeout=PATIENCE)
    watcher.stop()
    assert "Oslo" in kept.episodes.read_text()
    assert [record.getMessage() for record in caplog.records] == ["the vault cannot be written: database is locked"]


def test_what_was_done_while_nobody_watched_is_taken_in_at_first(kept: Kept) -> None:
    kept.say(OSLO)
    kept.episodes.write_text(kept.episodes.read_text().replace("Oslo", "Bergen"))
    told: queue.Queue[SyncResult] = queue.Queue()
    watcher = Watcher(kept.syncing, told.put)
    watcher.start()
    assert len(told.get(timeout=PATIENCE).edited) == 1
    watcher.stop()


def test_a_watcher_that_has_ended_is_replaced(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: queue.Queue[SyncResult] = queue.Queue()
    with closing(AttachedVault(kept.engine, tmp_path / "store", replace(SETTINGS, vault=True), told.put)) as vault:

        def is_looked_at() -> bool:
            vault.watch(kept.conversations)
            return not told.empty()

        monkeypatch.setattr("watchfiles.watch", lambda *_, **__: [])  # it ends after its first look
        wait_until(is_looked_at)
        told.get()
        monkeypatch.undo()
        wait_until(is_looked_at)
