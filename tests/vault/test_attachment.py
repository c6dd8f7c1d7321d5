"""A memory that was lost, emptied, put back or exchanged never costs a file of its vault."""

from __future__ import annotations

import logging
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from cofio import Engine
from cofio.conversations.conversations import Conversations
from cofio.values.errors import Unavailable
from cofio.values.records import Kind, Scope
from cofio.vault.attachment import FEW
from cofio.vault.recovery import take

from .conftest import DOG, OSLO, SETTINGS, Kept, T, opened


def fill(store: Path, *, user: str = "alice", count: int = 3) -> dict[str, bytes]:
    """Have a user say something in a memory; its files afterwards."""
    with opened(store) as kept:
        for number in range(count):
            said = f"I live in {user.title()}town {number} and my dog is called Rex{number}."
            kept.say(said, user=user, session=f"{user}{number}", at=T + timedelta(minutes=number))
        return kept.tree()


def lose(store: Path, how: str) -> None:
    """Have the database be gone, or empty."""
    for file in store.glob("memory.db*"):
        file.unlink()
    if how == "emptied":
        (store / "memory.db").touch()


def is_left_alone(kept: Kept, before: dict[str, bytes]) -> bool:
    """Whether nothing that can be done to a vault changes a file of it, while the memory goes on."""
    for force in (False, True):
        with pytest.raises(Unavailable, match="is left alone"):
            kept.sync(force=force)
    for does in (kept.syncing.sync_files, kept.syncing.rebuild):
        with pytest.raises(Unavailable, match="is left alone"):
            does()
    kept.vault.complete()
    kept.say(DOG, user="carol", session="new")
    assert kept.records(Kind.EPISODE, "carol")
    kept.conversations.deleter.delete_owner(kept.place, "user", "alice")
    assert kept.records(Kind.EPISODE) == []
    kept.vault.settle()
    return bool(kept.vault.detachment) and kept.tree() == before


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_a_memory_that_was_lost_takes_no_file_with_it(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    before = fill(store)
    lose(store, how)
    with caplog.at_level(logging.WARNING, "cofio.vault"), opened(store) as kept:
        assert is_left_alone(kept, before)
        assert "it was removed, emptied or replaced" in kept.vault.detachment
    assert len([said for said in caplog.messages if "is left alone" in said]) == 1
    with opened(store) as kept:
        assert is_left_alone(kept, before)


def test_an_older_memory_that_is_put_back_takes_no_file_with_it_and_the_whole_one_is_followed_again(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    fill(store)
    shutil.copy(store / "memory.db", tmp_path / "older.db")
    before = fill(store, user="bob")
    shutil.copy(store / "memory.db", tmp_path / "newer.db")
    for name in ("older", "newer", "older"):
        lose(store, "removed")
        shutil.copy(tmp_path / f"{name}.db", store / "memory.db")
        for _ in range(2):
            with opened(store) as kept:
                assert ("the memory is older than its files" in kept.vault.detachment) == (name == "older")
                assert (kept.vault.detachment == "") == (name == "newer")
                assert kept.tree() == before
    with opened(store) as kept:
        assert is_left_alone(kept, before)


@pytest.mark.parametrize("how", ["emptied", "older"])
def test_what_was_lost_is_restored_from_the_files_and_followed_again(tmp_path: Path, how: str) -> None:
    store = tmp_path / "store"
    fill(store, count=1)
    shutil.copy(store / "memory.db", tmp_path / "older.db")
    before = fill(store)
    lose(store, "emptied")
    if how == "older":
        shutil.copy(tmp_path / "older.db", store / "memory.db")
    with opened(store) as kept:
        kept.conversations = Conversations(kept.engine)
        done = take(kept.conversations, kept.vault.folder)
        assert done.refused == []
        assert kept.tree() == before
        kept.conversations = Conversations(kept.engine, mirror=kept.vault)
        beside = len(kept.syncing.adopt().conflicts)
        assert beside == (1 if how == "older" else 0)  # the profile, which is here in an older state
        assert kept.vault.detachment == ""
        assert {name: text for name, text in kept.tree().items() if name in before and "user.md" not in name} == {
            name: text for name, text in before.items() if "user.md" not in name
        }
        assert len(kept.records(Kind.EPISODE)) == 3
        kept.say(DOG, session="after")
        assert b"Rex" in kept.episodes.read_bytes()
        assert kept.sync().problems == 0
    with opened(store) as kept:
        assert kept.vault.detachment == ""
        assert not kept.vault.stale


def test_the_second_of_two_memories_on_one_folder_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / "vault").symlink_to(tmp_path / "notes")
    (tmp_path / "notes").mkdir()
    before = fill(tmp_path / "one")
    with opened(tmp_path / "two") as kept:
        assert f"it belongs to the memory in {tmp_path / 'one'}" in kept.vault.detachment
        assert is_left_alone(kept, before)
    with opened(tmp_path / "one") as kept:
        assert kept.vault.detachment == ""
        assert kept.sync().problems == 0
        assert kept.tree() == before
        assert len(kept.vault.list_stamps()) == len(before)


def test_the_copy_of_a_memory_is_refused_on_the_folder_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "one").mkdir(mode=0o700)
    (tmp_path / "one" / "vault").symlink_to(tmp_path / "notes")
    fill(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    with opened(tmp_path / "one") as kept:
        kept.say(DOG, user="bob", session="bob")
        before = kept.tree()
    for _ in range(2):
        with opened(tmp_path / "two") as kept:
            assert f"it belongs to the memory in {tmp_path / 'one'}" in kept.vault.detachment
            assert is_left_alone(kept, before)
    with opened(tmp_path / "one") as kept:
        assert kept.vault.detachment == ""
        assert kept.sync().problems == 0
        assert kept.tree() == before


def test_a_memory_that_was_copied_or_moved_with_its_files_follows_in_its_own(tmp_path: Path) -> None:
    before = fill(tmp_path / "store")
    (tmp_path / "store").rename(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with opened(tmp_path / "one") as kept:
        assert kept.sync().problems == 0
        assert kept.tree() == before
    for name in ("two", "one", "two"):
        with opened(tmp_path / name) as kept:
            assert kept.vault.detachment == ""
            kept.say(DOG, user="bob", session=name)
            assert kept.sync().problems == 0


def test_an_adopted_vault_keeps_beside_what_the_memory_has_no_record_of(tmp_path: Path) -> None:
    store = tmp_path / "store"
    before = fill(store)
    lose(store, "emptied")
    with opened(store) as kept:
        kept.say(OSLO, session="new")
        done = kept.syncing.adopt()
        assert (done.strange, done.unreadable) == ([], [])
        after = kept.tree()
        beside = {name: text for name, text in after.items() if ".conflict-" in name}
        assert all(b"Rex" not in text for name, text in after.items() if name not in beside)
        assert b"Oslo" in kept.episodes.read_bytes()
        for word in (b"Rex0", b"Rex1", b"Rex2"):
            had = sum(text.count(word) for text in before.values())
            assert sum(text.count(word) for text in beside.values()) == had
        assert kept.sync().problems == 0
    with opened(store) as kept:
        assert kept.vault.detachment == ""


def test_what_is_deleted_by_a_call_goes_from_the_files_however_much_it_is(kept: Kept) -> None:
    for number in range(2 * FEW):
        kept.say(f"I like number {number}.", session=f"s{number}", at=T + timedelta(minutes=number))
    kept.say(OSLO, user="bob")
    kept.conversations.deleter.delete_owner(kept.place, "user", "alice")
    assert not any("alice" in name for name in kept.tree())
    assert kept.vault.detachment == ""
    assert kept.sync().problems == 0


def test_a_few_records_that_others_deleted_go_from_the_files_and_it_is_told(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    (fact, other) = kept.records(Kind.FACT)
    kept.engine.delete(fact.id)
    done = kept.sync()
    told = "is forgotten, and is not here any more; its text is in the trash"
    assert [(said.entry, said.text) for said in done.rewritten] == [(fact.key, told)]
    assert [record.id for record in kept.records(Kind.FACT)] == [other.id]
    assert (fact.key or "") not in kept.facts.read_text()


def test_many_records_that_are_gone_while_the_vault_was_off_are_not_taken_for_unwanted(tmp_path: Path) -> None:
    store = tmp_path / "store"
    before = fill(store)
    with opened(store) as kept:
        for record in kept.records(Kind.EPISODE) + kept.records(Kind.FACT):
            kept.engine.delete(record.id)
        for _ in range(2):
            with pytest.raises(Unavailable, match="6 of its 7 entries have no record"):
                kept.sync()
        assert is_left_alone(kept, before)
    with opened(store) as kept:
        assert kept.vault.detachment
        kept.syncing.adopt()
        assert kept.vault.detachment == ""
        assert b"Rex0" in b"".join(text for name, text in kept.tree().items() if ".conflict-" in name)
        assert kept.sync().problems == 0


def test_an_older_database_that_others_have_written_to_since_costs_no_file(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, count=9)
    shutil.copy(store / "memory.db", tmp_path / "older.db")
    with opened(store) as kept:
        kept.say(
            "I have moved to Bergen.", "My boat is called Nessie, and my cat is called Miso.", user="bob", session="bob"
        )
        kept.vault.settle()
        before = kept.tree()
    lose(store, "removed")
    shutil.copy(tmp_path / "older.db", store / "memory.db")
    with Engine.open(store, settings=SETTINGS) as engine:
        for number in range(60):
            engine.write(Scope("notes"), text=f"Number {number}.")
    with opened(store) as kept:
        assert is_left_alone(kept, before)
