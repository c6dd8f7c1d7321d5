"""`cofio trust` says what it lets count, and takes it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio import Settings

from .conftest import Cofio


@pytest.fixture
def store(folder: Path) -> Path:
    """A memory that came from elsewhere, with settings, a prompt and a vault of its own."""
    store = folder / ".cofio"
    (store / "prompts").mkdir(parents=True)
    (store / "prompts" / "case.md").write_text("Tell it.\n---\n{{run}}")
    (store / "vault").symlink_to("../else\x1bwhere")
    (store / "cofio.toml").write_text('fetch = "a\\u001b[2J"\nembed_key = "of-my-own"\nfloor = 0.5\n')
    return store


def test_it_says_what_counts_from_now_on_and_takes_that_back(cofio: Cofio, store: Path) -> None:
    ran = cofio("trust")
    assert (ran.code, ran.out) == (0, f"{store} is trusted\n")
    assert ran.err.splitlines() == [
        'cofio: counts from now on: fetch = "a\\u001b[2J"',
        "cofio: counts from now on: embed_key = …",
        "cofio: counts from now on: the prompt prompts/case.md",
        "cofio: counts from now on: the vault in ../else\ufffdwhere",
        "cofio: what is changed or added later needs `cofio trust` again",
    ]
    assert Settings.load(store, {}).fetch == "a\x1b[2J"
    assert cofio("trust", "--json").json == {
        "store": str(store), "trusted": True, "settings": ["embed_key", "fetch"], "prompts": ["case.md"],
        "vault": "../else\x1bwhere", "link": None,
    }  # fmt: skip
    ran = cofio("trust", "--revoke")
    assert (ran.code, ran.out) == (0, f"{store} is no longer trusted\n")
    assert "cofio: does not count any more: embed_key = …\n" in ran.err
    assert Settings.load(store, {}).fetch == "off"
    assert cofio("trust", "--revoke").out == f"{store} was not trusted\n"
    assert cofio("trust", "--revoke", "--json").json["trusted"] is False


def test_a_memory_that_asks_for_nothing_can_be_trusted_too(cofio: Cofio, folder: Path) -> None:
    cofio("add", "hello", "--store", "other")
    ran = cofio("trust", "--store", "other")
    assert (ran.code, ran.out, ran.err) == (0, "other is trusted\n", "cofio: it asks for nothing that needs trust\n")


def test_it_needs_a_memory(cofio: Cofio, folder: Path) -> None:
    ran = cofio("trust")
    assert ran.code == 1
    assert ran.err.startswith(f"cofio: there is no memory in {folder / '.cofio'}")
    (folder / ".cofio").mkdir()
    (folder / ".cofio" / "cofio.toml").write_text("vault = off")
    ran = cofio("trust")
    assert ran.code == 1
    assert ran.err == (
        f"cofio: {folder / '.cofio' / 'cofio.toml'}, line 1: `vault = off` is not TOML; write `vault = false`\n"
    )
    assert not (folder / ".cofio" / "trusted").exists()


def test_where_the_users_key_cannot_be_kept_it_says_what_to_do(
    cofio: Cofio, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("in the way")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ran = cofio("trust")
    assert ran.code == 1
    folder = tmp_path / "config" / "cofio"
    assert ran.err == f"cofio: {folder} cannot be written (Not a directory): use COFIO_* variables instead\n"


def test_settings_that_are_a_link_are_ignored_until_they_are_trusted(
    cofio: Cofio, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (store / "cofio.toml").rename(store.parent / "of mine.toml")
    (store / "cofio.toml").symlink_to("../of mine.toml")
    assert cofio("add", "hello").code == 0
    assert f"ignored {store / 'cofio.toml'}, which is a link (" in caplog.text
    assert Settings.load(store, {}).floor == 0.1
    ran = cofio("trust")
    assert ran.code == 0
    assert ran.err.splitlines()[:2] == [
        "cofio: counts from now on: the settings in ../of mine.toml",
        'cofio: counts from now on: fetch = "a\\u001b[2J"',
    ]
    assert (Settings.load(store, {}).fetch, Settings.load(store, {}).floor) == ("a\x1b[2J", 0.5)
    (store.parent / "of mine.toml").write_text("broken")
    ran = cofio("trust")
    assert ran.code == 1
    assert "line 1" in ran.err
    assert cofio("trust", "--revoke").code == 0
    assert Settings.load(store, {}) == Settings()
