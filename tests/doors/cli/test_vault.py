"""`cofio vault`: what people do to the files is told and taken in; `cofio import everos` brings a tree in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ...importing.everos import make
from .conftest import Cofio

DAY = "vault/default_app/default_project/users/alice/episodes/episode-2026-11-15.md"


@pytest.fixture(autouse=True)
def keep_vault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this machine keep the vault, which on PostgreSQL none does unless it is told to."""
    monkeypatch.setenv("COFIO_VAULT", "true")


@pytest.fixture
def store(cofio: Cofio, folder: Path, store_home: Path) -> Path:
    """A memory with a vault, taken over from EverOS."""
    make(folder / "everos")
    ran = cofio("import", "everos", "everos")
    assert ran.code == 0, ran.err
    assert ran.out == (
        "imported 7 records from everos (1 skill, 1 case, 1 profile, 3 episodes, 1 fact);"
        " left out: documents of the knowledge base (1), days of foresights (1)\n"
    )
    return store_home


def test_a_second_import_changes_nothing_and_a_folder_without_a_memory_is_told(
    cofio: Cofio, store: Path, folder: Path
) -> None:
    again = cofio("import", "everos", "everos", "--json")
    assert (again.json["imported"], again.json["kept"], again.json["refused"]) == (0, 7, 0)
    ran = cofio("import", "everos", str(folder))
    assert (ran.code, "there is no memory of everos in" in ran.err) == (1, True)


def test_a_sync_takes_in_what_was_edited_and_removed(cofio: Cofio, store: Path) -> None:
    assert cofio("vault", "status").out == "the vault has 7 entries in 6 files\n"
    file = store / DAY
    file.write_text(file.read_text().replace("she loves climbing", "she loves sailing"))
    (store / "vault/default_app/default_project/users/alice/user.md").unlink()
    told = cofio("vault", "status")
    assert told.out.endswith("; 2 files to look at\n")
    assert "is not as it was left: `cofio vault sync` takes in what was done to it" in told.err
    ran = cofio("vault", "sync")
    assert (ran.code, ran.out) == (0, "1 taken in, 1 forgotten\n")
    assert "sailing" in cofio("list", "--kind", "episode", "--scope", "rest/default").out
    assert cofio("vault", "sync").out == "the files and the memory say the same\n"


def test_a_mistake_is_refused_until_it_is_forced_and_a_conflict_shown_until_its_file_is_removed(
    cofio: Cofio, store: Path, tmp_path: Path
) -> None:
    alice = store / "vault/default_app/default_project/users/alice"
    alice.rename(tmp_path / "away")
    ran = cofio("vault", "sync", "--json")
    assert (ran.code, len(str(ran.json["refused"]).split("users/alice/"))) == (1, 5)
    assert cofio("vault", "rebuild").out == "4 written\n"
    file = store / DAY
    file.write_text(file.read_text().replace("she loves climbing", "she loves sailing"))
    ran = cofio("vault", "rebuild")
    assert (ran.code, ran.out) == (1, "1 in conflict\n")
    told = cofio("vault", "status")
    assert told.code == 1
    assert "keeps what a person wrote; merge what should stay, then remove it" in told.err
    for conflict in file.parent.glob("*.conflict-*.md"):
        conflict.unlink()
    assert cofio("vault", "status").code == 0
    for file in alice.rglob("*.md"):
        file.unlink()
    assert cofio("vault", "sync", "--force").code == 0
    # With alice's episode goes the case of the same stretch, and the skill that was made of it.
    assert cofio("vault", "status", "--json").json["entries"] == 1


def test_it_can_be_turned_off_and_on(cofio: Cofio, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_VAULT", "off")
    ran = cofio("vault", "status")
    assert ran.code == 1
    assert "the vault is turned off" in ran.err
    cofio("chat", "import", "-", "--session", "s", stdin="Anna: I live in Oslo.\n")
    assert not (store / "vault/default_app/default_project/users/Anna").exists()
    monkeypatch.delenv("COFIO_VAULT")
    (store / "cofio.toml").write_text("vault = false\n")
    assert "`vault = true` in cofio.toml" in cofio("vault", "status").err
    (store / "cofio.toml").write_text("vault = true\n")
    assert "not all is written yet" in cofio("vault", "status").out
    assert cofio("vault", "sync").code == 0
    assert (store / "vault/default_app/default_project/users/Anna").exists()


def lose(store: Path, how: str = "emptied") -> None:
    """Have the database be gone, or empty."""
    for file in store.glob("memory.db*"):
        file.unlink()
    if how == "emptied":
        (store / "memory.db").touch()


def files(store: Path) -> dict[Path, bytes]:
    """Every Markdown file of the vault."""
    return {file: file.read_bytes() for file in (store / "vault").rglob("*.md")}


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_a_lost_memory_is_told_by_every_command_and_restored_by_one(cofio: Cofio, store: Path, how: str) -> None:
    before = files(store)
    lose(store, how)
    first = cofio("list")
    assert "`cofio import everos" in first.err
    assert first.code == (0 if how == "emptied" else 1)
    assert cofio("doctor").code == 1
    for command in (("vault", "sync"), ("vault", "sync", "--force"), ("vault", "rebuild")):
        ran = cofio(*command)
        assert ran.code == 1
        assert "restores what" in ran.err
    assert files(store) == before
    ran = cofio("import", "everos", str(store / "vault"))
    assert (ran.code, ran.out[:18]) == (0, "imported 7 records")
    assert files(store) == before
    assert cofio("vault", "status").out == "the vault has 7 entries in 6 files\n"
    assert cofio("vault", "sync").out == "the files and the memory say the same\n"
    assert cofio("doctor").code == 0


def test_the_doctor_and_the_status_tell_of_a_vault_that_is_left_alone(cofio: Cofio, store: Path) -> None:
    lose(store)
    told = cofio("doctor", "--json").json["problems"]
    assert isinstance(told, list)
    assert [str(each).split(",")[0] for each in told] == [
        f"memory.db was missing or empty although there was a memory in {store}",
        f"the vault in {store / 'vault'} is left alone",
    ]
    status = cofio("vault", "status")
    assert (status.code, status.out) == (1, "the vault has 7 entries in 6 files; it is left alone\n")
    assert status.err.count("is left alone") == 1
    assert "detached" in cofio("vault", "status", "--json").json


def test_a_loss_is_a_finding_until_a_person_has_seen_to_it_or_put_a_backup_back(
    cofio: Cofio, folder: Path, store_home: Path
) -> None:
    cofio("add", "Remember the walrus.")
    cofio("backup", "copy")
    lose(store_home)
    assert "memory.db was missing or empty" in cofio("add", "Something else.").err
    assert cofio("reindex").code == 0
    assert cofio("list").err == ""
    assert cofio("doctor", "--fix").code == 1
    lost = (store_home / "memory.lost").read_bytes()
    (store_home / "memory.lost").unlink()
    assert cofio("doctor").code == 0
    (store_home / "memory.lost").write_bytes(lost)
    lose(store_home)
    shutil.copyfile(folder / "copy" / "memory.db", store_home / "memory.db")
    assert cofio("doctor", "--fix").code == 0
    assert not (store_home / "memory.lost").exists()


def test_a_vault_can_be_adopted(cofio: Cofio, store: Path) -> None:
    lose(store)
    cofio("chat", "import", "-", "--session", "s", stdin="Anna: I live in Oslo.\n")
    ran = cofio("vault", "adopt")
    assert (ran.code, ran.err.count("is left alone")) == (1, 0)
    assert (store / "vault/default_app/default_project/users/Anna").exists()
    kept = [*(store / "vault").rglob("*.conflict-*.md")]
    assert len(kept) == 6
    assert any(b"climbing" in file.read_bytes() for file in kept)
    for file in kept:
        file.unlink()
    assert cofio("vault", "sync").out == "the files and the memory say the same\n"
    assert cofio("doctor").code == 0


def words(store: Path) -> bytes:
    """All that is in the files of the vault, and in its trash."""
    return b"".join(file.read_bytes() for file in (store / "vault").rglob("*") if file.suffix in (".md", ".jsonl"))


@pytest.mark.parametrize("how", ["id", "scope", "all"])
def test_what_is_forgotten_by_rm_is_gone_from_the_vault(cofio: Cofio, store: Path, how: str) -> None:
    assert b"climbing" in words(store)
    if how == "id":
        listed = cofio("list", "--scope", "rest", "--json").out.splitlines()
        ran = cofio("rm", *(json.loads(line)["id"] for line in listed if "climbing" in line))
    else:
        ran = cofio("rm", "--scope", "rest/default/default/user" if how == "scope" else "/", "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert b"climbing" not in words(store)
    assert cofio("vault", "status").code == 0
    assert cofio("vault", "sync").out == "the files and the memory say the same\n"


def test_rm_elsewhere_leaves_the_vault_as_it_is_and_makes_none(cofio: Cofio, store: Path) -> None:
    before = files(store)
    cofio("add", "A note.", "--scope", "team/default")
    assert cofio("rm", "--scope", "team", "--yes").out == "forgot 1 record\n"
    assert files(store) == before
    assert cofio("vault", "sync").out == "the files and the memory say the same\n"
    cofio("add", "A note.", "--scope", "team", "--store", "other")
    assert cofio("rm", "--scope", "team", "--yes", "--store", "other").code == 0
    assert not Path("other", "vault").exists()


@pytest.mark.parametrize("how", ["left alone", "unusable"])
def test_rm_forgets_where_the_vault_cannot_follow_and_says_so(cofio: Cofio, store: Path, how: str) -> None:
    cofio("add", "A note.", "--scope", "team")
    if how == "left alone":
        lose(store)
        cofio("add", "A note.", "--scope", "team")
    else:
        shutil.rmtree(store / "vault" / ".state")
        (store / "vault" / ".state").write_text("a file in its place")
    before = files(store)
    ran = cofio("rm", "--scope", "team", "--yes")
    assert (ran.code, ran.out) == (0, "forgot 1 record\n")
    assert "what is forgotten may still be in the files of the vault" in ran.err
    assert files(store) == before
