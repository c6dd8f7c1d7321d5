"""A process may be killed at any line of the vault's code: the next start shows what the database holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations
from cofio.values.records import Kind
from cofio.vault.vault import Vault

from ..faults.scale import scaled
from .conftest import DOG, OSLO, opened

STEP = scaled(97, 1)  # of more than two thousand lines, each so manieth


def crashes(what: str, folder: Path, step: int) -> list[dict[str, Any]]:
    """What came of each crash of a child that does so."""
    command = [sys.executable, str(Path(__file__).with_name("crashing.py")), str(folder), "1", str(step), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 20
    assert not found[-1]["died"]
    return found


@pytest.mark.parametrize("what", ["write", "queue"])
@pytest.mark.usefixtures("process")
def test_a_crash_at_each_step_is_made_good_by_the_next_start(tmp_path: Path, what: str) -> None:
    for each in crashes(what, tmp_path, STEP):
        assert each["records"] == each["left"] == each["entries"], each
        assert (each["taken"], each["problems"], each["written"]) == (0, 0, 0), each
        assert each["same"], each
        assert each["conflicts"] == [], each


def test_a_state_that_is_lost_or_broken_loses_nothing(store: StoreAddress, tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        kept.say(OSLO, DOG)
        before = kept.tree()
    state = store.home / "vault" / ".state" / "state.db"
    for content in (b"not a database" * 1000, b"", None):
        if content is None:
            state.unlink()
        else:
            state.write_bytes(content)
        with opened(tmp_path / "store") as kept:
            assert kept.vault.stale
            done = kept.sync()
            assert (done.edited, done.deleted, done.problems) == ([], [], 0)
            assert kept.tree() == before
            assert len(kept.records(Kind.EPISODE)) == 1


def test_after_a_power_cut_files_that_are_older_or_gone_are_written_again(store: StoreAddress, tmp_path: Path) -> None:
    with opened(tmp_path / "store") as kept:
        kept.say(OSLO)
        older = kept.episodes.read_bytes()
        kept.vault.settle()
        kept.say(DOG, session="t")
        kept.vault.journal.set_about(boot="another")
        before = kept.tree()
        kept.episodes.write_bytes(older)
        kept.facts.write_bytes(b"")
        kept.profile.unlink()
        engine = kept.engine
        vault = Vault(engine, store.home / "vault")
        kept.vault, kept.conversations = vault, Conversations(engine, mirror=vault)
        assert vault.stale
        done = kept.sync()
        assert (done.edited, done.deleted) == ([], [])
        assert len(kept.records(Kind.EPISODE)) == 2
        assert {name: text for name, text in kept.tree().items() if ".conflict-" not in name} == before
