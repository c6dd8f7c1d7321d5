"""What was forgotten because it vanished can return for some days; what was deleted on purpose cannot."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cofio.config.settings import Settings
from cofio.values.records import Kind, Record
from cofio.vault.lifecycle import open_vault
from cofio.vault.vault import TRASHED, Vault

from .conftest import DOG, OSLO, Kept, T
from .test_syncing import without


def trashed(kept: Kept) -> list[Path]:
    """The files in the trash."""
    return sorted((kept.vault.folder / ".state" / "trash").glob("*"))


def remembered(kept: Kept) -> dict[str, Record]:
    """Every record, however often it was written."""
    return {each.id: replace(each, version=0, updated_at=each.created_at) for each in kept.engine.export()}


@pytest.fixture
def filled(kept: Kept) -> Kept:
    """A memory with two episodes of a user."""
    kept.say(OSLO, DOG)
    kept.say("I love jazz.", session="t", at=T + timedelta(hours=6))
    return kept


def put_back(file: Path, content: str) -> None:
    """Write a file, and the folder that it was in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_what_vanished_is_taken_back_when_it_returns(filled: Kept) -> None:
    for number in range(1, 4):
        filled.work(number)
    before, files = remembered(filled), filled.tree()
    cases = filled.file("agents", "fixer", ".cases", "agent_case-2026-05-28.md")
    for file in (filled.episodes, filled.profile, cases):
        content = file.read_text()
        file.unlink()
        assert filled.sync().deleted
        assert remembered(filled) != before
        put_back(file, content)
        done = filled.sync()
        assert done.returned
        assert (done.problems, done.deleted) == (0, [])
        assert remembered(filled) == before
        assert filled.tree() == files
        assert trashed(filled) == []


def test_what_was_changed_while_it_was_away_is_an_edit(filled: Kept) -> None:
    content = filled.episodes.read_text()
    filled.episodes.unlink()
    filled.sync()
    put_back(filled.episodes, content.replace("Oslo", "Bergen"))
    done = filled.sync()
    assert [said.entry for said in done.edited] == ["ep_20260528_00000001"]
    assert "Bergen" in filled.records(Kind.EPISODE)[0].text
    assert filled.vault.list_conflicts() == []
    assert done.problems == 0


def test_the_trash_is_private_and_emptied_after_some_days(filled: Kept) -> None:
    without(filled.episodes, "ep_20260528_00000001")
    filled.sync()
    (item,) = trashed(filled)
    assert item.stat().st_mode & 0o777 == 0o600
    assert OSLO in item.read_text()
    assert "jazz" not in item.read_text()
    filled.vault.complete()
    assert trashed(filled) == [item]
    later = Vault(filled.engine, filled.vault.folder, clock=lambda: datetime.now(UTC) + TRASHED + timedelta(hours=1))
    later.complete()
    assert trashed(filled) == []
    later.close()


@pytest.mark.parametrize("how", ["memory", "session", "user", "profile", "all", "off"])
def test_a_deletion_reaches_into_the_trash(filled: Kept, how: str) -> None:
    filled.say(OSLO, user="bob", session="b")
    without(filled.episodes, "ep_20260528_00000001")
    filled.sync()
    deleter, place = filled.conversations.deleter, filled.place
    deleter.delete_owner(place, "user", "bob")
    assert len(trashed(filled)) == 1
    if how == "memory":
        deleter.delete_memory(place, "alice_ep_20260528_00000002")  # both stand in alice's profile
    elif how == "session":
        deleter.delete_session(place, "s")
    elif how == "all":
        deleter.delete_project(place)
    elif how == "off":
        assert open_vault(filled.engine, filled.vault.folder.parent, Settings(vault=False)) is None
    else:
        deleter.delete_owner(place, "user", "alice", (Kind.PROFILE,) if how == "profile" else ())
    assert trashed(filled) == []


def test_a_record_that_cannot_be_kept_in_the_trash_is_not_forgotten(filled: Kept) -> None:
    (filled.vault.folder / ".state" / "trash").write_text("a file in its place\n")
    without(filled.episodes, "ep_20260528_00000001")
    done = filled.sync()
    assert (done.deleted, len(done.unreadable)) == ([], 1)
    assert len(filled.records(Kind.EPISODE)) == 2


def test_an_item_that_is_damaged_or_of_another_project_brings_nothing(filled: Kept) -> None:
    content = filled.episodes.read_text()
    without(filled.episodes, "ep_20260528_00000001")
    filled.sync()
    (item,) = trashed(filled)
    for spoiled in (item.read_text().replace('"rest","default"', '"rest","other"'), "{}", "[", ""):
        item.write_text(spoiled)
        put_back(filled.episodes, content)
        assert [said.text for said in filled.sync().strange] == ["is not from here"]
        assert len(filled.records(Kind.EPISODE)) == 1


def test_an_older_file_that_is_put_back_does_not_take_newer_entries_with_it(kept: Kept, tmp_path: Path) -> None:
    kept.say(OSLO)
    kept.episodes.rename(tmp_path / "away.md")
    kept.say("I love jazz.", session="t", at=T + timedelta(hours=6))
    (tmp_path / "away.md").rename(kept.episodes)
    done = kept.sync()
    assert (done.deleted, done.problems) == ([], 0)
    assert len(kept.records(Kind.EPISODE)) == 2
    assert {"Oslo", "jazz"} <= {*kept.episodes.read_text().replace(".", " ").split()}
