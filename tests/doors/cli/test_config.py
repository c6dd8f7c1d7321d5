"""`cofio config`: what is in force, where it comes from, and a file to begin with."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cofio import Settings
from cofio.config.address import StoreAddress
from cofio.doors.cli.config import MEANINGS

from .conftest import Cofio

KEY = "sk-not-a-key-but-long-enough"


def shown(cofio: Cofio) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in cofio("config").rows}


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "config" / "cofio").mkdir(parents=True)
    return folder / "config" / "cofio" / "cofio.toml"


@pytest.mark.usefixtures("own")
def test_each_setting_has_its_value_and_where_that_comes_from(
    cofio: Cofio, own: Path, monkeypatch: pytest.MonkeyPatch, default_store: StoreAddress, store_home: Path
) -> None:
    cofio("add", "x")
    own.write_text('timezone = "Europe/Oslo"\nport = 9000\nfloor = 0.2')
    (store_home / "cofio.toml").write_text("port = 9001\nfloor = 0.3")
    monkeypatch.setenv("COFIO_FLOOR", "0.4")
    monkeypatch.setenv("EVEROS_API__HOST", "localhost")
    rows = shown(cofio)
    found = "COFIO_STORE" if default_store.folder is None else "the working folder"
    assert rows["store"] == [str(default_store), found]
    assert rows["timezone"] == ['"Europe/Oslo"', str(own)]
    assert rows["port"] == ["9001", str(store_home / "cofio.toml")]
    assert rows["floor"] == ["0.4", "COFIO_FLOOR"]
    assert rows["host"] == ['"localhost"', "EVEROS_API__HOST"]
    assert rows["vault"] == ["true" if default_store.folder is not None else "false", "default"]
    assert list(rows) == ["store", *(each.name for each in fields(Settings))]


@pytest.mark.usefixtures("own")
def test_keys_and_passwords_are_masked(cofio: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_EMBED_URL", "https://me:hunter2@example.org/v1")
    monkeypatch.setenv("COFIO_EMBED_KEY", KEY)
    for argv in (["config"], ["config", "--json"]):
        ran = cofio(*argv)
        assert KEY not in ran.out + ran.err
        assert "hunter2" not in ran.out + ran.err
    assert shown(cofio)["embed_key"] == ['"***"', "COFIO_EMBED_KEY"]
    assert shown(cofio)["embed_url"] == ['"https://***@example.org/v1"', "COFIO_EMBED_URL"]


def test_what_an_untrusted_store_sets_is_said_to_be_ignored(cofio: Cofio, folder: Path, own: Path) -> None:
    cofio("add", "x", "--store", "theirs")
    (folder / "theirs" / "trusted").unlink(missing_ok=True)
    (folder / "theirs" / "cofio.toml").write_text('host = "0.0.0.0"\nfloor = 0.3')
    rows = {row[0]: row[1:] for row in cofio("config", "--store", "theirs").rows}
    assert rows["store"][1] == "--store"
    assert rows["host"] == ['"127.0.0.1"', "default (another is ignored)"]
    assert rows["floor"][0] == "0.3"
    found: dict[str, Any] = cofio("config", "--store", "theirs", "--json").json
    (host,) = [each for each in found["settings"] if each["name"] == "host"]
    assert "`cofio trust` lets it count" in host["ignored"]


@pytest.mark.usefixtures("own")
def test_the_sample_parses_and_its_defaults_are_true(cofio: Cofio, store_home: Path) -> None:
    sample = cofio("config", "--sample").out
    assert tomllib.loads(sample) == {}
    assert MEANINGS.keys() == {each.name for each in fields(Settings)}
    uncommented = "\n".join(
        line.removeprefix("# ") for line in sample.splitlines() if line.split(" = ")[0].removeprefix("# ") in MEANINGS
    )
    read = tomllib.loads(uncommented)
    assert {name: read[name] for name in read if "unset" not in MEANINGS[name]} == {
        each.name: each.default for each in fields(Settings) if each.default is not None
    }
    cofio("add", "x")
    (store_home / "cofio.toml").write_text(uncommented)
    assert replace(Settings.load(store_home, {}), docs=None, workers=None) == Settings()


def test_a_file_with_a_mistake_is_told_with_its_line_and_what_was_meant(cofio: Cofio, folder: Path, own: Path) -> None:
    own.write_text("floor = 0.3\nvault = off")
    ran = cofio("config")
    assert (ran.code, ran.out) == (1, "")
    assert f"{own}, line 2: `vault = off` is not TOML; write `vault = false`" in ran.err
    own.write_text("timezon = 'UTC'")
    assert "timezon: is not a setting; did you mean timezone?" in cofio("list").err
    assert cofio("config", "--sample").code == 0
    own.unlink()
    assert (cofio("config").code, (folder / ".cofio").exists()) == (0, False), "a memory need not be there"
