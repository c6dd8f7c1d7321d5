"""What people do to the files is taken back in, and nothing that they wrote is lost."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from cofio.conversations.stretches import make_profile_put
from cofio.values.changes import Edit
from cofio.values.records import Kind
from cofio.vault.recovery import take

from .conftest import DOG, OSLO, Kept, T, opened, tree


def without(file: Path, key: str) -> None:
    """Remove an entry from a file."""
    entry = rf"<!-- entry:{key} -->.*?<!-- /entry:{key} -->\n"
    file.write_text(re.sub(entry, "", file.read_text(), flags=re.DOTALL))


def quiet(kept: Kept) -> bool:
    """Whether another look finds nothing to do."""
    done = kept.sync()
    return (done.edited, done.deleted, done.rewritten, done.problems) == ([], [], [], 0)


def test_an_edited_text_becomes_the_records(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    kept.episodes.write_text(kept.episodes.read_text().replace("Oslo", "Bergen"))
    kept.facts.write_text(kept.facts.read_text().replace("Rex.", "Max."))
    done = kept.sync()
    assert [said.entry for said in done.edited] == ["af_20260528_00000002", "ep_20260528_00000001"]
    (episode,) = kept.records(Kind.EPISODE)
    assert "Bergen" in episode.text
    assert "Bergen" in episode.title
    assert isinstance(episode.data, dict)
    assert episode.data["edited"]
    assert kept.records(Kind.FACT)[1].text == "Alice's dog is called Max."
    assert done.problems == 0
    assert quiet(kept)
    assert kept.vault.list_conflicts() == []


EVIL = "\x1b]0;OWNED\x07\x1b[2J red\u202eevil \x9b31m\u2066x and &#x1B; too"


def test_control_characters_do_nothing_in_a_file_and_survive_an_edit(kept: Kept, tmp_path: Path) -> None:
    kept.say(OSLO, DOG, session=EVIL)
    for number in range(1, 4):
        kept.work(number)
    (skill,) = kept.records(Kind.SKILL, "fixer")
    (profile,) = kept.records(Kind.PROFILE)
    assert isinstance(skill.data, dict)
    assert isinstance(profile.data, dict)
    said = {**profile.data, "summary": f"Calm {EVIL}"}
    content = {**skill.data, "content": f"Redeploy {EVIL}."}
    texts = [Edit(id=kept.records(kind)[0].id, fields={"text": f"Oslo {EVIL}."}) for kind in (Kind.EPISODE, Kind.FACT)]
    kept.conversations.apply(
        [make_profile_put(profile.scope, said, profile.version), Edit(id=skill.id, fields={"data": content}), *texts]
    )
    raw = [name for name, text in kept.tree().items() if {*"\x1b\x07\x9b\u202e\u2066"} & {*text.decode()}]
    assert raw == []
    assert sum(b"&#x1B;" in text for text in kept.tree().values()) >= 4
    assert quiet(kept)
    before = {record.id: record for record in kept.engine.export()}
    for file, old, new in (
        (kept.episodes, "Oslo", "Bergen"), (kept.profile, "Calm", "Serene"),
        (kept.file("agents", "fixer", "skills", "skill_fix-failing-deploy", "SKILL.md"), "Redeploy", "Deploy again"),
    ):  # fmt: skip
        file.write_text(file.read_text().replace(old, new))
        assert kept.sync().edited
    after = {record.id: record for record in kept.engine.export()}
    episode = kept.records(Kind.EPISODE)[0]
    assert episode.text == before[episode.id].text.replace("Oslo", "Bergen")
    (profile,), (skill,) = kept.records(Kind.PROFILE), kept.records(Kind.SKILL, "fixer")
    assert isinstance(skill.data, dict)
    assert isinstance(profile.data, dict)
    assert (profile.data["summary"], skill.data["content"]) == (f"Serene {EVIL}", f"Deploy again {EVIL}.")
    assert after.keys() == before.keys()
    assert quiet(kept)
    with opened(tmp_path / "fresh") as fresh:
        assert take(fresh.conversations, kept.vault.folder).refused == []
        assert tree(tmp_path / "fresh" / "vault") == kept.tree()
        assert fresh.records(Kind.EPISODE)[0].text == kept.records(Kind.EPISODE)[0].text


def test_an_edited_profile_and_an_edited_skill_become_the_records(kept: Kept) -> None:
    kept.say(OSLO)
    for number in range(1, 4):
        kept.work(number)
    kept.profile.write_text(
        kept.profile.read_text().replace("description: Lives in Oslo.", "description: Lives by the sea.")
    )
    skill = kept.file("agents", "fixer", "skills", "skill_fix-failing-deploy", "SKILL.md")
    (skill.parent / "redeploy.sh").write_text("make deploy\n")
    skill.write_text(
        skill.read_text()
        .replace("None seen yet.", "Look at the pods.")
        .replace("name: fix-failing-deploy", "name: mend deploys")
    )
    assert len(kept.sync().edited) == 2
    (profile,) = kept.records(Kind.PROFILE)
    assert "Lives by the sea." in profile.text
    (record,) = kept.records(Kind.SKILL, "fixer")
    assert isinstance(record.data, dict)
    assert record.title == "mend deploys"
    assert "Look at the pods." in str(record.data["content"])
    assert not skill.parent.exists()
    moved = skill.parents[1] / "skill_mend_deploys"
    assert {path.name for path in moved.iterdir()} == {"SKILL.md", "redeploy.sh"}
    assert quiet(kept)


def test_a_removed_entry_or_file_is_forgotten_with_what_hangs_on_it(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    kept.say("I love jazz.", session="t", at=T + timedelta(hours=6))
    without(kept.episodes, "ep_20260528_00000001")
    done = kept.sync()
    assert [said.entry for said in done.deleted] == ["ep_20260528_00000001"]
    assert [record.key for record in kept.records(Kind.EPISODE)] == ["ep_20260528_00000002"]
    assert all("Oslo" not in record.text for record in kept.records(Kind.FACT))
    assert "Oslo" not in kept.facts.read_text() + kept.profile.read_text()
    assert quiet(kept)
    kept.episodes.unlink()
    kept.profile.unlink()
    assert len(kept.sync().deleted) == 2
    assert kept.records(Kind.EPISODE) == []
    assert quiet(kept)


def test_what_both_sides_changed_is_kept_beside_and_told(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    kept.facts.write_text(kept.facts.read_text().replace("Rex.", "Max."))
    fact = kept.records(Kind.FACT)[1]
    kept.conversations.apply([Edit(id=fact.id, fields={"text": "Alice's dog is called Bo."})])
    assert "Alice's dog is called Bo." in kept.facts.read_text()
    (conflict,) = kept.vault.list_conflicts()
    assert "Alice's dog is called Max." in (kept.vault.folder / conflict).read_text()
    assert kept.records(Kind.FACT)[1].text == "Alice's dog is called Bo."
    assert quiet(kept)
    (kept.vault.folder / conflict).unlink()
    assert kept.vault.list_conflicts() == []


def test_a_conflict_is_also_found_when_the_database_changed_behind_the_vault(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    fact = kept.records(Kind.FACT)[1]
    kept.engine.edit(fact.id, text="Alice's dog is called Bo.")
    kept.facts.write_text(kept.facts.read_text().replace("Rex.", "Max."))
    without(kept.episodes, "ep_20260528_00000001")
    kept.engine.edit(kept.records(Kind.EPISODE)[0].id, text="Another text.")
    done = kept.sync()
    assert len(done.conflicts) == 2
    assert "Another text." in kept.episodes.read_text()
    assert len(kept.vault.list_conflicts()) == 1
    assert quiet(kept)


def test_another_entrys_edit_waits_in_a_file_that_is_written(kept: Kept) -> None:
    kept.say(OSLO)
    kept.episodes.write_text(kept.episodes.read_text().replace("Oslo", "Bergen"))
    kept.say(DOG, session="t", at=T + timedelta(hours=6))
    assert "Bergen" in kept.episodes.read_text()
    assert len(kept.syncing.sync_files().edited) == 1
    assert "Bergen" in kept.records(Kind.EPISODE)[0].text
    assert kept.vault.list_conflicts() == []
    assert quiet(kept)


def test_what_is_not_from_here_is_left_in_place_and_told(kept: Kept) -> None:
    kept.say(OSLO)
    own = "<!-- entry:ep_20260528_00000099 -->\n### Content\nBy hand.\n<!-- /entry:ep_20260528_00000099 -->\n"
    kept.episodes.write_text(kept.episodes.read_text() + own)
    (kept.episodes.parent / "my notes.md").write_text("Nothing to do with you.\n")
    done = kept.sync()
    assert [said.entry for said in done.strange] == ["ep_20260528_00000099"]
    assert kept.episodes.read_text().endswith(own)
    assert (kept.episodes.parent / "my notes.md").exists()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"<!-- entry:ep_20260528_00000001 -->\nno end"])
def test_what_cannot_be_read_is_left_alone_and_told(kept: Kept, content: bytes) -> None:
    kept.say(OSLO)
    kept.episodes.write_bytes(content)
    done = kept.sync()
    assert len(done.unreadable) == 1
    assert kept.episodes.read_bytes() == content
    assert len(kept.records(Kind.EPISODE)) == 1


def test_an_emptied_file_is_written_again_and_other_line_endings_are_no_edit(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    before = kept.tree()
    kept.episodes.write_text("")
    kept.facts.write_text("\n")
    assert kept.sync().deleted == []
    assert kept.tree() == before
    kept.episodes.write_bytes(kept.episodes.read_bytes().replace(b"\n", b"\r\n"))
    assert quiet(kept)


def test_what_nobody_can_change_is_put_right_and_told(kept: Kept) -> None:
    kept.say(OSLO)
    before = kept.tree()
    kept.episodes.write_text(kept.episodes.read_text().replace("**session_id**: s\n", "**session_id**: t\n"))
    done = kept.sync()
    assert [said.text for said in done.rewritten] == ["only the texts of an entry can be changed"]
    assert kept.tree() == before
    kept.facts.write_text(re.sub("### Fact\n.*\n", "### Fact\n\n", kept.facts.read_text()))
    assert "is empty" in kept.sync().unreadable[0].text


@pytest.mark.parametrize("how", ["all", "owner", "entries"])
def test_a_mass_deletion_is_taken_for_a_mistake(kept: Kept, how: str) -> None:
    for number in range(25):
        kept.say(f"I like number {number}.", session=f"s{number}", at=T + timedelta(minutes=number))
    kept.say("I love jazz.", user="bob", session="b")
    count = len(kept.records(Kind.EPISODE))
    before = kept.tree()
    if how == "all":
        kept.file().rename(kept.vault.folder.parent / "elsewhere")
    elif how == "owner":
        kept.file("users", "bob").rename(kept.vault.folder.parent / "elsewhere")
    else:
        kept.episodes.unlink()
        kept.facts.unlink()
    done = kept.sync()
    assert done.refused
    assert done.deleted == []
    assert len(kept.records(Kind.EPISODE)) == count
    kept.syncing.rebuild()
    assert kept.tree() == before
    if how == "entries":
        kept.episodes.unlink()
        assert kept.sync(force=True).deleted
        assert kept.records(Kind.EPISODE) == []


def test_a_rebuild_keeps_what_the_files_say_otherwise(kept: Kept) -> None:
    kept.say(OSLO, DOG)
    before = kept.tree()
    kept.facts.write_text(kept.facts.read_text().replace("Rex.", "Max."))
    kept.profile.unlink()
    done = kept.syncing.rebuild()
    assert len(done.conflicts) == 1
    left = kept.tree()
    assert {name: text for name, text in left.items() if ".conflict-" not in name} == before
    assert any(b"Max." in text for name, text in left.items() if ".conflict-" in name)


def test_a_vault_makes_a_fresh_memory_whose_vault_is_the_same(kept: Kept, tmp_path: Path) -> None:
    kept.say(OSLO, DOG)
    kept.say(
        "### Content\nHi <!-- entry:ep_1 --> there, I love jazz.\r\nSee\n<!-- /entry:x -->", user="bob", session="q"
    )
    kept.say("I moved to Bergen.", session="z", at=T + timedelta(days=1, milliseconds=123))
    for number in range(1, 4):
        kept.work(number)
    with opened(tmp_path / "fresh") as fresh:
        done = take(fresh.conversations, kept.vault.folder)
        assert done.refused == []
        assert tree(tmp_path / "fresh" / "vault") == kept.tree()
        assert take(fresh.conversations, kept.vault.folder).new == 0
        fresh.syncing.rebuild()
        assert fresh.tree() == kept.tree()
        fresh.conversations.deleter.delete_memory(fresh.place, "alice_ep_20260528_00000001")
        fresh.conversations.deleter.delete_memory(fresh.place, "fixer_ac_20260528_00000001")
        assert quiet(fresh)
